//! cgroup.conf: how Slurm confines jobs. Plain keys only; every byte that is not edited stays.

use crate::document::SlurmConf;
use crate::error::{ParseError, ValueError, excerpt};
use crate::parameters::{ParameterError, Parameters};
use crate::setting::{Setting, SettingKind};
use std::fmt;

/// Every key of cgroup.conf in Slurm 24.11 and 26.05.
const KEYS: &[Setting] = &[
    key("AllowedRAMSpace", SettingKind::Percent),
    key("AllowedSwapSpace", SettingKind::Percent),
    // Both daemons still start with it.
    key("CgroupAutomount", SettingKind::Text),
    key("CgroupMountpoint", SettingKind::Text),
    key("CgroupPlugin", SettingKind::Text),
    key("CgroupSlice", SettingKind::Text),
    key("ConstrainCores", SettingKind::Boolean),
    key("ConstrainDevices", SettingKind::Boolean),
    key("ConstrainRAMSpace", SettingKind::Boolean),
    key("ConstrainSwapSpace", SettingKind::Boolean),
    key("EnableControllers", SettingKind::Boolean),
    key("EnableExtraControllers", SettingKind::Text),
    key("IgnoreSystemd", SettingKind::Boolean),
    key("IgnoreSystemdOnFailure", SettingKind::Boolean),
    key("MaxRAMPercent", SettingKind::Percent),
    key("MaxSwapPercent", SettingKind::Percent),
    key("MemorySwappiness", SettingKind::Number(u64::MAX)),
    key("MinRAMSpace", SettingKind::Number(u64::MAX)),
    key("SignalChildrenProcesses", SettingKind::Boolean),
    key("SystemdTimeout", SettingKind::Number(u64::MAX)),
];

const fn key(name: &'static str, kind: SettingKind) -> Setting {
    Setting { name, kind }
}

/// A cgroup.conf. Rendering what was parsed gives the same bytes.
///
/// ```
/// use slurm_conf::CgroupConf;
///
/// let mut conf = CgroupConf::parse("# confine\nConstrainCores=yes\n")?;
/// conf.merge(&CgroupConf::parameters("constraincores=no\nConstrainDevices=yes")?);
/// assert_eq!(conf.render(), "# confine\nConstrainCores=no\nConstrainDevices=yes\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CgroupConf {
    file: SlurmConf,
}

impl CgroupConf {
    /// Returns an empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        Ok(Self { file: SlurmConf::parse(source)? })
    }

    /// Reads what an operator wants to have in the file. A key that is not known is a doubt of the result, not an error.
    pub fn parameters(text: &str) -> Result<Parameters, ParameterError> {
        Parameters::read(text, &[], KEYS)
    }

    /// Returns the text of the file.
    pub fn render(&self) -> String {
        self.file.render()
    }

    /// Returns the value of a key, in any letter case.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.file.get(key)
    }

    /// Returns every key with its value, in the order of the file.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str)> {
        self.file.settings()
    }

    /// Sets a key. Tells whether that changed anything.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, ValueError> {
        let known = KEYS.iter().find(|known| known.name.eq_ignore_ascii_case(key));
        if known.is_some_and(|known| known.expected(value).is_some()) {
            let problem = "not a value that Slurm reads";
            return Err(ValueError::Value { key: excerpt(key), value: excerpt(value), problem });
        }
        self.file.set(key, value)
    }

    /// Removes a key. Tells whether it was there.
    pub fn remove(&mut self, key: &str) -> bool {
        self.file.remove(key)
    }

    /// Sets every key of `parameters`. Tells whether that changed anything.
    pub fn merge(&mut self, parameters: &Parameters) -> bool {
        self.file.merge(parameters)
    }
}

impl fmt::Display for CgroupConf {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_edited_in_place() {
        let mut conf = CgroupConf::parse("ConstrainCores=yes # all\n").unwrap();
        assert_eq!(conf.set("constraincores", "no"), Ok(true));
        assert_eq!(conf.set("CgroupPlugin", "disabled"), Ok(true));
        assert_eq!(conf.to_string(), "ConstrainCores=no # all\nCgroupPlugin=disabled\n");
        assert!(conf.remove("cgroupplugin"));
        assert_eq!(conf.settings().collect::<Vec<_>>(), [("ConstrainCores", "no")]);
    }

    #[test]
    fn what_slurm_would_refuse_is_refused() {
        let mut conf = CgroupConf::new();
        assert!(conf.set("ConstrainCores", "maybe").is_err());
        assert!(conf.set("CgroupPlugin", "a\nb").is_err());
        let error = CgroupConf::parameters("\nConstrainCores=maybe").unwrap_err();
        assert_eq!(error.to_string(), "line 2: value `maybe` of ConstrainCores: expected YES or NO");
        assert!(CgroupConf::parameters("Include /etc/passwd").is_err());
    }

    #[test]
    fn an_unknown_key_is_a_doubt() {
        let parameters = CgroupConf::parameters("ConstrainCore=yes").unwrap();
        assert_eq!(parameters.doubts()[0].nearest, Some("ConstrainCores"));
    }
}
