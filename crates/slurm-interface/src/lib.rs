//! The databags of the Slurm charms as values: encode, decode, versions.
//!
//! Every type here is one bag. `encode` gives the string map to write, `decode` reads one that a remote wrote: unknown
//! keys are ignored, a known key with unfit content is an error that names the key, and "nothing there yet" is `None`.
//! Whatever comes out of `decode` has passed the checked constructors of `slurm-conf`.
//!
//! | bag | written by |
//! | --- | --- |
//! | [`ControllerData`] | the leader of slurmctld, for an application of compute nodes |
//! | [`RestData`] | the leader of slurmctld, for an application of slurmrestd |
//! | [`ComputeData`] | the leader of slurmd, for the controller |
//! | [`PeerApp`], [`PeerUnit`] | the leader of slurmctld and each of its units, for each other |
//! | [`AccountingKeys`], [`AccountingHost`] | the leader of slurmctld for slurmdbd, and the other way round |
//! | [`DatabaseRequest`], [`DatabaseAnswer`] | the leader of slurmdbd, and the database |
//! | [`MountRequest`], [`MountState`] | the leader of slurmctld, and the file system client beside it |
//! | [`AgentData`] | each unit of slurmctld, for the agent beside it that collects metrics |
//! | [`OciRuntime`] | the leader of an OCI runtime, for the controller |
//! | [`MailRelay`] | the leader of a mail integrator, for the controller |
//!
//! # Writing
//!
//! Writers write every key of the current generation of the Python charms, and the names of the written specification
//! beside them, so that either generation reads us.
//!
//! ```
//! use slurm_interface::{ControllerData, SecretUri};
//!
//! let data = ControllerData {
//!     auth_secret: SecretUri::new("secret:d3k2v5nmp25c762q3bvg").expect("an address"),
//!     controllers: vec!["c1:6817".parse()?, "c2".parse()?],
//!     slurm_version: Some("24.11.5".to_owned()),
//!     conf_digest: None,
//! };
//! let bag = data.encode();
//! assert_eq!(bag["controllers"], r#"["c1:6817", "c2:6817"]"#);
//! assert_eq!(bag["auth_secret_id"], bag["auth_key_id"]);
//! assert_eq!(bag["auth_key"], r#""""#, "no key is ever in a bag");
//! assert_eq!(ControllerData::decode(&bag)?, Some(data));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reading
//!
//! Readers also accept the generation before. The older one that put the key itself in the bag is refused by name.
//!
//! ```
//! use slurm_interface::{ComputeData, Databag};
//!
//! let bag = Databag::from([("partition".to_owned(), r#"{"partitionname": "compute", "maxtime": 60}"#.to_owned())]);
//! let data = ComputeData::decode(&bag)?.expect("a partition is there");
//! assert_eq!(data.partition.name().as_str(), "compute");
//!
//! let bag = Databag::from([("partition".to_owned(), "[]".to_owned())]);
//! let error = ComputeData::decode(&bag).unwrap_err();
//! assert!(error.to_string().starts_with("databag key `partition`: "));
//! # Ok::<(), slurm_interface::DecodeError>(())
//! ```
//!
//! # What it refuses to do
//!
//! * It calls no hook tool, knows no relation ids, and touches no file, process or clock.
//! * It never holds a key of Slurm: only the address of the secret, and an error about one does not repeat what was
//!   found. The password of a mail server may be in a bag; it has a type that prints nothing.
//! * It makes nothing of a bag that it does not understand. That costs the sender its place and nobody else.
//! * It lets no name, host, path or option of a remote through that could leave its place in a file or on a command
//!   line.
//!
//! The contracts are in `interfaces/`: who writes which key and when, a JSON schema, and examples that tests hold
//! against both.

mod accounting;
mod acknowledgement;
mod agent;
mod compute;
mod controller;
mod databag;
mod database;
mod mount;
mod oci;
mod peer;
mod rest;
mod secret;
mod slurmutils;
mod smtp;

pub use accounting::{AccountingHost, AccountingKeys};
pub use acknowledgement::KeyAcknowledgement;
pub use agent::AgentData;
pub use compute::ComputeData;
pub use controller::{ControllerData, digest};
pub use databag::{Databag, DecodeError};
pub use database::{CredentialSource, DatabaseAnswer, DatabaseEndpoint, DatabaseRequest};
pub use mount::{MountPoint, MountRequest, MountState};
pub use oci::OciRuntime;
pub use peer::{PeerApp, PeerUnit};
pub use rest::{RestData, is_conf_name};
pub use secret::SecretUri;
pub use slurm_conf::ControllerAddress;
pub use smtp::{MailLogin, MailPassword, MailRelay, MailSecurity, Password};
