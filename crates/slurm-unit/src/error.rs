//! What can fail beneath a look or a step. The look or the step is named by the runtime, so nothing is added here.

use charm::ToolError;
use slurm_ops::files::FileError;
use slurm_ops::hostname::HostNameError;
use slurm_ops::keys::KeyError;
use slurm_ops::slurmd::DetectionError;
use slurm_ops::{CommandError, MachineError};

/// A failure of Juju or of the machine. The hook fails with it, and Juju runs it again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    HostName(#[from] HostNameError),
    #[error(transparent)]
    Detection(#[from] DetectionError),
    /// Something that only one charm knows.
    #[error("{0}")]
    Other(String),
}
