//! The real binary, started as Juju starts it, among made-up hook tools. What would change this machine is left to the
//! cluster tests; here are the edges: how it is started, how it fails, what it says.

#[path = "../../../crates/slurm-unit/tests/edges/mod.rs"]
mod edges;

const EDGES: edges::Edges =
    edges::Edges { binary: env!("CARGO_BIN_EXE_slurmrestd-charm"), daemon: "slurmrestd", unit: "rest/0" };

#[test]
fn the_last_hooks_change_nothing_and_never_block() {
    EDGES.the_last_hooks_change_nothing_and_never_block();
}

#[test]
fn an_archive_with_an_old_slurm_is_told_and_nothing_is_installed() {
    EDGES.an_archive_with_an_old_slurm_is_told_and_nothing_is_installed();
}
