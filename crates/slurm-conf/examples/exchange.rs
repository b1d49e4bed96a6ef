//! Reads partitions, one JSON object per line, and prints what this crate makes of each. tests/slurmutils/ puts it
//! beside the library of the Python charms.
//!
//! In: `{"json": {…}}`, or `text` with a line of slurm.conf instead of `json`. Out: `{"json": …, "text": …}`, or
//! `{"error": …}`.

#![expect(clippy::disallowed_methods, reason = "only the library is pure")]

use serde_json::{Value, json};
use slurm_conf::{Partition, SlurmConf};
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
    let partition = match request["text"].as_str() {
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
