//! The options of a dynamic slurmd, in the two forms in which they exist: a line of `/etc/default/slurmd` and the
//! command line of a running daemon. Pure.
//!
//! systemd splits the variable into words and honours quotes; the value of `--conf` is put in single quotes, because
//! it may hold double ones. A [`Node`] cannot hold a single quote or a backslash, so there is nothing to escape.

use crate::defaults;
use slurm_conf::{ControllerAddress, Node, NodeName};

const VARIABLE: &str = "SLURMD_OPTIONS";

/// How a dynamic node starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlurmdOptions {
    /// Name of the node in Slurm.
    pub name: NodeName,
    /// What the node says about itself when it first registers.
    pub conf: Node,
    /// Where to fetch the configuration: the first that answers.
    pub controllers: Vec<ControllerAddress>,
}

impl SlurmdOptions {
    /// Returns the arguments, one word each.
    pub fn arguments(&self) -> Vec<String> {
        let controllers: Vec<String> = self.controllers.iter().map(ToString::to_string).collect();
        let words =
            ["-Z", "-N", self.name.as_str(), "--conf", &self.conf.render(), "--conf-server", &controllers.join(",")];
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Reads the arguments of a daemon. `None`: it was not started as a dynamic node of ours.
    pub fn from_arguments<S: AsRef<str>>(arguments: &[S]) -> Option<Self> {
        let (mut name, mut conf, mut controllers, mut dynamic) = (None, Node::new(), None, false);
        let mut words = arguments.iter().map(AsRef::as_ref);
        while let Some(word) = words.next() {
            // Long options come as `--key value` or `--key=value`.
            let (key, mut attached) = match word.split_once('=') {
                Some((key, value)) if key.starts_with("--") => (key, Some(value)),
                _ => (word, None),
            };
            let mut value = || attached.take().or_else(|| words.next());
            match key {
                "-Z" => dynamic = true,
                "-N" => name = Some(NodeName::new(value()?).ok()?),
                "--conf" => conf = Node::from_config(value()?).ok()?,
                "--conf-server" => {
                    let list: Result<Vec<ControllerAddress>, _> = value()?.split(',').map(str::parse).collect();
                    controllers = Some(list.ok()?);
                }
                _ => {}
            }
        }
        dynamic.then_some(Self { name: name?, conf, controllers: controllers? })
    }

    fn render(&self) -> String {
        let words: Vec<String> = self
            .arguments()
            .into_iter()
            .map(|word| if word.contains([' ', '"']) { format!("'{word}'") } else { word })
            .collect();
        words.join(" ")
    }
}

/// Returns the environment file with `options` in it. Every other line stays as it is.
pub fn render_defaults(present: &str, options: &SlurmdOptions) -> String {
    defaults::with(present, VARIABLE, &options.render())
}

/// Returns the environment file without options. Every other line stays as it is.
pub(super) fn without_options(present: &str) -> String {
    defaults::without(present, VARIABLE)
}

/// Reads the options from the environment file. `None`: they are not set, or not those of a dynamic node.
pub fn parse_defaults(text: &str) -> Option<SlurmdOptions> {
    SlurmdOptions::from_arguments(&defaults::words(text, VARIABLE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGED: &str = "# Additional options that are passed to the slurmd daemon\n#SLURMD_OPTIONS=\"\"\n";

    fn sample() -> SlurmdOptions {
        SlurmdOptions {
            name: NodeName::new("compute-0").unwrap(),
            conf: Node::from_config("CPUs=2 RealMemory=900 Feature=compute").unwrap(),
            controllers: vec!["c1:6817".parse().unwrap(), "c2:6817".parse().unwrap()],
        }
    }

    #[test]
    fn the_packaged_comments_stay() {
        let expected = "SLURMD_OPTIONS=-Z -N compute-0 --conf 'CPUs=2 RealMemory=900 Feature=compute' --conf-server c1:6817,c2:6817\n";
        let text = render_defaults(PACKAGED, &sample());
        assert_eq!(text, format!("{PACKAGED}{expected}"));
        assert_eq!(render_defaults(&text, &sample()), text);
        assert_eq!(parse_defaults(&text), Some(sample()));
    }

    #[test]
    fn a_set_variable_is_replaced_where_it_stands() {
        let text = render_defaults("A=1\n SLURMD_OPTIONS=-v\nB=2\nSLURMD_OPTIONS=\"-x\"", &sample());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0], lines[2]), (3, "A=1", "B=2"));
        assert_eq!(parse_defaults(&text), Some(sample()));
    }

    #[test]
    fn the_options_go_and_the_rest_stays() {
        assert_eq!(without_options(&render_defaults(PACKAGED, &sample())), PACKAGED);
    }

    #[test]
    fn a_reason_with_blanks_is_quoted_twice() {
        let mut options = sample();
        options.conf = Node::from_config("Feature=compute State=DRAIN Reason=\"not ready yet\"").unwrap();
        let text = render_defaults("", &options);
        assert!(text.contains("--conf 'Feature=compute State=DRAIN Reason=\"not ready yet\"' --conf-server"), "{text}");
        assert_eq!(parse_defaults(&text), Some(options));
    }

    #[test]
    fn the_forms_that_systemd_treats_alike_are_read_alike() {
        for text in [
            "SLURMD_OPTIONS=-Z -N n1 --conf \"Feature=compute RealMemory=900\" --conf-server c1:6817,c2:6817",
            "SLURMD_OPTIONS='-Z -N n1 --conf \"Feature=compute RealMemory=900\" --conf-server c1:6817,c2:6817'",
            "SLURMD_OPTIONS=--conf 'feature=compute realmemory=900' -Z -N n1 --conf-server=c1,c2",
        ] {
            let options = parse_defaults(text).unwrap();
            assert_eq!(options.conf.render(), "Feature=compute RealMemory=900");
            assert_eq!(options.controllers.len(), 2);
        }
    }

    #[test]
    fn a_running_daemon_is_compared_by_its_arguments() {
        let mut line = vec!["/usr/sbin/slurmd".to_owned(), "--systemd".to_owned()];
        line.extend(sample().arguments());
        assert_eq!(SlurmdOptions::from_arguments(&line), Some(sample()));
        assert_eq!(SlurmdOptions::from_arguments(&line[..2]), None);
    }

    #[test]
    fn what_is_not_ours_is_none() {
        for text in [
            "",
            PACKAGED,
            "SLURMD_OPTIONS=",
            "SLURMD_OPTIONS=-Z -N",
            "SLURMD_OPTIONS=-Z -N n1 --conf 'x",
            "SLURMD_OPTIONS=-N n1 --conf-server c1",
        ] {
            assert_eq!(parse_defaults(text), None, "{text:?}");
        }
    }
}
