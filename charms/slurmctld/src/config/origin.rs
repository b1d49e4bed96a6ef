//! Where a line of slurm.conf comes from.

use super::managed_keys::{PARAMETERS, defaults_of_charm, is_header};
use crate::names;
use crate::options::OWNED_KEYS;
use slurm_conf::{LineKind, RecordKind, SlurmConf};
use std::collections::BTreeSet;

/// Whoever answers for a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineOrigin {
    Charm,
    Option(&'static str),
    /// Not in effect: a parameter says otherwise.
    Outweighed,
    /// A related application.
    Application(String),
    /// An application that is related no more; its partition waits for its jobs.
    Former(String),
    /// An administrator.
    Hand,
}

/// Says who answers for a line that was read on its own.
pub fn origin(kind: LineKind, line: &SlurmConf, applications: &BTreeSet<String>) -> LineOrigin {
    if is_header(&line.render()) {
        return LineOrigin::Charm;
    }
    match kind {
        LineKind::Parameter => return LineOrigin::Option(names::OPTION_PARAMETERS),
        LineKind::Outweighed => return LineOrigin::Outweighed,
        LineKind::Below => {}
    }
    for kind in [RecordKind::Partition, RecordKind::NodeSet] {
        if let Some(record) = line.records(kind).next() {
            let name = record.name().to_owned();
            let related = applications.contains(&name);
            return if related { LineOrigin::Application(name) } else { LineOrigin::Former(name) };
        }
    }
    let owned = |key: &str| OWNED_KEYS.iter().any(|own| own.eq_ignore_ascii_case(key));
    match line.settings().next() {
        Some((key, _)) if owned(key) || key.eq_ignore_ascii_case("SlurmctldHost") => LineOrigin::Charm,
        Some((key, value)) if key.eq_ignore_ascii_case(PARAMETERS) && value == "enable_configless" => LineOrigin::Charm,
        Some((key, value)) => {
            let same = |(own, default): (&str, &str)| own.eq_ignore_ascii_case(key) && default == value;
            if defaults_of_charm().any(same) { LineOrigin::Charm } else { LineOrigin::Hand }
        }
        None => LineOrigin::Hand,
    }
}
