//! Where packages come from, if not from the distribution's archive: a PPA, or a source in apt's deb822 form with its
//! key in it.
//!
//! A [`Source`] is checked text: it names one repository, says over which key it is signed, and can neither switch off
//! apt's checks nor smuggle in a second repository. Installing from it is in [`crate::packages`].
//!
//! ```
//! use slurm_ops::source::Source;
//!
//! assert_eq!("ppa:somebody/slurm".parse(), Ok(Source::Ppa("ppa:somebody/slurm".to_owned())));
//! let trusting = "Types: deb\nURIs: https://packages.example.com\nSuites: noble\nTrusted: yes";
//! let error = trusting.parse::<Source>().unwrap_err();
//! assert!(error.to_string().contains("field `Trusted` is not accepted"));
//! ```

use crate::command::{Command, CommandError};
use crate::files::{self, Access};
use crate::machine::HostWriter;
use crate::packages::PackageError;
use std::str::FromStr;

/// Where a deb822 source is kept.
pub const FILE: &str = "/etc/apt/sources.list.d/slurm-charm.sources";

/// A source with a Slurm that is new enough, for whoever has to name one.
pub const EXAMPLE: &str = "ppa:ubuntu-hpc/slurm-wlm-25.11";

/// Longer than any source with a key of a sane length.
const LONGEST: usize = 64 * 1024;
const KEY_BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const KEY_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// Fields that say what is offered. Others could switch off what protects from a forged repository.
const FIELDS: [&str; 8] =
    ["Types", "URIs", "Suites", "Components", "Architectures", "Signed-By", "Enabled", "X-Repolib-Name"];
const SCHEMES: [&str; 4] = ["https://", "http://", "file:/", "copy:/"];

/// Where packages come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// Whatever the machine is set up with.
    #[default]
    Archive,
    /// A personal package archive, as in `ppa:owner/name`.
    Ppa(String),
    /// One paragraph of a `.sources` file.
    Deb822(String),
}

/// A text that names no source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected nothing, `ppa:owner/name` or a deb822 source with its key: {problem}")]
pub struct SourceError {
    problem: String,
}

impl SourceError {
    fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into() }
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Self::Archive);
        }
        if text.len() > LONGEST {
            return Err(SourceError::new(format!("{} bytes are too many", text.len())));
        }
        if let Some(name) = text.strip_prefix("ppa:") {
            return ppa(name).map(|()| Self::Ppa(text.to_owned()));
        }
        deb822(text).map(Self::Deb822)
    }
}

fn ppa(name: &str) -> Result<(), SourceError> {
    let parts: Vec<&str> = name.split('/').collect();
    let word = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte))
    };
    match matches!(parts.len(), 2 | 3) && parts.iter().all(|part| word(part)) {
        true => Ok(()),
        false => Err(SourceError::new(format!("`{}` is no name of a PPA", excerpt(name)))),
    }
}

/// Checks one paragraph, and returns it as apt wants it: no blank line, a line end at its end.
fn deb822(text: &str) -> Result<String, SourceError> {
    let refused = |problem: String| Err(SourceError::new(problem));
    let mut fields: Vec<(String, String)> = Vec::new();
    let mut lines = String::new();
    for line in text.lines().map(str::trim_end) {
        if line.chars().any(char::is_control) {
            return refused(format!("`{}` has a control character", excerpt(line)));
        }
        if line.is_empty() {
            return refused("a blank line begins another source, and there may be only one".to_owned());
        }
        if line.starts_with('#') {
            continue;
        }
        lines.push_str(line);
        lines.push('\n');
        if line.starts_with([' ', '\t']) {
            let Some((_, value)) = fields.last_mut() else {
                return refused(format!("`{}` continues nothing", excerpt(line)));
            };
            value.push('\n');
            value.push_str(line.trim());
            continue;
        }
        let Some((name, value)) = line.split_once(':') else {
            return refused(format!("`{}` is not `Field: value`", excerpt(line)));
        };
        let Some(known) = FIELDS.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
            return refused(format!("field `{}` is not accepted; these are: {}", excerpt(name), FIELDS.join(", ")));
        };
        if fields.iter().any(|(other, _)| other == known) {
            return refused(format!("field {known} comes twice"));
        }
        fields.push(((*known).to_owned(), value.trim().to_owned()));
    }
    let field = |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    for name in ["Types", "URIs", "Suites"] {
        if field(name).is_none_or(str::is_empty) {
            return refused(format!("field {name} is missing"));
        }
    }
    if field("Types").is_some_and(|types| types.split_whitespace().any(|kind| !matches!(kind, "deb" | "deb-src"))) {
        return refused("Types is `deb`".to_owned());
    }
    if let Some(uri) = field("URIs")
        .and_then(|uris| uris.split_whitespace().find(|uri| !SCHEMES.iter().any(|scheme| uri.starts_with(scheme))))
    {
        return refused(format!("URI `{}` begins with none of {}", excerpt(uri), SCHEMES.join(" ")));
    }
    let key = field("Signed-By").unwrap_or_default().trim();
    if !(key.starts_with(KEY_BEGIN) && key.ends_with(KEY_END)) {
        return refused(format!("field Signed-By has to hold the key itself, from {KEY_BEGIN} to {KEY_END}"));
    }
    Ok(lines)
}

fn excerpt(text: &str) -> String {
    text.escape_debug().take(60).collect()
}

/// Tells apt about a source. Whether it was known before is not told: whoever calls has to fetch the lists in any case.
pub(crate) fn ensure_known(
    writer: &HostWriter,
    source: &Source,
    apt_get: impl Fn() -> Command,
) -> Result<(), PackageError> {
    match source {
        Source::Archive => {}
        Source::Deb822(text) => {
            files::replace(writer, FILE, text.as_bytes(), &Access::own(0o644))?;
        }
        Source::Ppa(name) => {
            let add = writer.command("add-apt-repository").args(["--yes", "--no-update", name]);
            let add = add.env("DEBIAN_FRONTEND", "noninteractive").deadline(crate::packages::DEADLINE);
            if let Err(CommandError::Start { .. }) = add.run() {
                apt_get().args(["install", "--no-install-recommends", "software-properties-common"]).run()?;
            }
            // Asked again even where it worked: it changes nothing the second time, and its refusal is the one to show.
            add.run()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDMEZ\n -----END PGP PUBLIC KEY BLOCK-----";

    fn sources(fields: &str) -> String {
        format!("{fields}\n{KEY}\n")
    }

    #[test]
    fn nothing_is_the_archive() {
        assert_eq!("".parse(), Ok(Source::Archive));
        assert_eq!(EXAMPLE.parse(), Ok(Source::Ppa(EXAMPLE.to_owned())));
        assert_eq!(" \n".parse(), Ok(Source::Archive));
    }

    #[test]
    fn a_ppa_is_a_plain_name() {
        assert_eq!("ppa:ubuntu-hpc/slurm-24.11".parse(), Ok(Source::Ppa("ppa:ubuntu-hpc/slurm-24.11".to_owned())));
        for text in ["ppa:", "ppa:x", "ppa:x/", "ppa:x/y z", "ppa:x/y;reboot", "ppa:../x", "ppa:-y/x", "ppa:a/b/c/d"] {
            assert!(text.parse::<Source>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_source_with_its_key_is_kept_as_it_is() {
        let text = sources("Types: deb\nURIs: https://packages.example.com/slurm\nSuites: noble\nComponents: main");
        assert_eq!(text.parse(), Ok(Source::Deb822(text.clone())));
        let commented = format!("# ours\n{text}");
        assert_eq!(commented.parse(), Ok(Source::Deb822(text)));
    }

    #[test]
    fn whatever_could_weaken_apt_is_refused_by_name() {
        let good = "Types: deb\nURIs: https://x.example/\nSuites: noble";
        for (text, expected) in [
            (good.to_owned(), "Signed-By has to hold the key itself"),
            (format!("{good}\nSigned-By: /usr/share/keyrings/x.gpg\n"), "Signed-By has to hold the key itself"),
            (sources(&format!("{good}\nTrusted: yes")), "field `Trusted` is not accepted"),
            (sources(&format!("{good}\nAllow-Insecure: yes")), "field `Allow-Insecure` is not accepted"),
            (sources("Types: deb\nURIs: https://x.example/"), "Suites is missing"),
            (sources("Types: deb\nURIs: cdrom:x\nSuites: /"), "URI `cdrom:x` begins with none of"),
            (sources("Types: rpm\nURIs: https://x.example/\nSuites: /"), "Types is `deb`"),
            (sources(&format!("{good}\n\nTypes: deb")), "a blank line begins another source"),
            (sources(&format!("{good}\nURIs: https://y.example/")), "URIs comes twice"),
            (" Types: deb".to_owned(), "URIs is missing"),
            ("deb https://x.example noble main".to_owned(), "field `deb https` is not accepted"),
            ("x".to_owned(), "`x` is not `Field: value`"),
            (sources(&format!("{good}\nComponents: a\u{7}b")), "has a control character"),
            ("x".repeat(LONGEST + 1), "bytes are too many"),
        ] {
            let error = text.parse::<Source>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
