//! The image that machines boot from: made by `juju-local image build`, in the background, so that compiling goes on
//! meanwhile.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::console::{ProgressLine, say};
use crate::{layout, program};

/// How much of a failed build's output is shown.
const SHOWN_LINES: usize = 40;
/// Tells juju-local which Slurm machines can install.
pub(crate) const SLURM_VARIABLE: &str = "JUJU_LOCAL_SLURM";
const POLL: Duration = Duration::from_millis(200);

/// A build under way.
pub(crate) struct Building {
    child: Child,
    log: PathBuf,
}

impl Building {
    /// Starts the build, with another Slurm than the usual one if told so. Takes no time worth speaking of when the
    /// image is in the cache.
    pub(crate) fn start(slurm: Option<&str>) -> Result<Self> {
        let directory = layout::target_directory()?;
        std::fs::create_dir_all(&directory).with_context(|| format!("could not make {}", directory.display()))?;
        let log = directory.join("image-build.log");
        let file = File::create(&log).with_context(|| format!("could not write {}", log.display()))?;
        let errors = file.try_clone().context("could not share the log of the image build")?;
        let mut command = program::program(layout::dist_bin()?.join("juju-local"))?;
        command.envs(slurm.map(|version| (SLURM_VARIABLE, version)));
        command.args(["image", "build"]).stdin(Stdio::null()).stdout(file).stderr(errors);
        say(&format!("building the machines' image in the background, unless it is cached: see {}", log.display()));
        let child = command.spawn().context("could not start `juju-local image build`")?;
        Ok(Self { child, log })
    }

    /// Waits for its end and shows what it is doing; a failed build shows the end of what it printed.
    pub(crate) fn finish(mut self) -> Result<()> {
        let begun = Instant::now();
        let mut line = ProgressLine::new();
        let status = loop {
            if let Some(status) = self.child.try_wait().context("could not wait for `juju-local image build`")? {
                break status;
            }
            if let Some(last) = self.said().lines().last() {
                line.show(begun.elapsed(), last);
            }
            thread::sleep(POLL);
        };
        line.end();
        if status.success() {
            return Ok(());
        }
        let text = self.said();
        let lines: Vec<&str> = text.lines().collect();
        say(&lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n"));
        bail!("`juju-local image build` ended with {status}; all it said is in {}", self.log.display());
    }

    fn said(&self) -> String {
        std::fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

impl Drop for Building {
    /// Waits for a build that is no longer asked for: killed half-way it would leave mounts behind, finished it serves
    /// the next run.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            say("the image build is still running: waiting for it to end (control-C ends it as well)");
            let _ = self.child.wait();
        }
    }
}
