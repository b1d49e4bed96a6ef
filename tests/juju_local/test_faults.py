"""What may happen to machines while a hook runs on them, and what becomes of the hook. One model, one story after the
other."""
import secrets

import jubilant
import pytest

from lab import Event, eventually

HELD = "config-changed"


@pytest.fixture(scope="module")
def lab(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web", num_units=2)
    lab.settle(web=2)
    return lab


@pytest.fixture(autouse=True)
def machines_are_as_before(lab, request):
    """After each story the host has the same machines as before it, and nothing more of them."""
    before = lab.frame()
    yield
    if request.session.testsfailed:
        lab.repair()
    eventually(
        lab.frame, lambda after: after == before, f"what the machines are on the host, before {sorted(before)}", 20
    )


def enter_held_hook(lab, *units):
    """Gets the units into a hook that they stay in."""
    for unit in units:
        lab.hold(unit, HELD)
    lab.juju.config("web", {"word": secrets.token_hex(4)})
    for unit in units:
        eventually(lambda: runs_of(lab, unit), lambda seen: seen[0] == seen[1] + 1, f"runs of {HELD} on {unit}", 20)


def runs_of(lab, unit):
    """How often the hook was begun, and how often ended."""
    journal = lab.journal(unit)
    return tuple(sum(event == Event(phase, HELD, "-", "-") for event in journal) for phase in ("begin", "end"))


def agent_status(lab, unit):
    return lab.unit(unit).juju_status.current


def machine_status(lab, unit):
    return lab.juju.status().machines[lab.machine_of(unit)].juju_status.current


def test_a_hook_outlives_a_cut_cable_and_a_frozen_machine(lab):
    cut, frozen = units = "web/0", "web/1"
    runs_before = [runs_of(lab, unit) for unit in units]
    enter_held_hook(lab, *units)
    lab.machine("cut", cut)
    lab.machine("freeze", frozen)
    for unit in units:
        eventually(lambda: agent_status(lab, unit), lambda seen: seen == "lost", f"agent of {unit}", 30)
        assert machine_status(lab, unit) == "down"
        assert lab.unit(unit).workload_status.current == "unknown"
    lab.release(cut, HELD)
    lab.machine("heal", cut)
    lab.machine("thaw", frozen)
    lab.release(frozen, HELD)
    lab.settle(web=2)
    for unit in units:
        assert machine_status(lab, unit) == "started"
    # Run to its end, and not begun anew.
    assert [runs_of(lab, unit) for unit in units] == [(begun + 1, ended + 1) for begun, ended in runs_before]


def test_a_hook_that_lost_its_power_runs_again_from_the_top(lab):
    unit = "web/1"
    begun, ended = runs_of(lab, unit)
    enter_held_hook(lab, unit)
    lab.machine("poweroff", unit)
    machine = lab.juju.status().machines[lab.machine_of(unit)]
    assert machine.machine_status.current == "stopped"
    eventually(lambda: machine_status(lab, unit), lambda seen: seen == "down", "the agent of the machine", 30)
    lab.machine("poweron", unit)
    # The gate is still closed, so the hook is entered a second time and held again.
    eventually(lambda: runs_of(lab, unit), lambda seen: seen == (begun + 2, ended), f"runs of {HELD}", 30)
    starts = lab.hooks(unit).count("start")
    lab.release(unit, HELD)
    lab.settle(web=2)
    assert runs_of(lab, unit) == (begun + 2, ended + 1)
    # As after every reboot of a unit that had started, and only when the hook in progress is done.
    assert lab.hooks(unit)[-2:] == [HELD, "start"]
    assert lab.hooks(unit).count("start") == starts + 1
    assert runs_of(lab, "web/0") == (runs_of(lab, "web/0")[1],) * 2


def test_a_rebooted_machine_runs_start_only(lab):
    unit = "web/0"
    before = lab.hooks(unit)
    lab.machine("reboot", unit)
    eventually(lambda: lab.hooks(unit), lambda seen: len(seen) > len(before), f"hooks of {unit}", 30)
    lab.settle(web=2)
    assert lab.hooks(unit) == [*before, "start"]


def test_juju_reboot_waits_for_the_end_of_the_hook(lab):
    unit, boot = "web/0", boot_of(lab, "web/0")
    before = lab.hooks(unit)
    lab.leave_script(unit, HELD, "juju-reboot\nstate-set asked=yes\nrm $place/do/$event\n")
    lab.juju.config("web", {"word": secrets.token_hex(4)})
    eventually(lambda: boot_of(lab, unit), lambda seen: seen not in ("", boot), f"boot of {unit}", 30)
    eventually(lambda: lab.hooks(unit), lambda seen: len(seen) == len(before) + 2, f"hooks of {unit}", 30)
    lab.settle(web=2)
    assert lab.hooks(unit) == [*before, HELD, "start"]
    assert lab.tool(unit, "state-get asked").strip() == "yes"


def test_juju_reboot_now_runs_the_dropped_hook_again(lab):
    unit, boot = "web/0", boot_of(lab, "web/0")
    begun, ended = runs_of(lab, unit)
    before = lab.hooks(unit)
    # Only the first time round; a file remembers it, the state must not.
    script = """
    state-set round-$([ -e /var/lib/probe/rebooted ] && echo two || echo one)=yes
    if [ ! -e /var/lib/probe/rebooted ]; then
        touch /var/lib/probe/rebooted
        juju-reboot --now
        sleep 60
    fi
    rm $place/do/$event
    """
    lab.leave_script(unit, HELD, script)
    lab.juju.config("web", {"word": secrets.token_hex(4)})
    eventually(lambda: boot_of(lab, unit), lambda seen: seen not in ("", boot), f"boot of {unit}", 30)
    eventually(lambda: runs_of(lab, unit), lambda seen: seen == (begun + 2, ended + 1), f"runs of {HELD}", 30)
    lab.settle(web=2)
    assert sorted(lab.hooks(unit)[len(before) :]) == [HELD, "start"]
    assert lab.tool(unit, "state-get round-one").strip() == ""
    assert lab.tool(unit, "state-get round-two").strip() == "yes"


def test_juju_reboot_is_refused_in_an_action(lab):
    with pytest.raises(jubilant.TaskError) as refused:
        lab.poke("web/0", "juju-reboot")
    assert "juju-reboot is not supported when running an action." in refused.value.task.stderr
    lab.settle(web=2)


def boot_of(lab, unit):
    """Tells one boot of a machine from the next; empty while it is off."""
    try:
        return lab.on(unit, "systemctl show --property=UserspaceTimestampMonotonic --value").strip()
    except jubilant.CLIError:
        return ""
