//! Versions of Slurm, and which slurmd may talk to which slurmctld.
//!
//! ```
//! use slurm_ops::SlurmVersion;
//!
//! let (slurmd, slurmctld): (SlurmVersion, SlurmVersion) = ("26.05.1-2".parse()?, "slurm-wlm 24.11.5".parse()?);
//! assert!(slurmd.is_too_new_for(slurmctld));
//! # Ok::<(), slurm_ops::version::NoVersion>(())
//! ```

use std::fmt;
use std::str::FromStr;

/// A version of Slurm, such as `24.11.5`. What a distribution adds is not part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlurmVersion {
    year: u16,
    month: u16,
    patch: u16,
}

/// A text that names no version of Slurm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a version of Slurm as in `24.11.5`, found `{found}`")]
pub struct NoVersion {
    found: String,
}

impl SlurmVersion {
    /// The oldest Slurm that is tried out and works. `slurm.jwks` came with 24.05, the JSON that is asked for with
    /// 24.11; before 23.11 there was no `auth/slurm` at all.
    pub const OLDEST: Self = Self { year: 24, month: 11, patch: 0 };

    /// Tells whether this Slurm lacks what is needed.
    pub fn is_too_old(self) -> bool {
        self < Self::OLDEST
    }

    /// Returns the release without the patch: `24.11`.
    pub fn release(self) -> String {
        format!("{}.{:02}", self.year, self.month)
    }

    /// Tells whether a slurmd of this version is too new for a slurmctld of version `controller`: of a later release.
    /// Slurm lets a daemon talk to a newer controller, never to an older one; within a release any mix is fine.
    pub fn is_too_new_for(self, controller: Self) -> bool {
        (self.year, self.month) > (controller.year, controller.month)
    }
}

impl FromStr for SlurmVersion {
    type Err = NoVersion;

    /// Takes `24.11.5`, `slurm-wlm 24.11.5` and versions of packages such as `24.11.5-4`.
    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let version = || {
            let word = text.trim().rsplit(' ').next()?;
            let word = word.split_once(':').map_or(word, |(_, rest)| rest);
            let mut numbers = word.split(['.', '-', '+', '~']).map(str::parse);
            let (year, month) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
            let patch = numbers.next().and_then(Result::ok).unwrap_or(0);
            Some(Self { year, month, patch })
        };
        version().ok_or_else(|| NoVersion { found: text.escape_debug().take(80).collect() })
    }
}

impl fmt::Display for SlurmVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:02}.{}", self.year, self.month, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> SlurmVersion {
        text.parse().unwrap()
    }

    #[test]
    fn all_forms_are_one() {
        for text in ["24.11.5", "slurm-wlm 24.11.5\n", "slurm 24.11.5", "24.11.5-4", "1:24.11.5-0ubuntu1"] {
            assert_eq!(version(text).to_string(), "24.11.5", "{text}");
        }
        assert_eq!(version("26.05.0-0rc1").to_string(), "26.05.0");
        for text in ["", "slurm", "x.y.z", "24", "99999999.1.1"] {
            assert!(text.parse::<SlurmVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn whatever_lacks_something_is_too_old() {
        for text in ["22.05.8-4+deb12u3", "23.11.4-1.2ubuntu5", "24.05.8"] {
            assert!(version(text).is_too_old(), "{text}");
        }
        for text in ["24.11.0", "24.11.5-4", "25.11.2-1ubuntu2", "26.05.5-1"] {
            assert!(!version(text).is_too_old(), "{text}");
        }
        assert_eq!(
            (version("25.05.3").release().as_str(), SlurmVersion::OLDEST.release().as_str()),
            ("25.05", "24.11")
        );
    }

    #[test]
    fn a_daemon_of_a_later_release_is_too_new() {
        assert!(version("26.05.0").is_too_new_for(version("24.11.5")));
        assert!(version("25.05.1").is_too_new_for(version("24.11.5")));
        assert!(!version("24.11.7").is_too_new_for(version("24.11.5")));
        assert!(!version("24.11.5").is_too_new_for(version("26.05.5")));
        assert!(version("24.11.10") > version("24.11.9"));
    }
}
