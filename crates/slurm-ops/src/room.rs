//! Whether a directory has room for its files to be written anew, each beside the old one. A daemon that keeps its
//! state so goes on when the disk is full, and what it has in memory is nowhere else.

use crate::machine::Host;
use crate::{mounts, store};
use nix::sys::statvfs::statvfs;
use std::fs;
use std::path::Path;

/// State grows between two looks.
const RESERVE: u64 = 64 * 1024;
/// What is asked of a file system of the network, whose files are not counted.
const RESERVE_ELSEWHERE: u64 = 1024 * 1024;
/// A few files are written at the same time.
const LEAST_FILES: u64 = 16;

/// Tells whether the files in `directory` could be written anew. What cannot be found out is no shortage.
pub fn is_enough(host: &Host, directory: impl AsRef<Path>) -> bool {
    let directory = directory.as_ref();
    match mounts::is_on_this_machine(host, directory) {
        true => is_enough_here(&host.path(directory)).unwrap_or(true),
        false => is_enough_elsewhere(host, directory).unwrap_or(true),
    }
}

fn is_enough_here(directory: &Path) -> Option<bool> {
    let found = statvfs(directory).ok()?;
    // What root alone may use is of no use to Slurm.
    let bytes = found.blocks_available().saturating_mul(found.fragment_size());
    let limited = found.files() > 0;
    let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let current = entries.filter(|entry| !entry.file_name().to_string_lossy().ends_with(".old"));
    let files = current.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
    let needed: u64 = files.map(|file| file.len()).sum();
    Some(bytes >= needed.saturating_add(RESERVE) && (!limited || found.files_available() >= LEAST_FILES))
}

/// A file system that does not answer must not hold whoever asks.
fn is_enough_elsewhere(host: &Host, directory: &Path) -> Option<bool> {
    let arguments = ["--file-system", "--format=%a %S %d %c", &store::text(host, directory)];
    let output = store::child(host, "stat").args(arguments).output().ok()?;
    let numbers: Vec<u64> = output.stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [blocks, size, free_files, files] = numbers.as_slice() else { return None };
    Some(blocks.saturating_mul(*size) >= RESERVE_ELSEWHERE && (*files == 0 || *free_files >= LEAST_FILES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_what_the_files_need_once_more() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, size| fs::File::create(directory.path().join(name)).unwrap().set_len(size).unwrap();
        file("job_state", 1000);
        // Of a file with a hole only the length counts, and no disk here has that much.
        file("job_state.old", 1 << 42);
        assert_eq!(is_enough_here(directory.path()), Some(true), "an older copy is replaced");
        file("node_state", 1 << 42);
        assert_eq!(is_enough_here(directory.path()), Some(false));
        assert_eq!(is_enough_here(&directory.path().join("none")), None);
    }
}
