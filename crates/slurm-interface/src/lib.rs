//! The databags of the Slurm charms as values: encode, decode, versions.
//!
//! Every type here is one bag. `encode` gives the string map to write, `decode` reads one that a remote wrote: unknown keys are
//! ignored, a known key with unfit content is an error that names the key, and "nothing there yet" is `None`. Whatever comes out
//! of `decode` has passed the checked constructors of `slurm-conf`.
//!
//! Writers write every key of the current generation of the Python charms, and the names of the written specification beside
//! them. Readers also accept the generation before. The older one that put the key itself in the bag is refused by name.
//!
//! `receive` does the same with the sender's name in the error and the generation of the remote in the result:
//!
//! ```
//! use slurm_interface::{ComputeData, Databag, Generation};
//!
//! let bag = Databag::from([("partition".to_owned(), r#"{"partitionname": "compute", "maxtime": 60}"#.to_owned())]);
//! let received = ComputeData::receive("compute", &bag)?;
//! assert_eq!(received.generation, Some(Generation::Current));
//! assert_eq!(received.data.expect("a partition is there").partition.name().as_str(), "compute");
//!
//! let bag = Databag::from([("partition".to_owned(), "[]".to_owned())]);
//! let error = ComputeData::receive("compute", &bag).unwrap_err();
//! assert!(error.to_string().starts_with("compute: databag key `partition`: "));
//! # Ok::<(), slurm_interface::BagError>(())
//! ```
//!
//! This crate calls no hook tool and knows no relation ids. The contracts are in `interfaces/`.

mod compute;
mod controller;
mod databag;
mod mount;
mod peer;
mod received;
mod secret;

pub use compute::ComputeData;
pub use controller::ControllerData;
pub use databag::{Databag, DecodeError};
pub use mount::{MountPoint, MountRequest, MountState};
pub use peer::{PeerApp, PeerUnit};
pub use received::{BagError, Generation, Received};
pub use secret::SecretUri;
pub use slurm_conf::ControllerAddress;
