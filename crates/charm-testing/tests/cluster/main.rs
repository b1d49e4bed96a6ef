//! Both real charms on one model in memory, in one made-up Slurm: they find each other, and lose nothing on the way.

#![expect(clippy::unwrap_used, reason = "a test without its stage has to end")]

mod knife;
mod stage;
mod stories;
mod world;
