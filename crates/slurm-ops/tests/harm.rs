//! The running cluster is asked what has to be known about a new slurm.conf. Which changes are hazards, slurm-conf
//! tests.

mod support;

use slurm_ops::scontrol::{Candidate, harm};
use support::Sandbox;

const OLD: &str = "ClusterName=lab\nMaxNodeCount=65533\nTaskPlugin=task/none\n";

/// A cluster with two nodes, `jobs` jobs and the plugins `task/affinity` and `mpi/pmix`.
fn cluster(jobs: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    let nodes = "NodeName=compute-0 State=IDLE TmpDisk=0 Weight=1\nNodeName=compute-1 State=IDLE TmpDisk=0 Weight=1\n";
    sandbox.answer("scontrol", nodes, "", 0);
    sandbox.answer("squeue", &(1..=jobs).map(|id| format!("{id}\n")).collect::<String>(), "", 0);
    for plugin in ["task_affinity", "mpi_pmix"] {
        sandbox.file(&format!("/usr/lib/x86_64-linux-gnu/slurm-wlm/{plugin}.so"), "");
    }
    sandbox
}

fn refused(sandbox: &Sandbox, old: &str, new: &str) -> Option<String> {
    match harm(&sandbox.machine().host(), old, new) {
        Candidate::Readable => None,
        Candidate::Refused { reason } => Some(reason),
        Candidate::Unknown { why } => panic!("{new}: {why}"),
    }
}

#[test]
fn tables_that_have_no_room_for_what_is_there_are_refused() {
    let sandbox = cluster(5);
    for (line, culprit) in [
        ("MaxNodeCount=1", Some("MaxNodeCount=1: at least 2, ")),
        ("MaxNodeCount=2", None),
        ("MaxJobCount=1", Some("MaxJobCount=1: at least 15, or slurmctld forgets jobs (it has 5)")),
        ("MaxJobCount=15", None),
    ] {
        let found = refused(&sandbox, OLD, &format!("{OLD}{line}\n"));
        assert_eq!(found.is_some(), culprit.is_some(), "{line}: {found:?}");
        assert!(found.unwrap_or_default().contains(culprit.unwrap_or_default()), "{line}");
    }
}

#[test]
fn nobody_is_asked_about_what_does_not_shrink() {
    let sandbox = cluster(5);
    assert_eq!(refused(&sandbox, OLD, &format!("{OLD}KillWait=60\nMaxJobCount=10000\n")), None);
    assert_eq!(sandbox.calls(), Vec::<String>::new());
}

#[test]
fn slurmctld_that_cannot_be_asked_is_no_answer() {
    let sandbox = cluster(0);
    sandbox.answer("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1);
    let found = harm(&sandbox.machine().host(), OLD, "MaxNodeCount=65533\nMaxJobCount=5\n");
    assert!(matches!(found, Candidate::Unknown { .. }), "{found:?}");
    // Unless it is the file itself that no client can read.
    let parser = "squeue: error: _parse_next_key: Parsing error at unrecognized key: Bogus\n\
                  squeue: fatal: Unable to process configuration file\n";
    sandbox.answer("squeue", "", parser, 1);
    let found = harm(&sandbox.machine().host(), OLD, "MaxNodeCount=65533\nMaxJobCount=5\nBogus=1\n");
    assert_eq!(found, Candidate::Readable);
}

#[test]
fn a_plugin_that_is_not_there_is_named() {
    let sandbox = cluster(0);
    for (line, culprit) in [
        ("TaskPlugin=task/affinity", None),
        ("TaskPlugin=task/affinity,task/bogus", Some("TaskPlugin: there is no plugin task/bogus on this machine")),
        ("MpiDefault=pmix", None),
        ("MpiDefault=bogus", Some("MpiDefault: there is no plugin mpi/bogus on this machine")),
    ] {
        let found = refused(&sandbox, OLD, &format!("{OLD}{line}\n"));
        assert_eq!(found.is_some(), culprit.is_some(), "{line}: {found:?}");
        assert!(found.unwrap_or_default().contains(culprit.unwrap_or_default()), "{line}");
    }
}
