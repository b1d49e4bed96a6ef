"""The daemon of a model is killed: the next command starts it again, and everything goes on where it was."""
import itertools
import secrets

import pytest

from lab import PHASES, Event, eventually, for_a_while

HELD = "config-changed"


@pytest.fixture(scope="module")
def lab(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "server")
    lab.juju.deploy(probe, "client", num_units=2)
    lab.juju.integrate("server:serve", "client:use")
    lab.settle(server=1, client=2)
    return lab


def picture(lab):
    """What an operator sees of the model, without times."""
    status = lab.juju.status()
    return {
        "machines": {name: machine.hostname for name, machine in status.machines.items()},
        "units": {name: unit.machine for app in status.apps for name, unit in status.get_units(app).items()},
        "leaders": [name for app in status.apps for name, unit in status.get_units(app).items() if unit.leader],
        "relations": {app: sorted(status.apps[app].relations) for app in status.apps},
        "config": {app: lab.juju.config(app) for app in status.apps},
        "bags": {unit: lab.tool(unit, "relation-get -r $(relation-ids crew) - $JUJU_UNIT_NAME") for unit in UNITS},
    }


UNITS = ["server/0", "client/0", "client/1"]


def test_a_daemon_killed_while_nothing_runs_is_not_missed(lab):
    lab.tool("client/0", "relation-set -r $(relation-ids crew) colour=red")
    lab.tool("client/0", "state-set colour=blue")
    uri = lab.poke("server/0", "action-set uri=$(secret-add --label=kept word=hidden)").results["uri"]
    lab.settle(server=1, client=2)
    before, frame = picture(lab), lab.frame()
    journals = {unit: lab.journal(unit) for unit in UNITS}
    lab.kill_daemon()
    lab.settle(server=1, client=2)
    for_a_while(lambda: {unit: lab.journal(unit) for unit in UNITS}, lambda seen: seen == journals, "hooks ran", 2)
    assert picture(lab) == before
    assert lab.tool("client/0", "state-get colour").strip() == "blue"
    assert lab.tool("server/0", f"secret-get {uri} word").strip() == "hidden"
    assert lab.frame() == frame


def test_no_hook_is_lost_with_a_daemon_that_is_killed_during_one(lab):
    held = "client/0"
    lab.hold(held, HELD)
    word = secrets.token_hex(4)
    lab.juju.config("client", {"word": word})
    lab.await_begin(held, HELD, count=2)
    # Due on the held unit, and not begun before the daemon dies.
    lab.tool("server/0", "relation-set -r $(relation-ids serve) colour=green")
    lab.tool("client/1", "relation-set -r $(relation-ids crew) colour=green")
    begun = lab.journal(held)
    frame = lab.frame()
    lab.kill_daemon()
    # Any command will do.
    lab.juju.cli("show-unit", held)
    eventually(
        lambda: lab.journal(held)[len(begun) :], lambda seen: seen == [Event("begin", HELD, "-", "-")], "rerun", 30
    )
    lab.release(held, HELD)
    lab.settle(server=1, client=2)
    assert [tuple(event)[:3] for event in lab.journal(held)[len(begun) :]] == [
        ("begin", HELD, "-"),
        ("end", HELD, "-"),
        ("begin", "use-relation-changed", "server/0"),
        ("end", "use-relation-changed", "server/0"),
        ("begin", "crew-relation-changed", "client/1"),
        ("end", "crew-relation-changed", "client/1"),
    ]
    assert lab.tool(held, "config-get word").strip() == word
    assert lab.frame() == frame


def test_a_leaver_whose_daemon_was_killed_leaves_all_the_same(lab):
    lab.hold("client/1", "use-relation-departed")
    lab.juju.remove_unit("client/1")
    lab.await_begin("client/1", "use-relation-departed")
    lab.kill_daemon()
    lab.await_begin("client/1", "use-relation-departed", count=2)
    lab.release("client/1", "use-relation-departed")
    lab.await_gone("client/1")
    lab.await_heard("server/0", Event("end", "serve-relation-departed", "client/1", "client/1"))
    lab.settle(server=1, client=1)


@pytest.mark.parametrize("phase", PHASES)
def test_a_daemon_killed_during_a_deploy_finishes_it(lab, probe, phase):
    name = f"late-{secrets.token_hex(2)}x"
    lab.juju.deploy(probe, name)
    lab.await_phase(f"{name}/0", phase)
    lab.kill_daemon()
    lab.settle(**{name: 1})
    hooks = lab.hooks(f"{name}/0")
    distinct = [hook for hook, _ in itertools.groupby(hooks)]
    assert [hook for hook in distinct if hook in ("install", "start")] == ["install", "start"]
    # Only the hook whose end the daemon has not heard of any more runs again.
    assert len(hooks) - len(distinct) <= 1, hooks


def test_clean_removes_a_model_whose_daemon_is_dead(new_lab, probe, monkeypatch, tmp_path_factory):
    # In a state directory of its own: `clean` ends every model there is.
    import lab as laboratory

    state = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("JUJU_LOCAL_STATE", str(state))
    monkeypatch.setattr(laboratory, "STATE", state)
    lab = laboratory.Lab()
    lab.juju.deploy(probe, "web", num_units=2)
    lab.settle(web=2)
    lab.hold("web/0", HELD)
    lab.juju.config("web", {"word": "x"})
    lab.await_begin("web/0", HELD, count=2)
    lab.machine("freeze", "web/1")
    lab.kill_daemon()
    laboratory.clean()
    lab.assert_gone()
