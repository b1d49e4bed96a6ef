//! Notes: what a charm has to know in a later dispatch, beyond a crash, a refresh and a reboot. One JSON object in a
//! file, with the version of its form.
//!
//! A note that cannot be read is a fact of its own and never reads as "there is none": work that the note is about
//! stops, and the status says why. A charm reads the notes of the version before it, so that it can be refreshed in
//! the middle of a change.

use crate::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use slurm_ops::files::{self, Access, FileError};
use slurm_ops::{Host, HostWriter};

const VERSION: &str = "version";

/// Something that is kept as a note.
pub trait Note: Serialize + DeserializeOwned {
    /// Where it is kept.
    const PATH: &'static str;
    /// The version of its form.
    const VERSION: u64;
    /// It is beside Slurm's own files, belongs to Slurm's user, and others may read it. Otherwise the directory is the
    /// charm's.
    const BESIDE_SLURM: bool = false;

    /// Reads a note of an earlier version. None: this charm does not know that version.
    fn upgrade(_version: u64, _fields: Map<String, Value>) -> Option<Self> {
        None
    }
}

/// What was found where a note is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted<T> {
    Absent,
    Known(T),
    /// There is a file, and it cannot be understood.
    Unreadable {
        /// Why, with the path of the file.
        why: String,
    },
}

impl<T> Noted<T> {
    /// Returns why there is a file that cannot be understood, if so.
    pub fn problem(&self) -> Option<&str> {
        match self {
            Self::Unreadable { why } => Some(why),
            Self::Absent | Self::Known(_) => None,
        }
    }

    /// Returns the note, if there is one that can be read.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(note) => Some(note),
            Self::Absent | Self::Unreadable { .. } => None,
        }
    }
}

/// Reads a note.
pub fn read<T: Note>(host: &Host) -> Result<Noted<T>, FileError> {
    Ok(files::read_text(host, T::PATH)?.map_or(Noted::Absent, |text| parse::<T>(&text)))
}

/// Understands the text of a note.
pub fn parse<T: Note>(text: &str) -> Noted<T> {
    let unreadable = |why: String| Noted::Unreadable { why: format!("{}: {why}", T::PATH) };
    let mut fields: Map<String, Value> = match serde_json::from_str(text) {
        Ok(fields) => fields,
        Err(error) => return unreadable(error.to_string()),
    };
    // The first notes had no version.
    let version = match fields.remove(VERSION) {
        None => 0,
        Some(version) => match version.as_u64() {
            Some(version) => version,
            None => return unreadable(format!("version {version}: expected a number")),
        },
    };
    let known = match version {
        version if version == T::VERSION => {
            serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
        }
        version => T::upgrade(version, fields).ok_or_else(|| format!("version {version} is unknown to this charm")),
    };
    known.map_or_else(unreadable, Noted::Known)
}

/// Returns the text of a note.
pub fn render<T: Note>(note: &T) -> String {
    let mut fields = Map::from_iter([(VERSION.to_owned(), Value::from(T::VERSION))]);
    match serde_json::to_value(note) {
        Ok(Value::Object(more)) => fields.extend(more),
        other => unreachable!("invariant: a note is an object: {other:?}"),
    }
    Value::Object(fields).to_string() + "\n"
}

/// Keeps a note.
pub fn write<T: Note>(writer: &HostWriter, note: &T) -> Result<(), Error> {
    let text = render(note);
    if T::BESIDE_SLURM {
        files::replace(writer, T::PATH, text.as_bytes(), &Access::slurm(0o644))?;
        return Ok(());
    }
    if let Some((directory, _)) = T::PATH.rsplit_once('/') {
        files::ensure_directory(writer, directory, &Access::own(0o700))?;
    }
    files::replace(writer, T::PATH, text.as_bytes(), &Access::own(0o600))?;
    Ok(())
}

/// Drops a note.
pub fn remove<T: Note>(writer: &HostWriter) -> Result<(), Error> {
    files::remove(writer, T::PATH)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Weight {
        weight: u64,
    }

    impl Note for Weight {
        const PATH: &'static str = "/var/lib/some-charm/weight.json";
        const VERSION: u64 = 2;

        fn upgrade(version: u64, fields: Map<String, Value>) -> Option<Self> {
            (version == 1).then(|| fields.get("w")?.as_u64().map(|weight| Self { weight })).flatten()
        }
    }

    #[test]
    fn a_note_carries_its_version() {
        let note = Weight { weight: 7 };
        assert_eq!(render(&note), "{\"version\":2,\"weight\":7}\n");
        assert_eq!(parse::<Weight>(&render(&note)), Noted::Known(note));
    }

    #[test]
    fn a_note_of_the_version_before_is_read() {
        assert_eq!(parse::<Weight>(r#"{"version":1,"w":7}"#), Noted::Known(Weight { weight: 7 }));
    }

    #[test]
    fn a_note_that_cannot_be_read_is_not_none() {
        for text in ["", "{", "[]", r#"{"version":"x"}"#, r#"{"version":2}"#, r#"{"version":3,"weight":7}"#, "7\n"] {
            let read = parse::<Weight>(text);
            assert!(matches!(&read, Noted::Unreadable { why } if why.starts_with(Weight::PATH)), "{text}: {read:?}");
        }
    }
}
