//! Juju as types: what a charm's `dispatch` is told, what it may ask, and what it may say. Works under Juju 3.6 and
//! 4.x.
//!
//! [`Context`] is the environment of one dispatch, read once. [`Event`] is the reason of that dispatch, decided from
//! `JUJU_DISPATCH_PATH`. [`Juju`] and [`JujuWriter`] have one typed function per hook tool. [`runtime::run`] drives a
//! charm through the rounds of its plan, reports its [`Status`], and turns the outcome into an exit code.
//!
//! # A charm
//!
//! ```no_run
//! use charm::runtime::{Ask, Attempts, Charm, Condition, Dispatch, Plan};
//! use charm::tools::Port;
//! use charm::{ActionFailure, ActionName, ActionResults, Context, Juju, JujuWriter, Status, ToolError, Tools};
//!
//! charm::facts! {
//!     /// Port 80 is open.
//!     open: Open(bool),
//! }
//!
//! struct Web;
//! # enum Never {}
//! # impl Condition for Never {
//! #     fn status(&self) -> Status { match *self {} }
//! #     fn needs_retry(&self) -> bool { match *self {} }
//! # }
//!
//! impl Charm for Web {
//!     const EVENTS: &'static [&'static str] = &["retry"];
//!     const RETRY: &'static str = "retry";
//!     type View = Juju;
//!     type Hands = JujuWriter;
//!     type Facts = Facts;
//!     type Step = &'static str;
//!     type Outcome = ();
//!     type Condition = Never;
//!     type Error = ToolError;
//!
//!     fn begin(_: Context, tools: &Tools) -> (Juju, JujuWriter) {
//!         (tools.juju().clone(), tools.writer().clone())
//!     }
//!     fn look(juju: &Juju, Question::Open: Question, _: &Facts) -> Result<Fact, ToolError> {
//!         Ok(Fact::Open(juju.opened_ports()?.contains(&Port::tcp(80))))
//!     }
//!     fn plan(facts: &Facts, _: &Attempts<&'static str, ()>) -> Result<Plan<&'static str, Never>, Ask<Question>> {
//!         Ok(if *facts.open()? { Plan::rest(vec![]) } else { Plan::steps(vec!["open port 80"]) })
//!     }
//!     fn apply(juju: &JujuWriter, _: &&'static str) -> Result<(), ToolError> {
//!         juju.open_port(Port::tcp(80));
//!         Ok(())
//!     }
//!     fn learn(facts: &mut Facts, _: &&'static str, (): &()) {
//!         facts.learn(Fact::Open(true));
//!     }
//!     fn status(_: &Facts, _: &[Never]) -> Status {
//!         Status::active("serving")
//!     }
//! #   fn retry_timer_is_set(_: &Juju) -> bool { false }
//! #   fn set_retry_timer(_: &JujuWriter, _: bool) -> Result<(), ToolError> { Ok(()) }
//!     fn act(_: &Dispatch<'_, Self>, action: &ActionName) -> Result<ActionResults, ActionFailure> {
//!         Err(ActionFailure::refused(format!("this charm has no action {}", action.as_str())))
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     charm::runtime::run::<Web>()
//! }
//! ```
//!
//! # Reads and writes
//!
//! * What Juju shows the same from the start of a hook to its end (options, bags, relations, ports, the goal state) is
//!   asked once. Secrets of others, and leadership after a while, are asked again.
//! * What Juju commits only after the hook (bags, ports, changes and grants of secrets) is collected, seen by later
//!   reads, and sent when the rounds are over, each only if it differs. A settled hook starts no process that writes.
//!   A dispatch that fails sends nothing: Juju itself would drop it after a hook, but not after `juju-exec`, through
//!   which timers call. The exception is `secret-add`, which has to answer with an id.
//! * What acts at once in Juju (status, version, log) is said at once.
//! * What Juju may deny is a value: a secret whose relation is gone ([`SecretAnswer`](tools::SecretAnswer)), the own
//!   bag of a unit that does not lead ([`Juju::relation_get_own_app`]), a write after the leadership has moved
//!   (dropped with a warning). Everything else is a [`ToolError`] that keeps command line, exit code and standard
//!   error.
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
pub mod event;
pub mod leaving;
pub mod log;
pub mod name;
pub mod runtime;
pub mod status;
pub mod text;
pub mod tools;
pub mod wake;

pub use action::{ActionFailure, ActionResults};
pub use context::{Context, ContextError};
pub use event::{ActionName, Event, RelationEvent, RelationEventKind};
pub use leaving::is_leaving;
pub use name::{AppName, EndpointName, NameError, RelationId, SecretId, UnitName};
pub use status::Status;
pub use tools::{Databag, Juju, JujuWriter, ToolError, Tools};
pub use wake::Wake;
