//! Reads partitions and nodes, one JSON object per line, and prints what this crate makes of each. tests/slurmutils/ puts it beside
//! the library of the Python charms.
//!
//! In: `{"kind": "partition", "json": {…}}`, or `text` with a line of slurm.conf instead of `json`. Out: `{"json": …, "text": …}`, or
//! `{"error": …}`.

use serde_json::{Value, json};
use slurm_conf::{Node, Partition, RecordKind, SlurmConf};
use std::error::Error;
use std::io::{BufRead, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let answer = answer(&request).unwrap_or_else(|error| json!({"error": error.to_string()}));
        writeln!(output, "{answer}")?;
    }
    Ok(())
}

fn answer(request: &Value) -> Result<Value, Box<dyn Error>> {
    let text = request["text"].as_str();
    match request["kind"].as_str() {
        Some("partition") => {
            let partition = match text {
                Some(text) => {
                    let conf = SlurmConf::parse(text)?;
                    Partition::try_from(conf.partitions().next().ok_or("no partition")?)?
                }
                None => Partition::from_json(&request["json"])?,
            };
            let mut conf = SlurmConf::new();
            conf.set_partition(&partition, &partition.nodeset());
            Ok(json!({"json": partition.to_json(), "text": conf.render()}))
        }
        Some("node") => {
            let node = match text {
                Some(text) => {
                    let conf = SlurmConf::parse(text)?;
                    let record = conf.records(RecordKind::Node).next().ok_or("no node")?;
                    let mut node = Node::new();
                    for (key, value) in record.options() {
                        node.set(key, value)?;
                    }
                    node
                }
                None => Node::from_json(&request["json"])?,
            };
            Ok(json!({"json": node.to_json(), "text": node.render()}))
        }
        _ => Err("unknown kind".into()),
    }
}
