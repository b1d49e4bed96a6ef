"""Daemons that die, machines that reboot, packages that are upgraded: with a job running that must not notice."""
import re

import jubilant
import pytest

from cluster import eventually, slow

UNITS = 2
# A machine of a cloud upgrades itself when it pleases; that is waited for.
APT_GET = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", "--quiet", "--option=DPkg::Lock::Timeout=240")


def back(cluster, unit):
    """The daemon runs again, and the cluster takes jobs."""
    service = "slurmctld" if unit.startswith("slurmctld/") else "slurmd"

    def runs():
        try:
            return cluster.root(unit, "systemctl", "is-active", service).strip()
        except jubilant.CLIError as error:
            return error.stdout.strip()

    eventually(runs, lambda seen: seen == "active", f"{service} of {unit}", 60)
    cluster.await_state("compute-1", ("IDLE", "MIXED"))
    cluster.srun("--nodelist=compute-1")


def test_a_crash_soon_after_a_join_does_not_forget_the_nodes(cluster):
    """Slurm itself would save a new node only after minutes; asked to, it takes some seconds.

    First of all tests: whatever happens to jobs makes slurmctld save nodes too.
    """
    script = (
        "grep --text --only-matching --no-filename 'compute-[0-9]' /var/lib/slurm/checkpoint/state/node_state || true"
    )
    saved = lambda: set(cluster.shell("slurmctld/0", script).split())
    eventually(saved, lambda seen: seen == {"compute-0", "compute-1"}, "saved nodes", 15)
    cluster.root("slurmctld/0", "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmctld")
    back(cluster, "slurmctld/0")
    for node in ("compute-0", "compute-1"):
        cluster.await_state(node, "IDLE")


@pytest.mark.parametrize(("unit", "service"), [("compute/0", "slurmd"), ("slurmctld/0", "slurmctld")])
def test_a_killed_daemon_comes_back_by_itself(cluster, job, unit, service):
    cluster.root(unit, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", service)
    back(cluster, unit)
    cluster.await_message(unit, "^active: ")


@pytest.mark.parametrize(("unit", "service"), [("compute/0", "slurmd"), slow("slurmctld/0", "slurmctld")])
def test_a_daemon_that_cannot_start_is_in_the_status_within_seconds_and_comes_back(cluster, job, unit, service):
    """Nobody calls update-status: systemd itself tells the charm."""
    broken = f"/etc/systemd/system/{service}.service.d/99-broken.conf"
    cluster.shell(
        unit, f"printf '[Service]\\nExecStart=\\nExecStart=/bin/false\\n' >{broken} && systemctl daemon-reload"
    )
    try:
        cluster.root(unit, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", service)
        cluster.await_message(unit, rf"^(?!active).*{service}", seconds=40)
    finally:
        cluster.shell(unit, f"rm {broken} && systemctl daemon-reload")
    # And it is tried again by itself.
    eventually(lambda: cluster.message(unit), lambda seen: seen.startswith("active: "), f"status of {unit}", 120)
    back(cluster, unit)


def test_upgrades_leave_slurm_alone(cluster, job):
    for unit in ("compute/0", "slurmctld/0"):
        before = cluster.daemon(unit)
        held = cluster.root(unit, "apt-mark", "showhold").split()
        assert {"slurmd" if unit.startswith("compute") else "slurmctld"} <= set(held), held
        said = cluster.root(unit, *APT_GET, "upgrade", seconds=300)
        assert "slurm" not in " ".join(re.findall(r"^Setting up (\S+)", said, re.MULTILINE)), said
        assert cluster.daemon(unit) == before
        cluster.root(unit, *APT_GET, "full-upgrade", seconds=300)
        assert cluster.daemon(unit) == before


def test_needrestart_leaves_slurm_alone(cluster, job):
    for unit in ("compute/0", "slurmctld/0"):
        cluster.root(unit, *APT_GET, "install", "needrestart", seconds=300)
        # A library that every daemon has open is replaced, as an upgrade would do it.
        cluster.shell(unit, "f=$(readlink -f /lib/x86_64-linux-gnu/libc.so.6); cp -p $f $f.new; mv $f.new $f")
        before = cluster.daemon(unit)
        said = cluster.shell(unit, "NEEDRESTART_UI=NeedRestart::UI::stdio needrestart -r a -l 2>&1", seconds=300)
        assert cluster.daemon(unit) == before, said
        listed = cluster.shell(unit, "needrestart -b -l 2>&1 || true", seconds=300)
        assert "NEEDRESTART-VER" in listed, listed


def test_the_daemons_leave_jobs_alone_when_they_stop(cluster):
    assert cluster.on("compute/0", "systemctl", "show", "--property=KillMode", "--value", "slurmd").strip() == "process"


@pytest.mark.slow
def test_a_restarted_controller_knows_jobs_and_nodes(cluster, job):
    cluster.root("slurmctld/0", "systemctl", "restart", "slurmctld")
    back(cluster, "slurmctld/0")


def test_the_controllers_machine_reboots(cluster, job):
    cluster.reboot("slurmctld/0")
    back(cluster, "slurmctld/0")
    cluster.await_message("slurmctld/0", "^active: primary - UP", 90)


def test_a_compute_machine_reboots_and_the_status_says_what_slurm_thinks_of_it(cluster):
    cluster.reboot_visibly("compute/1")
    cluster.await_state("compute-1", "DOWN", 90)
    cluster.await_message("compute/1", "^blocked: down.*rebooted", 90)
    said = str(cluster.act("slurmctld/0", "explain", node="compute-1"))
    assert "reboot" in said and "resume" in said, said
    cluster.act("compute/1", "resume")
    cluster.await_state("compute-1", "IDLE")
    cluster.await_message("compute/1", "^active: idle", 90)
    cluster.srun("--nodelist=compute-1")


@pytest.mark.slow
def test_a_drained_machine_that_reboots_stays_drained(cluster):
    cluster.scontrol("update", "nodename=compute-1", "state=drain", "reason=memory test")
    cluster.reboot("compute/1")
    cluster.await_state("compute-1", "IDLE+DRAIN", 90)
    assert cluster.node("compute-1")["reason"] == "memory test"
    cluster.scontrol("update", "nodename=compute-1", "state=resume")
    cluster.await_state("compute-1", "IDLE")


@pytest.mark.slow
def test_power_fails_everywhere_at_once(cluster):
    machines = [cluster.machine_of(unit) for unit in ("slurmctld/0", "compute/0", "compute/1")]
    # Ends of the last seconds are forgotten with the crash: such a job would keep its nodes, and in a container Slurm
    # does not see that a machine was booted.
    last = cluster.submit("true")
    cluster.await_job(last, "COMPLETED")
    cluster.await_saved(last, "EndTime")
    for machine in machines:
        cluster.local("machine", "poweroff", machine)
    for machine in machines:
        cluster.local("machine", "poweron", machine)
    eventually(lambda: alive(cluster), bool, "both nodes take jobs", 180)
    cluster.settle(slurmctld=1, compute=2)


def alive(cluster):
    try:
        return len(set(cluster.srun("--nodes=2", "--immediate=5").split())) == 2
    except Exception:
        return False


@pytest.mark.slow
def test_a_newer_slurmd_than_its_controller_is_refused_by_name(cluster):
    """The controller claims to be old, in its databag; a real old one is not in the archive."""
    relation = cluster.juju.exec("relation-ids slurmd", unit="slurmctld/0").stdout.strip()
    before = cluster.daemon("compute/0")
    cluster.juju.exec(f"""relation-set -r {relation} --app slurm_version='"23.02.1"'""", unit="slurmctld/0")
    cluster.root("compute/1", "systemctl", "stop", "slurmd")
    cluster.fire("compute/1")
    message = cluster.await_message("compute/1", "^blocked: .*23.02", 60)
    assert "slurmd" in message, message
    # One that runs is not stopped for that.
    assert cluster.daemon("compute/0") == before
    cluster.fire("slurmctld/0")
    eventually(
        lambda: cluster.message("compute/1"), lambda seen: seen.startswith("active: "), "status of compute/1", 120
    )
