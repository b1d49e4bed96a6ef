"""The events that a real Juju loses sometimes, lost on purpose; and not any more when told so."""
import re

import jubilant
import pytest

from lab import Event, eventually, for_a_while

A_WHILE = 2


@pytest.fixture(scope="module")
def lab(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "server")
    lab.juju.deploy(probe, "client", num_units=3)
    lab.juju.integrate("server:serve", "client:use")
    lab.settle(server=1, client=3)
    return lab


@pytest.fixture(autouse=True)
def nothing_stays_lost(lab):
    yield
    lab.local("lose", "nothing")


def restart_agent(lab, unit):
    lab.on(unit, f"systemctl restart jujud-machine-{lab.machine_of(unit)}")


def offer_secret(lab, script):
    """The server makes a secret as the script says, which the client is told of; returns its URI."""
    return lab.poke("server/0", f"{script}\naction-set uri=$uri").results["uri"]


def test_a_lost_departed_leaves_a_ghost_until_the_agent_starts_anew(lab):
    lab.local("lose", "departed")
    heard = Event("end", "serve-relation-departed", "client/2", "client/2")
    members = lambda: lab.tool("server/0", "relation-list -r $(relation-ids serve)").split()
    lab.juju.remove_unit("client/2")
    lab.await_gone("client/2")
    for_a_while(lambda: lab.logged("server/0"), lambda seen: heard not in seen, "server/0 heard", A_WHILE)
    assert "client/2" in members()
    assert "client/2" not in lab.tool("server/0", "goal-state --format=json")
    restart_agent(lab, "server/0")
    lab.await_heard("server/0", heard)
    assert "client/2" not in members()


def test_a_departed_is_heard_when_nothing_is_lost(lab):
    lab.local("lose", "departed", "grant")
    lab.local("lose", "nothing")
    lab.juju.remove_unit("client/1")
    lab.await_heard("server/0", Event("end", "serve-relation-departed", "client/1", "client/1"))
    lab.await_gone("client/1")


def test_only_a_grant_beside_its_secret_is_lost(lab):
    add_and_grant = "uri=$(secret-add word=hidden)\nsecret-grant $uri -r $(relation-ids serve)"
    lab.local("lose", "grant")
    uri = offer_secret(lab, add_and_grant)
    with pytest.raises(jubilant.TaskError, match="is not allowed to read this secret"):
        lab.tool("client/0", f"secret-get {uri} word")
    lab.poke("server/0", f"secret-grant {uri} -r $(relation-ids serve)")
    assert lab.tool("client/0", f"secret-get {uri} word").strip() == "hidden"
    lab.local("lose", "nothing")
    uri = offer_secret(lab, add_and_grant)
    assert lab.tool("client/0", f"secret-get {uri} word").strip() == "hidden"


def test_the_content_of_all_secrets_is_lost_with_a_unit_that_owned_one(lab):
    uri = offer_secret(lab, "uri=$(secret-add word=kept)\nsecret-grant $uri -r $(relation-ids serve)")
    read = lambda: lab.tool("client/0", f"secret-get {uri} --refresh word").strip()
    assert read() == "kept"
    for losing, unit in (("nothing", "client/3"), ("secret-content", "client/4")):
        lab.local("lose", losing)
        lab.juju.add_unit("client")
        lab.settle(server=1, client=2)
        lab.poke(unit, "secret-add --owner=unit own=secret")
        lab.juju.remove_unit(unit)
        lab.await_gone(unit)
        if losing == "nothing":
            assert read() == "kept"
        else:
            identifier = uri.rsplit("/", 1)[1]
            with pytest.raises(jubilant.TaskError) as refused:
                read()
            assert re.search(
                rf'secret value ref for "secret:{identifier}" revision 1 not found', refused.value.task.stderr
            )
    # Its owner can mend it.
    lab.poke("server/0", f"secret-set {uri} word=new")
    eventually(read, lambda seen: seen == "new", "content", 10)


def test_what_cannot_be_lost_is_refused(lab):
    with pytest.raises(AssertionError, match="cannot be lost"):
        lab.local("lose", "patience")
