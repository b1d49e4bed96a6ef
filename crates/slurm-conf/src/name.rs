//! Names as types. Whoever holds one of these knows that it is a single harmless word: no blank, no quote, no line
//! break, no path separator, never `.` or `..`.

use crate::error::{NameError, excerpt};
use std::fmt;
use std::str::FromStr;

macro_rules! name_type {
    ($(#[$documentation:meta])* $type:ident, $kind:literal, $expected:literal, $check:expr) => {
        $(#[$documentation])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(String);

        impl $type {
            /// Checks `name` and wraps it.
            pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
                let name = name.into();
                let check: fn(&str) -> bool = $check;
                if check(&name) {
                    Ok(Self(name))
                } else {
                    Err(NameError { kind: $kind, name: excerpt(&name), expected: $expected })
                }
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }
    };
}

name_type!(
    /// Name of a partition, and of the node set and feature that go with it: the application name of the compute charm.
    PartitionName,
    "partition name",
    "a letter or digit, then letters, digits, `_`, `-`, `.`, at most 64 in all, and not DEFAULT or ALL",
    |name| is_word(name, 64, b"_-.") && !is_special(name)
);

name_type!(
    /// Name of a compute node in Slurm, such as `compute-0`.
    NodeName,
    "node name",
    "a letter or digit, then letters, digits, `_`, `-`, `.`, at most 64 in all, and not DEFAULT or ALL",
    |name| is_word(name, 64, b"_-.") && !is_special(name)
);

name_type!(
    /// Name of the cluster; the state directory is tied to it.
    ClusterName,
    "cluster name",
    "a letter or digit, then letters, digits, `_`, `-`, `.`, at most 40 in all",
    |name| is_word(name, 40, b"_-.")
);

name_type!(
    /// Host name of a machine, short or fully qualified. Also holds an IPv4 address.
    HostName,
    "host name",
    "letters, digits, `-` and `.`, beginning with a letter or digit, at most 253 in all",
    |name| is_word(name, 253, b"-.") && !name.contains("..") && !name.ends_with(['-', '.'])
);

impl HostName {
    /// Returns the part before the first dot: what Slurm compares `SlurmctldHost` with.
    pub fn short(&self) -> HostName {
        HostName(self.0.split('.').next().unwrap_or(&self.0).to_owned())
    }
}

impl NodeName {
    /// Returns the node name of a unit: `compute/0` is the node `compute-0`.
    pub fn from_unit(unit: &str) -> Result<Self, NameError> {
        let well_formed = unit.split_once('/').is_some_and(|(application, number)| {
            !application.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        if !well_formed {
            return Err(NameError {
                kind: "unit name",
                name: excerpt(unit),
                expected: "an application name, `/` and a number",
            });
        }
        Self::new(unit.replace('/', "-"))
    }
}

fn is_word(name: &str, longest: usize, also: &[u8]) -> bool {
    name.len() <= longest
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || also.contains(&byte))
}

/// `DEFAULT` changes every later record and `ALL` means every node: Slurm compares both without regard to case.
fn is_special(name: &str) -> bool {
    name.eq_ignore_ascii_case("DEFAULT") || name.eq_ignore_ascii_case("ALL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn application_and_host_names_are_accepted() {
        for name in ["compute", "gpu-a100", "c1", "0x"] {
            assert_eq!(PartitionName::new(name).unwrap().as_str(), name);
        }
        assert_eq!(HostName::new("juju-c9fc6f-1.lxd").unwrap().short().as_str(), "juju-c9fc6f-1");
        assert_eq!(ClusterName::new("charmed-hpc-aB3_").unwrap().as_str(), "charmed-hpc-aB3_");
    }

    #[test]
    fn what_could_leave_its_place_is_refused() {
        for name in [
            "", " ", ".", "..", "../x", "a/b", "a b", "a\nb", "a\"b", "a'b", "a#b", "a=b", "a,b", "a[1-2]", "-a", "ä",
            "a\0", "DEFAULT", "all",
        ] {
            assert!(PartitionName::new(name).is_err(), "{name:?}");
            assert!(NodeName::new(name).is_err(), "{name:?}");
        }
        for name in ["", "a_b", "a..b", "a-", "a:1", "-x", "a b", "a\n"] {
            assert!(HostName::new(name).is_err(), "{name:?}");
        }
        assert!(ClusterName::new("a".repeat(41)).is_err());
    }

    #[test]
    fn a_unit_name_becomes_a_node_name() {
        assert_eq!(NodeName::from_unit("compute/12").unwrap().as_str(), "compute-12");
        for unit in ["compute", "compute/", "/1", "compute/1/2", "compute/x"] {
            assert!(NodeName::from_unit(unit).is_err(), "{unit:?}");
        }
    }

    #[test]
    fn a_refusal_shows_the_name_on_one_line() {
        let error = PartitionName::new("a\nb").unwrap_err();
        assert!(error.to_string().starts_with("`a\\nb` is not a partition name: expected"));
    }
}
