"""`juju-exec` from a timer on the machine, as charms use it to look after things between hooks."""
import pytest

from lab import Event, eventually, for_a_while

HELD = "config-changed"
# What the recordings have under juju-exec, beside what every hook has.
ENVIRONMENT = {"JUJU_HOOK_NAME": "", "JUJU_UNIT_NAME": "web/0", "JUJU_PRINCIPAL_UNIT": ""}
ABSENT = ["JUJU_DISPATCH_PATH", "JUJU_ACTION_NAME", "JUJU_RELATION", "HOME", "USER", "CALLER"]


@pytest.fixture(scope="module")
def lab(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web")
    lab.settle(web=1)
    return lab


def start_timer(lab, name, script):
    """A timer that fires at once, whose service calls `juju-exec` for the unit."""
    lab.on("web/0", f"cat >/usr/local/bin/{name}", stdin=script)
    lab.on(
        "web/0",
        f"systemd-run --quiet --on-active=0 --setenv=CALLER=timer --unit={name} "
        f'juju-exec web/0 "bash /usr/local/bin/{name}"',
    )


def result_of(lab, name):
    return lab.on("web/0", f"systemctl show --property=ActiveState --value {name}.service").strip()


def test_a_timer_gets_a_context_of_its_own_after_the_hook(lab):
    lab.hold("web/0", HELD)
    lab.juju.config("web", {"word": "x"})
    lab.await_begin("web/0", HELD, count=2)
    start_timer(
        lab, "tick", "env >/run/tick.env; pwd >/run/tick.place; config-get word >/run/tick.word; state-set ticked=yes\n"
    )
    eventually(lambda: result_of(lab, "tick"), lambda seen: seen == "active", "state of the timer's service", 10)
    for_a_while(lambda: lab.on("web/0", "ls /run"), lambda seen: "tick.env" not in seen, "what the timer left", 2)
    lab.release("web/0", HELD)
    eventually(lambda: result_of(lab, "tick"), lambda seen: seen == "inactive", "state of the timer's service", 10)
    found = dict(line.split("=", 1) for line in lab.on("web/0", "cat /run/tick.env").splitlines() if "=" in line)
    assert {name: found.get(name) for name in ENVIRONMENT} == ENVIRONMENT
    assert found["JUJU_CONTEXT_ID"].startswith("web/0-run-commands-")
    assert not [name for name in ABSENT if name in found]
    assert lab.on("web/0", "cat /run/tick.place").strip() == "/var/lib/juju/agents/unit-web-0/charm"
    assert lab.on("web/0", "cat /run/tick.word").strip() == "x"
    assert lab.tool("web/0", "state-get ticked").strip() == "yes"


def test_a_timer_can_dispatch_an_event_of_its_own(lab):
    start_timer(lab, "beat", "JUJU_DISPATCH_PATH=hooks/beat exec ./dispatch\n")
    lab.await_heard("web/0", Event("end", "beat", "-", "-"))
    lab.settle(web=1)


def test_what_a_failed_run_wrote_counts_all_the_same(lab):
    start_timer(lab, "fails", "state-set before=failure; exit 3\n")
    eventually(lambda: result_of(lab, "fails"), lambda seen: seen == "failed", "state of the timer's service", 10)
    assert lab.tool("web/0", "state-get before").strip() == "failure"
    lab.settle(web=1)


def test_a_timer_fires_also_while_the_unit_is_in_error(lab):
    lab.juju.model_config({"automatically-retry-hooks": False})
    lab.leave_script("web/0", HELD, "exit 1\n")
    lab.juju.config("web", {"word": "y"})
    eventually(lambda: lab.unit("web/0").workload_status.current, lambda seen: seen == "error", "workload", 20)
    start_timer(lab, "mend", "rm /var/lib/probe/web-0/do/config-changed; state-set mended=yes\n")
    eventually(lambda: result_of(lab, "mend"), lambda seen: seen == "inactive", "state of the timer's service", 10)
    assert lab.tool("web/0", "state-get mended").strip() == "yes"
    lab.juju.cli("resolved", "web/0")
    lab.settle(web=1)


def test_nobody_waits_for_what_runs_in_the_background(lab):
    lab.hold("web/0", HELD)
    lab.juju.config("web", {"word": "z"})
    eventually(lambda: lab.journal("web/0")[-1], lambda seen: seen == Event("begin", HELD, "-", "-"), "last event", 20)
    # It cannot begin before the hook ends, and the command returns all the same.
    lab.juju.cli("exec", "--background", "--unit", "web/0", "--", "state-set later=yes")
    assert lab.journal("web/0")[-1] == Event("begin", HELD, "-", "-")
    lab.release("web/0", HELD)
    eventually(lambda: lab.tool("web/0", "state-get later").strip(), lambda seen: seen == "yes", "what it wrote", 20)
