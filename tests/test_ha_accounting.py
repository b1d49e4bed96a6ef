"""Accounting through a failover: the identity of the cluster, and its records, go with the store."""
import pytest

import ha
import host
from cluster import eventually
from packing import pack_test_charm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not host.is_juju_local(), reason="needs machines that mount a store of their own"),
]


@pytest.fixture(scope="module")
def site(new_cluster, tmp_path_factory):
    """Two controllers on a store, one node, and accounting that came afterwards."""
    directory = tmp_path_factory.mktemp("charms")
    site = ha.Charmed(ha.Wide(new_cluster().juju))
    cluster = site.cluster
    cluster.juju.deploy(pack_test_charm(directory, "mariadb"), "mysql", to=cluster.place(1))
    cluster.deploy_charm("slurmdbd", "slurmdbd", 1)
    cluster.juju.integrate("slurmdbd", "mysql")
    site.deploy(directory, controllers=2, nodes=1)
    cluster.juju.integrate("slurmdbd", "slurmctld")
    cluster.await_message("slurmdbd/0", "^active: accounts for slurmctld$", 240)
    site.await_agreement()
    return site


def records(site):
    """A job of now that is in the books."""
    job = site.submit("true")
    shown = f"sacct --noheader --parsable2 --allocations --jobs={job} --format=JobID,State 2>&1 || true"
    eventually(lambda: site.slurm(shown).strip(), lambda seen: seen == f"{job}|COMPLETED", "the record of the job", 120)


def test_a_failover_keeps_the_accounts(site):
    beating = site.start_beating()
    records(site)
    primary, backup = site.order()
    site.machine("poweroff", primary)
    site.await_serving(backup)
    records(site)
    site.machine("poweron", primary)
    site.await_boot(primary)
    site.recover(primary)
    site.await_agreement()
    records(site)
    site.assert_beats(beating)


def test_a_drill_keeps_the_accounts(site):
    site.drill()
    records(site)
    assert "accounting" not in site.cluster.message("slurmctld/0") + site.cluster.message("slurmctld/1")
