"""Every action with good and bad parameters, on leader and follower, and with values that mean harm."""
import json

import pytest

from cluster import eventually, slow

pytestmark = pytest.mark.core
CONTROLLER = "slurmctld/0"
HOSTILE = [
    "",
    " ",
    "compute-0; touch /tmp/owned",
    "$(touch /tmp/owned)",
    "`touch /tmp/owned`",
    "compute-0\nstate=down",
    "compute-0 state=down",
    "--help",
    "-v",
    "compute-[0-",
    "compute-[0-99999999]",
    "ALL",
    "../../etc/passwd",
    "compute-0,",
    "compute-0 reason='x'",
    "x" * 5000,
    "compute-0\\",
    "nosuch-7",
    "nodename=compute-0",
]


@pytest.fixture(autouse=True)
def as_found(cluster):
    """Each test ends with two idle nodes that nothing runs on."""
    yield
    cluster.on(CONTROLLER, "scancel", "--user=ubuntu")
    for node in ("compute-0", "compute-1"):
        eventually(lambda: jobs_on(cluster, node), lambda seen: not seen, f"jobs on {node}", 60)
        if cluster.state(node) != "IDLE":
            try:
                cluster.scontrol("update", f"nodename={node}", "state=resume")
            except Exception:
                pass  # It was on its way back already.
        cluster.await_state(node, "IDLE")


def jobs_on(cluster, node):
    return cluster.on(CONTROLLER, "squeue", "--noheader", f"--nodelist={node}", "--format=%i").split()


def text(results):
    """All that an action answered, as one text."""
    return json.dumps(results)


# Controller


def test_resume_brings_nodes_back(cluster):
    cluster.scontrol("update", "nodename=compute-0", "state=down", "reason=by hand")
    cluster.scontrol("update", "nodename=compute-1", "state=drain", "reason=by hand")
    cluster.act(CONTROLLER, "resume", nodename="compute-[0-1]")
    for node in ("compute-0", "compute-1"):
        cluster.await_state(node, "IDLE")
    # Once more is no mistake.
    cluster.act(CONTROLLER, "resume", nodename="compute-0")
    assert len(cluster.hosts(nodes=2)) == 2


def test_drain_keeps_new_jobs_away_and_spares_those_that_run(cluster):
    job = cluster.start_job("compute-0")
    cluster.act(CONTROLLER, "drain", nodename="compute-0", reason="new disk, ticket 7")
    cluster.await_state("compute-0", ("ALLOCATED+DRAIN", "MIXED+DRAIN"))
    assert cluster.node("compute-0")["reason"] == "new disk, ticket 7"
    cluster.assert_unharmed(job)


def test_drain_wants_a_reason(cluster):
    assert "reason" in cluster.refuse(CONTROLLER, "drain", nodename="compute-0")
    assert "reason" in cluster.refuse(CONTROLLER, "drain", nodename="compute-0", reason="").lower()
    assert cluster.state("compute-0") == "IDLE"


@pytest.mark.parametrize(("state", "expected"), [("drain", "IDLE+DRAIN"), ("down", "DOWN"), ("fail", "IDLE+FAIL")])
def test_set_node_state_and_back_to_idle(cluster, state, expected):
    cluster.act(CONTROLLER, "set-node-state", nodes="compute-0", state=state, reason="maintenance")
    assert cluster.state("compute-0") == expected
    assert cluster.node("compute-0")["reason"] == "maintenance"
    cluster.act(CONTROLLER, "set-node-state", nodes="compute-0", state="idle")
    cluster.await_state("compute-0", "IDLE")


def test_set_node_state_without_a_reason_says_so_to_slurm(cluster):
    cluster.act(CONTROLLER, "set-node-state", nodes="compute-0", state="drain")
    assert cluster.node("compute-0")["reason"] == "n/a"


def test_set_node_state_fails_in_known_words(cluster):
    said = cluster.refuse(CONTROLLER, "set-node-state", nodes="nosuch", state="drain", reason="x")
    assert "Failed to set state of node(s) nosuch to state 'drain'" in said, said
    # Slurm has its own idea of which state may follow which.
    said = cluster.refuse(CONTROLLER, "set-node-state", nodes="compute-0", state="failing", reason="x")
    assert "Failed to set state of node(s) compute-0 to state 'failing'" in said, said
    said = cluster.refuse(CONTROLLER, "set-node-state", nodes="compute-0", state="paused")
    assert "paused" in said or "state" in said, said


def test_a_list_with_an_unknown_node_changes_none(cluster):
    said = cluster.refuse(CONTROLLER, "drain", nodename="compute-0,nosuch-[0-1]", reason="x")
    assert "nosuch-0, nosuch-1" in said, said
    said = cluster.refuse(CONTROLLER, "set-node-state", nodes="compute-0,nosuch-0", state="down", reason="x")
    assert "nosuch-0" in said, said
    assert "DRAIN" not in cluster.node("compute-0")["state"] and "DOWN" not in cluster.node("compute-0")["state"]
    cluster.act(CONTROLLER, "drain", nodename="compute-0", reason='it\'s "q"')
    assert cluster.node("compute-0")["reason"] == 'it\'s "q"'
    said = cluster.refuse(CONTROLLER, "resume", nodename="compute-0,nosuch-0")
    assert "nosuch-0" in said and "DRAIN" in cluster.node("compute-0")["state"], said


def test_show_current_config_is_what_slurmctld_reads_and_says_where_lines_come_from(cluster):
    results = cluster.act(CONTROLLER, "show-current-config")
    # Juju makes two levels of a key with a dot; scripts written for the Python charm know that.
    shown = results["slurm"]["conf"] if "slurm" in results else results["slurm.conf"]
    assert shown.strip() == cluster.slurm_conf().strip()
    rest = text({key: value for key, value in results.items() if key not in ("slurm", "slurm.conf")})
    assert "compute" in rest, f"nothing says where the lines of partition compute come from: {results}"


def test_show_nodes_names_state_reason_and_unit(cluster):
    cluster.scontrol("update", "nodename=compute-1", "state=drain", "reason=loud fan")
    shown = text(cluster.act(CONTROLLER, "show-nodes"))
    for word in ("compute-0", "compute-1", "compute/1", "loud fan"):
        assert word in shown, shown
    shown = text(cluster.act(CONTROLLER, "show-nodes", nodes="compute-1"))
    assert "compute-1" in shown and "compute-0" not in shown, shown


def test_destroy_jobs_ends_only_those_on_the_nodes(cluster):
    doomed, spared = cluster.start_job("compute-0"), cluster.start_job("compute-1")
    dry = text(cluster.act(CONTROLLER, "destroy-jobs", nodes="compute-0", dry_run=True))
    assert doomed in dry, dry
    cluster.assert_unharmed(doomed)
    done = text(cluster.act(CONTROLLER, "destroy-jobs", nodes="compute-0"))
    assert doomed in done, done
    assert cluster.job(doomed)["JobState"] == "CANCELLED"
    assert not jobs_on(cluster, "compute-0")
    cluster.assert_unharmed(spared)
    # Nothing there: nothing to do, and no mistake.
    cluster.act(CONTROLLER, "destroy-jobs", nodes="compute-0")


def test_smoke_test_tries_every_usable_node(cluster):
    passed = text(cluster.act(CONTROLLER, "smoke-test"))
    assert "compute-0" in passed and "compute-1" in passed, passed
    cluster.scontrol("update", "nodename=compute-1", "state=drain", "reason=not this one")
    passed = text(cluster.act(CONTROLLER, "smoke-test", nodes="compute-0"))
    assert "compute-0" in passed, passed
    eventually(lambda: jobs_on(cluster, "compute-0"), lambda seen: not seen, "jobs left behind", 30)


def test_smoke_test_runs_beside_jobs_and_blames_no_node_for_its_partition(cluster):
    job = cluster.submit("sleep 600", "--nodelist=compute-0", "--ntasks=1", "--mem=50")
    cluster.await_job(job, "RUNNING")
    done = cluster.act(CONTROLLER, "smoke-test", nodes="compute-0")
    assert "passed" in done["table"], done
    cluster.assert_unharmed(job)
    for setting in ("state=down", "state=drain", "state=inactive", "minnodes=2"):
        cluster.scontrol("update", "partitionname=compute", setting)
        done = cluster.act(CONTROLLER, "smoke-test", nodes="compute-1", timeout=5)
        assert "skipped, partition compute" in done["table"], (setting, done)
        cluster.scontrol("update", "partitionname=compute", "state=up")
    cluster.scontrol("update", "partitionname=compute", "minnodes=0", "maxtime=1")
    done = cluster.act(CONTROLLER, "smoke-test", nodes="compute-1")
    assert "passed" in done["table"], done
    cluster.scontrol("update", "partitionname=compute", "maxtime=infinite")


def test_explain_says_why_and_what_to_do(cluster):
    cluster.scontrol("update", "nodename=compute-0", "state=down", "reason=psu smells")
    said = text(cluster.act(CONTROLLER, "explain", node="compute-0"))
    assert "psu smells" in said and "resume" in said, said
    pending = cluster.submit("true", "--nodelist=compute-0")
    eventually(lambda: cluster.job(pending)["Reason"], lambda seen: seen not in ("None", "Priority"), "reason", 60)
    said = cluster.act(CONTROLLER, "explain", job=int(pending))
    assert said["state"] == "PENDING" and "not available" in said["why"] and "show-nodes" in said["advice"], said
    said = text(cluster.act(CONTROLLER, "explain", node="compute-1"))
    assert "idle" in said.lower(), said


def test_explain_wants_one_thing_that_is_there(cluster):
    cluster.refuse(CONTROLLER, "explain")
    cluster.refuse(CONTROLLER, "explain", node="compute-0", job=1)
    assert "nosuch" in cluster.refuse(CONTROLLER, "explain", node="nosuch")
    assert "999999" in cluster.refuse(CONTROLLER, "explain", job=999999)


# Compute units


@pytest.mark.parametrize("which", ["leader", "follower"])
def test_a_unit_drains_and_resumes_itself(cluster, which):
    unit = getattr(cluster, which)("compute")
    node = unit.replace("/", "-")
    assert "reason" in cluster.refuse(unit, "drain")
    cluster.act(unit, "drain", reason="kernel update")
    assert cluster.state(node) == "IDLE+DRAIN"
    assert cluster.node(node)["reason"] == "kernel update"
    shown = text(cluster.act(unit, "show-node"))
    assert "kernel update" in shown and node in shown, shown
    cluster.act(unit, "resume")
    cluster.await_state(node, "IDLE")
    cluster.act(unit, "resume")


@pytest.mark.parametrize("which", ["leader", slow("follower")])
def test_a_unit_waits_until_it_is_empty(cluster, which):
    unit = getattr(cluster, which)("compute")
    node = unit.replace("/", "-")
    job = cluster.start_job(node, seconds=8)
    results = cluster.juju.run(unit, "drain", {"reason": "going away", "wait": True}, wait=120).results
    assert cluster.job(job)["JobState"] == "COMPLETED", results
    assert cluster.state(node) == "IDLE+DRAIN"


@pytest.mark.parametrize("which", ["leader", "follower"])
def test_a_unit_destroys_its_own_jobs_only(cluster, which):
    unit = getattr(cluster, which)("compute")
    other = getattr(cluster, "follower" if which == "leader" else "leader")("compute")
    doomed, spared = (cluster.start_job(one.replace("/", "-")) for one in (unit, other))
    assert doomed in text(cluster.act(unit, "destroy-jobs", dry_run=True))
    cluster.assert_unharmed(doomed)
    assert doomed in text(cluster.act(unit, "destroy-jobs"))
    assert cluster.job(doomed)["JobState"] == "CANCELLED"
    cluster.assert_unharmed(spared)


# Harm


@pytest.mark.parametrize("action", ["resume", "destroy-jobs", *map(slow, ("drain", "set-node-state"))])
def test_hostile_node_names_do_nothing(cluster, action):
    key = {"resume": "nodename", "drain": "nodename"}.get(action, "nodes")
    rest = {"drain": {"reason": "x"}, "set-node-state": {"state": "down", "reason": "x"}}.get(action, {})
    for value in HOSTILE:
        said = cluster.refuse(CONTROLLER, action, **{key: value}, **rest)
        assert said.strip(), f"{value!r} was refused without a word"
        assert [cluster.state(node) for node in ("compute-0", "compute-1")] == ["IDLE", "IDLE"], value
    for unit in (CONTROLLER, "compute/0", "compute/1"):
        assert cluster.shell(unit, "ls /tmp/owned 2>/dev/null || echo none").strip() == "none"


@pytest.mark.parametrize("reason", ["two\nlines", "ends \\", 'a "quoted" word', "a # sign", "x" * 3000, "$(reboot)"])
def test_hostile_reasons_are_refused_or_stay_text(cluster, reason):
    before = cluster.slurm_conf()
    try:
        cluster.act("compute/0", "drain", reason=reason)
        assert cluster.node("compute-0")["reason"] == reason
    except Exception as error:
        assert "reason" in str(getattr(error, "task", error)).lower(), error
        assert cluster.state("compute-0") == "IDLE"
    assert cluster.slurm_conf() == before


def test_unknown_actions_and_parameters_are_refused(cluster):
    cluster.refuse(CONTROLLER, "reboot-everything")
    cluster.refuse(CONTROLLER, "resume", nodename="compute-0", force=True)
    cluster.refuse("compute/0", "destroy-jobs", dry_run="perhaps")
