"""Storage of type filesystem: where it is, how many of it, and what survives."""
import json

import jubilant
import pytest

import charms
from lab import eventually

STORAGE = {
    "one": {"type": "filesystem", "location": "/srv/one"},
    "anywhere": {"type": "filesystem"},
    "several": {"type": "filesystem", "location": "/srv/several", "multiple": {"range": "2-"}},
    "optional": {"type": "filesystem", "multiple": {"range": "0-3"}},
    "spare": {"type": "filesystem", "location": "/srv/spare", "multiple": {"range": "0-1"}},
}


@pytest.fixture(scope="module")
def charm(tmp_path_factory):
    return charms.probe(tmp_path_factory.mktemp("storage"), name="keeper", storage=STORAGE)


@pytest.fixture(scope="module")
def lab(new_lab, charm):
    lab = new_lab()
    lab.juju.deploy(charm, "keeper")
    lab.settle(keeper=1)
    return lab


def storage_of(lab, unit):
    """Id → location, as the charm sees it."""
    return {
        name: lab.tool(unit, f"storage-get -s {name} location").strip()
        for name in json.loads(lab.tool(unit, "storage-list --format=json"))
    }


def names(found):
    return sorted(name.split("/")[0] for name in found)


def test_storage_is_attached_before_the_charm_is_installed(lab):
    hooks = lab.hooks("keeper/0")
    assert sorted(hooks[:4]) == [
        "anywhere-storage-attached",
        "one-storage-attached",
        "several-storage-attached",
        "several-storage-attached",
    ]
    assert hooks[4] == "install"


def test_each_instance_is_where_juju_puts_it(lab):
    found = storage_of(lab, "keeper/0")
    assert names(found) == ["anywhere", "one", "several", "several"]
    for name, location in found.items():
        kind = name.split("/")[0]
        # A single one is at its location, any other in a directory named after it.
        expected = {"one": "/srv/one", "anywhere": f"/var/lib/juju/storage/{name}", "several": f"/srv/several/{name}"}
        assert location == expected[kind]
        lab.on("keeper/0", f"test -d {location} && touch {location}/kept")


def test_people_see_it_too(lab):
    shown = lab.juju.status().storage
    assert set(shown.storage) == set(storage_of(lab, "keeper/0"))
    for name, location in storage_of(lab, "keeper/0").items():
        assert shown.storage[name].attachments.units["keeper/0"].location == location


def test_what_is_in_it_survives_a_power_loss(lab):
    lab.machine("poweroff", "keeper/0")
    lab.machine("poweron", "keeper/0")
    eventually(lambda: lab.hooks("keeper/0").count("start"), lambda seen: seen == 2, "starts", 30)
    lab.settle(keeper=1)
    for location in storage_of(lab, "keeper/0").values():
        lab.on("keeper/0", f"test -f {location}/kept")
    assert lab.hooks("keeper/0").count("one-storage-attached") == 1


def test_more_of_it_can_be_asked_for_when_deploying(lab, charm):
    lab.juju.deploy(charm, "more", storage={"several": "3", "optional": "1"})
    lab.settle(more=1)
    asked = ["anywhere", "one", "optional", "several", "several", "several"]
    assert names(storage_of(lab, "more/0")) == asked
    # It is the application's, and so holds for units that come later.
    lab.juju.add_unit("more")
    lab.settle(more=2)
    assert names(storage_of(lab, "more/1")) == asked


def test_a_number_that_the_charm_does_not_want_is_refused(lab, charm):
    for directive, why in (
        ("several=1", "less than the charm minimum of 2"),
        ("one=2", "greater than the charm maximum of 1"),
    ):
        with pytest.raises(jubilant.CLIError) as refused:
            lab.juju.cli("deploy", str(charm), "refused", "--storage", directive)
        assert why in refused.value.stderr


def test_a_charm_can_add_to_it(lab):
    # In the hook that tells of it the directory is there already.
    lab.leave_script("keeper/0", "spare-storage-attached", "state-set found=$(ls -d $JUJU_STORAGE_LOCATION)")
    lab.poke("keeper/0", "storage-add optional spare")
    lab.await_begin("keeper/0", "optional-storage-attached")
    lab.settle(keeper=1)
    found = storage_of(lab, "keeper/0")
    assert names(found) == ["anywhere", "one", "optional", "several", "several", "spare"]
    # Only one of it is allowed, so that it is where the charm wants it.
    assert lab.tool("keeper/0", "state-get found").strip() == "/srv/spare"


def test_a_charm_cannot_add_more_than_it_declares(lab):
    with pytest.raises(jubilant.TaskError) as refused:
        lab.poke("keeper/0", "storage-add spare")
    assert refused.value.task.message == "committing requested changes failed"
    assert len(storage_of(lab, "keeper/0")) == 6


def test_a_leaver_detaches_it_first(lab):
    # Not the one whose agent was started anew: that one tears its peer relation down as well.
    attached = len(storage_of(lab, "more/0"))
    lab.juju.remove_unit("more/0")
    lab.await_gone("more/0")
    left = [event.hook for event in lab.logged("more/0") if event.phase == "end"]
    detached = [hook for hook in left if hook.endswith("-storage-detaching")]
    assert len(detached) == attached
    assert left[-attached - 3 :] == [*detached, "crew-relation-departed", "stop", "remove"]
