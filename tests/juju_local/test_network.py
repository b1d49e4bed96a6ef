"""The network of a model: machines that come and go are not noticed by those that stay."""
import re

import pytest

from lab import eventually, for_a_while


@pytest.fixture(scope="module")
def lab(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web", num_units=2)
    lab.settle(web=2)
    return lab


def gateway_of(lab, unit):
    """Hardware address of the way to the daemon, as this machine knows it."""
    neighbours = lab.on(unit, "ip neigh show dev eth0")
    address = lab.on(unit, "ip route show default").split()[2]
    return re.search(rf"^{re.escape(address)} lladdr (\S+)", neighbours, re.MULTILINE).group(1)


def test_the_gateway_stays_the_same_when_machines_come_and_go(lab):
    """A bridge has the lowest hardware address of its ports, unless it is given one: then agents lose their way for a
    while."""
    known = gateway_of(lab, "web/0")
    lab.juju.add_unit("web", num_units=3)
    lab.settle(web=5)
    assert gateway_of(lab, "web/4") == known
    lab.juju.remove_unit("web/1", "web/2", "web/3")
    for unit in ("web/1", "web/2", "web/3"):
        lab.await_gone(unit)
    eventually(lambda: len(lab.juju.status().machines), lambda seen: seen == 2, "machines", 30)
    for_a_while(
        lambda: lab.juju.exec("true", unit="web/0", wait=5).status, lambda seen: seen == "completed", "agent", 2
    )
    assert gateway_of(lab, "web/0") == known


def test_names_of_machines_resolve_also_those_of_later_ones(lab):
    lab.juju.add_unit("web")
    lab.settle(web=3)
    for name, machine in lab.juju.status().machines.items():
        for unit in lab.juju.status().get_units("web"):
            found = lab.on(unit, f"getent hosts {machine.hostname}").split()[0]
            assert found == machine.ip_addresses[0], f"machine {name} on {unit}"
