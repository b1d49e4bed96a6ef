"""What one model of juju-local has on this host, so that a test can see that nothing of it stays.

Only what carries the model's own names is looked at. Other programs, other models and other checkouts mount, boot and
end things on the same host at any moment, and none of that may fail a test.
"""
import os
import pathlib
import re
import shutil

CGROUPS = pathlib.Path("/sys/fs/cgroup")
DEFAULT_STATE = "/var/lib/juju-local"


def is_juju_local():
    """Says whether the `juju` in use is the stand-in; on a real Juju the machines are elsewhere."""
    juju = shutil.which("juju")
    return juju is not None and os.path.basename(os.path.realpath(juju)) == "juju-local"


def state_directory(environment=os.environ):
    """Where juju-local keeps its models, for a process with this environment."""
    return pathlib.Path(environment.get("JUJU_LOCAL_STATE") or DEFAULT_STATE).resolve()


def traces(model, digits):
    """Names of what a model has on this host: network namespaces, links, mounts, cgroups, processes and its directory.

    `digits` are the six of the model's UUID that the names of its machines carry: `jl-9c41f0-0`, `juju-9c41f0-0`.
    """
    state = state_directory()
    home = state / "models" / model
    own = re.compile(rf"\b(?:jl|juju)-{digits}\b|{re.escape(str(home))}(?![\w.-])")
    found = {f"namespace {path.name}" for path in directory("/run/netns") if own.search(path.name)}
    found |= {f"link {path.name}" for path in directory("/sys/class/net") if own.search(path.name)}
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    # The whole line: the layers of an overlay are among its options.
    found |= {f"mount {line.split()[4]}" for line in mounts if own.search(unescaped(line))}
    # Both where cgroup v2 is alone and where it lives beside v1. They come and go meanwhile, which a walk does not
    # mind.
    groups = (path for top in ("", "unified") for path, _, _ in os.walk(CGROUPS / top / "juju-local"))
    found |= {f"cgroup {path}" for path in groups if own.search(path)}
    found |= {f"process {words}" for words in processes(own, model, state)}
    return found | ({f"directory {home}"} if home.exists() else set())


def unescaped(line):
    """A line of mountinfo with blanks as blanks: the kernel writes them as `\\040`."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), line)


def directory(path):
    path = pathlib.Path(path)
    return list(path.iterdir()) if path.is_dir() else []


def processes(own, model, state):
    """Command lines of the model's processes.

    Some carry the model's name only, as the daemon does. A model in another state directory may have the same name.
    """
    named = re.compile(rf"(?<![\w.-]){re.escape(model)}(?![\w.-])")
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if not words or path.name == str(os.getpid()):
                continue
            of_name = named.search(words) and state_directory(environment(path)) == state
            if of_name or own.search(words) or own.search((path / "cgroup").read_text()):
                yield words
        except OSError:
            continue  # It has ended meanwhile.


def environment(process):
    """The environment that a process was started with."""
    pairs = (process / "environ").read_bytes().decode(errors="replace").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
