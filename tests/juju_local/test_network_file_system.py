"""A network file system that machines of a model mount: served by one, mounted by others through FUSE and autofs."""
import jubilant
import pytest

import charms
import packing
from lab import eventually

MOUNT = "/srv/store"


@pytest.fixture(scope="module")
def lab(new_lab, tmp_path_factory):
    lab, directory = new_lab(), tmp_path_factory.mktemp("charms")
    provides = {"mount": {"interface": "mount_info", "scope": "container"}}
    lab.juju.deploy(packing.pack_test_charm(directory, "moosefs"), "store")
    # A mount that failed is tried again at once, not after a minute.
    client = packing.pack_test_charm(directory, "filesystem-client")
    lab.juju.deploy(client, config={"map-options": "--negative-timeout=1"})
    lab.juju.deploy(charms.probe(directory, "user", provides=provides), "web", num_units=2)
    lab.juju.integrate("filesystem-client:filesystem", "store")
    lab.juju.integrate("filesystem-client:mount", "web")
    lab.settle(store=1, web=2)
    return lab


def wants(lab, mountpoint):
    """What the principal asks for: as JSON, or not at all."""
    leader = next(name for name, unit in lab.juju.status().get_units("web").items() if unit.leader)
    relation = lab.tool(leader, "relation-ids mount").strip()
    lab.tool(leader, f"relation-set -r {relation} --app mountpoint='{mountpoint}'")


def said(lab, unit):
    """What clients have told a unit. In Juju 4.0 it hears of those on other machines, too."""
    relation = lab.tool(unit, "relation-ids mount").strip()
    clients = lab.tool(unit, f"relation-list -r {relation}").split()
    return {lab.tool(unit, f"relation-get -r {relation} mounted {client}").strip() for client in clients}


def table(lab, unit):
    """Types of what is mounted there, lowest first."""
    lines = lab.on(unit, "cat /proc/self/mountinfo").splitlines()
    return [line.split(" - ")[1].split()[0] for line in lines if line.split()[4] == MOUNT]


def test_nothing_is_mounted_before_somebody_asks(lab):
    assert said(lab, "web/0") == {""}
    assert table(lab, "web/0") == []


def test_what_one_machine_writes_the_other_reads(lab):
    wants(lab, f'"{MOUNT}"')
    for unit in ("web/0", "web/1"):
        eventually(lambda: said(lab, unit), lambda seen: seen == {"true"}, f"what {unit} was told", 60)
    # It was said without a look: what is behind the trigger is mounted by whoever comes first.
    assert table(lab, "web/0") == ["autofs"]
    lab.on("web/0", f"echo first >{MOUNT}/file && sync {MOUNT}/file")
    assert lab.on("web/1", f"cat {MOUNT}/file") == "first\n"
    assert table(lab, "web/0") == ["autofs", "fuse"]


def test_a_machine_stands_still_whoever_waits_for_its_mount(lab):
    """The process that serves the mount may stand still before those that wait for its answer."""
    for number in range(4):
        loop = f"while :; do dd if=/dev/zero of={MOUNT}/busy-{number} bs=4k count=1 conv=fsync status=none; done"
        lab.on("web/0", f'systemd-run --quiet --unit=busy-{number} --collect sh -c "{loop}"')
    for _ in range(10):
        lab.machine("freeze", "web/0")
        lab.machine("thaw", "web/0")
    lab.on("web/0", "systemctl stop busy-0 busy-1 busy-2 busy-3")


def test_it_is_there_again_after_a_power_loss_of_client_and_server(lab):
    for unit in ("web/1", "store/0"):
        lab.machine("poweroff", unit)
        lab.machine("poweron", unit)
    lab.settle(store=1, web=2)
    read = lambda: read_file(lab, "web/1")
    eventually(read, lambda seen: seen == "first\n", "what web/1 reads", 60)
    lab.on("web/0", f"echo second >{MOUNT}/file && sync {MOUNT}/file")
    eventually(read, lambda seen: seen == "second\n", "what web/1 reads", 60)


def read_file(lab, unit):
    try:
        return lab.on(unit, f"timeout -s KILL 10 cat {MOUNT}/file")
    except jubilant.CLIError as error:
        return error.stderr


def test_who_asks_no_more_has_no_mount(lab):
    wants(lab, "")
    eventually(lambda: table(lab, "web/0"), lambda seen: seen == [], "what is mounted", 60)
    eventually(lambda: said(lab, "web/0"), lambda seen: seen == {""}, "what was told", 60)
    lab.juju.remove_relation("filesystem-client:mount", "web")
    eventually(
        lambda: lab.on("web/0", "ls /etc/auto.master.d"), lambda seen: "filesystem" not in seen, "maps of autofs", 60
    )
