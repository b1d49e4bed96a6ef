"""A cluster whose application is lost, and another one that adopts it from the store. `cargo xtask test ha` runs it."""
import re
import time

import jubilant
import pytest

import ha
import host
from cluster import SAVED_AFTER, eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not host.is_juju_local(), reason="needs machines that mount a store of their own"),
]

UNIT = "heir/0"
WANTS_TO_BE_TOLD = "^blocked: .*adopt"


@pytest.fixture(scope="module")
def site(new_cluster, tmp_path_factory):
    site = ha.Charmed(ha.Wide(new_cluster().juju))
    site.deploy(tmp_path_factory.mktemp("charms"), controllers=1, nodes=1)
    return site


def deploy(cluster, app):
    config = {"use-network-state": True, "slurm-conf-parameters": ha.PARAMETERS}
    cluster.deploy_charm("slurmctld", app, 1, config=config)
    cluster.juju.integrate("filesystem-client:mount", f"{app}:mount")


def test_another_application_adopts_the_cluster_with_its_jobs(site):
    cluster, juju = site.cluster, site.cluster.juju
    job = site.submit("true", "--hold")
    site.await_saved()
    [machine] = site.controllers().values()
    name = site.look(machine, f"cat {ha.MARKER}").split()[0]
    juju.cli("remove-application", "--force", "--no-prompt", "slurmctld")
    eventually(lambda: juju.status().apps, lambda seen: "slurmctld" not in seen, "applications", 240)
    deploy(cluster, "heir")
    told = cluster.await_message(UNIT, WANTS_TO_BE_TOLD, 240)
    assert f"adopt cluster={name}" in told, told
    with pytest.raises(jubilant.TaskError) as refused:
        cluster.act(UNIT, "adopt", cluster="another")
    assert name in refused.value.task.message and "another" in refused.value.task.message

    def adopted():
        """The last probe of the fence that is gone has to be old enough."""
        try:
            return cluster.act(UNIT, "adopt", cluster=name)
        except jubilant.TaskError as error:
            assert "is alive" in error.task.message, error
            return None

    results = eventually(adopted, bool, "adopted", 60)
    assert results["cluster"] == name and results["adopted-from"].endswith("/slurmctld"), results
    cluster.await_message(UNIT, "^active: primary - UP", 180)
    juju.integrate("heir", "compute")
    cluster.settle(heir=1, compute=1)
    site.prepare_nodes()
    # Slurm shows it in small letters.
    assert cluster.setting("ClusterName") == name.lower()
    seen = site.job(job)
    assert seen.get("JobState") == "PENDING", seen
    site.slurm(f"scontrol release {job}")
    site.await_job(job, "COMPLETED")


def test_a_cluster_that_lives_is_adopted_with_force_only_and_its_slurmctld_ends(site):
    cluster, usurper = site.cluster, "usurper/0"
    old = cluster.machine_of(UNIT)
    name = site.look(old, f"cat {ha.MARKER}").split()[0]
    job = site.submit("true", "--hold")
    site.pause_until(time.time() + SAVED_AFTER)
    deploy(cluster, "usurper")
    cluster.await_message(usurper, WANTS_TO_BE_TOLD, 240)
    with pytest.raises(jubilant.TaskError) as refused:
        cluster.act(usurper, "adopt", cluster=name)
    # A single controller gives no other sign of life.
    fence = f"the cluster is alive: the fence of {cluster.machines()[old]} writes to the store."
    assert fence in refused.value.task.message, refused.value.task.message
    assert site.daemon_of(UNIT) == "active"
    cluster.act(usurper, "adopt", cluster=name, force=True)
    cluster.await_message(usurper, "^active: primary - UP", 180)
    assert site.daemon_of(UNIT) != "active"
    cluster.fire(UNIT)
    assert re.search(f"^blocked: .*{name}", cluster.message(UNIT)), cluster.message(UNIT)
    shown = site.look(cluster.machine_of(usurper), f"scontrol --oneliner show job {job}", 20)
    assert "JobState=PENDING" in shown, shown
