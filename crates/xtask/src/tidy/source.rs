//! Which files of the tree the checks read, and their text.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::layout;

/// A file of the tree, as it is called in findings.
pub(super) struct File {
    /// Relative to the top level.
    pub(super) name: String,
    pub(super) text: String,
}

/// Reads every file with this extension in and below a directory of the tree, in the order of their names. What builds
/// and tools leave there is passed over.
pub(super) fn read(directory: &str, extension: &str) -> Result<Vec<File>> {
    let root = layout::root()?;
    let mut paths = Vec::new();
    walk(&root.join(directory), extension, &mut paths)?;
    paths.sort();
    paths.into_iter().map(|path| read_one(&root, &path)).collect()
}

fn read_one(root: &Path, path: &Path) -> Result<File> {
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(File { name: path.strip_prefix(root).unwrap_or(path).display().to_string(), text })
}

fn walk(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(directory).with_context(|| format!("could not list {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = layout::file_name(&path);
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "dist", "__pycache__"].contains(&name.as_str()) {
                walk(&path, extension, found)?;
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    Ok(())
}
