//! The state of a node's record, in the words that this charm uses.

use slurm_ops::scontrol::NodeRecord;

/// Says whether the controllers hear from the node.
pub fn is_responding(record: &NodeRecord) -> bool {
    !record.has("NOT_RESPONDING")
}

/// Says whether the node takes no jobs because somebody said so.
pub fn is_closed(record: &NodeRecord) -> bool {
    ["DRAIN", "DOWN", "FAIL"].iter().any(|state| record.has(state))
}

/// Returns the state without its flags.
pub fn base(record: &NodeRecord) -> &str {
    record.state.first().map_or("UNKNOWN", String::as_str)
}

/// Returns the state in the words of `sinfo`.
pub fn word(record: &NodeRecord) -> String {
    let resting = matches!(base(record), "IDLE" | "DOWN");
    match (record.has("DRAIN"), record.has("FAIL")) {
        (true, _) if resting => "drained".to_owned(),
        (true, _) => "draining".to_owned(),
        (false, true) if base(record) == "IDLE" => "fail".to_owned(),
        (false, true) if !resting => "failing".to_owned(),
        _ => base(record).to_ascii_lowercase(),
    }
}
