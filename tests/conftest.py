"""A model with the cluster in it, made once for each test file, and shown when something failed.

| environment | meaning |
| --- | --- |
| `SLURMCTLD_CHARM`, `SLURMD_CHARM` | charm files (default: `dist/…_amd64.charm` of this checkout) |
| `CLUSTER_MODEL` | name of the model (default: `cluster-` and six random digits) |
| `CLUSTER_KEEP` | if set, the model is not destroyed after a failure, so that one can look around |

The `juju` in use is the first one on PATH.
"""
import os
import pathlib
import secrets

import jubilant
import pytest

import host

DIST = pathlib.Path(__file__).parent.parent / "dist"
LOG_LINES = 200


class Cluster:
    """The deployed pair: the model, and what the tests ask it for."""

    controller = "slurmctld/0"

    def __init__(self, juju):
        self.juju = juju
        # Before the model exists, so that it can be compared with what is left afterwards.
        self.traces_before = host.traces()

    def deploy(self):
        self.juju.deploy(charm_file("SLURMCTLD_CHARM", "slurmctld"))
        self.juju.deploy(charm_file("SLURMD_CHARM", "slurmd"), "compute", num_units=2)
        self.juju.integrate("slurmctld", "compute")
        self.settle(controllers=1, nodes=2)

    def settle(self, controllers, nodes, timeout=600):
        """Waits until all units are active and idle; a time-out shows the last status."""
        expected = {"slurmctld": controllers, "compute": nodes}

        def ready(status):
            return (
                all(len(status.get_units(app)) == count for app, count in expected.items())
                and jubilant.all_active(status, *expected)
                and jubilant.all_agents_idle(status, *expected)
            )

        return self.juju.wait(ready, timeout=timeout)

    def srun(self, nodes):
        """Runs `hostname` on that many nodes as an ordinary user; returns the names, sorted."""
        # The time limit is ours: srun itself waits for ever when a node is missing.
        output = self.juju.ssh(self.controller, "timeout", "120", "srun", "-p", "compute", f"-N{nodes}", "hostname")
        return sorted(output.split())

    def machines(self):
        """Machine id → host name."""
        return {name: machine.hostname for name, machine in self.juju.status().machines.items()}

    def machine_of(self, unit):
        return self.juju.status().get_units(unit.split("/")[0])[unit].machine

    def units(self):
        status = self.juju.status()
        return sorted(unit for app in status.apps for unit in status.get_units(app))


def charm_file(variable, name):
    path = pathlib.Path(os.environ.get(variable) or DIST / f"{name}_amd64.charm").resolve()
    if not path.is_file():
        pytest.fail(f"{path} is missing: run `cargo xtask pack`, or name a charm file in {variable}", pytrace=False)
    return path


@pytest.fixture(scope="module")
def cluster(request):
    juju = jubilant.Juju()
    cluster = Cluster(juju)
    model = os.environ.get("CLUSTER_MODEL") or f"cluster-{secrets.token_hex(3)}"
    failed_before = request.session.testsfailed
    juju.add_model(model)
    try:
        try:
            cluster.deploy()
        except Exception:
            show(juju)
            raise
        yield cluster
        if request.session.testsfailed > failed_before and juju.model:
            show(juju)
    finally:
        failed = request.session.testsfailed > failed_before
        if juju.model and not (failed and os.environ.get("CLUSTER_KEEP")):
            juju.destroy_model(model, destroy_storage=True, force=True)


def show(juju):
    """Prints what a person would look at first; pytest shows it with the failure."""
    for title, arguments in (("status", ["status"]), ("log", ["debug-log", "--limit", str(LOG_LINES)])):
        try:
            text = juju.cli(*arguments)
        except jubilant.CLIError as error:
            text = str(error)
        print(f"--- {title}\n{text}")
