//! Whether a directory has room for its files to be written anew, each beside the old one. A daemon that keeps its
//! state so goes on when the disk is full, and what it has in memory is nowhere else.

use crate::machine::Host;
use crate::store;
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
    let place = host.locate(directory.as_ref());
    let needed = match place.on_store {
        true => Some(RESERVE_ELSEWHERE),
        false => needed_here(&place.path).map(|needed| needed.saturating_add(RESERVE)),
    };
    let (Some(needed), Ok(space)) = (needed, store::space(host, directory)) else { return true };
    space.free >= needed && space.free_files.is_none_or(|files| files >= LEAST_FILES)
}

/// What is there now takes as much once more.
fn needed_here(directory: &Path) -> Option<u64> {
    let entries = fs::read_dir(directory).ok()?.filter_map(Result::ok);
    let current = entries.filter(|entry| !entry.file_name().to_string_lossy().ends_with(".old"));
    let files = current.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_file);
    Some(files.map(|file| file.len()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn room_is_what_the_files_need_once_more() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, size| fs::File::create(directory.path().join(name)).unwrap().set_len(size).unwrap();
        file("job_state", 1000);
        // Of a file with a hole only the length counts, and no disk here has that much.
        file("job_state.old", 1 << 42);
        let host = Machine::at(directory.path()).host();
        assert!(is_enough(&host, "/"), "an older copy is replaced");
        file("node_state", 1 << 42);
        assert!(!is_enough(&host, "/"));
        assert!(is_enough(&host, "/none"));
    }
}
