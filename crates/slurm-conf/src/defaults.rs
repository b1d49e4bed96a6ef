//! `DEFAULT` records: `NodeName=DEFAULT …` and `PartitionName=DEFAULT …` give options to every record behind them.

use crate::document::SlurmConf;
use crate::hostlist::HostList;
use crate::record::{Record, RecordKind};

impl SlurmConf {
    /// Returns what holds for one node or partition: its own options, and those of the `DEFAULT` lines above it.
    ///
    /// The name of a node may stand in a host list. Keys come as they were written, each once; `None` if there is no such record.
    ///
    /// ```
    /// let conf = slurm_conf::SlurmConf::parse("NodeName=DEFAULT CPUs=8 Weight=1\nNodeName=n[1-4] weight=7\n")?;
    /// let node = conf.effective(slurm_conf::RecordKind::Node, "n3").expect("n3 is in the list");
    /// assert_eq!(node, [("CPUs", "8"), ("weight", "7")]);
    /// # Ok::<(), slurm_conf::ParseError>(())
    /// ```
    pub fn effective(&self, kind: RecordKind, name: &str) -> Option<Vec<(&str, &str)>> {
        let mut defaults: Vec<(&str, &str)> = Vec::new();
        for record in self.records(kind) {
            if is_default(&record) {
                overlay(&mut defaults, &record);
            } else if names(&record, name) {
                overlay(&mut defaults, &record);
                return Some(defaults);
            }
        }
        None
    }
}

/// Tells whether a record gives options to those behind it instead of being one.
pub(crate) fn is_default(record: &Record<'_>) -> bool {
    record.name().eq_ignore_ascii_case("DEFAULT")
}

fn names(record: &Record<'_>, name: &str) -> bool {
    record.name() == name || record.name().parse::<HostList>().is_ok_and(|list| list.contains(name))
}

fn overlay<'conf>(options: &mut Vec<(&'conf str, &'conf str)>, record: &Record<'conf>) {
    for (key, value) in record.options() {
        match options.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(key)) {
            Some(slot) => *slot = (key, value),
            None => options.push((key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_hold_for_what_stands_behind_them() {
        let text = "PartitionName=a Nodes=x\nPartitionName=DEFAULT State=UP MaxTime=60\nPartitionName=b Nodes=x maxtime=5\n\
                    PartitionName=default State=DOWN\nPartitionName=c Nodes=x\n";
        let conf = SlurmConf::parse(text).unwrap();
        let effective = |name| conf.effective(RecordKind::Partition, name).unwrap();
        assert_eq!(effective("a"), [("Nodes", "x")]);
        assert_eq!(effective("b"), [("State", "UP"), ("maxtime", "5"), ("Nodes", "x")]);
        assert_eq!(effective("c"), [("State", "DOWN"), ("MaxTime", "60"), ("Nodes", "x")]);
        assert_eq!(conf.effective(RecordKind::Partition, "d"), None);
        assert_eq!(conf.effective(RecordKind::Node, "a"), None);
    }
}
