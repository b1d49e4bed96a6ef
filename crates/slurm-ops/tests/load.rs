//! How much a running cluster has, for those who judge whether a new slurm.conf is safe for it.

mod support;

use slurm_ops::packages;
use slurm_ops::scontrol::{ScontrolError, job_count, node_count};
use support::Sandbox;

#[test]
fn nodes_and_jobs_are_counted() {
    let sandbox = Sandbox::new();
    let nodes = "NodeName=compute-0 State=IDLE TmpDisk=0 Weight=1\nNodeName=compute-1 State=IDLE TmpDisk=0 Weight=1\n";
    sandbox.answer("scontrol", nodes, "", 0);
    sandbox.answer("squeue", "1\n2\n3\n\n", "", 0);
    let host = sandbox.machine().host();
    assert_eq!((node_count(&host), job_count(&host)), (Ok(2), Ok(3)));
}

#[test]
fn slurmctld_that_cannot_be_asked_is_no_answer() {
    let sandbox = Sandbox::new();
    sandbox.answer("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1);
    let error = job_count(&sandbox.machine().host()).unwrap_err();
    assert!(matches!(error, ScontrolError::Unreachable { .. }) && !error.is_unparsable(), "{error:?}");
}

#[test]
fn a_file_in_place_that_no_client_can_read_is_told_apart() {
    let sandbox = Sandbox::new();
    let parser = "squeue: error: _parse_next_key: Parsing error at unrecognized key: Bogus\n\
                  squeue: fatal: Unable to process configuration file\n";
    sandbox.answer("squeue", "", parser, 1);
    assert!(job_count(&sandbox.machine().host()).unwrap_err().is_unparsable());
}

#[test]
fn plugins_are_found_wherever_packages_put_them() {
    let sandbox = Sandbox::new();
    sandbox.file("/usr/lib/x86_64-linux-gnu/slurm-wlm/task_affinity.so", "");
    sandbox.file("/opt/slurm/lib/mpi_pmix.so", "");
    sandbox.file("/var/lib/dpkg/info/slurm-site.list", "/.\n/opt/slurm/lib/mpi_pmix.so\n/opt/slurm/lib/gone.so\n");
    let plugins = packages::plugins(&sandbox.machine().host());
    assert_eq!(plugins.into_iter().collect::<Vec<_>>(), ["mpi_pmix.so", "task_affinity.so"]);
}
