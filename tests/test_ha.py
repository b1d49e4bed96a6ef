"""Several controllers on a network file system, and what may happen to them. `cargo xtask test ha` runs these.

One cluster, one story after the other: it begins with a single controller, and each story leaves all controllers up
and of one mind. A job beats through every story and a client submits each second. Afterwards order, bags, daemons,
nodes and statuses say the same; what Slurm itself loses in a crash (jobs of the last seconds before it) is counted
apart, and nothing else may be missing.
"""
import json
import re
import time

import jubilant
import pytest

import ha
import host
import sites
import stories
from cluster import LITTLE, eventually, for_a_while
from tally import Tally

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="needs faults that only juju-local can make")

slow = pytest.mark.slow
APPLICATION = "slurmctld"


@pytest.fixture(scope="module")
def charms(tmp_path_factory):
    return tmp_path_factory.mktemp("charms")


@pytest.fixture(scope="module")
def site(new_cluster, charms):
    """A store and a node, and a controller that waits for its store."""
    site = ha.Charmed(ha.Wide(new_cluster().juju))
    site.deploy_store(charms)
    config = {"use-network-state": True, "slurm-conf-parameters": ha.PARAMETERS}
    site.cluster.deploy_charm("slurmctld", APPLICATION, 1, config=config)
    site.cluster.deploy_compute(units=2)
    site.cluster.juju.integrate(APPLICATION, "compute")
    return site


@pytest.fixture(autouse=True)
def all_is_mended(request):
    """A story that failed half-way, or at its very end, spoils no other one: the next one begins with a repair."""
    name = next((one for one in ("site", "shared", "local") if one in request.fixturenames), None)
    failed = request.session.testsfailed
    if name and failed > MENDED.get(name, 0):
        site = request.getfixturevalue(name)
        site.repair()
        site.clear_jobs()
    MENDED[name] = failed


# Site → how many tests had failed when it was last mended.
MENDED = {}


@pytest.fixture
def trio(site):
    """Three controllers of one mind, the primary serving."""
    return site.scale(3)


@pytest.fixture
def story(request, trio):
    """A job that beats and a client that submits while a story is told."""
    job = trio.start_beating()
    failed = request.session.testsfailed
    with Tally(trio) as tally:
        yield tally
        if request.session.testsfailed > failed:
            # It has said why. What it has left broken would only be waited for in vain.
            return
        trio.await_agreement(sites.COMES_BACK + 120)
        trio.await_primary()
        tally.finish()
    print(tally.summary())
    trio.assert_beats(job)
    trio.cancel(job)
    tally.assert_kept()


# From nothing to three


@pytest.mark.core
def test_a_controller_waits_for_its_store(site):
    unit = f"{APPLICATION}/0"
    told = site.cluster.await_message(unit, "^blocked: ", 180)
    assert "mount" in told and "filesystem-client" in told or "integrate" in told, told
    assert site.daemon_of(unit) != "active"
    site.cluster.juju.integrate("filesystem-client:mount", f"{APPLICATION}:mount")
    site.cluster.settle(store=1, slurmctld=1, compute=2)
    [host] = site.await_agreement()
    site.prepare_nodes()
    assert site.mounted(host) == ["autofs", "fuse"]
    machine = site.controllers()[host]
    assert site.look(machine, "readlink /etc/slurm").strip() == sites.CONFIGURATION
    assert site.look(machine, f"cat {ha.MARKER}").strip()
    assert site.fence(host)["state"] == "open"
    job = site.start_beating()
    site.assert_beats(job)
    site.cancel(job)


@slow
def test_a_single_controller_that_stood_still_goes_on(site):
    """Nobody can have taken over, so that it keeps what it accepted last and has not saved yet."""
    [first] = site.scale(1).order()
    before = site.identity(first)
    job = site.submit("true", "--hold")
    site.machine("freeze", first)
    try:
        site.pause_until(time.time() + 2 * sites.TIMEOUT)
    finally:
        site.machine("thaw", first)
    eventually(site.answers, bool, "the controller answers", 30)
    # A fence that was closed has killed it by now, and started it again.
    for_a_while(lambda: site.identity(first), lambda seen: seen == before, "starts of slurmctld", 5)
    assert site.fence_state(first) == "open"
    assert site.job(job).get("JobState") == "PENDING"
    site.cancel(job)


@pytest.mark.core
def test_two_controllers_join_at_once(site):
    """Order kept, primary and nodes untouched, submissions go on."""
    [first] = site.scale(1).order()
    job, before = site.start_beating(), site.identity(first)
    with site.submitting() as tally:
        tally.phase("join")
        site.cluster.add_unit(APPLICATION, 2)
        site.cluster.settle(slurmctld=3)
        order = site.await_agreement()
    hosts = [site.host_of(f"{APPLICATION}/{number}") for number in site.numbers()]
    assert order == hosts and order[0] == first, (order, hosts)
    assert site.identity(first) == before, "whoever serves is reconfigured, and never restarted"
    print(tally.summary())
    assert tally.gaps["join"] <= 5
    tally.assert_kept()
    site.assert_beats(job)
    site.cancel(job)
    site.drill()


# Failures


@pytest.mark.core
def test_what_was_done_in_a_cut_is_so_after_the_heal(trio, story):
    stories.cut_off(trio, story)
    assert story.undone == []


def test_a_machine_that_loses_its_power_is_replaced_and_comes_back(trio, story):
    stories.powered_off(trio, story)


@pytest.mark.core
def test_a_machine_that_is_rebooted_in_order_loses_nothing(trio, story):
    stories.rebooted(trio, story)


@slow
@pytest.mark.parametrize("fault", ["killed", "stopped", "frozen", "store_frozen", "store_killed"])
def test_jobs_run_through(trio, story, fault):
    getattr(stories, fault)(trio, story)
    assert not story.undone


@slow
def test_two_controllers_fail_one_after_the_other(trio, story):
    first, second, third = trio.order()
    story.crash("fault")
    trio.machine("poweroff", first)
    assert trio.await_serving(first, others=True) == second
    trio.await_saved()
    story.crash("second fault")
    trio.machine("poweroff", second)
    trio.await_serving(third)
    story.await_accepted(time.time())
    trio.await_saved()
    story.phase("return")
    for one in (second, first):
        trio.machine("poweron", one)
        trio.await_boot(one)


@slow
def test_a_fuse_process_that_dies_is_replaced(trio, story):
    """Another one takes over. Nothing mounts over a dead mount: an operator takes it away, and autofs does the rest."""
    primary = trio.order()[0]
    story.crash("fault")
    trio.kill_fuse(primary)
    eventually(lambda: trio.fence_state(primary), lambda seen: seen == "closed", "the fence of the primary", 30)
    trio.await_serving(primary, others=True)
    story.await_accepted(time.time())
    trio.await_saved()
    assert trio.fence_state(primary) == "closed"
    story.phase("return")
    trio.unmount(primary)
    eventually(lambda: trio.fence_state(primary), lambda seen: seen == "open", "the fence of the primary", 60)


@slow
def test_a_store_that_is_unmounted_is_mounted_again(trio, story):
    primary = trio.order()[0]
    story.crash("fault")
    trio.unmount(primary)
    story.await_accepted(time.time())
    story.phase("return")
    eventually(lambda: trio.fence_state(primary), lambda seen: seen == "open", "the fence of the primary", 120)


@slow
def test_a_controller_that_cannot_write_serves_nobody(trio, story):
    """Read-only on the primary alone: another one takes over, and it comes back when it can write."""
    primary = trio.order()[0]
    story.crash("fault")
    trio.make_readonly(primary)
    eventually(lambda: trio.fence_state(primary), lambda seen: seen == "closed", "the fence of the primary", 30)
    trio.await_serving(primary, others=True)
    story.await_accepted(time.time())
    trio.await_saved()
    trio.cluster.await_message(trio.unit_of(primary), "read-only", 120)
    story.phase("return")
    trio.make_writable(primary)


@slow
def test_a_full_store_keeps_what_it_has(trio, story):
    """Bare Slurm writes empty files over its state, and nobody serves any more after that."""
    story.crash("fault")
    trio.fill()
    try:
        eventually(trio.fences, lambda seen: set(seen.values()) == {"closed"}, "fences on a full store", 60)
        # Until then some jobs were taken, whose scripts found room, and nothing could be written down.
        story.died()
        told = trio.refreshed(trio.order()[0])
        assert re.search("space|left|quota", told), told
        sizes = trio.sizes()
        print(sizes)
        assert sizes["job_state"] > 0
    finally:
        trio.drain_store()
    story.await_accepted(time.time())
    story.phase("return")


@slow
def test_a_slow_store_is_named(trio):
    order = trio.order()
    with trio.slow_store():
        read = lambda: trio.refreshed(order[0])
        told = eventually(read, lambda seen: "store is slow" in seen, "status of the primary", 180)
        assert re.search(r"\d+ ms", told), told
    trio.await_agreement(240)


@slow
def test_one_that_stepped_aside_comes_back(trio, story):
    """`scontrol takeover` ends the one that served, and systemd does not start it: the charm does."""
    primary, backup = trio.order()[:2]
    story.phase("fault")
    trio.slurm("scontrol takeover 1", 60)
    trio.await_serving(backup)
    story.phase("return")
    eventually(lambda: trio.daemon(primary), lambda seen: seen == "active", "slurmctld of the primary", 180)


@slow
@pytest.mark.parametrize("change", ["partition", "parameter", "node joins", "node leaves"])
def test_what_changed_just_before_a_crash_has_changed_after_it(trio, change):
    cluster, primary = trio.cluster, trio.order()[0]
    match change:
        case "partition":
            cluster.juju.config("compute", {"partition-config": "MaxTime=77"})
            read = lambda: cluster.partition("compute")["MaxTime"]
            after = "01:17:00"
        case "parameter":
            cluster.juju.config(APPLICATION, {"slurm-conf-parameters": f"{ha.PARAMETERS}\nKillWait=77"})
            read = lambda: cluster.setting("KillWait")
            after = "77 sec"
        case "node joins":
            read = lambda: node_names(cluster)
            after = sorted([*read(), f"compute-{max(map(ha.number_of, trio.units('compute'))) + 1}"])
            cluster.add_unit("compute")
        case "node leaves":
            read = lambda: node_names(cluster)
            gone = max(trio.units("compute"), key=ha.number_of)
            after = sorted(set(read()) - {gone.replace("/", "-")})
            cluster.juju.remove_unit(gone)
            eventually(lambda: trio.units("compute"), lambda seen: gone not in seen, f"units without {gone}", 180)
            # Slurm writes a deletion down some seconds later, too.
            trio.await_saved("node_state")
    eventually(read, lambda seen: seen == after, f"{change} on the primary", 180)
    cluster.juju.wait(jubilant.all_agents_idle, delay=0.2, timeout=120)
    trio.machine("poweroff", primary)
    try:
        trio.await_serving(primary, others=True)
        assert read() == after
    finally:
        trio.machine("poweron", primary)
        # Jobs of other stories last longer than this partition would allow.
        cluster.restore("compute", "partition-config")
        cluster.juju.config(APPLICATION, {"slurm-conf-parameters": ha.PARAMETERS})
    trio.await_agreement(sites.COMES_BACK + 120)
    trio.await_primary()


def node_names(cluster):
    """Nodes as the first of them is told of them, which stays."""
    return sorted(cluster.on(cluster.controller, "sinfo", "--noheader", "--Node", "--format=%N").split())


# Members


def test_a_primary_that_leads_hands_over_when_it_is_removed(trio):
    site, (primary, *rest) = trio, trio.order()
    lead(site, primary)
    job = site.start_beating()
    with site.submitting() as tally:
        tally.phase("leave")
        site.remove(primary)
        order = site.await_agreement(180)
        tally.await_accepted(time.time())
    assert order == rest
    print(tally.summary())
    assert tally.gaps["leave"] <= 10
    tally.assert_kept()
    site.assert_beats(job)
    site.cancel(job)
    site.drill()


@slow
@pytest.mark.parametrize("who", ["backup", "primary", "leader"])
def test_a_controller_that_is_removed_is_missed_by_nobody(trio, who):
    site, order = trio, trio.order()
    leaver = order[-1] if who == "backup" else order[0]
    if who == "leader":
        leaver = order[1]
        lead(site, leaver)
    else:
        lead(site, order[1] if who == "backup" else order[-1])
    job = site.start_beating()
    with site.submitting() as tally:
        tally.phase("leave")
        site.remove(leaver)
        assert site.await_agreement(180) == [host for host in order if host != leaver]
        tally.await_accepted(time.time())
    print(tally.summary())
    assert tally.gaps["leave"] <= 10
    tally.assert_kept()
    site.assert_beats(job)
    site.cancel(job)
    site.drill()


@slow
def test_down_to_one_and_up_again(trio):
    site = trio
    for count in (2, 1):
        site.remove(site.order()[0])
        assert len(site.await_agreement(180)) == count
    assert len(site.scale(3).order()) == 3
    site.drill()


@slow
def test_a_dead_controller_is_removed_by_force(trio):
    site, (primary, *rest) = trio, trio.order()
    site.machine("poweroff", primary)
    site.await_serving(primary, others=True)
    site.cluster.juju.cli("remove-unit", "--force", "--no-prompt", site.unit_of(primary))
    read = lambda: (site.refresh(), site.agreement())[1]
    eventually(read, lambda seen: not seen, "what does not agree", 240)
    assert site.order() == rest
    site.drill()


@slow
def test_a_controller_joins_while_another_one_is_down(trio):
    """Scale up while degraded."""
    site, order = trio, trio.order()
    site.stop_daemon(order[0])
    site.await_serving(order[0], others=True)
    site.cluster.add_unit(APPLICATION)
    eventually(site.order, lambda seen: len(seen) == 4 and seen[:3] == order, "the list of controllers", 240)
    site.start_daemon(order[0])
    site.await_agreement(sites.COMES_BACK + 180)
    site.drill()
    site.remove(site.order()[-1])
    site.await_agreement(180)


@slow
def test_controllers_nodes_and_login_nodes_join_together(trio):
    site, cluster = trio, trio.cluster
    site.remove(site.order()[-1])
    site.await_agreement(180)
    nodes = len(site.nodes())
    cluster.add_unit(APPLICATION)
    cluster.add_unit("compute")
    deploy_login_node(cluster)
    cluster.settle(slurmctld=3, compute=nodes + 1, login=1)
    site.prepare_nodes()
    site.await_agreement()
    [unit] = cluster.juju.status().get_units("login")
    assert cluster.on(unit, "srun", LITTLE, "hostname", seconds=120).strip()


def deploy_login_node(cluster):
    """The story that looks at it last takes it away."""
    if "login" not in cluster.juju.status().apps:
        cluster.deploy_charm("sackd", "login", 1)
        cluster.juju.integrate("login", APPLICATION)


@slow
def test_a_login_node_follows_the_controller_that_serves(trio):
    """A slurmctld that takes over may not know the login node, and sends it nothing then."""
    site, cluster = trio, trio.cluster
    deploy_login_node(cluster)
    [unit] = eventually(lambda: cluster.juju.status().get_units("login"), bool, "the login node", 60)
    cluster.await_message(unit, "^active: login node of slurmctld$", 180)
    # It is away while sackd is restarted, which takes seconds where the first controller is silent.
    fetched = lambda: cluster.shell(unit, "cat /run/slurm/conf/slurm.conf 2>/dev/null || true")
    primary = site.order()[0]
    site.machine("poweroff", primary)
    try:
        site.await_serving(primary, others=True)
        assert cluster.on(unit, "srun", LITTLE, "hostname", seconds=120).strip()
        cluster.juju.config("compute", {"partition-config": "MaxTime=77"})
        eventually(fetched, lambda text: "MaxTime=77" in text, "configuration of the login node", 180)
    finally:
        site.machine("poweron", primary)
        site.await_boot(primary)
        site.recover(primary)
        cluster.restore("compute", "partition-config")
    eventually(fetched, lambda text: text and "MaxTime=77" not in text, "configuration of the login node", 180)
    assert cluster.on(unit, "srun", LITTLE, "hostname", seconds=120).strip()
    cluster.juju.cli("remove-application", "login", "--no-prompt")
    eventually(lambda: "login" in cluster.juju.status().apps, lambda seen: not seen, "the login node", 120)
    site.await_agreement()


@slow
def test_a_new_leader_of_a_dead_application_writes_no_part_of_the_list(trio):
    """All others are off when a unit joins and is made leader: it knows of their hosts from nobody."""
    site, order = trio, trio.order()
    for one in order:
        site.machine("poweroff", one)
    site.cluster.add_unit(APPLICATION)
    [unit] = eventually(lambda: set(site.units(APPLICATION)) - set(map(site.unit_of, order)), bool, "the new unit", 60)
    # Juju gives up a leader after a minute.
    eventually(lambda: site.cluster.unit(unit).leader, bool, f"{unit} leads", 180)
    machine = site.cluster.machine_of(unit)
    listed = lambda: re.findall(r"^SlurmctldHost=(\S+?)(?:\(|$)", site.look(machine, read_conf(), 10), re.MULTILINE)
    for_a_while(listed, lambda seen: seen[:3] == order, "the list of controllers", 20)
    for one in order:
        site.machine("poweron", one)
    site.await_agreement(300)
    assert site.order()[:3] == order
    site.remove(site.order()[-1])
    site.await_agreement(180)


# The store is not what it should be


@slow
@pytest.mark.parametrize("fault", ["nothing behind the trigger", "not mounted", "empty", "foreign"])
def test_a_wrong_store_is_left_alone(trio, fault):
    """A standby whose machine boots into it starts nothing, writes nothing and says why; then it is mended."""
    site, standby = trio, trio.order()[-1]
    machine, unit = site.controllers()[standby], site.unit_of(standby)
    script, mend = WRONG[fault]
    site.cluster.shell(machine, script)
    try:
        site.machine("reboot", standby)
        site.await_boot(standby)
        told = site.cluster.await_message(unit, "^(blocked|waiting): ", 180)
        print(told)
        for_a_while(lambda: site.daemon(standby), lambda seen: seen != "active", "slurmctld on a wrong store", 10)
        written = "find /srv/wrong -mindepth 1 -newer /srv/wrong/.begun 2>/dev/null || true"
        assert site.look(machine, written) == ""
        site.fire(unit)
    finally:
        site.cluster.shell(machine, mend)
        site.machine("reboot", standby)
    site.await_boot(standby)
    site.await_agreement(240)


# The subordinate writes its map anew where that is not what it should be, so the master map names another one.
MASTER = "/etc/auto.master.d/filesystem-client-*.autofs"
MISLEAD = f"sed --in-place 's| /etc/auto[^ ]*| /etc/auto.wrong|' {MASTER}"
LEAD_BACK = f"sed --in-place \"s| /etc/auto.wrong| $(ls /etc/auto.filesystem-client-*)|\" {MASTER}; rm -r /srv/wrong"
ELSEWHERE = f"touch /srv/wrong/.begun; echo {sites.CHECKPOINT} -fstype=bind :/srv/wrong >/etc/auto.wrong; {MISLEAD}"
WRONG = {
    "nothing behind the trigger": (
        f"mkdir /srv/wrong; echo {sites.CHECKPOINT} -fstype=moosefs 192.0.2.1:/ >/etc/auto.wrong; {MISLEAD}",
        LEAD_BACK,
    ),
    "not mounted": ("systemctl mask autofs", "systemctl unmask autofs"),
    "empty": (f"mkdir /srv/wrong; chown slurm /srv/wrong; {ELSEWHERE}", LEAD_BACK),
    "foreign": (
        "mkdir -p /srv/wrong/state; echo other model/app >/srv/wrong/state/.cluster; chown -R slurm /srv/wrong;"
        f"{ELSEWHERE}",
        LEAD_BACK,
    ),
}


@slow
def test_no_hook_hangs_on_a_store_that_hangs(trio):
    site, order = trio, trio.order()
    site.store_machine("freeze")
    try:
        # It answers nobody, so that nobody takes over, and nobody is ended.
        for_a_while(site.fences, lambda seen: set(seen.values()) == {"open"}, "fences", 2 * sites.TIMEOUT)
        for host in order:
            begun = time.monotonic()
            site.fire(site.unit_of(host))
            assert time.monotonic() - begun < 60
            assert re.search("store|answer", site.cluster.message(site.unit_of(host)))
    finally:
        site.store_machine("thaw")
    site.await_agreement(180)


# What people see


@slow
def test_the_controllers_are_shown(trio):
    order = trio.order()
    shown = trio.cluster.act(trio.unit_of(order[-1]), "show-controllers")
    entries = json.loads(shown["controllers"])
    assert [entry["host"] for entry in entries] == order
    assert [entry["rank"] for entry in entries] == [0, 1, 2]
    assert [entry["unit"] for entry in entries] == [trio.unit_of(host) for host in order]
    assert all(entry["responding"] for entry in entries)
    assert [entry["serving"] for entry in entries] == [True, False, False]
    assert "heartbeat-age" in shown


@slow
def test_a_backup_that_serves_says_so(trio):
    primary, backup, last = trio.order()
    # A slurmctld that was only stopped would be started again by its charm, and take control back.
    trio.machine("poweroff", primary)
    try:
        trio.await_serving(backup)
        for host in (backup, last):
            trio.fire(trio.unit_of(host))
        trio.cluster.await_message(trio.unit_of(backup), r"^active: backup1 - UP; serves", 60)
        trio.cluster.await_message(trio.unit_of(last), rf"^active: backup2 - UP; {backup} serves", 60)
    finally:
        trio.machine("poweron", primary)
        trio.await_boot(primary)
        trio.recover(primary)
    trio.await_agreement(sites.COMES_BACK + 120)


# The end: all controllers are lost, and the store is not


@slow
def test_a_new_unit_brings_a_cluster_back_whose_controllers_are_gone(trio):
    site = trio
    job = site.start_beating()
    for host in site.order():
        site.machine("poweroff", host)
    for unit in site.units(APPLICATION):
        site.cluster.juju.cli("remove-unit", "--force", "--no-prompt", unit)
    eventually(lambda: site.units(APPLICATION), lambda seen: not seen, "units", 240)
    site.cluster.add_unit(APPLICATION)
    eventually(lambda: site.units(APPLICATION), bool, "the new unit", 60)
    site.await_agreement(300)
    site.assert_beats(job)
    site.cancel(job)


# A store that needs no network


@pytest.fixture(scope="module")
def shared(new_cluster, charms):
    site = ha.Shared(ha.Wide(new_cluster().juju))
    site.deploy(charms)
    return site


@slow
def test_a_cut_that_leaves_the_store_changes_nothing(shared):
    """The heartbeat goes on, so nobody takes over; after the heal all is as before."""
    primary, _ = shared.order()
    job, before = shared.start_beating(), shared.identity(primary)
    with Tally(shared) as tally:
        tally.phase("fault")
        shared.machine("cut", primary)
        for_a_while(shared.serving, lambda seen: seen == primary, "who serves in the cut", sites.TAKES_OVER)
        shared.machine("heal", primary)
        tally.await_accepted(time.time())
        shared.await_agreement(180)
        # Jobs that could not be launched wait until Slurm has pinged their nodes again, and two minutes more.
        tally.finish(480)
    print(tally.summary())
    assert shared.identity(primary) == before
    tally.assert_kept()
    shared.assert_beats(job)
    shared.cancel(job)


def lead(site, host):
    """Sees to it that a controller's unit is the leader: others are stopped until Juju chooses it."""
    wanted = site.unit_of(host)
    if site.cluster.leader(APPLICATION) == wanted:
        return
    others = [site.cluster.machine_of(unit) for unit in site.units(APPLICATION) if unit != wanted]
    agents = lambda verb: [
        site.cluster.root(machine, "systemctl", verb, f"jujud-machine-{machine}") for machine in others
    ]
    agents("stop")
    try:
        eventually(lambda: site.cluster.unit(wanted).leader, bool, f"{wanted} leads", 180)
    finally:
        agents("start")
    site.await_agreement(180)


def read_conf():
    return f"cat {sites.CONFIGURATION}/slurm.conf"
