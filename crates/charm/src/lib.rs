//! Juju as types: what a charm's `dispatch` is told, what it may ask, and what it may say. Works under Juju 3.6 and
//! 4.x.
//!
//! [`Context`] is the environment of one dispatch, read once. [`Event`] is the reason of that dispatch, decided from
//! `JUJU_DISPATCH_PATH`. [`Tools`] has one typed function per hook tool. [`run`] drives a charm through rounds of
//! observe, plan and apply, reports its [`Status`], and turns the outcome into an exit code.
//!
//! # A charm
//!
//! ```no_run
//! use charm::{ActionFailure, ActionName, ActionResults, Charm, Context, Next, Plan, Reconciler, Status, ToolError, Tools};
//! use charm::tools::Port;
//!
//! struct Web {
//!     tools: Tools,
//! }
//!
//! impl Reconciler for Web {
//!     type Observed = bool;
//!     type Step = &'static str;
//!     type Error = ToolError;
//!
//!     fn observe(&mut self) -> Result<bool, ToolError> {
//!         Ok(self.tools.opened_ports()?.contains(&Port::tcp(80)))
//!     }
//!     fn plan(open: &bool) -> Plan<&'static str> {
//!         let steps = if *open { vec![] } else { vec!["open port 80"] };
//!         Plan { steps, next: Next::Settled }
//!     }
//!     fn apply(&mut self, _: &&'static str) -> Result<(), ToolError> {
//!         self.tools.writer().open_port(Port::tcp(80));
//!         Ok(())
//!     }
//!     fn status(_: &bool) -> Status {
//!         Status::active("serving")
//!     }
//! }
//!
//! impl Charm for Web {
//!     const TIMERS: &'static [&'static str] = &[];
//!     fn new(_: Context, tools: Tools) -> Self {
//!         Self { tools }
//!     }
//!     fn act(&mut self, action: &ActionName) -> Result<ActionResults, ActionFailure> {
//!         Err(ActionFailure::refused(format!("this charm has no action {}", action.as_str())))
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     charm::run::<Web>()
//! }
//! ```
//!
//! # Reads and writes
//!
//! * What Juju shows the same from the start of a hook to its end (options, bags, relations, ports, state) is asked
//! once. What may change meanwhile (goal state, secrets of others, leadership after a while) is asked each time.
//! * What Juju commits only after the hook (bags, state, ports, changes and grants of secrets) is collected, seen by
//! later reads, and sent when the rounds are over, each only if it differs. A settled hook starts no process that
//! writes. A dispatch that fails sends nothing: Juju itself would drop it after a hook, but not after `juju-exec`,
//! through which timers call. The exception is `secret-add`, which has to answer with an id.
//! * What acts at once in Juju (status, version, log, reboot) is said at once.
//! * What Juju may deny is a value: a secret whose relation is gone ([`SecretAnswer`](tools::SecretAnswer)), the own
//! bag of a unit that does not lead ([`Tools::relation_get_own_app`]), a write after the leadership has moved (dropped
//! with a warning). Everything else is a [`ToolError`] that keeps command line, exit code and standard error.
//!
//! # What it refuses to do
//!
//! It knows nothing of Slurm, changes nothing on the machine, and starts no process but hook tools, in one place. It
//! keeps no queue of deferred events: a plan that lacks data has fewer steps, and the next event completes it. No
//! content of a secret is ever an argument of a process, or shown by `Debug`. It never guesses at an answer of Juju
//! that it cannot decode. Kubernetes charms, `leader-get` and `leader-set` (gone in Juju 4), `credential-get` and
//! payloads are left out.

pub mod action;
pub mod context;
pub mod dispatch;
pub mod event;
pub mod leaving;
pub mod log;
pub mod name;
pub mod reconcile;
pub mod runtime;
pub mod status;
pub mod text;
pub mod tools;
pub mod wake;

pub use action::{ActionFailure, ActionResults};
pub use context::{Context, ContextError};
pub use dispatch::{Charm, run};
pub use event::{ActionName, Event, RelationEvent, RelationEventKind};
pub use leaving::is_leaving;
pub use name::{AppName, EndpointName, NameError, RelationId, SecretId, UnitName};
pub use reconcile::{Next, Plan, ReconcileError, Reconciler};
pub use status::Status;
pub use tools::{Databag, Juju, JujuWriter, ToolError, Tools};
pub use wake::Wake;
