"""Machines are rebooted by Slurm, one at a time, and come back as they were."""
import json

import pytest

from cluster import eventually

CONTROLLER = "slurmctld/0"
# A container shows the boot time of its host. So Slurm waits for a boot that it never sees until this is over, in
# seconds, and looks every half minute or so.
RESUME_TIMEOUT = 5
WAIT = 150
# The claim of a fresh boot, as on real iron.
CLAIM = """
printf '%s\\n' '[Service]' 'ExecStartPre=/bin/sleep 2' 'ExecStart=' \\
    'ExecStart=/usr/sbin/slurmd --systemd -b $SLURMD_OPTIONS' >/etc/systemd/system/slurmd.service.d/99-boot-time.conf
"""


def boots(cluster, unit):
    """What is another one after each boot of the unit's machine."""
    return cluster.on(unit, "cut", "-d", " ", "-f", "22", "/proc/1/stat").strip()


def remarks(cluster):
    nodes = json.loads(cluster.act(CONTROLLER, "show-nodes")["nodes"])
    return {node["node"]: node.get("remarks", "") for node in nodes}


def await_reboots(cluster, seconds=WAIT):
    cluster.await_message(CONTROLLER, "^active: primary - UP$", seconds)


def test_nodes_reboot_once_and_are_as_they_were(cluster):
    """compute-0 has a job, and compute-1 is drained by its operator."""
    cluster.juju.config("slurmctld", {"slurm-conf-parameters": f"ResumeTimeout={RESUME_TIMEOUT}"})
    eventually(lambda: cluster.setting("ResumeTimeout"), lambda seen: seen == f"{RESUME_TIMEOUT} sec", "timeout", 60)
    cluster.settle(slurmctld=1)
    cluster.scontrol("update", "nodename=compute-1", "state=drain", "reason=loud fan")
    job = cluster.start_job("compute-0")
    before = {unit: boots(cluster, unit) for unit in ("compute/0", "compute/1")}
    done = cluster.act(CONTROLLER, "reboot", nodes="compute-[0-1]", reason="new kernel")
    assert done["nodes"] == "compute-0,compute-1", done
    assert "reboots: 1 of 2 away, 1 to go" in cluster.message(CONTROLLER)
    assert "REBOOT_REQUESTED" in cluster.state("compute-0") and cluster.node("compute-0")["reason"] == "new kernel"
    shown = remarks(cluster)
    assert shown["compute-0"].startswith("reboot requested") and shown["compute-1"] == "reboot queued", shown
    # Once more is no second reboot.
    assert cluster.act(CONTROLLER, "reboot", nodes="compute-0")["queued-before"] == "compute-0"
    cluster.assert_unharmed(job)
    assert {unit: boots(cluster, unit) for unit in before} == before
    cluster.cancel(job)
    await_reboots(cluster, 2 * WAIT)
    after = {unit: boots(cluster, unit) for unit in before}
    assert all(after[unit] != before[unit] for unit in before), (before, after)
    cluster.await_state("compute-0", "IDLE")
    cluster.await_state("compute-1", "IDLE+DRAIN")
    assert cluster.node("compute-1")["reason"] == "loud fan"
    cluster.scontrol("update", "nodename=compute-1", "state=resume")
    cluster.await_state("compute-1", "IDLE")
    assert not any(remarks(cluster).values())
    assert len(cluster.hosts(nodes=2)) == 2
    assert {unit: boots(cluster, unit) for unit in before} == after, "rebooted twice"


def test_a_reboot_is_taken_back_and_a_drain_stays(cluster):
    cluster.scontrol("update", "nodename=compute-0", "state=drain", "reason=disk")
    job = cluster.start_job("compute-1")
    before = boots(cluster, "compute/1")
    cluster.scontrol("update", "nodename=compute-1", "state=drain", "reason=fan")
    cluster.act(CONTROLLER, "reboot", nodes="compute-1")
    cluster.act(CONTROLLER, "reboot", nodes="compute-0")
    assert "REBOOT_REQUESTED" in cluster.state("compute-1")
    cluster.act(CONTROLLER, "reboot", nodes="compute-[0-1]", cancel=True)
    assert "DRAIN" in cluster.state("compute-1") and "REBOOT" not in cluster.state("compute-1")
    assert cluster.node("compute-1")["reason"] == "fan" and cluster.node("compute-0")["reason"] == "disk"
    await_reboots(cluster, 30)
    cluster.assert_unharmed(job)
    assert boots(cluster, "compute/1") == before
    cluster.cancel(job)
    cluster.act(CONTROLLER, "resume", nodename="compute-[0-1]")
    for node in ("compute-0", "compute-1"):
        cluster.await_state(node, "IDLE")


def test_what_cannot_be_rebooted_is_refused(cluster):
    assert "nosuch-0" in cluster.refuse(CONTROLLER, "reboot", nodes="compute-0,nosuch-0")
    assert "nodes" in cluster.refuse(CONTROLLER, "reboot", nodes="")


@pytest.mark.slow
def test_a_boot_that_slurm_sees_brings_a_node_back_at_once(cluster):
    """With the claim of a fresh boot, as on real iron; and slurmctld dies in between."""
    cluster.restore("slurmctld", "slurm-conf-parameters")
    eventually(lambda: cluster.setting("ResumeTimeout"), lambda seen: seen == "60 sec", "timeout", 60)
    cluster.settle(slurmctld=1)
    before = boots(cluster, "compute/0")
    cluster.shell("compute/0", CLAIM)
    try:
        cluster.act(CONTROLLER, "reboot", nodes="compute-0")
        cluster.root(CONTROLLER, "systemctl", "kill", "--signal=KILL", "slurmctld")
        await_reboots(cluster)
        cluster.await_state("compute-0", "IDLE")
        assert boots(cluster, "compute/0") != before
    finally:
        cluster.shell("compute/0", "rm /etc/systemd/system/slurmd.service.d/99-boot-time.conf; systemctl daemon-reload")
    assert len(cluster.hosts(nodes=2)) == 2
