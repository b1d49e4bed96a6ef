"""Several controllers on a network file system, and what may happen to them. `cargo xtask test ha` runs these.

Jobs beat through every story, a client submits each second, and afterwards order, bags, daemons, nodes and statuses
say the same and a takeover works.
"""
import pytest

import ha
import host

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="needs faults that only juju-local can make")


@pytest.fixture(scope="module")
def single(new_cluster, tmp_path_factory):
    """One controller on the store."""
    site = ha.Charmed(new_cluster())
    site.deploy(tmp_path_factory.mktemp("charms"), controllers=1, nodes=1)
    return site


def test_a_single_controller_comes_up_on_the_store(single):
    [host] = single.order()
    machine = single.controllers()[host]
    assert single.serving() == host
    assert single.mounted(host) == ["autofs", "fuse"]
    assert single.look(machine, f"cat {ha.MARKER}").strip()
    job = single.start_beating()
    single.assert_beats(job)
    single.cancel(job)
