//! cgroup.conf: how Slurm confines jobs. Plain keys only; every byte that is not edited stays.

use crate::document::SlurmConf;
use crate::error::ParseError;
use crate::parameters::{ParameterError, Parameters};
use crate::setting::CGROUP;

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupConf {
    file: SlurmConf,
}

impl CgroupConf {
    /// Reads a file.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        Ok(Self { file: SlurmConf::parse(source)? })
    }

    /// Reads what an operator wants to have in the file. A key that is not known is a doubt of the result, not an
    /// error.
    pub fn parameters(text: &str) -> Result<Parameters, ParameterError> {
        Parameters::read(text, &[], &CGROUP)
    }

    /// Returns the text of the file.
    pub fn render(&self) -> String {
        self.file.render()
    }

    /// Sets every key of `parameters`, each in place if the file has it.
    pub fn merge(&mut self, parameters: &Parameters) {
        for (key, value) in parameters.iter() {
            let set = self.file.set(key, value);
            debug_assert!(set.is_ok(), "invariant: parameters were checked when they were read");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_would_refuse_is_refused() {
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
