//! Files that a slurm.conf cannot do without because it names them: Slurm waits a minute for each, and serves nobody
//! meanwhile. Which files there are somebody else has to look up.

use crate::document::SlurmConf;
use std::collections::BTreeSet;

/// Plugins that do not load without a file, by key, name and the files of which one has to be there.
const NEEDS: [(&str, &str, &[&str]); 4] = [
    ("TopologyPlugin", "tree", &["topology.conf", "topology.yaml"]),
    ("TopologyPlugin", "block", &["topology.conf", "topology.yaml"]),
    ("NodeFeaturesPlugins", "helpers", &["helpers.conf"]),
    ("JobContainerType", "tmpfs", &["job_container.conf"]),
];

/// Programs that compute nodes are sent if they are given by name alone.
const SENT: [&str; 2] = ["Prolog", "Epilog"];

impl SlurmConf {
    /// Says which file is missing without which this one is of no use, given the names of those beside it.
    pub fn lacking(&self, beside: &BTreeSet<String>) -> Option<String> {
        let absolute = || {
            let path = self.includes().find(|path| path.starts_with('/'))?;
            Some(format!("Include {path}: compute nodes are sent only files that are included by name alone"))
        };
        let plugin = || {
            NEEDS.into_iter().find_map(|(key, name, files)| {
                let words = self.get(key)?.split(',').map(|word| word.trim().to_ascii_lowercase());
                let asked = words.into_iter().any(|word| word.rsplit('/').next() == Some(name));
                let missing = asked && !files.iter().any(|file| beside.contains(*file));
                missing.then(|| format!("{key}: {name} needs {}, which is not there", files[0]))
            })
        };
        let program = || {
            SENT.into_iter().find_map(|key| {
                let file = self.get(key).filter(|file| is_name(file) && !beside.contains(*file))?;
                Some(format!("{key}={file}: there is no such file beside slurm.conf"))
            })
        };
        self.missing_include(beside).or_else(absolute).or_else(plugin).or_else(program)
    }

    /// Says which `Include` names a file that is not there. No command of Slurm works with such a slurm.conf.
    pub fn missing_include(&self, beside: &BTreeSet<String>) -> Option<String> {
        let file = self.includes().find(|file| is_name(file) && !beside.contains(*file))?;
        Some(format!("Include {file}: there is no such file beside slurm.conf"))
    }
}

/// A path, a pattern or a place-holder names no file beside slurm.conf that could be looked up.
fn is_name(file: &str) -> bool {
    !file.is_empty() && !file.contains(['/', '*', '%', '?', '[', '"'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lacking(text: &str, beside: &[&str]) -> Option<String> {
        let beside = beside.iter().map(|name| (*name).to_owned()).collect();
        SlurmConf::parse(text).unwrap().lacking(&beside)
    }

    #[test]
    fn what_is_named_has_to_be_there() {
        for (text, file) in [
            ("TopologyPlugin=topology/tree\n", "topology.conf"),
            ("topologyplugin=Topology/Block\n", "topology.yaml"),
            ("NodeFeaturesPlugins=node_features/helpers\n", "helpers.conf"),
            ("JobContainerType=job_container/tmpfs\n", "job_container.conf"),
            ("Prolog=before.sh\n", "before.sh"),
            ("Epilog=after.sh\n", "after.sh"),
            ("Include more.conf\n", "more.conf"),
        ] {
            assert!(lacking(text, &[]).is_some(), "{text}");
            assert_eq!(lacking(text, &[file]), None, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_known_is_not_missing() {
        for text in
            ["TopologyPlugin=topology/default\n", "Prolog=/opt/site/before.sh\n", "Prolog=pre*\n", "KillWait=3\n"]
        {
            assert_eq!(lacking(text, &[]), None, "{text}");
        }
    }

    #[test]
    fn an_absolute_include_reaches_no_compute_node() {
        let why = lacking("Include /etc/slurm/more.conf\n", &["more.conf"]).unwrap();
        assert!(why.starts_with("Include /etc/slurm/more.conf: "), "{why}");
    }
}
