//! This unit's node: what it is described with, what its machine has, and how it gets from one description to another.

pub mod departure;
pub mod description;
pub mod hardware;
pub mod lifecycle;
pub mod reregistration;
pub mod state;
