//! What is asked once, what is collected, and what is sent at the end.

use super::*;
use crate::name::AppName;
use crate::tools::process::{Call, Output, ToolRunner};
use crate::tools::{Remote, Tools};
use std::sync::{Arc, Mutex};

/// A unit with some data; remembers every call.
#[derive(Default)]
struct Juju {
    calls: Mutex<Vec<String>>,
    /// Tools that are refused, with Juju's words.
    denies: Vec<(&'static str, &'static str)>,
    /// Answers take their time, so that others ask meanwhile.
    slow: bool,
}

impl ToolRunner for Juju {
    fn run(&self, call: &Call<'_>) -> std::io::Result<Output> {
        let input = String::from_utf8_lossy(call.stdin.unwrap_or_default()).into_owned();
        let line = call.command_line();
        let entry = if input.is_empty() { line.clone() } else { format!("{line} < {input}") };
        self.calls.lock().unwrap().push(entry);
        if self.slow {
            std::thread::sleep(Duration::from_millis(50));
        }
        if let Some((_, words)) = self.denies.iter().find(|(start, _)| line.starts_with(start)) {
            return Ok(Output { exit_code: Some(1), stdout: Vec::new(), stderr: words.as_bytes().to_vec() });
        }
        let stdout = match call.tool {
            "is-leader" => "true",
            "config-get" => r#"{"size":"4"}"#,
            "relation-get" => r#"{"same":"1","old":"2"}"#,
            "opened-ports" => r#"["icmp","6817/tcp","8000-8010/udp"]"#,
            _ => "",
        };
        Ok(Output { exit_code: Some(0), stdout: stdout.into(), stderr: Vec::new() })
    }
}

fn stage(juju: Juju) -> (Arc<Juju>, Tools) {
    let juju = Arc::new(juju);
    (juju.clone(), Tools::with_runner(&"slurmctld/0".parse().unwrap(), juju))
}

fn relation() -> RelationId {
    "slurmd:3".parse().unwrap()
}

fn bag(entries: &[(&str, &str)]) -> Databag {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[track_caller]
fn calls(juju: &Juju, expected: &[&str]) {
    assert_eq!(*juju.calls.lock().unwrap(), expected);
}

#[test]
fn the_same_question_of_several_looks_starts_one_process() {
    let (juju, tools) = stage(Juju { slow: true, ..Juju::default() });
    let answers = crate::runtime::each(0..4, |_| tools.config_get().unwrap().string("size").to_owned());
    assert_eq!(answers, ["4"; 4]);
    calls(&juju, &["config-get --format=json"]);
}

#[test]
fn the_same_question_starts_one_process() {
    let (juju, tools) = stage(Juju::default());
    for _ in 0..3 {
        assert_eq!(tools.clone().config_get().unwrap().string("size"), "4");
        assert!(tools.is_leader().unwrap());
    }
    calls(&juju, &["config-get --format=json", "is-leader --format=json"]);
}

#[test]
fn a_settled_dispatch_sends_nothing() {
    let (juju, tools) = stage(Juju::default());
    tools.writer().send().unwrap();
    calls(&juju, &[]);
}

#[test]
fn only_what_differs_is_sent_and_nothing_before_the_end() {
    let (juju, tools) = stage(Juju::default());
    tools
        .writer()
        .relation_set_app(&relation(), &bag(&[("same", "1"), ("old", ""), ("new", "a=b\n"), ("never-there", "")]));
    tools.writer().relation_set_unit(&relation(), &bag(&[("same", "1")]));
    tools.writer().open_port(Port::tcp(6817));
    tools.writer().open_port(Port::tcp(6818));
    calls(&juju, &[]);
    tools.writer().send().unwrap();
    calls(
        &juju,
        &[
            "relation-get --format=json -r slurmd:3 --app - slurmctld",
            r#"relation-set -r slurmd:3 --app --file - < {"new":"a=b\n","old":""}"#,
            "relation-get --format=json -r slurmd:3 - slurmctld/0",
            "opened-ports --format=json",
            "open-port 6818/tcp",
        ],
    );
    tools.writer().send().unwrap();
    assert_eq!(juju.calls.lock().unwrap().len(), 5, "sent twice");
}

#[test]
fn what_is_going_to_be_written_can_be_read() {
    let (_, tools) = stage(Juju::default());
    let own: AppName = "slurmctld".parse().unwrap();
    let other: AppName = "compute".parse().unwrap();
    tools.writer().relation_set_app(&relation(), &bag(&[("old", ""), ("new", "3")]));
    let expected = bag(&[("same", "1"), ("new", "3")]);
    assert_eq!(tools.relation_get_app(&relation(), &own).unwrap(), expected);
    assert_eq!(tools.relation_get_own_app(&relation()).unwrap(), Some(expected));
    assert_eq!(tools.relation_get_app(&relation(), &other).unwrap(), bag(&[("same", "1"), ("old", "2")]));
    tools.writer().open_port(Port::tcp(53));
    let open: Vec<String> = tools.opened_ports().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(open, ["53/tcp", "6817/tcp"]);
}

#[test]
fn a_port_that_is_open_is_closed_and_no_other_is() {
    let (juju, tools) = stage(Juju::default());
    tools.writer().open_port(Port::tcp(53));
    for port in [53, 6817, 6818] {
        tools.writer().close_port(Port::tcp(port));
    }
    assert!(tools.opened_ports().unwrap().is_empty());
    tools.writer().send().unwrap();
    calls(&juju, &["opened-ports --format=json", "close-port 6817/tcp"]);
}

#[test]
fn secrets_are_changed_in_order_before_anything_tells_of_them() {
    let (juju, tools) = stage(Juju::default());
    let secret: SecretId = "d3k2v5nmp25c762q3bvg".parse().unwrap();
    tools.writer().relation_set_app(&relation(), &bag(&[("new", "3")]));
    tools.writer().secret_grant(&secret, &relation());
    tools.writer().secret_remove_revision(&secret, 2);
    tools.writer().secret_set(&secret, &SecretContent::default().with("key", "material"));
    tools.writer().send().unwrap();
    let calls = juju.calls.lock().unwrap();
    let expected = ["secret-grant d3k2v5nmp25c762q3bvg -r slurmd:3", "secret-remove d3k2v5nmp25c762q3bvg --revision 2"];
    assert_eq!(calls[..2], expected);
    assert!(calls[2].starts_with("secret-set d3k2v5nmp25c762q3bvg key#file=/"), "{}", calls[2]);
    assert!(calls[3].starts_with("relation-get"), "{}", calls[3]);
    assert!(!calls.join("\n").contains("material"));
}

#[test]
fn an_own_bag_that_may_not_be_read_is_none() {
    for words in ["ERROR permission denied", "ERROR permission denied (unauthorized access)"] {
        let (_, tools) = stage(Juju { denies: vec![("relation-get", words)], ..Juju::default() });
        assert_eq!(tools.relation_get_own_app(&relation()).unwrap(), None);
    }
    for words in ["ERROR permission denied", "ERROR relation unit not found"] {
        let (_, tools) = stage(Juju { denies: vec![("relation-get", words)], ..Juju::default() });
        assert_eq!(tools.relation_get_remote_unit(&relation(), &"compute/9".parse().unwrap()).unwrap(), None);
    }
}

#[test]
fn a_write_that_juju_denies_is_dropped_and_the_rest_is_sent() {
    let denials = [
        ("relation-set", "ERROR cannot write relation settings"),
        ("relation-get", r#"ERROR invalid value "slurmd:3" for option -r: relation not found"#),
        ("secret-remove", r#"ERROR secret "d3k2" not found"#),
    ];
    for denial in denials {
        let (juju, tools) = stage(Juju { denies: vec![denial], ..Juju::default() });
        tools.writer().relation_set_app(&relation(), &bag(&[("new", "3")]));
        tools.writer().secret_remove_revision(&"d3k2".parse().unwrap(), 1);
        tools.writer().open_port(Port::tcp(1));
        tools.writer().send().unwrap();
        assert_eq!(juju.calls.lock().unwrap().last().map(String::as_str), Some("open-port 1/tcp"), "{denial:?}");
    }
}

#[test]
fn a_write_that_fails_is_an_error() {
    let (_, tools) = stage(Juju { denies: vec![("relation-set", "ERROR broken pipe")], ..Juju::default() });
    tools.writer().relation_set_app(&relation(), &bag(&[("new", "3")]));
    assert!(tools.writer().send().unwrap_err().to_string().ends_with("ERROR broken pipe"));
}

/// An agent that goes on seeing the application's bag as it first read it. Two units have led since.
struct Deaf {
    first_read: &'static str,
}

impl ToolRunner for Deaf {
    fn run(&self, call: &Call<'_>) -> std::io::Result<Output> {
        let line = call.command_line();
        let stdout = match line.as_str() {
            "goal-state --format=json" => {
                r#"{"units":{},"relations":{"slurmd":{"compute":{"status":"joined"},"compute/0":{"status":"waiting"},
                   "compute/1":{"status":"waiting"},"compute/2":{"status":"waiting"},"gpu/0":{"status":"waiting"}}}}"#
            }
            line if line.ends_with("--app - compute") => self.first_read,
            line if line.ends_with("- compute/0") => r#"{"ingress-address":"10.0.0.1","unit_own":"1"}"#,
            line if line.ends_with("- compute/1") => r#"{"partition":"new","unit_copy_time":"2000"}"#,
            line if line.ends_with("- compute/2") => r#"{"partition":"old","unit_copy_time":"1999"}"#,
            other => panic!("{other}"),
        };
        Ok(Output { exit_code: Some(0), stdout: stdout.into(), stderr: Vec::new() })
    }
}

#[test]
fn where_an_agent_is_deaf_the_newest_copy_of_a_leader_is_read() {
    let remote = |stale| Remote { app: "compute".parse().unwrap(), stale };
    for (first_read, stale) in [("{}", true), ("{}", false), (r#"{"partition":"first"}"#, true)] {
        let tools = Tools::with_runner(&"slurmctld/0".parse().unwrap(), Arc::new(Deaf { first_read }));
        assert!(!tools.is_deaf_to(&relation()));
        let read = tools.relation_get_remote(&relation(), &remote(stale)).unwrap();
        assert_eq!(read, bag(&[("partition", "new")]), "{first_read} {stale}");
        assert!(tools.is_deaf_to(&relation()));
    }
    let (juju, tools) = stage(Juju::default());
    let read = tools.relation_get_remote(&relation(), &remote(false)).unwrap();
    assert_eq!(read, bag(&[("same", "1"), ("old", "2")]));
    assert!(!tools.is_deaf_to(&relation()));
    calls(&juju, &["relation-get --format=json -r slurmd:3 --app - compute"]);
}

/// An application's bag with something in it, and a unit's with nothing.
struct Leader(Mutex<Vec<String>>);

impl ToolRunner for Leader {
    fn run(&self, call: &Call<'_>) -> std::io::Result<Output> {
        let input = String::from_utf8_lossy(call.stdin.unwrap_or_default()).into_owned();
        let line = call.command_line();
        let stdout = if line.contains("--app - ") { r#"{"same":"1","old":"2"}"# } else { "{}" };
        if call.tool == "relation-set" {
            self.0.lock().unwrap().push(format!("{line} < {input}"));
        }
        Ok(Output { exit_code: Some(0), stdout: stdout.into(), stderr: Vec::new() })
    }
}

#[test]
fn a_copy_is_whole_also_of_keys_that_an_earlier_leader_wrote() {
    let juju = Arc::new(Leader(Mutex::default()));
    let tools = Tools::with_runner(&"slurmctld/0".parse().unwrap(), juju.clone());
    tools.writer().relation_set_app_mirrored(&relation(), &bag(&[("new", "3"), ("old", "")]));
    tools.writer().send().unwrap();
    let said = juju.0.lock().unwrap();
    let [app, copy] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(app, r#"relation-set -r slurmd:3 --app --file - < {"new":"3","old":""}"#);
    let (copy, time) = copy.split_once(r#","unit_copy_time":""#).unwrap();
    assert_eq!(copy, r#"relation-set -r slurmd:3 --file - < {"new":"3","same":"1""#);
    assert!(time.strip_suffix("\"}").unwrap().parse::<u64>().unwrap() > 0);
}
