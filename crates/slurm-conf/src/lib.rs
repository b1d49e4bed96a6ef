//! Slurm's configuration files as values: parse, check, edit, render.
//!
//! [`SlurmConf`] keeps every byte of the file that it read. An edit rewrites its own lines and no others, so comments, order,
//! letter case and continuation lines of an administrator survive.
//!
//! ```
//! use slurm_conf::{Partition, SlurmConf};
//!
//! let mut conf = SlurmConf::parse("ClusterName=lab # ours\nSlurmctldHost=c1\n")?;
//! let partition = Partition::from_config("compute", "maxtime=60 state=up")?;
//! assert!(conf.set_partition(&partition, &partition.nodeset()));
//! assert_eq!(conf.render(), "\
//! ClusterName=lab # ours
//! SlurmctldHost=c1
//! NodeSet=compute Feature=compute
//! PartitionName=compute Nodes=compute MaxTime=60 State=UP
//! ");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`GresConf`] and [`CgroupConf`] are the same for the files beside it, [`Parameters`] what an operator adds to them, [`Overlaid`] a
//! file with such parameters on it that can be taken off again, [`HostList`] many names in one word.
//!
//! The installed Slurm is the judge of what is valid. [`SlurmConf::check`] and the tables behind it exist for messages: line, key,
//! value, what is expected, the nearest known key. A plain key that they do not know is a doubt, never an error.
//!
//! This crate is pure: it opens no file, starts no process, reads no clock. Text that comes from outside passes a checked
//! constructor ([`PartitionName`], [`HostName`], [`Partition::from_config`] …) before it can reach a line of a file; there is no
//! way to smuggle a line break, a comment, a second key or a quote through one of them.
//!
//! It does not follow `Include` lines and does not know whether a plugin exists: only a running Slurm can tell.

mod address;
mod cgroup;
mod check;
mod defaults;
mod document;
mod error;
mod gres;
mod hostlist;
mod index;
mod lexer;
mod name;
mod nearest;
mod node;
mod node_json;
mod nodeset;
mod overlay;
mod parameters;
mod partition;
mod partition_option;
mod record;
mod setting;
mod text;
mod unknown;

pub use address::{ControllerAddress, SLURMCTLD_PORT};
pub use cgroup::CgroupConf;
pub use check::{Finding, Problem};
pub use document::SlurmConf;
pub use error::{NameError, OptionError, ParseError, ValueError};
pub use gres::{Gres, GresConf};
pub use hostlist::{HostList, MOST_HOSTS};
pub use name::{ClusterName, HostName, NodeName, PartitionName};
pub use node::Node;
pub use nodeset::NodeSet;
pub use overlay::Overlaid;
pub use parameters::{Doubt, ParameterError, Parameters};
pub use partition::Partition;
pub use partition_option::{OptionKind, OptionValue, PartitionOption};
pub use record::{Record, RecordKind};
pub use setting::{Setting, SettingKind};
pub use unknown::UnknownKey;
