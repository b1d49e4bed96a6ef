"""A charm written with ops, as it comes from the package index, works on juju-local as it does on Juju."""
import pathlib

import jubilant
import pytest

from lab import eventually
from packing import ops_for_machines
from packing import pack as pack_charm

HERE = pathlib.Path(__file__).parent / "ops_charm"


def pack(file, version, state_in_juju=False):
    texts = {name: (HERE / name).read_text() for name in ("dispatch", "metadata.yaml", "config.yaml", "actions.yaml")}
    source = (HERE / "src/charm.py").read_text()
    assert 'VERSION = "1"' in source
    texts["src/charm.py"] = source.replace('VERSION = "1"', f'VERSION = "{version}"')
    if state_in_juju:
        texts["state-in-juju"] = "yes\n"
    return pack_charm(file, texts, [(ops_for_machines(), "venv")])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("ops")


@pytest.fixture(scope="module", params=["4.0", pytest.param("3.6", marks=pytest.mark.slow)])
def lab(request, new_lab, directory):
    lab = new_lab(release=request.param)
    # The one keeps its state in a file beside the charm, the other in Juju.
    lab.juju.deploy(pack(directory / "vault.charm", 1), "vault")
    lab.juju.deploy(pack(directory / "shop.charm", 1, state_in_juju=True), "shop")
    lab.settle(error=jubilant.any_error, vault=1, shop=1)
    return lab


def remembered(lab, unit):
    results = lab.juju.run(unit, "remember").results
    return {key: [word for word in results[key].split(",") if word] for key in ("events", "passwords")}


def message_of(lab, unit):
    return lab.unit(unit).workload_status.message


def test_it_tells_what_it_sees_at_its_start(lab):
    for unit in ("vault/0", "shop/0"):
        assert remembered(lab, unit)["events"] == [
            "shelf_storage_attached",
            "install",
            "leader_elected",
            "config_changed",
            "start",
        ]
    seen = lab.juju.run("vault/0", "look").results
    machine = lab.juju.status().machines[lab.machine_of("vault/0")]
    assert (seen["planned"], seen["ports"], seen["shelf"]) == ("1", "8080", "/srv/shelf")
    assert seen["address"] in machine.ip_addresses
    assert seen["model"] == lab.model
    assert lab.juju.status().apps["vault"].version == "1"
    assert lab.unit("vault/0").open_ports == ["8080/tcp"]
    assert lab.on("vault/0", "cat /srv/shelf/label") == "vault/0"


def test_a_secret_is_granted_and_read_by_the_other_side(lab):
    lab.juju.integrate("vault:store", "shop:supply")
    eventually(lambda: message_of(lab, "shop/0"), lambda seen: seen == "password first", "status of shop/0", 30)
    lab.settle(vault=1, shop=1)
    # Once for the application's bag, once for the unit that joined.
    assert remembered(lab, "shop/0")["passwords"] == ["first", "first"]


def test_a_new_revision_replaces_the_old_one_on_the_other_side(lab):
    lab.juju.run("vault/0", "rotate", {"password": "second"})
    eventually(lambda: message_of(lab, "shop/0"), lambda seen: seen == "password second", "status of shop/0", 30)
    secret = next(one for one in lab.juju.secrets() if one.owner == "vault")
    shown = lab.juju.show_secret(secret.uri, reveal=True)
    assert (shown.revision, shown.content) == (2, {"password": "second"})
    # Nobody reads the first one any more, so its owner was asked to remove it.
    kept = lambda: [one.revision for one in lab.juju.show_secret(secret.uri, revisions=True).revisions]
    eventually(kept, lambda seen: seen == [2], "revisions", 20)
    assert "secret_changed" in remembered(lab, "shop/0")["events"]
    lab.settle(vault=1, shop=1)


def test_actions_take_parameters_and_give_results(lab):
    task = lab.juju.run("vault/0", "greet", {"name": "world", "times": 2})
    assert task.results == {"text": "hello world world", "by": {"unit": "vault/0"}}
    assert any("about to greet" in line for line in task.log)
    assert lab.juju.run("vault/leader", "greet", {"name": "x"}).results["text"] == "hello x"


def test_actions_fail_in_three_ways(lab):
    with pytest.raises(jubilant.TaskError) as refused:
        lab.juju.run("vault/0", "refuse")
    assert (refused.value.task.status, refused.value.task.message) == ("failed", "there is nothing left")
    with pytest.raises(jubilant.TaskError) as broken:
        lab.juju.run("vault/0", "break")
    assert (broken.value.task.status, broken.value.task.return_code) == ("failed", 1)
    with pytest.raises(jubilant.TaskError) as missing:
        lab.juju.run("vault/0", "greet")
    assert missing.value.task.status == "error"
    # An exception in an action is none of a hook.
    lab.settle(vault=1, shop=1)


def test_configuration_is_typed(lab):
    lab.juju.config("vault", {"greeting": "good day", "loud": True})
    eventually(
        lambda: remembered(lab, "vault/0")["events"].count("config_changed"), lambda seen: seen >= 2, "hooks", 20
    )
    assert lab.juju.run("vault/0", "greet", {"name": "world"}).results["text"] == "GOOD DAY WORLD"


def test_peers_tell_each_other_their_names(lab):
    lab.juju.add_unit("vault")
    lab.settle(vault=2, shop=1)
    others = lambda unit: lab.juju.run(unit, "look").results
    eventually(lambda: others("vault/1")["others"], lambda seen: seen == "vault/1", "what the leader wrote", 20)
    assert others("vault/1")["planned"] == "2"


def test_stored_state_is_where_the_charm_wants_it(lab):
    state = ".unit-state.db"
    assert state in lab.on("vault/0", "ls -A /var/lib/juju/agents/unit-vault-0/charm").split()
    assert state not in lab.on("shop/0", "ls -A /var/lib/juju/agents/unit-shop-0/charm").split()
    assert lab.tool("vault/0", "state-get").strip() in ("", "{}")
    assert "StoredStateData" in lab.tool("shop/0", "state-get")


def test_stored_state_outlives_agents_and_machines(lab):
    before = {unit: remembered(lab, unit) for unit in ("vault/0", "shop/0")}
    lab.on("vault/0", f"systemctl restart jujud-machine-{lab.machine_of('vault/0')}")
    lab.machine("poweroff", "shop/0")
    lab.machine("poweron", "shop/0")
    eventually(lambda: starts(lab, "shop/0"), lambda seen: seen == 2, "starts of shop/0", 30)
    lab.settle(vault=2, shop=1)
    assert remembered(lab, "vault/0") == before["vault/0"]
    assert remembered(lab, "shop/0")["events"] == [*before["shop/0"]["events"], "start"]


def starts(lab, unit):
    try:
        return int(lab.juju.run(unit, "remember", wait=20).results["starts"])
    except (jubilant.TaskError, TimeoutError):
        return None  # Its machine is not back yet.


def test_a_refreshed_program_finds_its_state(lab, directory):
    before = {unit: remembered(lab, unit) for unit in ("vault/0", "shop/0")}
    lab.juju.refresh("vault", path=pack(directory / "vault-2.charm", 2))
    lab.juju.refresh("shop", path=pack(directory / "shop-2.charm", 2, state_in_juju=True))
    for unit in ("vault/0", "vault/1", "shop/0"):
        eventually(
            lambda: lab.juju.run(unit, "look").results["version"], lambda seen: seen == "2", f"version of {unit}", 30
        )
    lab.settle(vault=2, shop=1)
    for unit, memory in before.items():
        assert remembered(lab, unit) == {**memory, "events": [*memory["events"], "upgrade_charm", "config_changed"]}
    assert lab.juju.status().apps["shop"].version == "2"


def test_a_unit_that_leaves_is_heard_of(lab):
    lab.juju.remove_unit("vault/1")
    lab.await_gone("vault/1")
    lab.settle(vault=1, shop=1)
    assert lab.juju.run("vault/0", "look").results["planned"] == "1"
    lab.juju.remove_unit("shop/0")
    lab.await_gone("shop/0")
    eventually(
        lambda: remembered(lab, "vault/0")["events"][-1],
        lambda seen: seen == "store_relation_departed",
        "last event",
        20,
    )


def test_ops_is_the_one_of_the_package_index(lab):
    """Not ours, not changed: on the machine every file of it is as its wheel says."""
    script = """
import base64, csv, hashlib, pathlib
venv = pathlib.Path("/var/lib/juju/agents/unit-vault-0/charm/venv")
record = next(venv.glob("ops-*.dist-info/RECORD"))
rows = [row for row in csv.reader(record.open()) if row[0].startswith("ops/") and row[1]]
for name, digest, _ in rows:
    seen = base64.urlsafe_b64encode(hashlib.sha256((venv / name).read_bytes()).digest()).decode().rstrip("=")
    assert digest == f"sha256={seen}", name
print(len(rows))
"""
    checked = int(lab.on("vault/0", "python3 -", stdin=script))
    assert checked > 20
