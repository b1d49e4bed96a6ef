"""What a stranger does to juju-local at the wrong moment: daemons killed here and there, damaged files, odd
directories."""
import json
import os
import pathlib
import signal
import subprocess
import threading

import jubilant
import pytest

import lab as laboratory
from lab import eventually, for_a_while

CLIENTS = 10


@pytest.fixture
def own_state(monkeypatch):
    """A state directory of the test's own, for what concerns all models of one."""

    def choose(directory, shown=None):
        directory.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv("JUJU_LOCAL_STATE", str(shown or directory))
        monkeypatch.setattr(laboratory, "STATE", directory)
        return directory

    # Not below /tmp: that may be in memory, and such a file system carries no overlay.
    scratch = laboratory.STATE.parent / f"jl-test-{os.getpid()}"
    yield lambda name, shown=None: choose(scratch / name, shown)
    laboratory.clean()
    subprocess.run(["rm", "-r", str(scratch)], check=True)


def machine_directories(lab):
    return sorted(path.name for path in (laboratory.STATE / "models" / lab.model / "machines").iterdir())


def test_machines_whose_removal_was_cut_short_go_all_the_same(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web", num_units=3)
    lab.juju.deploy(probe, "kept")
    lab.settle(web=3, kept=1)
    kept = lab.machine_of("kept/0")
    lab.juju.remove_application("web", force=True)
    # The records go first, and then the machines.
    eventually(lambda: sorted(lab.juju.status().machines), lambda seen: seen == [kept], "machines", 30)
    lab.kill_daemon()
    lab.settle(kept=1)
    eventually(lambda: machine_directories(lab), lambda seen: seen == [kept], "directories of machines", 20)
    expected = {f"namespace jl-{lab.identifier}", f"namespace jl-{lab.identifier}-{kept}"}
    eventually(
        lambda: {trace for trace in lab.frame() if trace.startswith("namespace")},
        lambda seen: seen == expected,
        "namespaces",
        20,
    )


def test_clients_that_meet_a_dying_daemon_are_served(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web")
    lab.settle(web=1)
    failures = []

    def ask(number):
        try:
            lab.juju.config("web", {"word": str(number)}) if number % 2 else lab.juju.status()
        except jubilant.CLIError as error:
            failures.append(error.stderr)

    clients = [threading.Thread(target=ask, args=[number]) for number in range(CLIENTS)]
    os.kill(lab.daemon(), signal.SIGKILL)
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert not failures
    lab.settle(web=1)
    # Those who came second have given up.
    eventually(lab.daemons, lambda seen: len(seen) == 1, "daemons", 10)


def test_juju_exec_ends_when_its_unit_is_taken_away(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web")
    lab.juju.deploy(probe, "neighbour", to="0")
    lab.settle(web=1, neighbour=1)
    lab.hold("web/0", "config-changed")
    lab.juju.config("web", {"word": "x"})
    lab.await_begin("web/0", "config-changed", count=2)
    words = ["juju", "ssh", "--model", lab.model, "neighbour/0", "sudo", "juju-exec", "web/0", "true"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
        asking = lambda: lab.on("neighbour/0", "pgrep -f [j]uju-exec.web/0 || true").split()
        eventually(asking, bool, "processes of juju-exec", 10)
        for_a_while(waiting.poll, lambda ended: ended is None, "juju-exec ended while the hook runs", 1)
        lab.juju.remove_unit("web/0", force=True)
        _, said = waiting.communicate(timeout=20)
    assert waiting.returncode == 1
    assert "command execution aborted" in said


def test_a_client_that_stops_waiting_for_the_end_of_a_model_stops_nothing(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web")
    lab.settle(web=1)
    lab.hold("web/0", "stop")
    with subprocess.Popen(["juju", "destroy-model", lab.model, "--no-prompt"], stderr=subprocess.DEVNULL) as waiting:
        lab.await_begin("web/0", "stop")
        waiting.kill()
    with pytest.raises(jubilant.CLIError) as refused:
        lab.juju.deploy(probe, "late")
    assert "model is no longer alive" in refused.value.stderr
    lab.release("web/0", "stop")
    eventually(lambda: lab.exists, lambda seen: not seen, "the model is there", 30)
    lab.assert_gone()


def test_a_daemon_killed_while_it_destroys_its_model_leaves_nothing(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web", num_units=2)
    lab.settle(web=2)
    words = ["juju", "destroy-model", lab.model, "--no-prompt", "--force"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as destroying:
        eventually(lambda: len(machine_directories(lab)), lambda seen: seen < 2, "machines", 10)
        os.kill(lab.daemon(), signal.SIGKILL)
        _, said = destroying.communicate(timeout=60)
    assert destroying.returncode == 0, said
    lab.assert_gone()


def test_machines_are_on_again_after_a_reboot_of_the_host(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web", num_units=2)
    lab.settle(web=2)
    first = lab.machine_of("web/0")
    lab.machine("poweroff", "web/1")
    lab.kill_daemon()
    # As far as it can be had without a reboot: nothing of the machines is left but their disks.
    name = f"jl-{lab.identifier}-{first}"
    for group in pathlib.Path("/sys/fs/cgroup").glob(f"**/juju-local/{name}"):
        (group / "cgroup.kill").write_text("1")
        # The kernel kills in its own time; a machine that is still dying would pass for one that runs.
        read = (group / "cgroup.events").read_text
        eventually(read, lambda seen: "populated 0" in seen, f"processes of {name}", 10)
    file = laboratory.STATE / "models" / lab.model / "model.json"
    model = json.loads(file.read_text())
    assert model["host_boot"]
    file.write_text(json.dumps({**model, "host_boot": "another"}))
    lab.await_begin("web/0", "start", count=2, seconds=60)
    # One that was off stays off.
    assert lab.juju.status().machines[lab.machine_of("web/1")].machine_status.current == "stopped"


def test_a_model_with_a_damaged_state_can_be_destroyed(own_state, probe):
    own_state("damaged")
    lab = laboratory.Lab()
    other = laboratory.Lab()
    lab.juju.deploy(probe, "web")
    lab.settle(web=1)
    lab.kill_daemon()
    file = laboratory.STATE / "models" / lab.model / "model.json"
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(jubilant.CLIError) as refused:
        lab.juju.status()
    assert "model.json cannot be read: it is damaged" in refused.value.stderr
    assert other.model in other.juju.cli("models", include_model=False)
    lab.destroy()
    # And by those who clean up, also where only the beginnings of a model are.
    (laboratory.STATE / "models" / "half" / "machines" / "0" / "upper").mkdir(parents=True)
    laboratory.clean()
    other.assert_gone()
    assert not list((laboratory.STATE / "models").iterdir())


@pytest.mark.parametrize("kind", ["deep", "relative"])
def test_a_state_directory_may_be(own_state, probe, kind, monkeypatch):
    name = "x" * 130 + "/with a blank" if kind == "deep" else "plain"
    state = own_state(name)
    if kind == "relative":
        (state / "here").mkdir()
        monkeypatch.chdir(state / "here")
        monkeypatch.setenv("JUJU_LOCAL_STATE", os.path.join("..", "..", "plain"))
    lab = laboratory.Lab()
    lab.juju.deploy(probe, "web")
    # From elsewhere it is the same directory.
    monkeypatch.chdir("/")
    monkeypatch.setenv("JUJU_LOCAL_STATE", str(state))
    lab.settle(web=1)
    lab.machine("reboot", "web/0")
    eventually(lambda: lab.hooks("web/0").count("start"), lambda seen: seen == 2, "starts", 30)
    lab.settle(web=1)
    lab.destroy()


def test_a_state_directory_that_overlayfs_cannot_take_is_refused(own_state):
    own_state("a:b")
    done = subprocess.run(["juju", "add-model", "never"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "holds a character that overlayfs cannot take" in done.stderr
