//! The zip that a charm file is: same entries in, same bytes out. No clock, no file system order, no owner.

use std::io::{Cursor, Write};

use anyhow::{Context, Result, ensure};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

const COMPRESSION_LEVEL: i64 = 9;

/// One file inside a charm.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) content: Vec<u8>,
    pub(super) mode: u32,
}

impl Entry {
    pub(super) fn file(name: &'static str, content: impl Into<Vec<u8>>) -> Self {
        Self { name, content: content.into(), mode: 0o644 }
    }

    pub(super) fn executable(name: &'static str, content: Vec<u8>) -> Self {
        Self { name, content, mode: 0o755 }
    }
}

/// Returns the zip of these entries, sorted by name.
pub(super) fn zip(mut entries: Vec<Entry>) -> Result<Vec<u8>> {
    entries.sort_by_key(|entry| entry.name);
    ensure!(entries.windows(2).all(|pair| pair[0].name != pair[1].name), "two entries with one name");
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in &entries {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(COMPRESSION_LEVEL))
            .last_modified_time(DateTime::default())
            .unix_permissions(entry.mode);
        writer
            .start_file(entry.name, options)
            .map_err(anyhow::Error::from)
            .and_then(|()| writer.write_all(&entry.content).map_err(anyhow::Error::from))
            .with_context(|| format!("could not pack {}", entry.name))?;
    }
    Ok(writer.finish().context("could not finish the charm file")?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        vec![
            Entry::file("metadata.yaml", "name: x\n".repeat(50)),
            Entry::executable("dispatch", vec![0x7f; 4096]),
            Entry::file("LICENSE", "free"),
        ]
    }

    #[test]
    fn order_of_entries_does_not_matter() {
        let mut reversed = entries();
        reversed.reverse();
        assert_eq!(zip(entries()).unwrap(), zip(reversed).unwrap());
    }

    #[test]
    fn a_file_comes_out_as_it_went_in() {
        let mut archive = zip::ZipArchive::new(Cursor::new(zip(entries()).unwrap())).unwrap();
        let names: Vec<_> = archive.file_names().map(str::to_owned).collect();
        assert_eq!(names.len(), 3);
        let dispatch = archive.by_name("dispatch").unwrap();
        assert_eq!(dispatch.unix_mode().map(|mode| mode & 0o777), Some(0o755));
        assert_eq!(dispatch.size(), 4096);
        drop(dispatch);
        assert_eq!(archive.by_name("LICENSE").unwrap().unix_mode().map(|mode| mode & 0o777), Some(0o644));
    }

    #[test]
    fn one_name_twice_is_refused() {
        assert!(zip(vec![Entry::file("a", "1"), Entry::file("a", "2")]).is_err());
    }
}
