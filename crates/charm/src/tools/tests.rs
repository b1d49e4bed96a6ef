//! Each tool's command line, and how Juju's answers are understood. Answers are those of Juju 3.6 and 4.0.

use super::*;
use crate::name::{AppName, EndpointName, RelationId, SecretId, UnitName};
use crate::status::Status;
use std::sync::{Arc, Mutex};

/// Gives one answer to every call and remembers the calls with their standard input and the files they name.
struct Answering {
    output: Output,
    calls: Mutex<Vec<(String, String)>>,
}

impl ToolRunner for Answering {
    fn run(&self, call: &Call<'_>) -> std::io::Result<Output> {
        let mut input = String::from_utf8(call.stdin.unwrap_or_default().to_vec()).unwrap();
        let mut line = String::from(call.tool);
        for argument in call.arguments {
            match argument.split_once("#file=") {
                Some((key, path)) => {
                    input += &format!("{key}: {}\n", std::fs::read_to_string(path).unwrap());
                    line += &format!(" {key}#file=");
                }
                None => line += &format!(" {argument}"),
            }
        }
        self.calls.lock().unwrap().push((line, input));
        Ok(self.output.clone())
    }
}

struct Model(Arc<Answering>);

impl Model {
    fn answers(stdout: &str) -> Self {
        Self::of(Output { exit_code: Some(0), stdout: stdout.as_bytes().to_vec(), stderr: Vec::new() })
    }

    fn refuses(exit_code: i32, stderr: &str) -> Self {
        Self::of(Output { exit_code: Some(exit_code), stdout: Vec::new(), stderr: stderr.as_bytes().to_vec() })
    }

    fn of(output: Output) -> Self {
        Self(Arc::new(Answering { output, calls: Mutex::default() }))
    }

    fn tools(&self) -> Tools {
        Tools::with_runner(&"slurmctld/0".parse().unwrap(), self.0.clone())
    }

    #[track_caller]
    fn was_asked(&self, line: &str) -> String {
        let calls = self.0.calls.lock().unwrap();
        let (seen, input) = calls.last().unwrap();
        assert_eq!(seen, line);
        input.clone()
    }
}

fn relation() -> RelationId {
    "slurmd:3".parse().unwrap()
}

fn app() -> AppName {
    "compute".parse().unwrap()
}

fn secret() -> SecretId {
    "d3k2v5nmp25c762q3bvg".parse().unwrap()
}

#[test]
fn config_keeps_types_and_an_unset_option_is_empty() {
    let juju = Model::answers(r#"{"cluster-name":"lab","count":4,"trust":true}"#);
    let config = juju.tools().config_get().unwrap();
    juju.was_asked("config-get --format=json");
    assert_eq!(config.string("cluster-name"), "lab");
    assert_eq!(config.string("absent"), "");
    assert!(config.boolean("trust"));
}

#[test]
fn relations_are_listed_and_a_null_is_none() {
    let endpoint: EndpointName = "slurmd".parse().unwrap();
    let juju = Model::answers(r#"["slurmd:3","slurmd:11"]"#);
    assert_eq!(juju.tools().relation_ids(&endpoint).unwrap().len(), 2);
    juju.was_asked("relation-ids --format=json slurmd");
    assert!(Model::answers("null").tools().relation_ids(&endpoint).unwrap().is_empty());
}

#[test]
fn an_unset_bag_is_an_empty_one() {
    for answer in ["null", "{}"] {
        let juju = Model::answers(answer);
        assert!(juju.tools().relation_get_app(&relation(), &app()).unwrap().is_empty());
        juju.was_asked("relation-get --format=json -r slurmd:3 --app - compute");
    }
}

#[test]
fn a_units_bag_is_asked_for_by_name() {
    let unit: UnitName = "compute/1".parse().unwrap();
    let juju = Model::answers(r#"{"ingress-address":"10.0.0.5"}"#);
    assert_eq!(juju.tools().relation_get_unit(&relation(), &unit).unwrap()["ingress-address"], "10.0.0.5");
    juju.was_asked("relation-get --format=json -r slurmd:3 - compute/1");
}

#[test]
fn the_remote_application_has_a_name() {
    let juju = Model::answers(r#""compute""#);
    assert_eq!(juju.tools().relation_list_app(&relation()).unwrap(), Some(app()));
    juju.was_asked("relation-list --format=json -r slurmd:3 --app");
    assert_eq!(Model::answers(r#""""#).tools().relation_list_app(&relation()).unwrap(), None);
}

/// Whose agent names no unit in a relation, and what Juju's controller names there.
struct Forgetful(&'static str);

impl ToolRunner for Forgetful {
    fn run(&self, call: &Call<'_>) -> std::io::Result<Output> {
        let stdout = match (call.tool, call.arguments.contains(&"--app")) {
            ("goal-state", _) => self.0,
            ("relation-list", true) => "\"compute\"",
            _ => "[]",
        };
        Ok(Output { exit_code: Some(0), stdout: stdout.into(), stderr: Vec::new() })
    }
}

#[test]
fn a_relation_without_units_that_has_units_is_stale() {
    let remote = |goal| {
        let unit: UnitName = "slurmctld/0".parse().unwrap();
        let variable = |name: &str| match name {
            "JUJU_DISPATCH_PATH" => Some("hooks/update-status".to_owned()),
            "JUJU_UNIT_NAME" => Some("slurmctld/0".to_owned()),
            "JUJU_CHARM_DIR" | "JUJU_MODEL_UUID" => Some("x".to_owned()),
            _ => None,
        };
        let ctx = crate::context::Context::read(&[], &variable).unwrap();
        Tools::with_runner(&unit, Arc::new(Forgetful(goal))).remote(&ctx, &relation()).unwrap()
    };
    let joined =
        r#"{"units":{},"relations":{"slurmd":{"compute":{"status":"joined"},"compute/0":{"status":"active"}}}}"#;
    assert_eq!(remote(joined), Some(Remote { app: app(), stale: true }));
    let alone = r#"{"units":{},"relations":{"slurmd":{"compute":{"status":"joined"}}}}"#;
    assert_eq!(remote(alone), Some(Remote { app: app(), stale: false }));
}

#[test]
fn secret_content_travels_in_files_that_are_gone_afterwards() {
    let juju = Model::answers("secret://7f1f5b0e/d3k2v5nmp25c762q3bvg\n");
    let content = SecretContent::default().with("key", "c2VjcmV0").with("keyid", "k1");
    assert_eq!(juju.tools().writer().secret_add("slurm-auth-key", "why", &content).unwrap(), secret());
    let line = "secret-add --owner application --label slurm-auth-key --description why key#file= keyid#file=";
    assert_eq!(juju.was_asked(line), "key: c2VjcmV0\nkeyid: k1\n");
    assert_eq!(format!("{content:?}"), r#"{"key": "..", "keyid": ".."}"#);
}

#[test]
fn a_secret_is_read_with_its_label_and_its_latest_content() {
    let juju = Model::answers(r#"{"key":"c2VjcmV0","keyid":"k1"}"#);
    let answer = juju.tools().secret_get("secret:d3k2v5nmp25c762q3bvg", "slurm-auth-key").unwrap();
    juju.was_asked("secret-get --format=json secret:d3k2v5nmp25c762q3bvg --label slurm-auth-key --refresh");
    let SecretAnswer::Content(content) = answer else { panic!("{answer:?}") };
    assert_eq!(content.get("keyid"), Some("k1"));
}

#[test]
fn a_secret_that_cannot_be_read_is_an_answer() {
    let texts = [
        (r#"ERROR "compute/0" is not allowed to read this secret"#, Unreadable::NotAllowed),
        ("ERROR permission denied", Unreadable::NotAllowed),
        ("ERROR permission denied (unauthorized access)", Unreadable::NotAllowed),
        ("ERROR getting latest secret revision: secret not found", Unreadable::NotFound),
        (r#"ERROR secret URI for consumer label "slurm-auth-key" not found"#, Unreadable::NotFound),
        (r#"ERROR secret value ref for "secret:d3k2" revision 1 not found"#, Unreadable::NotFound),
        ("ERROR connection is shutdown before send", Unreadable::AgentGone),
    ];
    for (text, why) in texts {
        let answer = Model::refuses(1, text).tools().secret_get("secret:d3k2", "slurm-auth-key").unwrap();
        assert_eq!(answer, SecretAnswer::Unreadable(why), "{text}");
    }
}

#[test]
fn any_other_failure_of_secret_get_stays_one() {
    let juju = Model::refuses(2, r#"ERROR secret URI "nonsense" not valid"#);
    let error = juju.tools().secret_get("nonsense", "slurm-auth-key").unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"`secret-get --format=json nonsense --label slurm-auth-key --refresh` exited with 2: ERROR secret URI "nonsense" not valid"#
    );
}

#[test]
fn the_owner_sees_who_was_granted() {
    let juju = Model::answers(
        r#"{"d3k2v5nmp25c762q3bvg":{"revision":1,"label":"slurm-auth-key","owner":"application","rotation":"never","access":[{"target":"application-compute","scope":"relation-compute.slurmctld#slurmctld.slurmd","role":"view"}]}}"#,
    );
    let info = juju.tools().secret_info_get("slurm-auth-key").unwrap().unwrap();
    juju.was_asked("secret-info-get --format=json --label slurm-auth-key");
    assert_eq!((info.id, info.revision), (secret(), 1));
    assert_eq!(info.access[0].target, "application-compute");
}

#[test]
fn a_secret_without_grants_has_no_access_list() {
    let juju = Model::answers(r#"{"d3k2v5nmp25c762q3bvg":{"revision":1,"label":"l","owner":"application"}}"#);
    assert!(juju.tools().secret_info_get("l").unwrap().unwrap().access.is_empty());
}

#[test]
fn no_secret_of_that_label_is_none() {
    for text in [r#"ERROR secret "slurm-auth-key" not found"#, "ERROR this unit is not the leader"] {
        assert_eq!(Model::refuses(1, text).tools().secret_info_get("slurm-auth-key").unwrap(), None);
    }
}

#[test]
fn a_dying_unit_is_not_planned() {
    let juju = Model::answers(
        r#"{"units":{"a/0":{"status":"active","since":"x"},"a/1":{"status":"dying","since":"x"}},"relations":{"slurmd":{"compute":{"status":"joined"},"compute/0":{"status":"active"},"compute/1":{"status":"dying"}}}}"#,
    );
    let goal = juju.tools().goal_state().unwrap();
    assert_eq!(goal.planned_units(), ["a/0".parse().unwrap()]);
    assert!(goal.is_dying(&"a/1".parse().unwrap()));
    assert_eq!(goal.remote_units("slurmd"), ["compute/0".parse().unwrap()]);
}

#[test]
fn statuses_are_read_and_written() {
    let juju = Model::answers(r#"{"message":"ready","status":"active","status-data":{}}"#);
    assert_eq!(juju.tools().status_get().unwrap(), Some(Status::active("ready")));
    juju.tools().writer().status_set(&Status::blocked("-n is no option")).unwrap();
    juju.was_asked("status-set -- blocked -n is no option");
}

#[test]
fn an_action_reads_a_struct_and_answers_in_order() {
    #[derive(serde::Deserialize)]
    struct Resume {
        nodename: String,
    }
    let juju = Model::answers(r#"{"nodename":"compute-[0-3]"}"#);
    assert_eq!(juju.tools().action_get::<Resume>().unwrap().nodename, "compute-[0-3]");
    let results = [("status".to_owned(), "resuming".to_owned()), ("nodes".to_owned(), "compute-0".to_owned())];
    juju.tools().writer().action_set(&results).unwrap();
    juju.was_asked("action-set -- status=resuming nodes=compute-0");
    juju.tools().writer().action_fail("no such node").unwrap();
    juju.was_asked("action-fail -- no such node");
}

#[test]
fn an_answer_is_never_longer_than_what_linux_takes_as_an_argument() {
    let juju = Model::answers("");
    let long = "ä".repeat(200 * 1024);
    let results = ["one", "two"].map(|key| (key.to_owned(), long.clone())).into_iter();
    let results: Vec<_> = results.chain([("three".to_owned(), "short".to_owned())]).collect();
    juju.tools().writer().action_set(&results).unwrap();
    let calls = juju.0.calls.lock().unwrap();
    assert!(calls.iter().all(|(line, _)| line.len() < 128 * 1024), "an argument was too long");
    for (call, key) in calls.iter().zip(["one", "two"]) {
        assert!(call.0.starts_with(&format!("action-set -- {key}=ää")) && call.0.contains("… cut: 2867"), "{key}");
    }
    assert_eq!(calls[2].0, "action-set -- three=short");
}

#[test]
fn leadership_is_a_boolean_and_anything_else_is_an_error_with_its_command() {
    assert!(Model::answers("true").tools().is_leader().unwrap());
    let error = Model::answers("maybe").tools().is_leader().unwrap_err();
    assert_eq!(error.to_string(), "`is-leader --format=json` answered with something unexpected");
}

#[test]
fn a_parameter_that_does_not_fit_is_refused_by_its_name() {
    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only decoding is looked at")]
    struct Drain {
        nodes: String,
        #[serde(default)]
        wait: Option<bool>,
    }
    let refusal = |given: &str| match Model::answers(given).tools().action_get::<Drain>() {
        Err(crate::ActionFailure::Refused(text)) => text,
        other => panic!("{given}: {other:?}"),
    };
    let wait = refusal(r#"{"nodes":"a","wait":"soon"}"#);
    assert!(wait.starts_with("parameter `wait`: invalid type: string \"soon\""), "{wait}");
    assert!(refusal(r#"{"nodes":7}"#).starts_with("parameter `nodes`: invalid type: integer `7`"));
    assert_eq!(refusal("{}"), "parameters: missing field `nodes`");
    assert_eq!(refusal("null"), "parameters: missing field `nodes`");
}

#[test]
fn what_only_the_leader_may_is_told_apart() {
    let refusal = |text: &str| Model::refuses(1, text).tools().is_leader().unwrap_err().refusal();
    assert_eq!(refusal("ERROR cannot write relation settings"), Some(Refusal::NotLeader));
    assert_eq!(refusal("ERROR this unit is not the leader"), Some(Refusal::NotLeader));
    assert_eq!(refusal("ERROR that is not supported when running an action."), None);
}
