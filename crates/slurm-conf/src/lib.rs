//! Slurm's configuration files as values: parse, check, edit, render.
//!
//! # Files
//!
//! [`SlurmConf`] keeps every byte of the file that it read. An edit rewrites its own lines and no others, so comments,
//! order, letter case and continuation lines of an administrator survive.
//!
//! ```
//! use slurm_conf::{HostName, Partition, SlurmConf};
//!
//! let mut conf = SlurmConf::parse("ClusterName=lab # ours\nSlurmctldHost=c1\n")?;
//! let partition = Partition::from_config("compute", "maxtime=60 state=up")?;
//! assert!(conf.set_partition(&partition, &partition.nodeset()));
//! assert!(conf.set_controllers(&[HostName::new("c1")?, HostName::new("c2")?]));
//! assert_eq!(conf.render(), "\
//! ClusterName=lab # ours
//! SlurmctldHost=c1
//! SlurmctldHost=c2
//! NodeSet=compute Feature=compute
//! PartitionName=compute Nodes=compute MaxTime=60 State=UP
//! ");
//! assert!(!conf.set_partition(&partition, &partition.nodeset()), "the same again changes nothing");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`CgroupConf`] is the same for cgroup.conf, and [`DbdConf`] makes a slurmdbd.conf. [`EffectiveConf`] is what a
//! slurm.conf says once `DEFAULT` lines and included files are applied; [`overrides`] and [`hazards`] compare two of
//! them: what a reconfigure would undo, and what it would cost.
//!
//! # Records
//!
//! [`Partition`], [`NodeSet`] and [`Node`] are single records. Each is read from an operator's line and rendered; the
//! first two also have the JSON form in which the databags of the Slurm charms carry them, normalised so that the
//! Python ones accept it. [`HostList`] is many names in one word, [`Parameters`] what an operator adds to a file, each
//! key on its own.
//!
//! ```
//! use slurm_conf::{HostList, Node, Parameters};
//!
//! let mut node = Node::from_detected("NodeName=n1 CPUs=4 RealMemory=7900\nUpTime=0-00:12:04\n")?;
//! node.merge(&Node::from_config("RealMemory=7000 Weight=5")?);
//! assert_eq!(node.render(), "CPUs=4 RealMemory=7000 Weight=5");
//!
//! assert!("login,n[1-3]".parse::<HostList>()?.contains("n2"));
//!
//! let parameters = Parameters::parse("KillWait=60\nMaxJobCont=5", &["ClusterName"])?;
//! let doubts: Vec<String> = parameters.doubts().iter().map(ToString::to_string).collect();
//! assert!(doubts[0].contains("MaxJobCount"), "{doubts:?}");
//! let refused = Parameters::parse("clustername=mine", &["ClusterName"]).unwrap_err();
//! assert!(refused.to_string().contains("clustername"), "{refused}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who judges
//!
//! The installed Slurm does. The tables of known keys exist for messages: line, key, value, what is expected, the
//! nearest known key. A key that they do not know is a doubt, never an error, since a newer Slurm may know it: it is
//! taken as text, carried and written, and [`Partition::unknown`] has a hint for the case that Slurm refuses it too.
//! Values are refused where Slurm 24.11 and 26.05 were seen to refuse them; tests/verdicts/table.jsonl has what they
//! said to each.
//!
//! # What it refuses to do
//!
//! * It opens no file, starts no process and reads no clock; the texts of included files come from the caller.
//! * It lets nothing from outside leave its place. Text passes a checked constructor ([`PartitionName`], [`HostName`],
//!   [`Partition::from_config`] …) before it can reach a line of a file; there is no way to smuggle a line break, a
//!   comment, a second key, another record or a quote through one of them.
//! * It does not panic on input, and no short text becomes more names than memory holds.
//! * It does not know whether a plugin, a group or a device exists: only the machine can tell.

mod address;
mod cgroup;
mod companions;
mod dbd;
mod document;
mod effective;
mod error;
pub mod hazards;
mod hostlist;
mod index;
mod lexer;
mod name;
mod nearest;
mod node;
mod nodeset;
mod overlay;
pub mod overrides;
mod parameters;
mod partition;
mod partition_option;
mod record;
mod setting;
mod text;
mod unknown;

pub use address::{ControllerAddress, SLURMCTLD_PORT};
pub use cgroup::CgroupConf;
pub use dbd::DbdConf;
pub use document::SlurmConf;
pub use effective::EffectiveConf;
pub use error::{NameError, OptionError, ParseError, ValueError, shown};
pub use hostlist::{HostList, MOST_HOSTS};
pub use name::{ClusterName, HostName, NodeName, PartitionName};
pub use node::Node;
pub use nodeset::NodeSet;
pub use overlay::{LineKind, Overlaid};
pub use parameters::{Doubt, ParameterError, Parameters};
pub use partition::Partition;
pub use partition_option::{OptionKind, OptionValue, PartitionOption};
pub use record::{Record, RecordKind};
pub use text::checked_line;
pub use unknown::UnknownKey;
