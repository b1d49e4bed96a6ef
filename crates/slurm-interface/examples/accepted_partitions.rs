//! Prints the bag of every partition in the table of verdicts that is accepted, one JSON object per line.
//! `tests/test_interfaces.py` holds them against the schema.

use serde_json::Value;
use slurm_conf::Partition;
use slurm_interface::ComputeData;
use std::error::Error;

const TABLE: &str = include_str!("../../slurm-conf/tests/verdicts/table.jsonl");

fn main() -> Result<(), Box<dyn Error>> {
    for line in TABLE.lines() {
        let case: Value = serde_json::from_str(line)?;
        let text = case["text"].as_str().ok_or("a case without text")?;
        if case["file"] == "partition"
            && let Ok(partition) = Partition::from_config("compute", text)
        {
            println!("{}", serde_json::to_string(&ComputeData::new(partition).encode())?);
        }
    }
    Ok(())
}
