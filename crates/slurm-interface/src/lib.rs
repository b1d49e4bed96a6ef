//! The databags of the Slurm charms as values: encode, decode, versions.
//!
//! Every type here is one bag. `encode` gives the string map to write, `decode` reads one that a remote wrote: unknown keys are
//! ignored, a known key with unfit content is an error that names the key, and "nothing there yet" is `None`. Whatever comes out
//! of `decode` has passed the checked constructors of `slurm-conf`.
//!
//! Writers write every key of the current generation of the Python charms, and the names of the written specification beside
//! them. Readers also accept the generation before. The older one that put the key itself in the bag is refused by name.
//!
//! This crate calls no hook tool and knows no relation ids. The contracts are in `interfaces/`.

mod compute;
mod controller;
mod databag;
mod peer;
mod secret;

pub use compute::ComputeData;
pub use controller::ControllerData;
pub use databag::{Databag, DecodeError};
pub use peer::{PeerApp, PeerUnit};
pub use secret::SecretUri;
pub use slurm_conf::ControllerAddress;
