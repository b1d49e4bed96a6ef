"""`node-config`: how a node describes itself to Slurm, changed in place, changed when the node is empty, kept, and
taken back."""
import pytest

from cluster import charm_file, eventually, slow

UNITS = 2
FIRST, SECOND = "compute/0", "compute/1"


def asked(cluster, parameters, unit=FIRST, **options):
    return cluster.act(unit, "node-config", parameters=parameters, **options)


def await_value(cluster, key, expected, node="compute-0", seconds=60):
    return eventually(lambda: cluster.node(node)[key], lambda seen: seen == expected, f"{key} of {node}", seconds)


def options_of(cluster, unit=FIRST):
    return cluster.root(unit, "cat", "/etc/default/slurmd")


@pytest.fixture(autouse=True)
def whole_again(cluster):
    """Each test begins and ends with two idle nodes as they were detected."""
    yield
    for unit in (FIRST, SECOND):
        cluster.act(unit, "node-config", reset=True)
    for node in ("compute-0", "compute-1"):
        cluster.await_state(node, "IDLE")
        await_value(cluster, "weight", 1, node)
    cluster.settle(slurmctld=1, compute=2)


def test_without_parameters_it_shows_what_slurmd_is_started_with(cluster):
    before = cluster.daemon(FIRST), options_of(cluster)
    shown = str(cluster.act(FIRST, "node-config"))
    for key in ("RealMemory=", "CPUs=", "compute"):
        assert key.lower() in shown.lower(), shown
    assert (cluster.daemon(FIRST), options_of(cluster)) == before


def test_a_changed_weight_lasts(cluster):
    asked(cluster, "Weight=7")
    await_value(cluster, "weight", 7)
    assert cluster.node("compute-1")["weight"] == 1
    assert "weight=7" in options_of(cluster).lower(), "the next registration would not have it"
    # Slurm forgets a weight that was only set with scontrol when it reads its files again.
    cluster.settle(slurmctld=1, compute=2)
    cluster.reconfigure()
    cluster.await_state("compute-0", "IDLE")
    assert cluster.node("compute-0")["weight"] == 7


def test_a_weight_is_changed_at_once_although_a_job_runs(cluster):
    job = cluster.start_job("compute-0")
    before = cluster.daemon(FIRST)
    asked(cluster, "Weight=9")
    await_value(cluster, "weight", 9, seconds=20)
    assert cluster.daemon(FIRST) == before
    cluster.assert_unharmed(job)
    cluster.cancel(job)


def test_memory_is_changed_although_slurm_cannot_do_it_in_place(cluster):
    detected = cluster.node("compute-0")["real_memory"]
    asked(cluster, f"RealMemory={detected - 500}")
    await_value(cluster, "real_memory", detected - 500)
    cluster.await_state("compute-0", "IDLE")
    node = cluster.node("compute-0")
    assert node["partitions"] == ["compute"] and "compute" in node["features"], node
    assert len(set(cluster.hosts(nodes=2))) == 2
    cluster.await_message(FIRST, "^active: idle, partition compute$")


def test_a_record_that_a_pending_job_names_is_not_deleted(cluster):
    """Slurm deletes it, and fails the job at its next restart or reconfigure."""
    job = cluster.submit("sleep 1", "--hold", "--array=0-1", "--nodelist=compute-0")
    detected = cluster.node("compute-0")["real_memory"]
    shown = asked(cluster, f"RealMemory={detected - 400}")
    assert shown["pending"] == f"node-config waits for pending job {job}", shown
    cluster.await_message(FIRST, f"node-config waits for pending job {job}$")
    assert cluster.node("compute-0")["real_memory"] == detected
    cluster.cancel(job)
    await_value(cluster, "real_memory", detected - 400)


def test_a_timer_is_set_although_the_call_of_the_last_one_still_waits_for_jujus_lock(cluster):
    job = cluster.start_job("compute-0")
    detected = cluster.node("compute-0")["real_memory"]
    asked(cluster, f"RealMemory={detected - 300}")
    call, timer = "compute-0-retry.service", "compute-0-retry.timer"
    # This command holds the lock, so the call waits for as long as it lasts. The hook then finds that it needs a timer.
    script = f"""systemctl start --no-block {call}; sleep 1; systemctl stop {timer}
        echo call: $(systemctl is-active {call}), timer: $(systemctl is-active {timer})
        JUJU_DISPATCH_PATH=hooks/update-status ./dispatch || exit
        echo call: $(systemctl is-active {call}), timer: $(systemctl is-active {timer})"""
    said = cluster.juju.exec(script, unit=FIRST, wait=120).stdout
    before, after = [line for line in said.splitlines() if line.startswith("call: ")]
    assert before.startswith("call: activ") and before.endswith("timer: inactive"), said
    assert after.startswith("call: activ") and after.endswith("timer: active"), said
    cluster.assert_unharmed(job)
    cluster.cancel(job)
    await_value(cluster, "real_memory", detected - 300)


@pytest.mark.slow
def test_several_keys_at_once_in_any_letter_case(cluster):
    detected = cluster.node("compute-0")["real_memory"]
    asked(cluster, f"weight=3 REALMEMORY={detected - 700} MemSpecLimit=512")
    await_value(cluster, "real_memory", detected - 700)
    node = cluster.node("compute-0")
    assert (node["weight"], node["specialized_memory"]) == (3, 512), node


@pytest.mark.slow
def test_a_later_wish_is_added_to_an_earlier_one(cluster):
    asked(cluster, "Weight=4")
    asked(cluster, "MemSpecLimit=300")
    await_value(cluster, "specialized_memory", 300)
    assert cluster.node("compute-0")["weight"] == 4


def test_the_partition_keeps_a_node_with_a_new_feature(cluster):
    asked(cluster, "Feature=bigmem")
    eventually(
        lambda: cluster.node("compute-0")["features"], lambda seen: {"bigmem", "compute"} <= set(seen), "features", 60
    )
    cluster.await_state("compute-0", "IDLE")
    assert cluster.node("compute-0")["partitions"] == ["compute"]
    assert cluster.srun("--constraint=bigmem").strip() == cluster.machines()[cluster.machine_of(FIRST)]


@pytest.mark.slow
def test_a_reset_brings_back_what_was_detected(cluster):
    detected = cluster.node("compute-0")["real_memory"]
    asked(cluster, f"RealMemory={detected - 500} Weight=9")
    await_value(cluster, "real_memory", detected - 500)
    cluster.act(FIRST, "node-config", reset=True)
    await_value(cluster, "real_memory", detected)
    await_value(cluster, "weight", 1)


@pytest.mark.parametrize(
    "parameters", ["Bogus=3", "RealMemory=lots", *map(slow, ("Weight", "Weight=", "Weight=5 Bogus=1"))]
)
def test_a_wrong_key_or_value_is_refused_before_anything_is_done(cluster, parameters):
    before = cluster.daemon(FIRST), options_of(cluster), cluster.node("compute-0")["weight"]
    said = cluster.refuse(FIRST, "node-config", parameters=parameters)
    word = "Bogus" if "Bogus" in parameters else parameters.split("=")[0]
    assert word.lower() in said.lower(), said
    assert (cluster.daemon(FIRST), options_of(cluster), cluster.node("compute-0")["weight"]) == before


@pytest.mark.parametrize("key", ["NodeName", "State", *map(slow, ("NodeAddr", "NodeHostname", "Reason", "Port"))])
def test_a_key_that_the_charm_owns_is_refused_by_name(cluster, key):
    before = options_of(cluster)
    said = cluster.refuse(FIRST, "node-config", parameters=f"{key}=other")
    assert key.lower() in said.lower(), said
    assert options_of(cluster) == before


def test_scripts_for_the_python_charm_get_the_answers_they_know(cluster):
    assert cluster.act(FIRST, "set-node-config", parameters="Weight=6")["accepted"] == "True"
    await_value(cluster, "weight", 6)
    owned = cluster.refuse(FIRST, "set-node-config", parameters="NodeName=x")
    assert "Cannot apply node configuration parameters 'NodeName=x'." in owned, owned
    assert "Overrides charm-managed configuration parameter." in owned, owned
    wrong = cluster.refuse(FIRST, "set-node-config", parameters="Bogus=1")
    assert "Validation for node configuration parameters 'Bogus=1' failed. Reason:" in wrong, wrong


def test_a_change_waits_for_the_end_of_the_job(cluster):
    detected = cluster.node("compute-0")["real_memory"]
    job = cluster.start_job("compute-0", seconds=20)
    before = cluster.daemon(FIRST)
    asked(cluster, f"RealMemory={detected - 900}")
    cluster.await_message(FIRST, "pending|when .*empty|job", seconds=20)
    # Not even closed to other jobs: the node is as it was.
    assert "DRAIN" not in cluster.state("compute-0")
    assert cluster.node("compute-0")["real_memory"] == detected
    assert cluster.daemon(FIRST) == before
    cluster.fire(FIRST)
    cluster.assert_unharmed(job)
    cluster.await_job(job, "COMPLETED", 60)
    # Nobody calls: the charm's own timer brings it to its end.
    await_value(cluster, "real_memory", detected - 900, seconds=90)
    cluster.await_state("compute-0", "IDLE")
    cluster.await_message(FIRST, "^active: idle, partition compute$", 90)
    cluster.assert_unharmed(job, "COMPLETED")


def test_the_administrators_drain_is_there_again_afterwards(cluster):
    detected = cluster.node("compute-0")["real_memory"]
    cluster.scontrol("update", "nodename=compute-0", "state=drain", "reason=fan is loud")
    try:
        asked(cluster, f"RealMemory={detected - 600}")
        await_value(cluster, "real_memory", detected - 600)
        cluster.await_state("compute-0", "IDLE+DRAIN")
        assert cluster.node("compute-0")["reason"] == "fan is loud"
        # It is the administrator's to take away, and does not come back.
        cluster.act("slurmctld/0", "resume", nodename="compute-0")
        cluster.root(FIRST, "systemctl", "restart", "slurmd")
        cluster.fire(FIRST)
        cluster.await_state("compute-0", "IDLE")
    finally:
        if "DRAIN" in cluster.state("compute-0"):
            cluster.scontrol("update", "nodename=compute-0", "state=resume")


@pytest.mark.slow
def test_a_node_that_is_down_stays_down(cluster):
    detected = cluster.node("compute-0")["real_memory"]
    cluster.scontrol("update", "nodename=compute-0", "state=down", "reason=lent out")
    try:
        asked(cluster, f"RealMemory={detected - 400}")
        await_value(cluster, "real_memory", detected - 400)
        cluster.await_state("compute-0", "DOWN")
        assert cluster.node("compute-0")["reason"] == "lent out"
    finally:
        cluster.scontrol("update", "nodename=compute-0", "state=resume")


def test_it_is_kept_across_reboot_and_refresh(cluster):
    detected = cluster.node("compute-0")["real_memory"]
    asked(cluster, f"RealMemory={detected - 800} Weight=8")
    await_value(cluster, "real_memory", detected - 800)
    cluster.juju.refresh("compute", path=charm_file("slurmd"))
    cluster.quiet()
    cluster.reboot(FIRST)
    # A fresh registration, from nothing but what is on the node.
    cluster.await_message(FIRST, "^active: ", 90)
    cluster.scontrol("delete", "nodename=compute-0")
    cluster.root(FIRST, "systemctl", "restart", "slurmd")
    await_value(cluster, "real_memory", detected - 800)
    await_value(cluster, "weight", 8)


@pytest.mark.slow
def test_it_works_on_leader_and_follower(cluster):
    for unit in (cluster.leader("compute"), cluster.follower("compute")):
        node = unit.replace("/", "-")
        asked(cluster, "Weight=12", unit)
        await_value(cluster, "weight", 12, node)


def test_a_description_that_slurmd_does_not_start_with_is_taken_back_and_named(cluster):
    """Slurm's parser takes such a value; slurmd itself finds the key of another node in it, and ends."""
    detected = cluster.node("compute-0")["real_memory"]
    asked(cluster, f"RealMemory={detected - 300}")
    await_value(cluster, "real_memory", detected - 300)
    said = cluster.refuse(FIRST, "node-config", parameters="Feature=NodeName=x MemSpecLimit=200")
    assert "Feature=NodeName=x" in said and "not allowed" in said, said
    cluster.await_state("compute-0", "IDLE")
    node = cluster.node("compute-0")
    assert (node["real_memory"], node["features"]) == (detected - 300, ["compute"]), node
    cluster.await_message(
        FIRST, "^active: idle, partition compute; node-config: slurmd does not start with .*Feature=NodeName=x"
    )
    assert cluster.act(FIRST, "node-config")["user-supplied-node-parameters"] == f"RealMemory={detected - 300}"
    # The next request is another one.
    asked(cluster, "Weight=2")
    cluster.await_message(FIRST, "^active: idle, partition compute$")
    assert len(set(cluster.hosts(nodes=2))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("reboots", [False, True])
def test_what_slurm_takes_in_place_and_slurmd_does_not_start_with_is_taken_back_at_the_next_start(cluster, reboots):
    asked(cluster, "Feature=NodeName=x")
    eventually(lambda: cluster.node("compute-0")["features"], lambda seen: "NodeName=x" in seen, "features", 30)
    if reboots:
        cluster.reboot(FIRST)
    else:
        cluster.shell(FIRST, "systemctl restart slurmd || true")
    # Nobody calls: systemd gives up after some seconds and tells the charm.
    cluster.await_message(
        FIRST, "^active: idle, partition compute; node-config: slurmd does not start with Feature=NodeName=x", 60
    )
    cluster.await_state("compute-0", "IDLE")
    assert "NodeName" not in options_of(cluster)


def test_what_an_administrator_noted_on_a_node_is_there_again(cluster):
    cluster.scontrol("update", "nodename=compute-0", "extra=rack=7", "cpubind=core")
    keys = ("extra", "cpu_binding")
    before = [cluster.node("compute-0")[key] for key in keys]
    detected = cluster.node("compute-0")["real_memory"]
    asked(cluster, f"RealMemory={detected - 350}")
    await_value(cluster, "real_memory", detected - 350)
    eventually(lambda: [cluster.node("compute-0")[key] for key in keys], lambda seen: seen == before, "notes", 30)
    cluster.scontrol("update", "nodename=compute-0", "extra=", "cpubind=none")
