"""What machines of juju-local leave on the host while they run, so that one can see that nothing stays."""
import os
import pathlib
import re
import shutil

CGROUPS = pathlib.Path("/sys/fs/cgroup")


def is_juju_local():
    """Says whether the `juju` in use is the stand-in; on a real Juju the machines are elsewhere."""
    juju = shutil.which("juju")
    return juju is not None and os.path.basename(os.path.realpath(juju)) == "juju-local"


def traces():
    """Names of network namespaces, links, mounts, cgroups and processes on this host."""
    found = {f"namespace {path.name}" for path in directory("/run/netns")}
    found |= {f"link {path.name}" for path in directory("/sys/class/net")}
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    found |= {f"mount {line.split()[4]}" for line in mounts}
    # Both where cgroup v2 is alone and where it lives beside v1. They come and go meanwhile, which a walk does not mind.
    found |= {f"cgroup {path}" for top in ("", "unified") for path, _, _ in os.walk(CGROUPS / top / "juju-local")}
    return found | {f"process {words}" for words in processes()}


def left_over(before, after, model, machine_ids):
    """What came with this model and is still there. What carries the name of another model is none of ours."""
    ours = "|".join(sorted(machine_ids)) or "none"
    other = re.compile(rf"\b(?:jl|juju)-(?!(?:{ours})\b)[0-9a-f]{{6}}\b")
    return {
        trace
        for trace in after - before
        if not other.search(trace) and (not trace.startswith("process ") or concerns(trace, model, machine_ids))
    }


def concerns(trace, model, machine_ids):
    return model in trace or any(identifier in trace for identifier in machine_ids)


def directory(path):
    path = pathlib.Path(path)
    return list(path.iterdir()) if path.is_dir() else []


def processes():
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # It has ended meanwhile.
        if words and path.parent.name != str(os.getpid()):
            yield words
