//! What a child is asked about a store, how it answers, and how both go through a pipe. Shows no content of a file.

use super::direct_work;
use crate::files::direct::Owner;
use crate::files::{FileError, Space};
use crate::heartbeat::Heartbeat;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Something to do with one path.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) path: PathBuf,
    pub(crate) work: Work,
}

/// What to do. Each is a function of `files::direct` or `files::tree`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    Read,
    Exists,
    List,
    Entries,
    Modified,
    Replace {
        content: Content,
        mode: u32,
        owner: Owner,
    },
    Access,
    IsOpen,
    Open,
    Remove,
    Empty,
    Directory {
        mode: u32,
        owner: Owner,
    },
    WriteOnce {
        draft: PathBuf,
        content: Content,
    },
    IsWritable {
        user: Option<Owner>,
    },
    Space,
    Details,
    DetailsOf {
        below: Vec<PathBuf>,
    },
    Put {
        content: Content,
        mode: u32,
        owner: Owner,
        modified: Duration,
    },
    Link {
        target: String,
    },
    Rename {
        to: PathBuf,
    },
    RemoveAny,
    Sync,
    /// Writes a probe where the marker is the expected one, and looks at the marker, at the heartbeat of slurmctld, at
    /// the request for control and at the space.
    Beat {
        stamp: u64,
        marker: PathBuf,
        expected: String,
        heartbeat: PathBuf,
        control: PathBuf,
    },
}

impl Work {
    /// Tells whether doing it once more changes nothing.
    fn only_looks(&self) -> bool {
        use Work::{Access, Details, Entries, Exists, List, Modified, Read, Space};
        matches!(self, Read | Exists | List | Entries | Modified | Access | Space | Details)
    }
}

/// What is in a file: most often text, sometimes a key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Content(pub(crate) Vec<u8>);

impl fmt::Debug for Content {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Content({} bytes)", self.0.len())
    }
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        // The cause is dropped on purpose: it may quote the content.
        STANDARD_NO_PAD.decode(text).map(Self).map_err(|_| serde::de::Error::custom("expected base64"))
    }
}

/// What a probe of the fence found.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) marker: Option<String>,
    /// The last sign of life of the controller that serves. `None`: there is none, or it is just being written.
    pub(crate) heartbeat: Option<Heartbeat>,
    /// The request of a primary that wants control.
    pub(crate) control: Option<String>,
    pub(crate) space: Option<Space>,
    /// The probe is written, and will last.
    pub(crate) written: bool,
    /// There is no room for the probe.
    pub(crate) full: bool,
    /// Why the write, or the look at the marker, did not work.
    pub(crate) error: Option<String>,
}

impl Beat {
    pub(crate) fn failed(why: String) -> Self {
        Self { error: Some(why), ..Self::default() }
    }
}

/// How the child answers: with a value of the form that the work has, or why it could not do it.
pub(crate) type Answer = Result<Value, Failure>;

/// A failure of the system, as it goes through a pipe.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    action: String,
    path: PathBuf,
    /// The system's number for it.
    code: Option<i32>,
    text: String,
}

impl Failure {
    /// Tells whether there is no room: on the file system, or in what its user may use.
    pub(crate) fn is_full(&self) -> bool {
        let full = [nix::errno::Errno::ENOSPC, nix::errno::Errno::EDQUOT];
        full.iter().any(|errno| self.code == Some(*errno as i32))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "could not {} {}: {}", self.action, self.path.display(), self.text)
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Access { action, path, source } => {
                Self { action: action.into_owned(), path, code: source.raw_os_error(), text: source.to_string() }
            }
            other => Self { action: "use".to_owned(), path: PathBuf::new(), code: None, text: other.to_string() },
        }
    }
}

impl From<Failure> for FileError {
    fn from(failure: Failure) -> Self {
        let source = failure.code.map_or_else(|| io::Error::other(failure.text), io::Error::from_raw_os_error);
        Self::Access { action: Cow::Owned(failure.action), path: failure.path, source }
    }
}

/// Does what is asked.
///
/// A file that another machine replaces in this very moment may seem to be gone, or its handle stale. So what was not
/// there is looked at once more.
pub(crate) fn answer(request: &Request) -> Answer {
    let mut found = direct_work(request);
    let doubtful = match &found {
        Ok(found) => found.is_null() || *found == Value::Bool(false),
        Err(FileError::Access { source, .. }) => {
            let code = source.raw_os_error();
            code == Some(nix::errno::Errno::ESTALE as i32) || code == Some(nix::errno::Errno::ENOENT as i32)
        }
        Err(_) => false,
    };
    if doubtful && request.work.only_looks() {
        found = direct_work(request);
    }
    Ok(found?)
}

/// A length is four bytes, the most significant first.
pub(crate) const PREFIX: usize = 4;
/// More than this is no message of ours.
pub(crate) const LARGEST: usize = 256 * 1024 * 1024;

/// Puts the length before a message.
pub(crate) fn frame(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(message)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length as usize <= LARGEST);
    let length = length.ok_or(io::ErrorKind::FileTooLarge)?;
    let mut framed = Vec::with_capacity(PREFIX + text.len());
    framed.extend(length.to_be_bytes());
    framed.extend(text);
    Ok(framed)
}

/// Takes a message out of what has come so far. `None`: it is not all there yet.
pub(crate) fn unframe(heard: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let Some(prefix) = heard.first_chunk::<PREFIX>() else { return Ok(None) };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length > LARGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if heard.len() < PREFIX + length {
        return Ok(None);
    }
    let rest = heard.split_off(PREFIX + length);
    let mut message = std::mem::replace(heard, rest);
    message.drain(..PREFIX);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn ask(path: &Path, work: Work) -> Answer {
        answer(&Request { path: path.to_owned(), work })
    }

    #[test]
    fn a_request_shows_no_content() {
        let work = Work::Replace { content: Content(b"secret".to_vec()), mode: 0o600, owner: (0, 0) };
        let shown = format!("{:?}", Request { path: PathBuf::from("/etc/slurm/slurm.jwks"), work });
        assert!(shown.contains("Content(6 bytes)") && !shown.contains("secret") && !shown.contains("c2Vjc"), "{shown}");
    }

    #[test]
    fn a_message_comes_out_as_it_went_in_whatever_the_pieces() {
        let content = Content((0..=255).collect());
        let mut heard = Vec::new();
        let mut got = Vec::new();
        for byte in [frame(&content).unwrap(), frame(&Content(vec![])).unwrap()].concat() {
            heard.push(byte);
            got.extend(unframe(&mut heard).unwrap());
        }
        assert!(heard.is_empty());
        assert_eq!(serde_json::from_slice::<Content>(&got[0]).unwrap(), content);
        assert_eq!(serde_json::from_slice::<Content>(&got[1]).unwrap(), Content(vec![]));
        assert!(unframe(&mut vec![255; 5]).is_err());
    }

    #[test]
    fn a_failure_keeps_its_number_and_its_words() {
        let directory = tempfile::tempdir().unwrap();
        let failed = ask(
            &directory.path().join("none/x"),
            Work::Replace { content: Content(vec![]), mode: 0o600, owner: (0, 0) },
        );
        let sent = serde_json::to_string(&failed).unwrap();
        let heard: Answer = serde_json::from_str(&sent).unwrap();
        let error = FileError::from(heard.unwrap_err());
        let FileError::Access { action, source, .. } = &error else { panic!("{error:?}") };
        assert_eq!((action.as_ref(), source.kind()), ("create", io::ErrorKind::NotFound));
    }

    #[test]
    fn absence_is_an_answer() {
        let directory = tempfile::tempdir().unwrap();
        assert!(ask(&directory.path().join("x"), Work::Read).unwrap().is_null());
        assert_eq!(ask(&directory.path().join("x"), Work::Exists).unwrap(), Value::Bool(false));
    }
}
