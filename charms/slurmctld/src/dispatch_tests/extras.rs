//! Agents for metrics, OCI runtimes and mail integrators, played by the test.

use super::world::{Cluster, only_looked};
use crate::names;
use charm::{AppName, Databag, RelationId};
use charm_testing::Hook;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const AGENT: &str =
    "name: agent\nsubordinate: true\nrequires:\n  cos-agent:\n    interface: cos_agent\n    scope: container\n";
const RUNTIME: &str = "name: apptainer\nprovides:\n  slurmctld:\n    interface: slurm-oci-runtime\n";
const MAIL: &str = "name: mail\nprovides:\n  smtp:\n    interface: smtp\n";
const PLUGIN: &str = "/usr/lib/x86_64-linux-gnu/slurm-wlm/metrics_openmetrics.so";

fn bag(members: &[(&str, &str)]) -> Databag {
    members.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn runtime_bag() -> Databag {
    bag(&[("type", "\"apptainer\""), ("executable_path", "\"/usr/bin/apptainer\"")])
}

fn mail_bag(more: &[(&str, &str)]) -> Databag {
    let plain = [("host", "mail.example.com"), ("port", "25"), ("auth_type", "none"), ("transport_security", "none")];
    bag(&[&plain, more].concat())
}

impl Cluster {
    /// Relates an application that the test plays, which says this.
    fn add(&self, name: &str, metadata: &str, endpoints: (&str, &str), said: &Databag) -> (RelationId, AppName) {
        let app = self.model.deploy(name, metadata).unwrap();
        let (relation, _) = self.model.integrate((&self.app, endpoints.0), (&app, endpoints.1)).unwrap();
        self.hook(&Hook::created(&relation, &app));
        self.say(&relation, &app, said);
        (relation, app)
    }

    fn say(&self, relation: &RelationId, app: &AppName, said: &Databag) {
        self.model.play(app, relation, said).unwrap();
        self.hook(&Hook::app_changed(relation, app));
    }

    fn add_runtime(&self, name: &str, said: &Databag) -> (RelationId, AppName) {
        self.add(name, RUNTIME, ("oci-runtime", "slurmctld"), said)
    }

    fn add_mail(&self, said: &Databag) -> (RelationId, AppName) {
        self.add("mail", MAIL, ("smtp", "smtp"), said)
    }

    fn part(&self, relation: &RelationId, app: &AppName) {
        self.hook(&Hook::broken(relation, Some(app)));
        self.model.end(relation);
    }

    /// What the agent is told.
    fn told(&self, relation: &RelationId) -> Value {
        serde_json::from_str(&self.model.unit_bag(relation, &self.unit)["config"]).unwrap()
    }

    #[track_caller]
    fn rests(&self) {
        super::crash::settle(self);
        self.machine.take_calls();
        let done = self.hook(&Hook::named("update-status"));
        assert!(done.writes().is_empty(), "{done:#?}");
        only_looked(&self.machine.take_calls());
    }
}

#[test]
fn an_agent_is_told_where_metrics_are_and_of_none_where_slurm_has_none() {
    let (cluster, ..) = Cluster::at_rest();
    let app = cluster.model.deploy("agent", AGENT).unwrap();
    let (relation, _) = cluster.model.integrate((&cluster.app, "cos-agent"), (&app, "cos-agent")).unwrap();
    cluster.hook(&Hook::created(&relation, &app));
    let told = cluster.told(&relation);
    assert_eq!(told["metrics_scrape_jobs"], json!([]));
    assert_eq!(cluster.status(), "active: primary - UP; no metrics: Slurm 24.11.5 has none, 25.11 and newer do");
    cluster.rests();
    // Slurm is another one now.
    cluster.machine.write(PLUGIN, "");
    cluster.hook(&Hook::named("upgrade-charm"));
    assert!(cluster.conf().contains("MetricsType=metrics/openmetrics\n"), "{}", cluster.conf());
    cluster.hook(&Hook::named("update-status"));
    let told = cluster.told(&relation);
    let paths: Vec<&str> = told["metrics_scrape_jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["metrics_path"].as_str().unwrap())
        .collect();
    assert_eq!(paths.len(), 5);
    assert!(paths.contains(&"/metrics/jobs-users-accts"), "{paths:?}");
    assert_eq!(told["metrics_scrape_jobs"][1]["static_configs"], json!([{"targets": ["localhost:6817"]}]));
    assert_eq!(told["metrics_scrape_jobs"][1]["job_name"], "slurmctld_1_default");
    for key in ["metrics_alert_rules", "log_alert_rules", "dashboards", "subordinate", "log_slots", "tracing_protocols"]
    {
        assert!(told.get(key).is_some(), "{key}");
    }
    assert_eq!(cluster.status(), "active: primary - UP");
    cluster.rests();
}

#[test]
fn metrics_that_somebody_switched_off_or_keeps_private_are_told() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.write(PLUGIN, "");
    cluster.configure("slurm-conf-parameters", json!("PrivateData=jobs"));
    let app = cluster.model.deploy("agent", AGENT).unwrap();
    let (relation, _) = cluster.model.integrate((&cluster.app, "cos-agent"), (&app, "cos-agent")).unwrap();
    cluster.hook(&Hook::created(&relation, &app));
    let private = "active: primary - UP; no metrics: slurmctld refuses them while PrivateData is set";
    assert_eq!(cluster.status(), private);
    assert_eq!(cluster.told(&relation)["metrics_scrape_jobs"], json!([]));
    cluster.configure("slurm-conf-parameters", json!("MetricsType=other"));
    cluster.hook(&Hook::named("update-status"));
    assert!(cluster.status().contains("is another one"), "{}", cluster.status());
}

#[test]
fn metrics_go_with_the_plugin() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.write(PLUGIN, "");
    cluster.hook(&Hook::named("config-changed"));
    assert!(cluster.conf().contains("MetricsType="));
    std::fs::remove_file(cluster.machine.machine().path(PLUGIN)).unwrap();
    cluster.hook(&Hook::named("config-changed"));
    assert!(!cluster.conf().contains("MetricsType="));
}

#[test]
fn an_oci_runtime_is_a_file_that_goes_with_it() {
    let (cluster, ..) = Cluster::at_rest();
    let (relation, app) = cluster.add_runtime("apptainer", &runtime_bag());
    let conf = cluster.machine.read(names::OCI_CONF).unwrap();
    assert!(conf.contains("RunTimeRun=\"/usr/bin/apptainer exec --userns %r %@\"\n"), "{conf}");
    assert_eq!(cluster.machine.read("/etc/slurm/oci.conf.accepted").as_ref(), Some(&conf));
    cluster.rests();
    // What cannot be used costs nobody what is there.
    cluster.say(&relation, &app, &bag(&[("type", "\"docker\"")]));
    assert!(cluster.status().starts_with("blocked: apptainer: "), "{}", cluster.status());
    assert_eq!(cluster.machine.read(names::OCI_CONF), Some(conf));
    cluster.part(&relation, &app);
    assert_eq!(cluster.machine.read(names::OCI_CONF), None);
    assert_eq!(cluster.machine.read("/etc/slurm/oci.conf.accepted"), None);
    assert_eq!(cluster.status(), "active: primary - UP");
    cluster.rests();
}

#[test]
fn an_oci_conf_by_hand_stays() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.write(names::OCI_CONF, "IgnoreFileConfigJson=true\n");
    cluster.hook(&Hook::named("config-changed"));
    assert_eq!(cluster.machine.read(names::OCI_CONF).as_deref(), Some("IgnoreFileConfigJson=true\n"));
    assert_eq!(cluster.machine.read("/etc/slurm/oci.conf.accepted").as_deref(), Some("IgnoreFileConfigJson=true\n"));
    cluster.rests();
}

#[test]
fn a_cluster_has_one_runtime() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.add_runtime("apptainer", &runtime_bag());
    let before = cluster.machine.read(names::OCI_CONF);
    let path = ("executable_path", "\"/opt/other\"");
    let (relation, app) = cluster.add_runtime("other", &bag(&[("type", "\"apptainer\""), path]));
    assert_eq!(cluster.machine.read(names::OCI_CONF), before);
    assert_eq!(cluster.status(), "blocked: one OCI runtime only: remove a relation of apptainer, other");
    cluster.part(&relation, &app);
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn hostile_runtimes_get_nothing_into_a_file() {
    for hostile in [
        json!({"runtimerun": "a\"\nRunTimeKill=\"b", "ignorefileconfigjson": true}),
        json!({"include": "/etc/slurm/slurm.jwks", "ignorefileconfigjson": true}),
        json!({"runtimerun": ["a"], "ignorefileconfigjson": true}),
        json!("text"),
    ] {
        let (cluster, ..) = Cluster::at_rest();
        cluster.add_runtime("apptainer", &bag(&[("ociconfig", &hostile.to_string())]));
        assert_eq!(cluster.machine.read(names::OCI_CONF), None, "{hostile}");
        assert!(cluster.status().starts_with("blocked: apptainer: databag key `ociconfig`"), "{}", cluster.status());
    }
}

#[test]
fn a_mail_integrator_gives_slurmctld_a_mail_program_and_takes_it_along() {
    let (cluster, ..) = Cluster::at_rest();
    let (relation, app) = cluster.add_mail(&mail_bag(&[("domain", "example.com")]));
    assert!(cluster.conf().contains("MailProg=/usr/bin/bsd-mailx\nMailDomain=example.com\n"), "{}", cluster.conf());
    let conf = cluster.machine.read(names::MAIL_CONF).unwrap();
    assert!(conf.contains("host mail.example.com\n") && conf.contains("auth off\n"), "{conf}");
    assert_eq!(cluster.status(), "active: primary - UP");
    cluster.rests();
    cluster.say(&relation, &app, &mail_bag(&[("host", "10.0.0.9"), ("domain", "")]));
    assert!(cluster.machine.read(names::MAIL_CONF).unwrap().contains("host 10.0.0.9\n"));
    assert!(!cluster.conf().contains("MailDomain"), "{}", cluster.conf());
    cluster.part(&relation, &app);
    super::crash::settle(&cluster);
    cluster.hook(&Hook::named("update-status"));
    assert!(!cluster.conf().contains("MailProg"), "{}", cluster.conf());
    assert_eq!(cluster.machine.read(names::MAIL_CONF), None);
    cluster.rests();
}

#[test]
fn a_password_comes_from_a_secret_and_is_nowhere_but_in_its_file() {
    let (cluster, ..) = Cluster::at_rest();
    let (relation, app) = cluster.add_mail(&Databag::new());
    let content = BTreeMap::from([("password".to_owned(), "s3cret \"word".to_owned())]);
    let uri = cluster.model.play_secret(&app, &content, &relation).unwrap();
    let login = [("auth_type", "plain"), ("user", "slurm"), ("password_id", uri.as_str())];
    cluster.model.deny_secrets(true);
    cluster.say(&relation, &app, &mail_bag(&login));
    assert_eq!(cluster.status(), "waiting: for mail to share its password for mail");
    assert!(!cluster.conf().contains("MailProg"));
    cluster.model.deny_secrets(false);
    let done = cluster.hook(&Hook::named(slurm_unit::retry::EVENT));
    assert!(cluster.machine.read(names::MAIL_CONF).unwrap().contains("password \"s3cret \"word\"\n"));
    let seen = format!("{done:?}{:?}{:?}", cluster.machine.take_calls(), cluster.files("/etc/slurm"));
    assert!(!seen.contains("s3cret"), "{seen}");
    let access = slurm_ops::files::Access::slurm(0o600);
    assert!(slurm_ops::files::has_access(&cluster.machine.machine().host(), names::MAIL_CONF, &access).unwrap());
}

#[test]
fn a_mail_program_that_cannot_be_had_or_is_somebody_elses_is_told() {
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.archive_lacks("msmtp-mta");
    let (relation, app) = cluster.add_mail(&mail_bag(&[]));
    assert!(cluster.status().starts_with("blocked: installing the mail program failed: "), "{}", cluster.status());
    assert!(!cluster.conf().contains("MailProg"));
    cluster.part(&relation, &app);
    let (cluster, ..) = Cluster::at_rest();
    cluster.machine.write(names::MAIL_CONF, "account default\n");
    let (relation, app) = cluster.add_mail(&mail_bag(&[]));
    assert!(cluster.status().starts_with("blocked: /etc/msmtprc is not the charm's"), "{}", cluster.status());
    cluster.part(&relation, &app);
    assert_eq!(cluster.machine.read(names::MAIL_CONF).as_deref(), Some("account default\n"));
    assert_eq!(cluster.status(), "active: primary - UP");
}

#[test]
fn hostile_integrators_get_nothing_into_a_file() {
    for hostile in [("host", "a\nhost b"), ("port", "25\nproxy_host b"), ("domain", "a\nInclude=/etc/shadow")] {
        let (cluster, ..) = Cluster::at_rest();
        cluster.add_mail(&mail_bag(&[hostile]));
        assert_eq!(cluster.machine.read(names::MAIL_CONF), None, "{hostile:?}");
        assert!(!cluster.conf().contains("MailProg") && !cluster.conf().contains("shadow"));
        assert!(cluster.status().starts_with("blocked: mail: databag key `"), "{}", cluster.status());
    }
}

/// Killed before each effect in turn, a dispatch is made up for by the next ones.
#[test]
fn a_dispatch_that_dies_leaves_nothing_half_made() {
    let story = |at: Option<usize>| {
        let (cluster, ..) = Cluster::at_rest();
        let mail = cluster.model.deploy("mail", MAIL).unwrap();
        let (relation, _) = cluster.model.integrate((&cluster.app, "smtp"), (&mail, "smtp")).unwrap();
        cluster.model.play(&mail, &relation, &mail_bag(&[("domain", "example.com")])).unwrap();
        let runtime = cluster.model.deploy("apptainer", RUNTIME).unwrap();
        let (oci, _) = cluster.model.integrate((&cluster.app, "oci-runtime"), (&runtime, "slurmctld")).unwrap();
        cluster.model.play(&runtime, &oci, &runtime_bag()).unwrap();
        let persist = |hook: &Hook| assert!((0..3).any(|_| cluster.dispatch(hook).succeeded), "{hook:?}");
        if let Some(at) = at {
            cluster.model.knife().kill_before(at);
        }
        persist(&Hook::app_changed(&relation, &mail));
        persist(&Hook::app_changed(&oci, &runtime));
        persist(&Hook::broken(&oci, Some(&runtime)));
        cluster.model.end(&oci);
        let spare = cluster.model.knife().spare();
        super::crash::settle(&cluster);
        persist(&Hook::named("update-status"));
        (spare, cluster.conf(), cluster.files("/etc/slurm").into_keys().collect::<Vec<_>>(), cluster.status())
    };
    let (_, conf, files, status) = story(None);
    assert!(conf.contains("MailProg=/usr/bin/bsd-mailx\n") && !files.iter().any(|file| file.contains("oci")));
    for at in 0.. {
        let (spare, own_conf, own_files, own_status) = story(Some(at));
        assert_eq!((&own_files, &own_status), (&files, &status), "killed before {at}");
        // The name of the cluster is random.
        let rest = |conf: &str| {
            conf.lines().filter(|line| !line.contains("ClusterName")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(rest(&own_conf), rest(&conf), "killed before {at}");
        if spare {
            assert!(at > 10, "only {at} effects");
            return;
        }
    }
}
