"""A model for each test file, shown when something failed, and destroyed at its end.

| environment | meaning |
| --- | --- |
| `SACKD_CHARM`, … | charm files, for each charm one (default: `dist/…_amd64.charm` of this checkout) |
| `CLUSTER_MODEL` | name of the model (default: `cluster-` and six random digits); test files take turns with it |
| `CLUSTER_KEEP` | if set, the model is not destroyed after a failure, so that one can look around |
| `CLUSTER_SLURM` | the Slurm that has to be installed, such as `26.05` (default: whatever comes) |
| `RUN_ALL` | if set, tests marked `slow` run too |
| `CLUSTER_SOURCE` | value of the option `slurm-source`, for machines whose own archive has no Slurm that will do |
| `CLUSTER_ADD_MACHINE` | in a cloud that makes no machines: a command that prints a fresh `ssh:ubuntu@192.0.2.7` |
| `CLUSTER_PATIENCE` | waits so many times as long as on juju-local before giving up (default: 5 on a real Juju) |

The `juju` in use is the first one on PATH.
"""

import contextlib
import os
import pathlib
import secrets
import subprocess

import jubilant
import pytest

from cluster import Cluster

HERE = pathlib.Path(__file__).parent
LOG_LINES = 200


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes long; run with RUN_ALL=1, or `cargo xtask test cluster --all`")
    config.addinivalue_line("markers", "core: what has to work with every Slurm, and so is run with each")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == HERE and item.get_closest_marker("slow") and not os.environ.get("RUN_ALL"):
            item.add_marker(pytest.mark.skip(reason="slow: run with RUN_ALL=1"))


@pytest.fixture(scope="module")
def new_cluster(request):
    """Makes an empty model. What is in it when the test file has ended is destroyed."""
    made = []
    failed_before = request.session.testsfailed
    failed = lambda: request.session.testsfailed > failed_before

    def make(version=None):
        """`version`: which Juju a model of juju-local behaves like, if not the usual one."""
        cluster = Cluster(jubilant.Juju())
        # Regular update-status hooks would only be in the way; tests that want one ask for it.
        model = os.environ.get("CLUSTER_MODEL") or f"cluster-{secrets.token_hex(3)}"
        config = {"update-status-hook-interval": "60m"} | ({"juju-version": version} if version else {})
        cluster.juju.add_model(model, config=config)
        made.append((cluster, model))
        return cluster

    try:
        yield make
    finally:
        for cluster, model in made:
            if cluster.juju.model and failed():
                show(cluster.juju)
            if cluster.juju.model and not (failed() and os.environ.get("CLUSTER_KEEP")):
                cluster.juju.destroy_model(model, destroy_storage=True, force=True)


@pytest.fixture(scope="module")
def cluster(request, new_cluster):
    """A controller and two nodes, or as many as the test file says in `UNITS`; a file with a story of its own has its
    own."""
    cluster = new_cluster()
    try:
        cluster.deploy(units=getattr(request.module, "UNITS", 2))
    except Exception:
        show(cluster.juju)
        raise
    cluster.check_slurm()
    return cluster


@pytest.fixture(autouse=True)
def no_job_is_left(request):
    """A test that failed half-way leaves no job behind that the next one would have to wait for."""
    yield
    cluster = (request.node.funcargs or {}).get("cluster")
    if isinstance(cluster, Cluster) and cluster.juju.model:
        with contextlib.suppress(jubilant.CLIError, subprocess.TimeoutExpired):
            cluster.on(cluster.controller, "scancel", "--user=ubuntu")


@pytest.fixture
def job(cluster):
    """A job on compute-0 that has to be there, never restarted, when the test has ended."""
    job = cluster.start_job("compute-0")
    cluster.await_saved(job)
    yield job
    cluster.assert_unharmed(job)
    cluster.cancel(job)
    cluster.await_state("compute-0", "IDLE")


def show(juju):
    """Prints what a person would look at first; pytest shows it with the failure."""
    for title, arguments in (("status", ["status"]), ("log", ["debug-log", "--limit", str(LOG_LINES)])):
        try:
            text = juju.cli(*arguments)
        except jubilant.CLIError as error:
            text = str(error)
        print(f"--- {title}\n{text}")
