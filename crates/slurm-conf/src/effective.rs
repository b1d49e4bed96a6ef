//! What a slurm.conf says in effect: `DEFAULT` lines and included files are applied, the way Slurm's own reader does
//! it.
//!
//! For questions only. A file is edited as a [`SlurmConf`].

use crate::document::SlurmConf;
use crate::index::plain_count;
use crate::lexer::Content;
use crate::record::{RecordKind, record_of};
use std::collections::BTreeMap;

/// Slurm itself has no limit, and dies of a file that includes itself.
const DEEPEST: usize = 16;
const MOST_FILES: usize = 256;

/// Keys in lower case, each with its value without quotes.
type Options = BTreeMap<String, String>;

/// The plain keys and the partitions of a slurm.conf and of all files that it includes.
///
/// ```
/// use slurm_conf::{EffectiveConf, SlurmConf};
///
/// let conf = SlurmConf::parse("PartitionName=DEFAULT State=DRAIN\nInclude more.conf\n")?;
/// let text_of = |path: &str| (path == "more.conf").then(|| "PartitionName=night \\\n Nodes=\"ALL\"\n".to_owned());
/// let effective = EffectiveConf::read(&conf, text_of);
/// assert_eq!(effective.partition("night", "nodes"), Some("ALL"));
/// assert_eq!(effective.partition("night", "State"), Some("DRAIN"));
/// # Ok::<(), slurm_conf::ParseError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EffectiveConf {
    settings: Options,
    partitions: BTreeMap<String, Options>,
    defaults: Options,
    unread: Vec<String>,
    files: usize,
}

impl EffectiveConf {
    /// Reads a slurm.conf that includes nothing, or whose included files do not matter.
    pub fn of(conf: &SlurmConf) -> Self {
        Self::read(conf, |_| None)
    }

    /// Reads a slurm.conf and the files that it includes. `text_of` returns the text of a file, or `None` if there is
    /// no such file; a path that does not begin with `/` starts in the directory of slurm.conf.
    ///
    /// A file that is not there or that cannot be parsed is left out and noted in [`EffectiveConf::unread`].
    pub fn read(conf: &SlurmConf, mut text_of: impl FnMut(&str) -> Option<String>) -> Self {
        let mut effective = Self::default();
        effective.take(conf, "", 0, &mut text_of);
        effective
    }

    /// Returns the value of a plain key, in any letter case.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.get(&key.to_ascii_lowercase()).map(String::as_str)
    }

    /// Returns the names of the partitions.
    pub fn partitions(&self) -> impl Iterator<Item = &str> {
        self.partitions.keys().map(String::as_str)
    }

    /// Tells whether there is such a partition.
    pub fn has_partition(&self, name: &str) -> bool {
        self.partitions.contains_key(name)
    }

    /// Returns an option of a partition, in any letter case: its own, or that of the `DEFAULT` lines above it.
    pub fn partition(&self, name: &str, key: &str) -> Option<&str> {
        self.partitions.get(name)?.get(&key.to_ascii_lowercase()).map(String::as_str)
    }

    /// Returns the included files that could not be read.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// Takes in one file. `directory` is where it stands, with a slash behind it; empty for that of slurm.conf.
    fn take(
        &mut self,
        conf: &SlurmConf,
        directory: &str,
        depth: usize,
        text_of: &mut impl FnMut(&str) -> Option<String>,
    ) {
        for line in conf.living() {
            if let Content::Include(path) = &line.content {
                self.include(path, directory, depth, text_of);
            }
            for pair in &line.pairs()[..plain_count(line)] {
                self.settings.insert(line.key(pair).to_ascii_lowercase(), line.value(pair).to_owned());
            }
            let Some(record) = record_of(line).filter(|record| record.kind() == RecordKind::Partition) else {
                continue;
            };
            let options = record.options().map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned()));
            if record.name().eq_ignore_ascii_case("DEFAULT") {
                self.defaults.extend(options);
            } else {
                let partition = self.partitions.entry(record.name().to_owned());
                partition.or_insert_with(|| self.defaults.clone()).extend(options);
            }
        }
    }

    fn include(&mut self, path: &str, directory: &str, depth: usize, text_of: &mut impl FnMut(&str) -> Option<String>) {
        // Slurm writes the name of the cluster in lower case here, as far as it has been read by then.
        let cluster = self.get("ClusterName").unwrap_or_default().to_ascii_lowercase();
        let path = path.replace("%c", &cluster);
        let path = if path.starts_with('/') { path } else { format!("{directory}{path}") };
        self.files += 1;
        let text = if depth < DEEPEST && self.files <= MOST_FILES { text_of(&path) } else { None };
        match text.and_then(|text| SlurmConf::parse(&text).ok()) {
            Some(conf) => {
                let directory = path.rfind('/').map_or("", |slash| &path[..=slash]);
                self.take(&conf, directory, depth + 1, text_of);
            }
            None => self.unread.push(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effective(text: &str, files: &[(&str, &str)]) -> EffectiveConf {
        let text_of = |path: &str| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        EffectiveConf::read(&SlurmConf::parse(text).unwrap(), text_of)
    }

    #[test]
    fn a_continued_line_belongs_to_its_partition() {
        let conf = effective("PartitionName=a Nodes=x \\\n  State=DOWN \\ # why\n  MaxTime=5\nKillWait=3\n", &[]);
        assert_eq!(conf.partition("a", "state"), Some("DOWN"));
        assert_eq!(conf.partition("a", "MAXTIME"), Some("5"));
        assert_eq!((conf.get("State"), conf.get("killwait")), (None, Some("3")));
    }

    #[test]
    fn quotes_are_no_part_of_a_value() {
        let conf = effective("partitionname=\"a\" AllowGroups=\"x y\" state = \"DOWN\"\n", &[]);
        assert_eq!(conf.partition("a", "AllowGroups"), Some("x y"));
        assert_eq!(conf.partition("a", "State"), Some("DOWN"));
    }

    #[test]
    fn default_lines_count_for_what_follows_them() {
        let text = "PartitionName=a\npartitionname=Default State=DRAIN MaxTime=9\nPartitionName=b maxtime=5\n\
                    PartitionName=DEFAULT State=UP\nPartitionName=c\n";
        let conf = effective(text, &[]);
        let of = |name| (conf.partition(name, "State"), conf.partition(name, "MaxTime"));
        assert_eq!(of("a"), (None, None));
        assert_eq!(of("b"), (Some("DRAIN"), Some("5")));
        assert_eq!(of("c"), (Some("UP"), Some("9")));
        assert_eq!(conf.partitions().collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn an_included_file_stands_where_it_is_included() {
        let text = "PartitionName=DEFAULT MaxTime=1\nInclude more.conf\nPartitionName=z\nKillWait=3\n";
        let conf = effective(text, &[("more.conf", "PartitionName=a\nPartitionName=DEFAULT MaxTime=2\nKillWait=9\n")]);
        assert_eq!(conf.partition("a", "MaxTime"), Some("1"));
        assert_eq!(conf.partition("z", "MaxTime"), Some("2"));
        assert_eq!(conf.get("KillWait"), Some("3"));
        assert!(conf.unread().is_empty());
    }

    #[test]
    fn included_files_include_others_from_their_own_directory() {
        let files = [
            ("sub/a.conf", "Include b.conf\nInclude /opt/lab/c.conf\n"),
            ("sub/b.conf", "PartitionName=b\n"),
            ("/opt/lab/c.conf", "include d.conf\n"),
            ("/opt/lab/d.conf", "PartitionName=d\n"),
        ];
        let conf = effective("Include sub/a.conf\n", &files);
        assert_eq!(conf.partitions().collect::<Vec<_>>(), ["b", "d"]);
    }

    #[test]
    fn the_name_of_the_cluster_can_be_in_the_name_of_a_file() {
        let conf = effective("ClusterName=Lab\nInclude %c.conf\n", &[("lab.conf", "PartitionName=a\n")]);
        assert!(conf.has_partition("a"));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_noted() {
        let conf = effective("Include a.conf\nInclude b.conf\nPartitionName=p\n", &[("b.conf", "no file of Slurm\n")]);
        assert_eq!(conf.unread(), ["a.conf", "b.conf"]);
        assert!(conf.has_partition("p"));
    }

    #[test]
    fn a_file_that_includes_itself_ends() {
        let conf = effective("Include a.conf\n", &[("a.conf", "PartitionName=a\nInclude a.conf\nInclude a.conf\n")]);
        assert!(conf.has_partition("a") && !conf.unread().is_empty());
    }
}
