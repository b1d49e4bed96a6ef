"""A controller and two nodes, from deploy to destroy-model, as an operator sees it. The tests tell one story, in order."""
import base64
import json
import re
import time

import jubilant
import pytest

import host


def test_a_job_runs_on_both_nodes(cluster):
    hosts = cluster.srun(nodes=2)
    compute = {cluster.machine_of(unit) for unit in ("compute/0", "compute/1")}
    assert hosts == sorted(name for machine, name in cluster.machines().items() if machine in compute)


def test_nodes_are_dynamic_and_named_after_their_units(cluster):
    for node in ("compute-0", "compute-1"):
        shown = cluster.juju.ssh(cluster.controller, "scontrol", "show", "node", node)
        assert re.search(r"\bState=IDLE\+DYNAMIC_NORM\b", shown), shown
        assert re.search(r"\bPartitions=compute\b", shown), shown
    assert "NodeName=" not in slurm_conf(cluster)


def test_slurmd_runs_from_the_packaged_unit_with_a_drop_in_and_no_wrapper(cluster):
    shown = cluster.juju.ssh("compute/0", "systemctl", "cat", "--no-pager", "slurmd")
    files = re.findall(r"^# (/\S+)$", shown, re.MULTILINE)
    assert files[0] in ("/usr/lib/systemd/system/slurmd.service", "/lib/systemd/system/slurmd.service"), shown
    assert files[1:], f"no drop-in:\n{shown}"
    assert all(path.startswith("/etc/systemd/system/slurmd.service.d/") for path in files[1:]), shown
    assert re.findall(r"^ExecStart=(\S+)", shown, re.MULTILINE) == ["/usr/sbin/slurmd"], shown
    pid = cluster.juju.ssh("compute/0", "systemctl", "show", "--property=MainPID", "--value", "slurmd").strip()
    program = cluster.juju.ssh("compute/0", "sudo", "readlink", f"/proc/{pid}/exe").strip()
    package = cluster.juju.ssh("compute/0", "dpkg", "--search", program)
    assert package.startswith("slurmd"), f"process {pid} runs {program}, which is of {package}"
    arguments = cluster.juju.ssh("compute/0", "ps", "-o", "args=", "-p", pid)
    for option in (" -Z ", " -N compute-0 ", " --conf ", " --conf-server "):
        assert option in f"{arguments} ".replace("=", " "), arguments


def test_adding_a_unit_leaves_slurm_conf_as_it_is(cluster):
    before = fingerprint(cluster)
    cluster.juju.add_unit("compute")
    cluster.settle(controllers=1, nodes=3)
    assert fingerprint(cluster) == before
    hosts = cluster.srun(nodes=3)
    assert len(set(hosts)) == 3, hosts
    assert fingerprint(cluster) == before


def test_the_key_is_nowhere_to_be_seen(cluster):
    juju = cluster.juju
    needles = key_material(cluster)
    documents = {f"show-unit {unit}": juju.cli("show-unit", unit, "--format", "json") for unit in cluster.units()}
    assert any("auth" in text for text in documents.values()), "no databag was shown at all"
    documents["status"] = juju.cli("status", "--format", "json")
    documents["debug-log"] = juju.cli("debug-log", "--limit", "0")
    for machine in cluster.machines():
        documents[f"ps on machine {machine}"] = juju.ssh(machine, "ps", "-eo", "args")
        documents[f"journal of machine {machine}"] = juju.ssh(machine, "sudo", "journalctl", "--quiet", "--no-pager")
    found = [place for place, text in documents.items() if any(needle in text for needle in needles)]
    assert not found, f"the key is in: {', '.join(found)}"
    # The search must be able to find something, or it proves nothing.
    assert "/etc/slurm/slurm.jwks" in files_with(cluster, cluster.machine_of(cluster.controller), needles, "/etc/slurm")
    for machine in cluster.machines():
        found = files_with(cluster, machine, needles, "/var/log", "/var/lib/juju", "/etc/default", "/etc/systemd")
        assert not found, f"the key is on machine {machine} in: {found}"


def test_only_slurm_can_read_the_key(cluster):
    for unit in cluster.units():
        mode, owner = cluster.juju.ssh(unit, "sudo", "stat", "--format=%a:%U", "/etc/slurm/slurm.jwks").strip().split(":")
        assert mode == "600" and owner in ("slurm", "root"), f"{unit}: {mode} {owner}"


def test_resume_brings_a_node_back(cluster):
    node = "compute-0"
    cluster.juju.ssh(
        cluster.controller, "sudo", "scontrol", "update", f"nodename={node}", "state=down", "reason=looked-at-by-hand"
    )
    assert state(cluster, node).startswith("down"), state(cluster, node)
    task = cluster.juju.run(cluster.controller, "resume", {"nodename": node}, wait=60)
    assert task.status == "completed"
    eventually(lambda: state(cluster, node), "idle", seconds=30)
    assert len(cluster.srun(nodes=3)) == 3


def test_destroying_the_model_leaves_nothing_behind(cluster):
    identifiers = {re.fullmatch(r"juju-([0-9a-f]{6})-\d+", name).group(1) for name in cluster.machines().values()}
    model, cluster.juju.model = cluster.juju.model, None
    cluster.juju.destroy_model(model, destroy_storage=True, force=True)
    with pytest.raises(jubilant.CLIError):
        cluster.juju.cli("status", "--model", model, include_model=False)
    if host.is_juju_local():
        eventually(
            lambda: host.left_over(cluster.traces_before, host.traces(), model, identifiers), set(), seconds=30
        )


def slurm_conf(cluster):
    return cluster.juju.ssh(cluster.controller, "sudo", "cat", "/etc/slurm/slurm.conf")


def fingerprint(cluster):
    """Content of slurm.conf, and when and as what it was last written."""
    digest = cluster.juju.ssh(cluster.controller, "sudo", "sha256sum", "/etc/slurm/slurm.conf").split()[0]
    written = cluster.juju.ssh(cluster.controller, "sudo", "stat", "--format=%i:%y", "/etc/slurm/slurm.conf").strip()
    return digest, written


def state(cluster, node):
    return cluster.juju.ssh(cluster.controller, "sinfo", "--noheader", f"--nodes={node}", "--format=%T").strip()


def key_material(cluster):
    """Every form in which one of the cluster's keys could turn up as text."""
    # Through ssh: an action or `juju exec` would itself put the key into a result.
    keys = json.loads(cluster.juju.ssh(cluster.controller, "sudo", "cat", "/etc/slurm/slurm.jwks"))["keys"]
    raw = [base64.urlsafe_b64decode(key["k"] + "=" * (-len(key["k"]) % 4)) for key in keys]
    assert raw and all(len(key) >= 16 for key in raw)
    written = re.search(r"jwt_key=([^\s,]+)", slurm_conf(cluster))
    if written:
        text = cluster.juju.ssh(cluster.controller, "sudo", "base64", "--wrap=0", written.group(1))
        raw.append(base64.b64decode(text))
    forms = (base64.b64encode, base64.urlsafe_b64encode, lambda key: key.hex().encode())
    # Padding may be left out, so the last characters do not count.
    return sorted({form(key).decode().rstrip("=")[:-1] for key in raw for form in forms})


def files_with(cluster, machine, needles, *directories):
    """Paths of files that hold one of the needles. They travel on stdin: an argument would show up in `ps`."""
    try:
        return cluster.juju.cli(
            "ssh", machine, "sudo", "grep", "-rlaF", "-f", "-", *directories, stdin="\n".join(needles) + "\n"
        )
    except jubilant.CLIError as error:
        assert error.returncode == 1, f"the search itself failed: {error}"
        return ""


def eventually(read, expected, seconds):
    """Reads until the value is as expected; the failure shows the last one."""
    deadline = time.monotonic() + seconds
    while (seen := read()) != expected:
        assert time.monotonic() < deadline, f"expected {expected!r}, still {seen!r} after {seconds} s"
        time.sleep(0.5)
