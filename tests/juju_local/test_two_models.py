"""Two models at once, with the same names in them, do not meet."""
import pytest

import jubilant

from lab import eventually


@pytest.fixture(scope="module")
def labs(new_lab, probe):
    labs = new_lab(), new_lab()
    for lab in labs:
        lab.juju.deploy(probe, "web")
    for lab in labs:
        lab.settle(web=1)
    return labs


def test_each_status_shows_its_own_machines_only(labs):
    shown = [{machine.hostname for machine in lab.juju.status().machines.values()} for lab in labs]
    assert [len(names) for names in shown] == [1, 1]
    assert not shown[0] & shown[1]
    labs[0].juju.add_unit("web")
    labs[0].settle(web=2)
    assert len(labs[1].juju.status().get_units("web")) == 1


def test_hooks_and_configuration_of_one_are_none_of_the_other(labs):
    one, other = labs
    before = other.journal("web/0")
    one.juju.config("web", {"word": "mine"})
    one.await_begin("web/0", "config-changed", count=2)
    one.settle(web=2)
    assert one.tool("web/0", "config-get word").strip() == "mine"
    assert other.tool("web/0", "config-get word").strip() == ""
    assert other.journal("web/0") == before


def test_names_and_addresses_reach_only_into_the_own_model(labs):
    one, other = labs
    own = one.juju.status().machines["1"]
    foreign = other.juju.status().machines["0"]
    assert one.on("web/0", f"getent hosts {own.hostname}").split()[0] == own.ip_addresses[0]
    one.on("web/0", f"ping -c1 -W2 {own.hostname}")
    with pytest.raises(jubilant.CLIError):
        one.on("web/0", f"getent hosts {foreign.hostname}")
    with pytest.raises(jubilant.CLIError):
        one.on("web/0", f"ping -c1 -W2 {foreign.ip_addresses[0]}")


def test_the_end_of_one_is_not_noticed_by_the_other(labs):
    one, other = labs
    frame = other.frame()
    one.destroy()
    other.settle(web=1)
    assert other.frame() == frame
    other.juju.add_unit("web")
    other.settle(web=2)
    eventually(
        lambda: other.tool("web/1", "relation-list -r $(relation-ids crew)").split(),
        lambda seen: seen == ["web/0"],
        "peers",
        10,
    )
