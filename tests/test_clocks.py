"""Clocks that differ and names that do not resolve: named in words, and healed by themselves when the cause goes.

The clock of one daemon is set off with libfaketime, which is fetched from the archive of the host that runs the tests,
not installed there.
"""
import base64
import subprocess

import pytest

from cluster import eventually

UNITS = 1
NODE, CONTROLLER = "compute/0", "slurmctld/0"
LIBRARY = "/opt/libfaketime.so"


@pytest.fixture(scope="module")
def library(cluster, tmp_path_factory):
    """libfaketime on both machines."""
    directory = tmp_path_factory.mktemp("faketime")
    for command in (["apt-get", "download", "libfaketime"], ["sh", "-c", "dpkg-deb --extract libfaketime_*.deb ."]):
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"libfaketime cannot be fetched: {done.stderr}")
    [file] = directory.rglob("libfaketimeMT.so.1")
    text = base64.encodebytes(file.read_bytes()).decode()
    for unit in (NODE, CONTROLLER):
        cluster.shell(unit, f"base64 --decode >{LIBRARY} <<END\n{text}END\n")


def daemon(unit):
    return "slurmd" if unit == NODE else "slurmctld"


def set_clock(cluster, unit, seconds):
    environment = f"LD_PRELOAD={LIBRARY} FAKETIME={seconds:+d}s FAKETIME_DONT_FAKE_MONOTONIC=1"
    directory = f"/etc/systemd/system/{daemon(unit)}.service.d"
    cluster.shell(
        unit,
        f"printf '[Service]\\nEnvironment={environment}\\n' >{directory}/99-clock.conf; systemctl daemon-reload;"
        f" systemctl restart --no-block {daemon(unit)}",
    )


def mend_clock(cluster, unit):
    drop_in = f"/etc/systemd/system/{daemon(unit)}.service.d/99-clock.conf"
    cluster.shell(unit, f"rm --force {drop_in}; systemctl daemon-reload; systemctl restart --no-block {daemon(unit)}")


def told(cluster, unit, word, seconds=60):
    """What a unit says at an event of Juju that comes by itself every few minutes."""

    def message():
        cluster.fire(unit)
        return cluster.message(unit)

    return eventually(message, lambda seen: word in seen, f"status of {unit}", seconds)


def whole(cluster):
    """Nobody calls: the timer of the node finds out."""
    cluster.await_message(NODE, "^active: idle, partition compute$", 90)
    assert cluster.srun().strip()


@pytest.mark.slow
def test_a_node_whose_clock_is_behind_is_told_so_on_both_sides(cluster, library):
    set_clock(cluster, NODE, -600)
    try:
        told(cluster, NODE, "clock")
        told(cluster, CONTROLLER, "clock")
    finally:
        mend_clock(cluster, NODE)
    whole(cluster)
    eventually(
        lambda: told(cluster, CONTROLLER, "primary - UP"),
        lambda seen: seen == "active: primary - UP",
        "status of the controller",
        120,
    )


@pytest.mark.slow
def test_a_node_whose_clock_is_ahead_is_told_so_when_slurmctld_cannot_reach_it(cluster, library):
    """Such a node joins like any other: what it says is good for even longer. It only believes nothing that it is
    told."""
    set_clock(cluster, NODE, 600)
    try:
        eventually(lambda: cluster.state("compute-0"), lambda seen: "IDLE" in seen, "state of compute-0", 30)
        job = cluster.submit("true", "--nodelist=compute-0")
        told(cluster, NODE, "clock", 120)
    finally:
        mend_clock(cluster, NODE)
    cluster.on(CONTROLLER, "scancel", job)
    whole(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [-600, 600], ids=["behind", "ahead"])
def test_a_controller_whose_clock_differs_is_told_on_the_node_before_a_job_fails(cluster, library, seconds):
    set_clock(cluster, CONTROLLER, seconds)
    try:
        # As after any start: the node is not settled yet, and its timer looks.
        eventually(lambda: cluster.message(CONTROLLER), lambda seen: "UP" in seen, "controller", 30)
        cluster.root(NODE, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmd")
        eventually(lambda: cluster.message(NODE), lambda seen: "clock" in seen, f"status of {NODE}", 60)
    finally:
        mend_clock(cluster, CONTROLLER)
    whole(cluster)


@pytest.mark.slow
def test_a_controller_whose_name_does_not_resolve_is_named(cluster):
    name = cluster.machines()[cluster.machine_of(CONTROLLER)]
    # Nor does a name server know it, where there is one.
    files = "/etc/hosts /etc/nsswitch.conf"
    forget = f"grep --invert-match {name} /root/hosts >/etc/hosts"
    ask_nobody = "sed --in-place 's/^hosts:.*/hosts: files/' /etc/nsswitch.conf"
    cluster.shell(NODE, f"cp {files} /root; {forget}; {ask_nobody}; systemctl restart --no-block slurmd")
    try:
        message = told(cluster, NODE, "resolve")
        assert name in message, message
    finally:
        cluster.shell(NODE, "cat /root/hosts >/etc/hosts; cat /root/nsswitch.conf >/etc/nsswitch.conf")
    whole(cluster)
