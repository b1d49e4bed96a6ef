"""Leadership when the machine of the leader is gone: the lease runs out, and another unit takes over."""
import time

import pytest

from lab import eventually

# A lease of a minute, counted from the last word of its holder, and the few seconds until it is seen to be over.
TAKEN_OVER_WITHIN = 65


def leader_of(lab):
    return [name for name, unit in lab.juju.status().get_units("web").items() if unit.leader]


@pytest.mark.slow
def test_another_unit_leads_when_the_leader_has_lost_its_power(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web")
    lab.settle(web=1)
    lab.juju.add_unit("web", num_units=1)
    lab.settle(web=2)
    assert leader_of(lab) == ["web/0"]
    frame = lab.frame()
    lab.machine("poweroff", "web/0")
    lost = time.monotonic()
    eventually(lambda: lab.unit("web/0").juju_status.current, lambda seen: seen == "lost", "agent of web/0", 30)
    assert leader_of(lab) == ["web/0"], "the lease still runs"
    assert lab.tool("web/1", "is-leader").strip() == "False"
    eventually(lambda: leader_of(lab), lambda seen: seen == ["web/1"], "leader", TAKEN_OVER_WITHIN)
    assert time.monotonic() - lost < TAKEN_OVER_WITHIN
    eventually(lambda: lab.hooks("web/1"), lambda seen: seen[-1] == "leader-elected", "hooks of web/1", 10)
    assert lab.tool("web/1", "is-leader").strip() == "True"
    lab.machine("poweron", "web/0")
    eventually(lambda: lab.hooks("web/0").count("start"), lambda seen: seen == 2, "starts of web/0", 30)
    lab.settle(web=2)
    assert lab.tool("web/0", "is-leader").strip() == "False"
    assert lab.hooks("web/0").count("leader-elected") == 1
    assert leader_of(lab) == ["web/1"]
    assert lab.frame() == frame


def test_a_leader_that_is_back_in_time_stays_leader(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web")
    lab.settle(web=1)
    lab.juju.add_unit("web")
    lab.settle(web=2)
    lab.machine("reboot", "web/0")
    eventually(lambda: lab.hooks("web/0").count("start"), lambda seen: seen == 2, "starts of web/0", 30)
    lab.settle(web=2)
    assert leader_of(lab) == ["web/0"]
    assert [lab.hooks(unit).count("leader-elected") for unit in ("web/0", "web/1")] == [1, 0]
