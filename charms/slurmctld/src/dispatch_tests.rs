//! Whole dispatches of a controller, on a made-up model and a made-up machine: wiring, order of writes, and what a failure leaves.

use crate::Slurmctld;
use crate::names;
use charm::{AppName, Charm, Databag, RelationId, Status, UnitName};
use charm_testing::{Dispatched, FakeMachine, Hook, Model};
use serde_json::json;

const SLURMCTLD: &str = include_str!("../charmcraft.yaml");
const SLURMD: &str = include_str!("../../slurmd/charmcraft.yaml");

struct Cluster {
    model: Model,
    machine: FakeMachine,
    app: AppName,
    unit: UnitName,
}

impl Cluster {
    fn new() -> Self {
        let model = Model::new();
        let app = model.deploy("slurmctld", SLURMCTLD).unwrap();
        let unit = model.add_unit(&app).unwrap();
        Self { machine: FakeMachine::of(&unit), model, app, unit }
    }

    /// A controller after the hooks of its start.
    fn deployed() -> Self {
        let cluster = Self::new();
        cluster.hook(&Hook::named("install"));
        let peer = cluster.model.peer(&cluster.app).unwrap();
        cluster.hook(&Hook::created(&peer, &cluster.app));
        for name in ["leader-elected", "config-changed", "start"] {
            cluster.hook(&Hook::named(name));
        }
        cluster
    }

    /// A compute application, played by the test, that has published its partition.
    fn integrate(&self, name: &str) -> (RelationId, AppName) {
        let compute = self.model.deploy(name, SLURMD).unwrap();
        let (relation, _) = self.model.integrate((&self.app, "slurmd"), (&compute, "slurmctld")).unwrap();
        self.hook(&Hook::created(&relation, &compute));
        self.model.play(&compute, &relation, &partition(name)).unwrap();
        self.hook(&Hook::app_changed(&relation, &compute));
        (relation, compute)
    }

    fn dispatch(&self, hook: &Hook) -> Dispatched {
        let run = |ctx, tools: charm::Tools| {
            let make = |ctx, tools| Slurmctld::on(self.machine.machine(), ctx, tools);
            charm::dispatch::dispatch(ctx, &tools, make)
        };
        self.model.dispatch(&self.unit, Slurmctld::TIMERS, hook, run).unwrap()
    }

    #[track_caller]
    fn hook(&self, hook: &Hook) -> Dispatched {
        let done = self.dispatch(hook);
        assert!(done.succeeded, "{hook:?}: {done:#?} {:#?}", self.machine.take_calls());
        done
    }

    fn conf(&self) -> String {
        self.machine.read(names::SLURM_CONF).unwrap_or_default()
    }
}

fn partition(name: &str) -> Databag {
    let partition = json!({"partitionname": name, "nodes": [name]}).to_string();
    let nodeset = json!({"nodeset": name, "feature": name}).to_string();
    Databag::from([("partition".to_owned(), partition), ("nodeset".to_owned(), nodeset)])
}

/// Fails if a program among these did more than look.
#[track_caller]
fn only_looked(calls: &[String]) {
    for call in calls {
        let words: Vec<&str> = call.split(' ').collect();
        let looks = match words[0] {
            "systemctl" => words.contains(&"show"),
            "scontrol" => matches!(words[1], "ping" | "show"),
            "cat" | "test" => true,
            _ => false,
        };
        assert!(looks, "{call}");
    }
}

#[test]
fn deploy_integrate_settle_and_then_rest() {
    let cluster = Cluster::deployed();
    assert_eq!(cluster.model.status(&cluster.unit), Some(Status::active("primary - UP")));
    assert!(cluster.machine.is_running(names::SERVICE));
    let (relation, _) = cluster.integrate("compute");
    assert!(cluster.conf().contains("PartitionName=compute Nodes=compute"), "{}", cluster.conf());
    let published = cluster.model.app_bag(&relation, &cluster.app);
    assert!(published["controllers"].contains(":6817"), "{published:?}");
    assert_eq!(cluster.model.grants(&cluster.app, names::AUTH_SECRET), [relation.number()]);
    assert_eq!(cluster.model.ports(&cluster.unit), ["6817/tcp"]);
    // Whether the grant took is looked at once more, and then nothing is awaited.
    cluster.hook(&Hook::named(names::EVENT_LOOK_AGAIN));
    cluster.machine.take_calls();
    for _ in 0..5 {
        let done = cluster.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "{done:#?}");
        only_looked(&cluster.machine.take_calls());
    }
}

#[test]
fn no_key_leaves_but_in_a_secret_and_a_private_file() {
    let cluster = Cluster::deployed();
    let (relation, _) = cluster.integrate("compute");
    let key = cluster.model.secret(&cluster.app, names::AUTH_SECRET).unwrap()[names::SECRET_KEY].clone();
    let done = cluster.hook(&Hook::named("update-status"));
    let seen =
        format!("{:?}{:?}{:?}", cluster.model.app_bag(&relation, &cluster.app), done, cluster.machine.take_calls());
    assert!(!seen.contains(&key));
    assert!(cluster.machine.read("/etc/slurm/slurm.jwks").unwrap().contains(&key));
}

#[test]
fn a_dispatch_that_fails_publishes_nothing_and_the_next_makes_up_for_it() {
    let cluster = Cluster::deployed();
    let compute = cluster.model.deploy("compute", SLURMD).unwrap();
    let (relation, _) = cluster.model.integrate((&cluster.app, "slurmd"), (&compute, "slurmctld")).unwrap();
    cluster.model.play(&compute, &relation, &partition("compute")).unwrap();
    // A directory in the place of a file is a failure of the machine.
    let path = cluster.machine.machine().path(names::REFUSALS);
    std::fs::create_dir(&path).unwrap();
    let done = cluster.dispatch(&Hook::app_changed(&relation, &compute));
    assert!(!done.succeeded && done.writes().is_empty(), "{done:#?}");
    assert!(cluster.model.app_bag(&relation, &cluster.app).is_empty());
    std::fs::remove_dir(path).unwrap();
    cluster.hook(&Hook::app_changed(&relation, &compute));
    assert!(!cluster.model.app_bag(&relation, &cluster.app).is_empty());
}

#[test]
fn a_refused_configuration_is_taken_back_and_said() {
    let cluster = Cluster::deployed();
    let before = cluster.conf();
    cluster.machine.refuse_next_configuration("fatal: Invalid node names in partition compute");
    cluster.integrate("compute");
    assert_eq!(cluster.conf(), before);
    let status = cluster.model.status(&cluster.unit).unwrap();
    assert!(matches!(&status, Status::Blocked(text) if text.contains("Invalid node names")), "{status:?}");
}

#[test]
fn a_unit_that_does_not_lead_writes_no_application_data() {
    let cluster = Cluster::new();
    let second = cluster.model.add_unit(&cluster.app).unwrap();
    let cluster = Cluster { machine: FakeMachine::of(&second), unit: second, ..cluster };
    let peer = cluster.model.peer(&cluster.app).unwrap();
    for hook in [Hook::named("install"), Hook::created(&peer, &cluster.app), Hook::named("config-changed")] {
        let done = cluster.hook(&hook);
        assert!(done.writes().iter().all(|call| !call.contains("--app") && !call.starts_with("secret")), "{done:#?}");
    }
    assert!(cluster.model.app_bag(&peer, &cluster.app).is_empty());
}

/// Tells the whole story, with whatever `harm` does to it at its start, and returns what is there in the end. A hook that fails is run
/// again, as Juju does.
fn story(harm: impl Fn(&Cluster)) -> (Cluster, String, Vec<String>) {
    let cluster = Cluster::new();
    cluster.model.set_option(&cluster.app, "cluster-name", json!("lab")).unwrap();
    let persist = |hook: &Hook| {
        let done = (0..3).any(|_| cluster.dispatch(hook).succeeded);
        assert!(done, "{hook:?} never succeeds");
    };
    harm(&cluster);
    persist(&Hook::named("install"));
    let peer = cluster.model.peer(&cluster.app).unwrap();
    persist(&Hook::created(&peer, &cluster.app));
    persist(&Hook::named("config-changed"));
    let compute = cluster.model.deploy("compute", SLURMD).unwrap();
    let (relation, _) = cluster.model.integrate((&cluster.app, "slurmd"), (&compute, "slurmctld")).unwrap();
    cluster.model.play(&compute, &relation, &partition("compute")).unwrap();
    persist(&Hook::app_changed(&relation, &compute));
    for _ in 0..2 {
        persist(&Hook::named(names::EVENT_LOOK_AGAIN));
    }
    let keys: Vec<String> = cluster.model.app_bag(&relation, &cluster.app).into_keys().collect();
    let conf = cluster.conf();
    (cluster, conf, keys)
}

/// Tells the story again and again with one failure in it, each time a little later, until none comes any more. All end the same.
fn always_ends_the_same(harm: impl Fn(&Cluster, usize), spared: impl Fn(&Cluster) -> bool) {
    let (calm, conf, keys) = story(|_| {});
    for at in 0.. {
        let (cluster, conf_after, keys_after) = story(|cluster| harm(cluster, at));
        if spared(&cluster) {
            assert!(at > 20, "only {at} failures");
            return;
        }
        assert_eq!((&conf_after, &keys_after), (&conf, &keys), "failure {at}");
        assert_eq!(cluster.model.status(&cluster.unit), calm.model.status(&calm.unit), "failure {at}");
        assert_eq!(cluster.model.grants(&cluster.app, names::AUTH_SECRET).len(), 1, "failure {at}");
        let done = cluster.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "failure {at}: {done:#?}");
    }
}

#[test]
fn a_program_that_fails_anywhere_changes_nothing_about_the_end() {
    always_ends_the_same(|cluster, at| cluster.machine.fail_after(at), |cluster| cluster.machine.spare());
}

#[test]
fn a_hook_tool_that_fails_anywhere_changes_nothing_about_the_end() {
    always_ends_the_same(|cluster, at| cluster.model.fail_after(at), |cluster| cluster.model.spare());
}

#[test]
fn resume_is_answered_and_a_wrong_parameter_is_named() {
    let cluster = Cluster::deployed();
    let done = cluster.hook(&Hook::action("resume", json!({"nodename": "compute-9"})));
    assert!(done.failure.as_deref().is_some_and(|why| why.contains("Invalid node name")), "{done:#?}");
    let done = cluster.hook(&Hook::action("resume", json!({"nodename": 9})));
    assert!(done.failure.as_deref().is_some_and(|why| why.starts_with("parameter `nodename`: ")), "{done:#?}");
    for hostile in ["a state=down", "a\nb", "", "[", "../x", "a'b", "$(x)", "a;b"] {
        cluster.machine.take_calls();
        let done = cluster.hook(&Hook::action("resume", json!({ "nodename": hostile })));
        assert!(done.failure.is_some() && done.results.is_empty(), "{hostile:?}: {done:#?}");
        assert_eq!(cluster.machine.take_calls(), Vec::<String>::new(), "{hostile:?}");
    }
}
