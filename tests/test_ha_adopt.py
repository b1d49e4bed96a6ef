"""A cluster whose application is lost, and another one that adopts it from the store. `cargo xtask test ha` runs it."""
import jubilant
import pytest

import ha
import host
from cluster import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not host.is_juju_local(), reason="needs machines that mount a store of their own"),
]

UNIT = "heir/0"


@pytest.fixture(scope="module")
def site(new_cluster, tmp_path_factory):
    site = ha.Charmed(ha.Wide(new_cluster().juju))
    site.deploy(tmp_path_factory.mktemp("charms"), controllers=1, nodes=1)
    return site


def test_another_application_adopts_the_cluster_with_its_jobs(site):
    cluster, juju = site.cluster, site.cluster.juju
    job = site.submit("true", "--hold")
    site.await_saved()
    [machine] = site.controllers().values()
    name = site.look(machine, f"cat {ha.MARKER}").split()[0]
    juju.cli("remove-application", "--force", "--no-prompt", "slurmctld")
    eventually(lambda: juju.status().apps, lambda seen: "slurmctld" not in seen, "applications", 240)
    config = {"use-network-state": True, "slurm-conf-parameters": ha.PARAMETERS}
    cluster.deploy_charm("slurmctld", "heir", 1, config=config)
    juju.integrate("filesystem-client:mount", "heir:mount")
    told = cluster.await_message(UNIT, "^blocked: .*adopt", 240)
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
