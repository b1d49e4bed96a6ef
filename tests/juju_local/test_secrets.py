"""Secrets whose time has come: rotation and expiry. Who may read what is recorded from a real Juju elsewhere."""
import datetime
import json

import pytest

from lab import STATE, for_a_while


@pytest.fixture(scope="module")
def lab(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web")
    lab.settle(web=1)
    lab.juju.add_unit("web")
    lab.settle(web=2)
    return lab


def make(lab, options):
    uri = lab.poke("web/0", f"action-set uri=$(secret-add {options} word=one)").results["uri"]
    return uri.rsplit("/", 1)[1]


def note_environment(lab, hook, script=""):
    for unit in ("web/0", "web/1"):
        lab.leave_script(unit, hook, f'env | grep "^JUJU_SECRET_" | sort >$place/secret\n{script}\n')


def environment_of(lab, unit="web/0"):
    return lab.on(unit, f"cat /var/lib/probe/{unit.replace('/', '-')}/secret").splitlines()


def shift_clock(lab, identifier, field):
    """An hour is too long to wait for: the model is told that it is over, while nobody serves it."""
    lab.kill_daemon()
    file = STATE / "models" / lab.model / "model.json"
    document = json.loads(file.read_text())
    assert document["secrets"][identifier][field] is not None
    document["secrets"][identifier][field] = 0
    file.write_text(json.dumps(document))


def test_an_expired_secret_is_said_to_the_leader_once(lab):
    note_environment(lab, "secret-expired", 'secret-remove "secret:$JUJU_SECRET_ID" --revision "$JUJU_SECRET_REVISION"')
    identifier = make(lab, "--expire=1s --label=soon")
    lab.await_begin("web/0", "secret-expired")
    lab.settle(web=2)
    assert environment_of(lab) == [f"JUJU_SECRET_ID={identifier}", "JUJU_SECRET_LABEL=soon", "JUJU_SECRET_REVISION=1"]
    for_a_while(lambda: lab.hooks("web/0").count("secret-expired"), lambda seen: seen == 1, "times", 2)
    assert "secret-expired" not in lab.hooks("web/1")


def test_a_secret_that_is_due_is_rotated_by_the_leader(lab):
    note_environment(lab, "secret-rotate", 'secret-set "$JUJU_SECRET_ID" word=two')
    identifier = make(lab, "--rotate=hourly --label=turns")
    # Both have read it, so both are to hear of the new one.
    for unit in ("web/0", "web/1"):
        lab.tool(unit, "secret-get --label=turns")
    assert "secret-rotate" not in lab.hooks("web/0")
    shift_clock(lab, identifier, "rotates")
    lab.await_begin("web/0", "secret-rotate")
    for unit in ("web/0", "web/1"):
        lab.await_begin(unit, "secret-changed")
    lab.settle(web=2)
    assert environment_of(lab) == [f"JUJU_SECRET_ID=secret:{identifier}", "JUJU_SECRET_LABEL=turns"]
    assert "secret-rotate" not in lab.hooks("web/1")
    assert lab.juju.show_secret(f"secret:{identifier}").revision == 2
    for unit in ("web/0", "web/1"):
        assert "two" in lab.tool(unit, "secret-get --label=turns --refresh")
    # Nobody reads the first revision any more.
    lab.await_begin("web/0", "secret-remove")


def test_a_rotated_secret_is_due_again_in_an_hour(lab):
    identifier = next(one.uri.unique_identifier for one in lab.juju.secrets() if one.label == "turns")
    rotates = lab.juju.show_secret(f"secret:{identifier}").rotates
    left = rotates - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(minutes=55) < left <= datetime.timedelta(minutes=60), left


def test_a_secret_that_was_not_rotated_is_said_again_in_five_minutes(lab):
    note_environment(lab, "secret-rotate")
    identifier = make(lab, "--rotate=daily --label=stays")
    before = lab.hooks("web/0").count("secret-rotate")
    shift_clock(lab, identifier, "rotates")
    lab.await_begin("web/0", "secret-rotate", count=before + 1)
    lab.settle(web=2)
    left = lab.juju.show_secret(f"secret:{identifier}").rotates - datetime.datetime.now(datetime.timezone.utc)
    assert datetime.timedelta(minutes=3) < left <= datetime.timedelta(minutes=5), left
