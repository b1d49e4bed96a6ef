"""The check that nothing of a model stays sees each kind of thing that a model has, and nothing of anybody else."""
import contextlib
import os
import pathlib
import secrets
import subprocess

import pytest

import host

KINDS = ["namespace", "link", "mount", "cgroup", "process", "directory"]


def run(*words):
    subprocess.run(words, check=True, capture_output=True, text=True)


def unified():
    """The root of the unified hierarchy, alone or beside v1."""
    return host.CGROUPS / "unified" if (host.CGROUPS / "unified").is_dir() else host.CGROUPS


@contextlib.contextmanager
def thing(kind, model, digits, state):
    """Something on this host that belongs to the model with this name, these digits, in this state directory."""
    name = f"jl-{digits}-0"
    home = state / "models" / model
    with contextlib.ExitStack() as stack:
        match kind:
            case "namespace":
                run("ip", "netns", "add", name)
                stack.callback(run, "ip", "netns", "delete", name)
            case "link":
                run("ip", "link", "add", name, "type", "bridge")
                stack.callback(run, "ip", "link", "delete", name)
            case "mount":
                (home / "mnt").mkdir(parents=True)
                stack.callback(run, "rm", "-r", "--one-file-system", str(state / "models"))
                run("mount", "-t", "tmpfs", "tmpfs", str(home / "mnt"))
                stack.callback(run, "umount", str(home / "mnt"))
            case "cgroup":
                group = unified() / "juju-local" / name
                group.mkdir(parents=True)
                stack.callback(group.rmdir)
            case "process":
                # As a daemon looks: its arguments end with the model's name.
                environment = {**os.environ, "JUJU_LOCAL_STATE": str(state)}
                words = ["sh", "-c", "echo; read line", "daemon", model]
                pipe = subprocess.PIPE
                process = stack.enter_context(subprocess.Popen(words, stdin=pipe, stdout=pipe, env=environment))
                # Its arguments show once it runs, which is after it was started.
                process.stdout.readline()
            case "directory":
                home.mkdir(parents=True)
                stack.callback(run, "rm", "-r", str(state / "models"))
        yield


@pytest.fixture
def own(tmp_path_factory, monkeypatch):
    """A model that never was: its name, digits and state directory, with a blank in it."""
    state = tmp_path_factory.mktemp("own state")
    monkeypatch.setenv("JUJU_LOCAL_STATE", str(state))
    return f"probe-{secrets.token_hex(3)}", secrets.token_hex(3), pathlib.Path(state)


@pytest.mark.parametrize("kind", KINDS)
def test_a_thing_of_the_model_is_seen(own, kind):
    model, digits, state = own
    assert host.traces(model, digits) == set()
    with thing(kind, model, digits, state):
        assert any(trace.startswith(f"{kind} ") for trace in host.traces(model, digits))


@pytest.mark.parametrize("kind", KINDS)
def test_a_thing_of_another_model_is_not_seen(own, tmp_path, kind):
    """Another state directory may hold a model of the same name; its digits differ."""
    model, digits, _ = own
    with thing(kind, model, secrets.token_hex(3), tmp_path):
        assert host.traces(model, digits) == set()


def test_a_thing_of_another_program_is_not_seen(own, tmp_path):
    model, digits, _ = own
    name = f"other-{secrets.token_hex(3)}"
    with contextlib.ExitStack() as stack:
        run("ip", "netns", "add", name)
        stack.callback(run, "ip", "netns", "delete", name)
        run("mount", "-t", "tmpfs", "tmpfs", str(tmp_path))
        stack.callback(run, "umount", str(tmp_path))
        assert host.traces(model, digits) == set()
