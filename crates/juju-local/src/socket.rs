//! The daemon's socket, at a path of any length: the kernel takes no more than 107 bytes, and state directories may be
//! deep.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The same file by a short name, which holds as long as the directory is open.
fn shortened(path: &Path) -> Result<(File, PathBuf)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::new(ErrorKind::InvalidInput, "no name for a socket"));
    };
    let directory = File::open(parent)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
    Ok((directory, short))
}

/// Listens there; what an earlier daemon left is replaced.
pub fn listen(path: &Path) -> Result<UnixListener> {
    std::fs::remove_file(path).ok();
    let (_directory, short) = shortened(path)?;
    UnixListener::bind(short)
}

pub fn connect(path: &Path) -> Result<UnixStream> {
    let (_directory, short) = shortened(path)?;
    UnixStream::connect(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_longer_than_a_socket_address_will_do() {
        let scratch = tempfile::tempdir().unwrap();
        let deep = scratch.path().join("x".repeat(120)).join("y".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("daemon.socket");
        let _listener = listen(&path).unwrap();
        assert!(connect(&path).is_ok());
    }

    #[test]
    fn a_socket_left_behind_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("daemon.socket");
        drop(listen(&path).unwrap());
        assert!(connect(&path).is_err());
        let _listener = listen(&path).unwrap();
        assert!(connect(&path).is_ok());
    }
}
