//! What can fail beneath a step or a look at the machine. Which step it was is told by whoever ran it, so nothing is added.

use charm::ToolError;
use slurm_ops::CommandError;
use slurm_ops::files::FileError;
use slurm_ops::hostname::HostNameError;
use slurm_ops::keys::KeyError;
use slurm_ops::store::StoreError;
use slurm_ops::systemd::DropInError;

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
    Store(#[from] StoreError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    HostName(#[from] HostNameError),
    #[error(transparent)]
    DropIn(#[from] DropInError),
    #[error("the kernel gave no random bytes: {0}")]
    Random(getrandom::Error),
    #[error("the secret {label} cannot be read, and no key is left on this machine")]
    KeyLost { label: &'static str },
}
