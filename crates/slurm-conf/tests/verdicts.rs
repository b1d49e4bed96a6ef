//! Compares what this crate says about a configuration with what real daemons said.
//!
//! `verdicts/table.jsonl` holds one configuration per line, what each version of Slurm made of it, and, where this crate says
//! something else, what and why (`differs`). tests/slurm_verdicts/ records it anew. Without `differs` both have to agree: `good` is
//! what every version accepted, `bad` what every version refused.

use serde_json::Value;
use slurm_conf::{CgroupConf, Finding, Gres, GresConf, Node, Partition, SlurmConf};

const TABLE: &str = include_str!("verdicts/table.jsonl");
/// What the recorder puts before a candidate that is not whole, as far as it matters here.
const BASE: &str = "ClusterName=lab\nSlurmctldHost=c1(127.0.0.1)\nNodeSet=compute Feature=compute\n";

/// The verdict on a record: in doubt if it was read but has keys that are not known here.
fn judge_record<Record, Problem>(read: Result<Record, Problem>, unknown: impl Fn(&Record) -> usize) -> &'static str {
    match read {
        Err(_) => "bad",
        Ok(record) if unknown(&record) == 0 => "good",
        Ok(_) => "doubtful",
    }
}

fn verdict_on_slurm_conf(text: &str) -> &'static str {
    match SlurmConf::parse(text) {
        Err(_) => "bad",
        Ok(conf) => {
            let findings = conf.check();
            if findings.iter().any(Finding::is_certain) {
                "bad"
            } else if findings.is_empty() {
                "good"
            } else {
                "doubtful"
            }
        }
    }
}

fn verdict_on_gres_conf(text: &str) -> &'static str {
    let Ok(conf) = GresConf::parse(text) else { return "bad" };
    let lines = conf.entries().map(|entry| {
        let pairs: Vec<String> = entry.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Gres::from_config(&pairs.join(" "))
    });
    let verdicts: Vec<&str> = lines.map(|line| judge_record(line, |gres| gres.unknown().count())).collect();
    ["bad", "doubtful"].into_iter().find(|verdict| verdicts.contains(verdict)).unwrap_or("good")
}

fn verdict_on_cgroup_conf(text: &str) -> &'static str {
    match CgroupConf::parameters(text) {
        Err(_) => "bad",
        Ok(parameters) if parameters.doubts().is_empty() => "good",
        Ok(_) => "doubtful",
    }
}

fn our_verdict(case: &Value) -> &'static str {
    let text = case["text"].as_str().expect("text");
    match case["file"].as_str().expect("file") {
        "slurm.conf" if case["whole"] == true => verdict_on_slurm_conf(text),
        "slurm.conf" => verdict_on_slurm_conf(&format!("{BASE}{text}")),
        "partition" => judge_record(Partition::from_config("p", text), |partition| partition.unknown().count()),
        "node" => judge_record(Node::from_config(text), |node| node.unknown().count()),
        "gres.conf" => verdict_on_gres_conf(text),
        "cgroup.conf" => verdict_on_cgroup_conf(text),
        other => panic!("unknown kind of file {other}"),
    }
}

#[test]
fn our_verdicts_are_slurms_or_the_table_says_why_not() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in TABLE.lines() {
        let case: Value = serde_json::from_str(line).expect("a line of the table is JSON");
        count += 1;
        let said: Vec<&str> = case["slurm"].as_object().expect("slurm").values().filter_map(Value::as_str).collect();
        assert!(said.len() >= 2, "{}: two versions have to be recorded", case["name"]);
        let ours = our_verdict(&case);
        let agrees = match ours {
            "good" => said.iter().all(|verdict| *verdict == "accepted"),
            "bad" => said.iter().all(|verdict| verdict.starts_with("refused: ")),
            _ => false,
        };
        let justified =
            case["differs"]["ours"] == ours && case["differs"]["why"].as_str().is_some_and(|why| !why.is_empty());
        if agrees == case.get("differs").is_some() || !(agrees || justified) {
            wrong.push(format!("{}: ours {ours}, Slurm {said:?}, differs {}", case["name"], case["differs"]));
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 100, "the table has {count} configurations");
}
