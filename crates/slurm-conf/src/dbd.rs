//! slurmdbd.conf: plain keys only, written anew each time.

use crate::document::SlurmConf;
use crate::error::ValueError;
use crate::parameters::{ParameterError, Parameters};
use crate::setting::DBD;

/// A slurmdbd.conf under construction. It holds a password, so it prints nothing of itself.
///
/// ```
/// use slurm_conf::DbdConf;
///
/// let mut conf = DbdConf::new("# ours\n");
/// conf.set("DbdHost", "d1").expect("a plain value");
/// conf.merge(&DbdConf::parameters("PurgeJobAfter=12months", &["DbdHost"])?);
/// assert_eq!(conf.render(), "# ours\nDbdHost=d1\nPurgeJobAfter=12months\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct DbdConf {
    file: SlurmConf,
}

impl DbdConf {
    /// Begins a file with comments.
    pub fn new(header: &str) -> Self {
        Self { file: SlurmConf::parse(header).expect("invariant: comments parse") }
    }

    /// Reads what an operator wants to have in the file. `owned` are the keys that the charm sets itself, in any letter
    /// case. A key that is not known is a doubt of the result, not an error.
    pub fn parameters(text: &str, owned: &[&str]) -> Result<Parameters, ParameterError> {
        Parameters::read(text, owned, &DBD)
    }

    /// Sets a key. Err: the value cannot be written in a line. The error repeats the value.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ValueError> {
        self.file.set(key, value).map(drop)
    }

    /// Sets every key of `parameters`.
    pub fn merge(&mut self, parameters: &Parameters) {
        for (key, value) in parameters.iter() {
            let set = self.file.set(key, value);
            debug_assert!(set.is_ok(), "invariant: parameters were checked when they were read");
        }
    }

    /// Returns the text of the file.
    pub fn render(&self) -> String {
        self.file.render()
    }
}

impl std::fmt::Debug for DbdConf {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("DbdConf(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_judged_by_the_keys_of_this_file() {
        let refused = |text: &str| DbdConf::parameters(text, &["StoragePass"]).unwrap_err().to_string();
        assert_eq!(refused("\nstoragepass=x"), "line 2: key `storagepass` is set by the charm");
        assert_eq!(refused("TrackWCKey=maybe"), "line 1: value `maybe` of TrackWCKey: expected YES or NO");
        assert!(refused("Include /etc/passwd").contains("not a plain key"));
        let doubtful = DbdConf::parameters("PurgeJobAftr=12months", &[]).unwrap();
        assert_eq!(doubtful.doubts()[0].nearest, Some("PurgeJobAfter"));
    }

    #[test]
    fn a_password_is_neither_printed_nor_lets_a_line_in() {
        let mut conf = DbdConf::new("");
        conf.set("StoragePass", "s3cret").unwrap();
        assert_eq!(format!("{conf:?}"), "DbdConf(..)");
        for bad in ["a\nSlurmUser=root", "a#b", "a\"b", "a\\b"] {
            assert!(conf.set("StoragePass", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_table_is_sorted_and_names_each_key_once() {
        let names: Vec<String> = DBD.iter().map(|setting| setting.name.to_ascii_lowercase()).collect();
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(names, sorted);
    }
}
