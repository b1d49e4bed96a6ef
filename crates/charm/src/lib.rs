//! Juju as types: what a charm's `dispatch` is told, what it may ask, and what it may say.
//!
//! [`Context`] is the environment of one dispatch, read once. [`Event`] is the reason of that dispatch, decided from
//! `JUJU_DISPATCH_PATH`. [`Tools`] has one typed function per hook tool. [`run`](dispatch::run) drives a charm through
//! rounds of observe, plan and apply, reports its [`Status`], and turns the outcome into an exit code.
//!
//! This crate knows nothing of Slurm, changes nothing on the machine, and starts no process but hook tools.

pub mod action;
pub mod context;
pub mod dispatch;
pub mod event;
pub mod leaving;
pub mod log;
pub mod name;
pub mod reconcile;
pub mod status;
pub mod tools;
pub mod wake;

pub use action::{Action, ActionFailure, ActionResults};
pub use context::{Context, ContextError};
pub use dispatch::{Charm, run};
pub use event::{
    ActionName, Event, RelationEvent, RelationEventKind, SecretEvent, SecretEventKind, StorageEvent, StorageEventKind,
};
pub use leaving::is_leaving;
pub use name::{AppName, EndpointName, NameError, RelationId, SecretId, StorageId, UnitName};
pub use reconcile::{Next, Plan, ReconcileError, Reconciler};
pub use status::Status;
pub use tools::{Databag, ToolError, Tools};
pub use wake::Wake;
