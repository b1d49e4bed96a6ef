//! What slurmctld runs with, as far as it is a matter of slurm.conf.

use super::{ScontrolError, refusal, scontrol, unreachable};
use crate::machine::Host;
use std::collections::BTreeMap;

/// The settings of the running slurmctld, those that no file names included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ControllerSettings(BTreeMap<String, String>);

impl ControllerSettings {
    /// Reads what `scontrol show config` prints.
    pub fn from_shown(text: &str) -> Self {
        let pair = |line: &str| {
            let (key, value) = line.split_once('=')?;
            Some((key.trim().to_ascii_lowercase(), value.trim().to_owned()))
        };
        Self(text.lines().filter_map(pair).collect())
    }

    /// Returns a setting. `None`: it is not set.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .get(&key.to_ascii_lowercase())
            .map(String::as_str)
            .filter(|value| !value.is_empty() && *value != "(null)")
    }
}

impl ControllerSettings {
    /// Tells whether a list has a member: Slurm shows `Prolog` as `Prolog[0]`.
    pub fn has_any(&self, key: &str) -> bool {
        let member = format!("{}[", key.to_ascii_lowercase());
        self.get(key).is_some() || self.0.keys().any(|own| own.starts_with(&member) && self.get(own).is_some())
    }
}

/// Asks slurmctld what it runs with.
pub fn settings(host: &Host) -> Result<ControllerSettings, ScontrolError> {
    let command = scontrol(host).args(["show", "config"]);
    let output = command.output().map_err(|error| unreachable(&error))?;
    if output.success() { Ok(ControllerSettings::from_shown(&output.stdout)) } else { Err(refusal(&command, &output)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_whatever_its_case_and_null_is_none() {
        let text = "Configuration data as of 2026-11-17T15:18:49\nRebootProgram           = /usr/sbin/reboot\n\
            ResumeTimeout           = 60 sec\nPrologFlags             = (null)\n\n\
            Slurmctld(primary) at juju-31b530-0 is UP\n";
        let settings = ControllerSettings::from_shown(text);
        assert_eq!(settings.get("rebootprogram"), Some("/usr/sbin/reboot"));
        assert_eq!(settings.get("ResumeTimeout"), Some("60 sec"));
        assert_eq!((settings.get("PrologFlags"), settings.get("Prolog")), (None, None));
    }
}
