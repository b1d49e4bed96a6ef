"""Removal while somebody blocks, on the two lines of Juju that differ in it: 3.6 tells the others at once, 4.0 when the
leaver is done.

What 4.0 does is recorded from a real one elsewhere; here both are held against each other.
"""
import re

import jubilant
import pytest

import charms
from lab import Event, eventually, for_a_while

RELEASES = ["3.6", "4.0"]
# Long enough for the others to hear of it, if they are to hear of it at all before the leaver is done.
A_WHILE = 3


@pytest.fixture(scope="module", params=RELEASES)
def release(request):
    return request.param


@pytest.fixture(scope="module")
def lab(new_lab, probe, release):
    lab = new_lab(release=release)
    lab.juju.deploy(probe, "server")
    lab.juju.deploy(probe, "client", num_units=2)
    lab.juju.integrate("server:serve", "client:use")
    lab.settle(server=1, client=2)
    return lab


def remove_held_unit(lab, unit, hook, *options):
    lab.hold(unit, hook)
    lab.juju.cli("remove-unit", "--no-prompt", unit, *options)
    lab.await_begin(unit, hook)


def test_others_hear_of_a_blocked_leaver_at_once_or_when_it_is_done(lab, release):
    machine = lab.machine_of("client/1")
    remove_held_unit(lab, "client/1", "use-relation-departed")
    heard_by_server = Event("begin", "serve-relation-departed", "client/1", "client/1")
    heard_by_peer = Event("begin", "crew-relation-departed", "client/1", "client/1")
    machine_status = lambda: lab.juju.status().machines[machine].juju_status.current
    if release == "3.6":
        lab.await_heard("server/0", heard_by_server, seconds=5)
        lab.await_heard("client/0", heard_by_peer, seconds=5)
        assert machine_status() == "started"
    else:
        for_a_while(lambda: lab.logged("server/0"), lambda seen: heard_by_server not in seen, "server/0 heard", A_WHILE)
        assert machine_status() == "stopped"
        assert "client/1" in lab.juju.status().get_units("client")
    # Blocked or not, and told or not, who leaves can be seen.
    assert "dying" in lab.tool("client/0", "goal-state --format=json")
    lab.release("client/1", "use-relation-departed")
    lab.await_gone("client/1")
    lab.await_heard("server/0", heard_by_server)
    leaver = [event for event in lab.logged("client/1") if event.phase == "end"]
    assert [event.hook for event in leaver][-5:] == [
        "use-relation-departed",
        "use-relation-broken",
        "crew-relation-departed",
        "stop",
        "remove",
    ]
    lab.settle(server=1, client=1)
    peers = lab.tool("client/0", "relation-list -r $(relation-ids crew)").split()
    if release == "3.6":
        assert peers == []
    else:
        # Lost for good, until the agent starts anew: goal-state knows better.
        assert heard_by_peer not in lab.logged("client/0")
        assert peers == ["client/1"]
        assert "client/1" not in lab.tool("client/0", "goal-state --format=json")


def test_a_side_that_blocks_in_a_removed_relation_holds_up_only_itself(lab, release):
    lab.hold("server/0", "serve-relation-departed")
    before = len(lab.journal("client/0"))
    lab.juju.remove_relation("server:serve", "client:use")
    lab.await_begin("server/0", "serve-relation-departed", count=2)
    lab.await_heard("client/0", Event("end", "use-relation-broken", "-", "-"), seconds=10)
    assert [tuple(event) for event in lab.journal("client/0")[before:] if event.phase == "begin"] == [
        ("begin", "use-relation-departed", "server/0", "server/0"),
        ("begin", "use-relation-broken", "-", "-"),
    ]
    assert Event("begin", "serve-relation-broken", "-", "-") not in lab.logged("server/0")
    # The record stays for as long as somebody has not left.
    assert "serve" in lab.juju.status().apps["server"].relations
    lab.release("server/0", "serve-relation-departed")
    lab.await_heard("server/0", Event("end", "serve-relation-broken", "-", "-"))
    eventually(lambda: lab.juju.status().apps["server"].relations, lambda seen: "serve" not in seen, "relations", 20)
    lab.settle(server=1, client=1)


def test_a_relation_made_again_is_heard_of_in_full_or_in_part(lab, release):
    before = len(lab.journal("client/0"))
    lab.juju.integrate("server:serve", "client:use")
    lab.await_begin("client/0", "use-relation-created", count=2)
    seen = lambda: [event.hook for event in lab.journal("client/0")[before:] if event.phase == "end"]
    complete = ["use-relation-created", "use-relation-joined", "use-relation-changed"]
    if release == "3.6":
        eventually(seen, lambda hooks: hooks == complete, "hooks of client/0", 10)
    else:
        for_a_while(seen, lambda hooks: hooks in (complete[:1], []), "hooks of client/0", A_WHILE)
        # An agent that starts anew makes up for what was lost: this, and the peer that left before.
        lab.on("client/0", f"systemctl restart jujud-machine-{lab.machine_of('client/0')}")
        eventually(seen, lambda hooks: hooks == [*complete, "crew-relation-departed"], "hooks of client/0", 20)
        lab.on("server/0", f"systemctl restart jujud-machine-{lab.machine_of('server/0')}")
    lab.await_begin("server/0", "serve-relation-joined", count=3)
    lab.settle(server=1, client=1)


def test_the_other_side_of_a_removed_application_does_not_wait_for_its_units(lab, release):
    lab.hold("client/0", "use-relation-departed")
    before = len(lab.journal("server/0"))
    lab.juju.remove_application("client")
    lab.await_begin("client/0", "use-relation-departed", count=2)
    seen = lambda: [tuple(event) for event in lab.journal("server/0")[before:] if event.phase == "end"]
    complete = [("end", "serve-relation-departed", "client/0", "client/0"), ("end", "serve-relation-broken", "-", "-")]
    eventually(seen, lambda hooks: hooks == complete, "hooks of server/0", 10)
    assert lab.logged("client/0")[-1] == Event("begin", "use-relation-departed", "server/0", "client/0")
    assert "client/0" in lab.juju.status().get_units("client")
    lab.release("client/0", "use-relation-departed")
    eventually(lambda: sorted(lab.juju.status().apps), lambda seen: seen == ["server"], "applications", 60)


def test_force_waits_a_minute_or_not_at_all(lab, release, probe):
    lab.juju.deploy(probe, "forced", num_units=1)
    lab.juju.integrate("server:serve", "forced:use")
    lab.settle(server=1, forced=1)
    before = len(lab.journal("server/0"))
    remove_held_unit(lab, "forced/0", "use-relation-departed")
    lab.juju.remove_unit("forced/0", force=True)
    heard = lambda: [event.hook for event in lab.journal("server/0")[before:]]
    if release == "4.0":
        lab.await_gone("forced/0", seconds=5)
        for_a_while(heard, lambda hooks: hooks == [], "hooks of server/0", A_WHILE)
    else:
        eventually(heard, lambda hooks: "serve-relation-departed" in hooks, "hooks of server/0", 5)
        for_a_while(
            lambda: sorted(lab.juju.status().get_units("forced")),
            lambda seen: seen == ["forced/0"],
            "units",
            2 * A_WHILE,
        )


@pytest.mark.slow
def test_force_ends_a_blocked_leaver_after_its_time(lab, release):
    if release == "4.0":
        pytest.skip("4.0 does not wait")
    # A minute until it is forced, and one more until it is deleted.
    lab.await_gone("forced/0", seconds=150)


@pytest.mark.slow
def test_a_leaver_without_peers_that_blocks_in_stop_stays_or_is_taken_away(lab, release, tmp_path):
    lab.juju.deploy(charms.probe(tmp_path, name="lone", peers=None), "lone")
    lab.settle(lone=1)
    remove_held_unit(lab, "lone/0", "stop")
    units = lambda: sorted(lab.juju.status().apps) and sorted(lab.juju.status().get_units("lone"))
    if release == "3.6":
        for_a_while(units, lambda seen: seen == ["lone/0"], "units of lone", 25)
        lab.release("lone/0", "stop")
        lab.await_gone("lone/0")
        assert [event.hook for event in lab.logged("lone/0") if event.phase == "end"][-2:] == ["stop", "remove"]
    else:
        lab.await_gone("lone/0", seconds=25)
        assert Event("end", "stop", "-", "-") not in lab.logged("lone/0")


@pytest.mark.slow
def test_a_leaver_that_calls_itself_blocked_stays_or_is_dropped(lab, release, probe):
    lab.juju.deploy(probe, "sulking")
    lab.juju.integrate("server:serve", "sulking:use")
    lab.settle(server=1, sulking=1)
    lab.tool("sulking/0", "status-set blocked 'waiting for somebody'")
    lab.hold("sulking/0", "use-relation-departed")
    lab.juju.remove_application("sulking")
    lab.await_begin("sulking/0", "use-relation-departed")
    there = lambda: "sulking" in lab.juju.status().apps
    if release == "3.6":
        for_a_while(there, lambda seen: seen, "sulking is there", 40)
        lab.release("sulking/0", "use-relation-departed")
    eventually(there, lambda seen: not seen, "sulking is there", 60)


def test_the_two_lines_tell_charms_different_things(lab, release, probe):
    lab.juju.deploy(probe, "other")
    lab.settle(other=1)
    unit = "other/0"
    words = lab.tool(unit, "env")
    version = lab.juju.status().model.version
    assert version.startswith(f"{release}.")
    assert f"JUJU_VERSION={version}" in words
    assert ("JUJU_SLA=" in words) == (release == "3.6")
    assert ("JUJU_CHARM_TRACE_CONFIG_HTTP=" in words) == (release == "4.0")
    uri = lab.tool(unit, "secret-add some=thing").strip()
    assert re.fullmatch(
        r"secret:[0-9a-v]{20}" if release == "3.6" else r"secret://[0-9a-f-]{36}/[0-9a-v]{20}", uri
    ), uri
    bag = lab.tool(unit, f"relation-get -r $(relation-ids crew) - {unit}")
    assert ("private-address" in bag) == (release == "3.6"), bag
    lab.juju.add_unit("other")
    lab.settle(other=2)
    started = lab.hooks("other/1")[:4]
    if release == "3.6":
        assert started == ["install", "crew-relation-created", "leader-settings-changed", "config-changed"]
    else:
        assert started == ["install", "crew-relation-created", "config-changed", "start"]


def test_only_the_older_line_has_settings_of_the_leader(lab, release):
    if release == "4.0":
        with pytest.raises(jubilant.TaskError):
            lab.tool("other/0", "leader-get")
        return
    lab.tool("other/0", "leader-set colour=red")
    lab.await_begin("other/1", "leader-settings-changed", count=2)
    assert lab.tool("other/1", "leader-get colour").strip() == "red"
    refused = lab.juju.exec("leader-set colour=blue || true", unit="other/1")
    assert "cannot write leadership settings: cannot write settings: not the leader" in refused.stderr
