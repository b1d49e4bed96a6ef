//! slurmd on a compute node: what the machine has, and with which options the daemon starts. Starting it is in
//! `systemd`.
//!
//! ```
//! use slurm_conf::{Node, NodeName};
//! use slurm_ops::slurmd::{SlurmdOptions, parse_defaults, render_defaults};
//!
//! let options = SlurmdOptions {
//!     name: NodeName::new("compute-0")?,
//!     conf: Node::from_config("CPUs=2 Feature=compute")?,
//!     controllers: vec!["c1:6817".parse()?],
//! };
//! let file = render_defaults("# of the administrator\n", &options);
//! assert_eq!(
//!     file,
//!     "# of the administrator\nSLURMD_OPTIONS=-Z -N compute-0 --conf 'CPUs=2 Feature=compute' --conf-server c1:6817\n"
//! );
//! assert_eq!(parse_defaults(&file), Some(options));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod options;
pub mod remnants;

pub use options::{SlurmdOptions, parse_defaults, render_defaults};

use options::without_options;

use crate::command::CommandError;
use crate::files::{self, Access, FileError};
use crate::machine::{Host, HostWriter};
use slurm_conf::{Node, OptionError};
use std::time::Duration;

/// Environment file of the packaged unit.
pub const DEFAULTS_FILE: &str = "/etc/default/slurmd";

/// What the hardware is could not be found out.
#[derive(Debug, thiserror::Error)]
pub enum DetectionError {
    /// `slurmd -C` failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// `slurmd -C` printed something else than a node.
    #[error("`slurmd -C` printed no node")]
    Output(#[source] OptionError),
}

/// Asks slurmd for what it detects on this machine: processors, sockets, memory.
pub fn machine_info(host: &Host) -> Result<Node, DetectionError> {
    // Needs no configuration and no controller, but slurmd has options that wait for one, so never without a deadline.
    let output = host.command("slurmd").arg("-C").env_remove("SLURM_CONF").deadline(Duration::from_secs(20)).run()?;
    Node::from_detected(&output.stdout).map_err(DetectionError::Output)
}

/// Reads the options that slurmd will start with. `None`: none are set.
pub fn read_options(host: &Host) -> Result<Option<SlurmdOptions>, FileError> {
    Ok(files::read_text(host, DEFAULTS_FILE)?.as_deref().and_then(parse_defaults))
}

/// Takes away the options that slurmd would start with. Other lines of the file stay.
pub fn remove_options(writer: &HostWriter) -> Result<bool, FileError> {
    let Some(present) = files::read_text(writer.host(), DEFAULTS_FILE)? else { return Ok(false) };
    files::replace(writer, DEFAULTS_FILE, without_options(&present).as_bytes(), &Access::own(0o644))
}

/// Writes the options that slurmd will start with, and tells whether they were different. Other lines of the file stay.
pub fn ensure_options(writer: &HostWriter, options: &SlurmdOptions) -> Result<bool, FileError> {
    let present = files::read_text(writer.host(), DEFAULTS_FILE)?.unwrap_or_default();
    files::replace(writer, DEFAULTS_FILE, render_defaults(&present, options).as_bytes(), &Access::own(0o644))
}
