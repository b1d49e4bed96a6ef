"""A controller and its nodes, from deploy to destroy-model, as an operator sees it. The tests tell one story, in
order."""
import base64
import json
import re

import jubilant
import pytest

import host
from cluster import eventually

pytestmark = pytest.mark.core
UNITS = 1


def test_a_job_runs_on_the_node(cluster):
    assert cluster.hosts(nodes=1) == [cluster.machines()[cluster.machine_of("compute/0")]]


def test_the_status_says_what_is(cluster):
    assert cluster.message("slurmctld/0") == "active: primary - UP"
    assert cluster.message("compute/0") == "active: idle, partition compute"
    status = cluster.juju.status()
    assert status.get_units("slurmctld")["slurmctld/0"].open_ports == ["6817/tcp"]
    assert status.get_units("compute")["compute/0"].open_ports == ["6818/tcp"]
    versions = {status.apps[app].version for app in ("slurmctld", "compute")}
    assert len(versions) == 1 and re.fullmatch(r"\d+\.\d+\.\d+", versions.pop()), versions


def test_the_node_is_dynamic_and_named_after_its_unit(cluster):
    node = cluster.node("compute-0")
    assert "DYNAMIC_NORM" in node["state"] and node["partitions"] == ["compute"], node
    assert "NodeName=" not in cluster.slurm_conf()


def test_slurmd_runs_from_the_packaged_unit_with_drop_ins_and_no_wrapper(cluster):
    shown = cluster.on("compute/0", "systemctl", "cat", "--no-pager", "slurmd")
    files = re.findall(r"^# (/\S+)$", shown, re.MULTILINE)
    assert files[0] in ("/usr/lib/systemd/system/slurmd.service", "/lib/systemd/system/slurmd.service"), shown
    assert files[1:], f"no drop-in:\n{shown}"
    assert all(path.startswith("/etc/systemd/system/slurmd.service.d/") for path in files[1:]), shown
    assert re.findall(r"^ExecStart=(\S+)", shown, re.MULTILINE) == ["/usr/sbin/slurmd"], shown
    pid = cluster.on("compute/0", "systemctl", "show", "--property=MainPID", "--value", "slurmd").strip()
    program = cluster.root("compute/0", "readlink", f"/proc/{pid}/exe").strip()
    package = cluster.on("compute/0", "dpkg", "--search", program)
    assert package.startswith("slurmd"), f"process {pid} runs {program}, which is of {package}"
    arguments = cluster.on("compute/0", "ps", "-o", "args=", "-p", pid)
    for option in (" -Z ", " -N compute-0 ", " --conf ", " --conf-server "):
        assert option in f"{arguments} ".replace("=", " "), arguments


def test_adding_three_units_one_by_one_changes_nothing_on_the_controller(cluster):
    before = cluster.controller_state()
    for count in (2, 3, 4):
        cluster.add_unit("compute")
        cluster.settle(slurmctld=1, compute=count)
        assert cluster.controller_state() == before
    hosts = cluster.hosts(nodes=4)
    assert len(set(hosts)) == 4, hosts
    assert cluster.controller_state() == before


def test_nobody_waits_once_all_is_settled(cluster):
    """A node that has just joined is looked at once more; then all timers are gone."""
    for unit in cluster.units():
        timers = lambda: cluster.on(unit, "systemctl", "list-timers", "--all", "--no-legend", "--no-pager")
        eventually(timers, lambda seen: "-retry" not in seen, f"timers of {unit}", 30)


def test_the_key_is_nowhere_to_be_seen(cluster):
    juju = cluster.juju
    needles = key_material(cluster)
    documents = {f"show-unit {unit}": juju.cli("show-unit", unit, "--format", "json") for unit in cluster.units()}
    assert any("auth" in text for text in documents.values()), "no databag was shown at all"
    documents["status"] = juju.cli("status", "--format", "json")
    documents["debug-log"] = juju.cli("debug-log", "--limit", "0")
    for machine in cluster.machines():
        documents[f"ps on machine {machine}"] = cluster.on(machine, "ps", "-eo", "args")
        documents[f"journal of machine {machine}"] = cluster.root(machine, "journalctl", "--quiet", "--no-pager")
    found = [place for place, text in documents.items() if any(needle in text for needle in needles)]
    assert not found, f"the key is in: {', '.join(found)}"
    # The search must be able to find something, or it proves nothing.
    assert "/etc/slurm/slurm.jwks" in files_with(cluster, cluster.machine_of(cluster.controller), needles, "/etc/slurm")
    for machine in cluster.machines():
        found = files_with(cluster, machine, needles, "/var/log", "/var/lib/juju", "/etc/default", "/etc/systemd")
        assert not found, f"the key is on machine {machine} in: {found}"


def test_only_slurm_can_read_the_key(cluster):
    for unit in cluster.units():
        mode, owner = cluster.root(unit, "stat", "--format=%a:%U", "/etc/slurm/slurm.jwks").strip().split(":")
        assert mode == "600" and owner in ("slurm", "root"), f"{unit}: {mode} {owner}"


def test_the_name_of_the_cluster_does_not_change(cluster):
    name = cluster.setting("ClusterName")
    assert re.fullmatch(r"charmed-hpc-[\w-]{4}", name), name
    before = cluster.slurm_conf()
    cluster.juju.config("slurmctld", {"cluster-name": "another"})
    try:
        cluster.await_message(cluster.controller, "^blocked: .*cluster-name.*another")
        assert cluster.setting("ClusterName") == name and cluster.slurm_conf() == before
    finally:
        cluster.restore("slurmctld", "cluster-name")
    cluster.await_message(cluster.controller, "^active: primary - UP")


def test_destroying_the_model_leaves_nothing_behind(cluster):
    names = cluster.machines().values()
    model, cluster.juju.model = cluster.juju.model, None
    cluster.juju.destroy_model(model, destroy_storage=True, force=True)
    with pytest.raises(jubilant.CLIError):
        cluster.juju.cli("status", "--model", model, include_model=False)
    if host.is_juju_local():
        [digits] = {re.fullmatch(r"juju-([0-9a-f]{6})-\d+", name).group(1) for name in names}
        eventually(lambda: host.traces(model, digits), lambda seen: not seen, f"traces of {model}", 30)


def key_material(cluster):
    """Every form in which one of the cluster's keys could turn up as text."""
    # Through ssh: an action or `juju exec` would itself put the key into a result.
    keys = json.loads(cluster.root(cluster.controller, "cat", "/etc/slurm/slurm.jwks"))["keys"]
    raw = [base64.urlsafe_b64decode(key["k"] + "=" * (-len(key["k"]) % 4)) for key in keys]
    assert raw and all(len(key) >= 16 for key in raw)
    written = re.search(r"jwt_key=([^\s,]+)", cluster.slurm_conf())
    if written:
        text = cluster.root(cluster.controller, "base64", "--wrap=0", written.group(1))
        raw.append(base64.b64decode(text))
    forms = (base64.b64encode, base64.urlsafe_b64encode, lambda key: key.hex().encode())
    # Padding may be left out, so the last characters do not count.
    return sorted({form(key).decode().rstrip("=")[:-1] for key in raw for form in forms})


def files_with(cluster, machine, needles, *directories):
    """Paths of files that hold one of the needles. They travel on stdin: an argument would show up in `ps`."""
    words = ("grep", "-rlaF", "-f", "-", *directories)
    try:
        return cluster.root(machine, *words, stdin="\n".join(needles) + "\n")
    except jubilant.CLIError as error:
        assert error.returncode == 1, f"the search itself failed: {error}"
        return ""
