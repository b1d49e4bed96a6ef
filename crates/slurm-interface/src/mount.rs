//! What a controller asks of the file system client beside it, and what that answers: the `mount_info` interface.

use crate::databag::{Databag, DecodeError, json, string, written};
use serde_json::{Value, json};

const MOUNTPOINT: &str = "mountpoint";
const NODEV: &str = "nodev";
const NOEXEC: &str = "noexec";
const NOSUID: &str = "nosuid";
const READ_ONLY: &str = "read_only";
const MOUNTED: &str = "mounted";

/// Where a file system is to be mounted: an absolute path without detours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountPoint(String);

impl MountPoint {
    /// Checks and wraps a path: `/`, then parts of letters, digits, `_`, `-` and `.`, none of them `.` or `..`.
    pub fn new(path: &str) -> Option<Self> {
        const LONGEST: usize = 1024;
        let is_part = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        };
        let parts = path.strip_prefix('/')?;
        (path.len() <= LONGEST && parts.split('/').all(is_part)).then(|| Self(path.to_owned()))
    }

    /// Returns the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Application bag of slurmctld on the `mount_info` interface, written by its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRequest {
    /// Where the file system is to be mounted.
    pub mountpoint: MountPoint,
    /// Devices on it mean nothing.
    pub nodev: bool,
    /// Nothing on it can be run.
    pub noexec: bool,
    /// Nothing on it runs as another user.
    pub nosuid: bool,
    /// Nothing on it can be changed.
    pub read_only: bool,
}

impl MountRequest {
    /// Returns a request without restrictions.
    pub fn new(mountpoint: MountPoint) -> Self {
        Self { mountpoint, nodev: false, noexec: false, nosuid: false, read_only: false }
    }

    /// Returns the bag.
    pub fn encode(&self) -> Databag {
        written([
            (MOUNTPOINT, json!(self.mountpoint.as_str())),
            (NODEV, json!(self.nodev)),
            (NOEXEC, json!(self.noexec)),
            (NOSUID, json!(self.nosuid)),
            (READ_ONLY, json!(self.read_only)),
        ])
    }

    /// Returns the bag of somebody who asks for nothing any more.
    pub fn withdrawn() -> Databag {
        written([(MOUNTPOINT, json!(""))])
    }

    /// Reads the bag. `None`: nothing is asked for, or no longer. An absent restriction is none.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let Some(path) = string(bag, MOUNTPOINT)? else { return Ok(None) };
        let mountpoint = MountPoint::new(&path)
            .ok_or_else(|| DecodeError::malformed(MOUNTPOINT, &path, "not an absolute path without detours"))?;
        Ok(Some(Self {
            mountpoint,
            nodev: flag(bag, NODEV)?.unwrap_or(false),
            noexec: flag(bag, NOEXEC)?.unwrap_or(false),
            nosuid: flag(bag, NOSUID)?.unwrap_or(false),
            read_only: flag(bag, READ_ONLY)?.unwrap_or(false),
        }))
    }
}

/// Unit bag of the file system client on the `mount_info` interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountState {
    /// Whether the client has mounted the file system. It does so when it is first used, so this is no proof that it
    /// answers.
    pub mounted: bool,
}

impl MountState {
    /// Returns the bag.
    pub fn encode(&self) -> Databag {
        Databag::from([(MOUNTED.to_owned(), self.mounted.to_string())])
    }

    /// Reads the bag. `None`: the client has not said anything yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        Ok(flag(bag, MOUNTED)?.map(|mounted| Self { mounted }))
    }
}

fn flag(bag: &Databag, key: &'static str) -> Result<Option<bool>, DecodeError> {
    match json(bag, key)? {
        None => Ok(None),
        Some(Value::Bool(yes)) => Ok(Some(yes)),
        Some(other) => Err(DecodeError::malformed(key, &other.to_string(), "not `true` or `false`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bag(key: &str, value: &str) -> Databag {
        Databag::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn both_bags_go_both_ways() {
        let request = MountRequest::new(MountPoint::new("/srv/slurmctld-statefs").unwrap());
        assert_eq!(request.encode()["mountpoint"], "\"/srv/slurmctld-statefs\"");
        assert_eq!(request.encode()["nodev"], "false");
        assert_eq!(MountRequest::decode(&request.encode()), Ok(Some(request.clone())));
        assert_eq!(MountRequest::decode(&bag("mountpoint", "\"/srv/slurmctld-statefs\"")), Ok(Some(request)));
        for mounted in [true, false] {
            assert_eq!(MountState::decode(&MountState { mounted }.encode()), Ok(Some(MountState { mounted })));
        }
    }

    #[test]
    fn nothing_yet_is_no_error() {
        assert_eq!(MountState::decode(&bag("ingress-address", "10.0.0.1")), Ok(None));
        assert_eq!(MountRequest::decode(&bag("mountpoint", "\"\"")), Ok(None));
    }

    #[test]
    fn nonsense_is_an_error() {
        for value in ["yes", "1", "\"true\"", "True"] {
            let error = MountState::decode(&bag("mounted", value)).unwrap_err();
            assert!(error.to_string().starts_with("databag key `mounted`"), "{error}");
        }
    }

    #[test]
    fn a_path_that_could_lead_elsewhere_is_refused() {
        for path in
            ["", "/", "srv", "/srv/../etc", "/srv//x", "/srv/", "/srv/./x", "/a b", "/a\nb", "/a\"", "/ä", "/a\0"]
        {
            assert_eq!(MountPoint::new(path), None, "{path:?}");
        }
        assert_eq!(MountPoint::new(&format!("/{}", "x".repeat(2000))), None);
    }
}
