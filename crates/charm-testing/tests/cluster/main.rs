//! The real charms on one model in memory, in one made-up Slurm: they find each other, and lose nothing on the way.

#![expect(clippy::unwrap_used, reason = "a test without its stage has to end")]

mod adoption;
mod departures;
mod knife;
mod leaving;
mod leaving_by_force;
mod leaving_controllers;
mod leaving_disturbed;
mod leaving_failures;
mod leaving_knife;
mod leaving_partitions;
mod leaving_returns;
mod leaving_strangers;
mod logins;
mod moving;
mod moving_knife;
mod rest;
mod rotation;
mod rotation_knife;
mod stage;
mod store;
mod store_knife;
mod store_stage;
mod store_stories;
mod stories;
mod world;
