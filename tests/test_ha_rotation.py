"""Keys that rotate on several controllers: standbys have every key before anybody signs with it, and a takeover in the
middle costs nothing."""
import json

import pytest

import ha
import host
from cluster import eventually

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not host.is_juju_local(), reason="needs machines that mount a store of their own"),
]
KEYS = "/etc/slurm/slurm.jwks"


@pytest.fixture(scope="module")
def site(new_cluster, tmp_path_factory):
    """Three controllers on a store, and two nodes."""
    site = ha.Charmed(ha.Wide(new_cluster().juju))
    site.deploy(tmp_path_factory.mktemp("charms"), controllers=3, nodes=2)
    site.await_agreement()
    return site


def ids(site, unit):
    return [key["kid"] for key in json.loads(site.cluster.root(unit, "cat", KEYS))["keys"]]


def rotate(site):
    [old] = ids(site, "compute/0")
    leader = site.cluster.leader("slurmctld")
    site.cluster.act(leader, "rotate-auth-key")
    return old


def await_rotated(site, old):
    units = ["compute/0", "compute/1", *sorted(site.cluster.juju.status().apps["slurmctld"].units)]
    seen = lambda: {tuple(ids(site, unit)) for unit in units}
    single = lambda found: len(found) == 1 and all(len(own) == 1 and old not in own for own in found)
    eventually(seen, single, "one new key everywhere", 300)
    site.await_agreement()


def test_three_controllers_rotate(site):
    beating = site.start_beating()
    await_rotated(site, rotate(site))
    site.drill()
    site.await_agreement()
    site.assert_beats(beating)


def test_the_controller_that_serves_is_lost_in_the_middle(site):
    beating = site.start_beating()
    old = rotate(site)
    primary, *_ = site.order()
    site.machine("poweroff", primary)
    eventually(site.serving, lambda seen: seen not in (None, primary), "another controller that serves", 60)
    site.machine("poweron", primary)
    site.await_boot(primary)
    site.recover(primary)
    await_rotated(site, old)
    site.drill()
    site.assert_beats(beating)
