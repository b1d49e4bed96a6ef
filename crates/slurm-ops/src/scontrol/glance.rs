//! A glance at a node that is well and has no job. The whole record costs `scontrol` more than twice as much processor
//! time, most of it to load what writes JSON, and the partition is in the same answer.

use super::{NodeLookup, NodeNotes, NodeRecord, client, could_not_ask};
use crate::command::CommandError;
use crate::machine::Host;
use slurm_conf::NodeName;

/// What a glance told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    /// The node, or that nobody could be asked. Of the record is missing what an administrator noted there
    /// ([`NodeRecord::notes`]), the reason, which no node that is well has, and the times.
    pub lookup: NodeLookup,
    /// The state of its partition. `None`: nobody could be asked.
    pub partition_state: Option<String>,
}

/// Looks at a node that is in one partition, idle, and was marked as saved. `None`: it is not like that, or not surely,
/// and it takes a look at the whole record.
///
/// slurmctld counts the processors of a node with jobs anew when somebody asks for its record, and not for this: what
/// it says here may be of before the last job.
pub fn glance(host: &Host, name: &NodeName) -> Option<Glance> {
    let fields: String = FIELDS.iter().map(|field| format!("{field}:{BETWEEN},")).collect();
    let arguments = ["--noheader", "--all", "--Node", "--nodes", name.as_str(), "--Format", &fields];
    match client(host, "sinfo").args(arguments).output() {
        Ok(output) if output.success() => parse(&output.stdout, name),
        Ok(output) => could_not_ask(&output).then(|| silent(output.complaint().to_owned())),
        // Whoever had no answer in time gets none by asking again.
        Err(error @ CommandError::TimedOut { .. }) => Some(silent(error.to_string())),
        Err(_) => None,
    }
}

fn silent(why: String) -> Glance {
    Glance { lookup: NodeLookup::Unreachable { why }, partition_state: None }
}

const BETWEEN: char = '|';
const FIELDS: [&str; 13] = [
    "NodeList",
    "StateComplete",
    "PartitionName",
    "Available",
    "Features",
    "Memory",
    "CPUs",
    "NodeAddr",
    "NodeHost",
    "Weight",
    "Gres",
    "Version",
    "Comment",
];

/// Slurm prints values as they are. So an answer counts only if it is one line with as many marks as fields: then no
/// value has a mark or the end of a line in it, and none can pose as another.
fn parse(shown: &str, own: &NodeName) -> Option<Glance> {
    let line = shown.strip_suffix('\n').filter(|line| !line.contains('\n'))?;
    let fields: Vec<&str> = line.strip_suffix(BETWEEN)?.split(BETWEEN).collect();
    let [name, state, partition, available, features, memory, cpus, address, hostname, weight, gres, version, comment] =
        <[&str; FIELDS.len()]>::try_from(fields).ok()?;
    let mut states = state.split('+');
    let well = matches!(states.next(), Some("idle")) && states.all(|flag| flag == "dynamic_norm");
    let partition_state = match available {
        "up" => "UP",
        "down" => "DOWN",
        "drain" => "DRAIN",
        "inact" => "INACTIVE",
        _ => return None,
    };
    // What is not there and what is called so look the same.
    let text = |value: &str| if value == "(null)" { String::new() } else { value.to_owned() };
    if name != own.as_str() || !well || text(comment).is_empty() {
        return None;
    }
    let record = NodeRecord {
        name: name.to_owned(),
        state: state.split('+').map(str::to_ascii_uppercase).collect(),
        reason: String::new(),
        hostname: text(hostname),
        partitions: vec![partition.to_owned()],
        features: text(features).split(',').filter(|feature| !feature.is_empty()).map(str::to_owned).collect(),
        real_memory: memory.parse().ok()?,
        cpus: cpus.parse().ok()?,
        comment: text(comment),
        address: text(address),
        reason_by: String::new(),
        weight: weight.parse().ok()?,
        gres: text(gres),
        version: text(version),
        booted: None,
        started: None,
        notes: NodeNotes::default(),
    };
    Some(Glance { lookup: NodeLookup::Present(record), partition_state: Some(partition_state.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: &str =
        "compute-0|idle+dynamic_norm|compute|up|compute,fast|24105|2|10.0.0.11|juju-1|1|(null)|24.11.5|joined|\n";

    fn seen(shown: &str) -> Option<Glance> {
        parse(shown, &"compute-0".parse().unwrap())
    }

    #[test]
    fn a_node_that_is_well_is_seen_at_a_glance() {
        let Glance { lookup: NodeLookup::Present(record), partition_state } = seen(WELL).unwrap() else { panic!() };
        assert!(record.is_usable() && record.is_dynamic());
        assert_eq!((record.state_text().as_str(), record.comment.as_str()), ("IDLE+DYNAMIC_NORM", "joined"));
        assert_eq!(
            (record.partitions, record.features),
            (vec!["compute".to_owned()], vec!["compute".to_owned(), "fast".to_owned()])
        );
        assert_eq!((record.real_memory, record.cpus, record.weight, record.gres.as_str()), (24105, 2, 1, ""));
        assert_eq!((record.address.as_str(), record.hostname.as_str()), ("10.0.0.11", "juju-1"));
        assert_eq!(partition_state.as_deref(), Some("UP"));
        let closed = seen(&WELL.replace("|up|", "|inact|")).unwrap();
        assert_eq!(closed.partition_state.as_deref(), Some("INACTIVE"));
    }

    #[test]
    fn whatever_is_not_surely_well_takes_a_closer_look() {
        for (part, other) in [
            ("idle", "down"),
            ("idle", "mixed"),
            ("idle", "allocated"),
            ("dynamic_norm", "drain+dynamic_norm"),
            ("dynamic_norm", "dynamic_norm+not_responding"),
            ("joined", ""),
            ("joined", "(null)"),
            ("|up|", "|what|"),
            ("|2|", "|2+|"),
            ("compute-0", "compute-1"),
            ("|24.11.5|", "|"),
        ] {
            let shown = WELL.replace(part, other);
            assert!(shown != WELL && seen(&shown).is_none(), "{shown}");
        }
        assert_eq!((seen(""), seen("\n"), seen(&WELL.repeat(2))), (None, None, None));
    }

    #[test]
    fn no_value_poses_as_another() {
        for comment in ["a|b", "a|\n", "joined|\ncompute-0|idle|compute|up|x|1|1|a|h|1|(null)|1|joined", "a\nb"] {
            assert_eq!(seen(&WELL.replace("joined", comment)), None, "{comment:?}");
            assert_eq!(seen(&WELL.replace("fast", comment)), None, "{comment:?}");
        }
    }
}
