//! The image: one root file system that all machines share, read-only, with an offline pool of packages. Found or
//! built.
//!
//! An image is complete when its directory has its final name: it is built under a temporary one, by one builder at a
//! time, and renamed at the end. The name carries a hash of the recipe, so that a changed recipe is a new image.

mod build;
mod pool;
mod recipe;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use nix::mount::{MntFlags, umount2};

use super::clean::remove_tree;
use super::program;
use recipe::Recipe;

/// Which Slurm the pool offers, and with it which Debian the machines run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SlurmRelease {
    /// Slurm 24.11 of Debian 13.
    #[default]
    Trixie2411,
    /// Slurm 26.05 of Debian unstable.
    Sid2605,
}

impl SlurmRelease {
    /// Reads `24.11` or `26.05`.
    pub(crate) fn parse(text: &str) -> Result<SlurmRelease> {
        match text {
            "24.11" => Ok(SlurmRelease::Trixie2411),
            "26.05" => Ok(SlurmRelease::Sid2605),
            _ => bail!("there is no image with Slurm {text:?}: 24.11 and 26.05 are known"),
        }
    }
}

/// A complete image.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    /// Root file system; never to be written to.
    pub(crate) rootfs: PathBuf,
}

/// Returns the image for a release, building it first if the cache has none.
///
/// `progress` gets one line per phase, beginning with the seconds since the start. An image that is there costs nothing
/// and says nothing.
pub(crate) fn ensure(cache: &Path, release: SlurmRelease, progress: &mut dyn FnMut(&str)) -> Result<Image> {
    let recipe = Recipe::new(release);
    let directory = cache.join(recipe.name());
    let image = Image { rootfs: directory.join("rootfs") };
    if image.rootfs.is_dir() {
        return Ok(image);
    }
    ensure!(
        program::is_installed("mmdebstrap"),
        "mmdebstrap is missing, and with it the machines' image cannot be built: apt-get install mmdebstrap"
    );
    fs::create_dir_all(cache).with_context(|| format!("could not make {}", cache.display()))?;
    let started = Instant::now();
    let mut phase = |text: &str| progress(&format!("{:3} s  {text}", started.elapsed().as_secs()));

    let lock_path = cache.join("lock");
    let lock = File::options()
        .read(true)
        .append(true)
        .create(true)
        .open(&lock_path)
        .with_context(|| format!("could not open {}", lock_path.display()))?;
    if lock.try_lock().is_err() {
        phase("waiting for another builder of the image");
        lock.lock().with_context(|| format!("could not lock {}", lock_path.display()))?;
        if image.rootfs.is_dir() {
            return Ok(image);
        }
    }
    remove_half_built(cache)?;
    remove(&directory)?;
    let scratch = tempfile::Builder::new()
        .prefix(HALF_BUILT)
        .tempdir_in(cache)
        .with_context(|| format!("could not make a directory in {}", cache.display()))?;
    build::build(&recipe, scratch.path(), &lock, &mut phase)
        .with_context(|| format!("could not build the machines' image in {}", cache.display()))?;
    // What has the final name must be whole, also after a power cut.
    program::run(program::system("sync").arg("-f").arg(scratch.path()))?;
    fs::rename(scratch.path(), &directory).with_context(|| format!("could not name {}", directory.display()))?;
    // It has another name now; there is nothing left to remove under the old one.
    let _ = scratch.keep();
    phase("image complete");
    Ok(image)
}

/// Begins the name of a directory in which an image is being built.
const HALF_BUILT: &str = ".building-";

/// Removes what a killed builder left. Only to be called with the lock held.
fn remove_half_built(cache: &Path) -> Result<()> {
    for entry in fs::read_dir(cache)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(HALF_BUILT) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a directory and nothing that is mounted in it: what a killed builder has mounted is the host's.
fn remove(directory: &Path) -> Result<()> {
    for mounted in mounts_below(directory, &fs::read_to_string("/proc/self/mountinfo")?).iter().rev() {
        umount2(mounted, MntFlags::MNT_DETACH).with_context(|| format!("could not unmount {}", mounted.display()))?;
    }
    remove_tree(directory)
}

/// Mount points below a directory, in the order in which they were mounted.
fn mounts_below(directory: &Path, table: &str) -> Vec<PathBuf> {
    // Blanks and the like are written as octal numbers.
    let plain = |field: &str| {
        let mut parts = field.split('\\');
        let mut path = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
            path.push(code.map_or('\\', char::from));
            path.push_str(part.get(3..).unwrap_or(part));
        }
        PathBuf::from(path)
    };
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(plain);
    points.filter(|point| point.starts_with(directory)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_killed_builder_left_is_removed() {
        let cache = tempfile::tempdir().unwrap();
        fs::create_dir_all(cache.path().join(".building-abc/rootfs/etc")).unwrap();
        fs::create_dir_all(cache.path().join("image-x")).unwrap();
        remove_half_built(cache.path()).unwrap();
        assert!(!cache.path().join(".building-abc").exists());
        assert!(cache.path().join("image-x").exists());
    }

    #[test]
    fn only_mounts_below_the_directory_are_found() {
        let table = "29 1 0:26 / / rw - ext4 /dev/vda rw\n\
            90 29 0:5 / /cache/.building-a\\040b/rootfs/proc ro - proc proc ro\n\
            91 29 0:6 / /cache/.building-a\\040b/rootfs/sys ro - sysfs sys ro\n\
            92 29 0:7 / /cache/.building-ab/rootfs/sys ro - sysfs sys ro\n";
        let found = mounts_below(Path::new("/cache/.building-a b"), table);
        assert_eq!(found, ["/cache/.building-a b/rootfs/proc", "/cache/.building-a b/rootfs/sys"].map(PathBuf::from));
    }

    #[test]
    fn a_complete_image_is_found_without_building() {
        let cache = tempfile::tempdir().unwrap();
        let directory = cache.path().join(Recipe::new(SlurmRelease::Trixie2411).name());
        fs::create_dir_all(directory.join("rootfs")).unwrap();
        let mut said = Vec::new();
        let image = ensure(cache.path(), SlurmRelease::Trixie2411, &mut |line| said.push(line.to_owned())).unwrap();
        assert_eq!(image.rootfs, directory.join("rootfs"));
        assert!(said.is_empty(), "{said:?}");
    }
}
