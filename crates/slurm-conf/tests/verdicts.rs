//! Compares what this crate says about a configuration with what real daemons said.
//!
//! `verdicts/table.jsonl` holds one configuration per line, what each version of Slurm made of it, and, where this
//! crate says something else, what and why (`differs`). tests/slurm_verdicts/ records it anew. Without `differs` both
//! have to agree: `good` is what every version accepted, `bad` what every version refused.

use serde_json::Value;
use slurm_conf::{CgroupConf, Node, ParameterError, Parameters, Partition, SlurmConf};

const TABLE: &str = include_str!("verdicts/table.jsonl");

/// The verdict on a record: in doubt if it was read but has keys that are not known here.
fn judge_record<Record, Problem>(read: Result<Record, Problem>, unknown: impl Fn(&Record) -> usize) -> &'static str {
    match read {
        Err(_) => "bad",
        Ok(record) if unknown(&record) == 0 => "good",
        Ok(_) => "doubtful",
    }
}

/// Plain keys are judged as an operator's parameters are. Of a file with records only the syntax is judged here.
fn verdict_on_slurm_conf(text: &str) -> &'static str {
    let Ok(conf) = SlurmConf::parse(text) else { return "bad" };
    if conf.settings().count() == 0 {
        return "good";
    }
    judge_parameters(Parameters::parse(text, &[]))
}

fn judge_parameters(read: Result<Parameters, ParameterError>) -> &'static str {
    judge_record(read, |parameters| parameters.doubts().len())
}

fn our_verdict(case: &Value) -> &'static str {
    let text = case["text"].as_str().expect("text");
    match case["file"].as_str().expect("file") {
        "slurm.conf" => verdict_on_slurm_conf(text),
        "partition" => judge_record(Partition::from_config("p", text), |partition| partition.unknown().count()),
        "node" => judge_record(Node::from_config(text), |node| node.unknown().count()),
        "cgroup.conf" => judge_parameters(CgroupConf::parameters(text)),
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

#[test]
fn what_slurm_accepts_can_be_read() {
    for line in TABLE.lines() {
        let case: Value = serde_json::from_str(line).expect("a line of the table is JSON");
        let accepted = case["slurm"].as_object().expect("slurm").values().any(|verdict| verdict == "accepted");
        if case["file"] == "slurm.conf" && accepted {
            let read = SlurmConf::parse(case["text"].as_str().expect("text"));
            assert!(read.is_ok(), "{}: {read:?}", case["name"]);
        }
    }
}
