"""Keys that rotate while users work: no call fails, a machine that is off holds the phase, the old key is refused."""
import json
import shlex

import pytest

import host
from cluster import LITTLE, equals, eventually
from packing import pack_test_charm
from test_rest import version

UNITS = 2
KEYS = "/etc/slurm/slurm.jwks"
PROBES = "/var/tmp/probes"
# Each call is a loop of its own, five times a second; what fails is written down with what it said.
PROBE = """
name=$1; shift
while [ ! -e {probes}/stop ]; do
    began=$(date +%H:%M:%S.%N)
    if said=$(timeout 60 "$@" 2>&1); then echo "$began" >> {probes}/$name.done
    else echo "$began $name $? $said" >> {probes}/$name.failed; fi
    sleep 0.2
done
""".format(probes=PROBES)
# Python is on every machine, and no other program that speaks HTTP.
CALL = """
import sys, urllib.request
key, _, value = open(sys.argv[2]).read().strip().partition(": ")
urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={key: value}), timeout=30).read()
"""


class Probes:
    """A user on the login node who calls all the time."""

    def __init__(self, cluster, calls):
        self.cluster, self.calls = cluster, calls

    def start(self):
        self.cluster.shell("login/0", f"rm -rf {PROBES} && mkdir -m 777 {PROBES}")
        for name, words in self.calls.items():
            run = ["systemd-run", "--quiet", "--collect", f"--unit=probe-{name}", "--uid=ubuntu"]
            run += ["--working-directory=/tmp"]
            self.cluster.root("login/0", *run, "/bin/sh", "-c", PROBE, "probe", name, *words)

    def counts(self):
        counted = {name: f"cat {PROBES}/{name}.done 2>/dev/null | wc --lines" for name in self.calls}
        return {name: int(self.cluster.shell("login/0", script)) for name, script in counted.items()}

    def stop(self):
        """Returns how often each was called, and what failed."""
        self.cluster.shell("login/0", f"touch {PROBES}/stop")
        running = "systemctl list-units --no-legend --plain 'probe-*' | wc --lines"
        eventually(lambda: self.cluster.shell("login/0", running).strip(), equals("0"), "the end of the probes", 90)
        self.cluster.root("login/0", "scancel", "--user=ubuntu", "--state=PENDING")
        return self.counts(), self.cluster.shell("login/0", f"cat {PROBES}/*.failed 2>/dev/null || true")


@pytest.fixture(scope="module")
def whole(cluster, tmp_path_factory):
    """One of each."""
    database = pack_test_charm(tmp_path_factory.mktemp("charms"), "mariadb")
    cluster.juju.deploy(database, "mysql", to=cluster.place(1))
    for charm, application in (("slurmdbd", "slurmdbd"), ("slurmrestd", "rest"), ("sackd", "login")):
        cluster.deploy_charm(charm, application, 1)
    cluster.juju.integrate("slurmdbd", "mysql")
    for application in ("login", "rest", "slurmdbd"):
        cluster.juju.integrate(application, "slurmctld")
    cluster.settle(slurmctld=1, compute=UNITS, login=1, rest=1, slurmdbd=1)
    eventually(lambda: "AccountingStorageHost" in cluster.slurm_conf(), bool, "accounting in slurm.conf", 180)
    cluster.await_message("slurmctld/0", "^active: primary - UP$", 180)
    return cluster


def token(cluster):
    answer = cluster.act("slurmctld/0", "token", user="ubuntu", lifespan=3600)
    shown = json.loads(cluster.juju.cli("show-secret", "--reveal", "--format=json", answer["secret"]))
    [token] = [secret["content"]["Data"]["token"] for secret in shown.values()]
    return token


@pytest.fixture
def probes(whole):
    """Pings, jobs and a call of the REST API, all the time. It is for the test to stop them."""
    rest = whole.juju.status().apps["rest"].units["rest/0"].public_address
    # The token is in a file, since every user could read it among arguments.
    header = "/var/tmp/token-header"
    whole.on("login/0", "sh", "-c", f"umask 077; cat > {header}", stdin=f"X-SLURM-USER-TOKEN: {token(whole)}\n")
    url = f"http://{rest}:6820/slurm/{version(whole)}/ping"
    probes = Probes(whole, {
        "ping": ["sh", "-c", "scontrol ping | grep -q 'is UP'"],
        "srun": ["srun", LITTLE, "--time=1", "true"],
        # These wait, so that the others have room.
        "sbatch": ["sbatch", LITTLE, "--begin=now+1hour", "--output=/dev/null", "--wrap", "true"],
        "rest": ["python3", "-c", CALL, url, header],
    })
    probes.start()
    return probes


def ids(cluster, unit):
    """The ids of the keys on the disk of a unit, the one that signs first."""
    keys = json.loads(cluster.root(unit, "cat", KEYS))["keys"]
    keys.sort(key=lambda key: key.get("use") != "default")
    return [key["kid"] for key in keys]


KEEPERS = ("slurmctld/0", "compute/0", "compute/1", "login/0", "slurmdbd/0")


def await_rotated(cluster, before, keepers=KEEPERS, seconds=240):
    """Everybody has the same single key, and it is another one."""
    seen = lambda: {unit: ids(cluster, unit) for unit in keepers}
    rotated = lambda found: len({tuple(own) for own in found.values()}) == 1 and before not in found["slurmctld/0"]
    found = eventually(seen, rotated, "one new key everywhere", seconds)
    cluster.await_message("slurmctld/0", "^active: primary - UP$", 120)
    return found["slurmctld/0"][0]


@pytest.mark.core
def test_three_rotations_cost_no_call(whole, probes, job):
    """A machine is off in the second one: it holds the phase, is named, comes back with the key it knows."""
    [old] = ids(whole, "slurmctld/0")
    first = old
    for number in range(3):
        if number == 1:
            whole.scontrol("update", "nodename=compute-1", "state=drain", "reason=off")
            eventually(lambda: whole.state("compute-1"), equals("IDLE+DRAIN"), "an empty node", 90)
            whole.local("machine", "poweroff", whole.machine_of("compute/1"))
        answer = whole.act("slurmctld/0", "rotate-auth-key")
        assert answer["rotation"] == "begun" and answer["phase"] == "1 of 3", answer
        if number == 1:
            whole.await_message("slurmctld/0", "^waiting: for compute/1 to load the new key [(]phase 1 of 3[)]$", 120)
            assert old in ids(whole, "slurmctld/0"), "silence retires no key"
            whole.local("machine", "poweron", whole.machine_of("compute/1"))
        old = await_rotated(whole, old)
        if number == 1:
            whole.scontrol("update", "nodename=compute-1", "state=resume")
    counts, failed = probes.stop()
    assert failed == "", f"{failed}\nof {counts}"
    assert all(count > 50 for count in counts.values()), counts
    print(f"calls: {counts}")
    # The first key of all is refused.
    revisions = whole.juju.cli("secrets", "--format=json")
    assert first not in revisions
    script = f"""
        cp --preserve=all {KEYS} /root/slurm.jwks
        sed -i 's/"kid":"[^"]*"/"kid":"{first}"/' {KEYS}
        systemctl reload sackd
        for try in $(seq 60); do sinfo >/dev/null 2>&1 || break; sleep 0.5; done
        [ "$try" = 60 ] && echo let in
        cp --preserve=all /root/slurm.jwks {KEYS} && rm /root/slurm.jwks
        systemctl reload sackd
        for try in $(seq 60); do sinfo >/dev/null 2>&1 && break; sleep 0.5; done
        sinfo --noheader --format=%P
    """
    assert whole.shell("login/0", script).split() == ["compute*"]


@pytest.mark.core
def test_the_key_is_in_no_log_and_no_bag(whole):
    keys = json.loads(whole.root("slurmctld/0", "cat", KEYS))["keys"]
    assert [set(key) for key in keys] == [{"alg", "kty", "kid", "k"}]
    for text in (whole.juju.cli("debug-log", "--limit", "5000", "--no-tail"), json.dumps(whole.databags())):
        assert keys[0]["k"] not in text


@pytest.mark.core
def test_a_rotation_is_taken_back(whole, job):
    before = ids(whole, "slurmctld/0")
    whole.local("machine", "poweroff", whole.machine_of("compute/1"))
    whole.act("slurmctld/0", "rotate-auth-key")
    whole.await_message("slurmctld/0", "^waiting: for compute/1 to load the new key", 120)
    assert "not waited for" in whole.refuse("slurmctld/0", "rotate-auth-key", force=True, units="compute/0")
    whole.act("slurmctld/0", "rotate-auth-key", cancel=True)
    whole.local("machine", "poweron", whole.machine_of("compute/1"))
    seen = lambda: [ids(whole, unit) for unit in KEEPERS]
    eventually(seen, lambda found: found == [before] * len(KEEPERS), "the old key everywhere", 180)
    whole.await_message("slurmctld/0", "^active: primary - UP$", 120)


@pytest.mark.core
def test_a_new_token_key_voids_the_tokens_of_before(whole):
    header = f"SLURM_JWT={token(whole)}"

    def with_token(header):
        sinfo = f"sudo env {shlex.quote(header)} sinfo --noheader >/dev/null 2>&1"
        return whole.shell("login/0", f"{sinfo} && echo in || echo out")

    assert with_token(header).strip() == "in"
    answer = whole.act("slurmctld/0", "rotate-jwt-key")
    assert answer["token-key"] == "replaced", answer
    assert with_token(header).strip() == "out"
    eventually(lambda: with_token(f"SLURM_JWT={token(whole)}").strip(), equals("in"), "a new token", 60)
    key = lambda unit: whole.root(unit, "sha256sum", "/etc/slurm/jwt_hs256.key").split()[0]
    eventually(lambda: key("slurmctld/0") == key("slurmdbd/0"), bool, "the key at slurmdbd", 60)


@pytest.mark.skipif(not host.is_juju_local(), reason="a charm with ops is packed for its machines")
def test_a_python_node_has_the_new_key_in_the_end(whole, tmp_path_factory):
    """It knows one key at a time and says nothing: Juju has to say that it has let go of the old one."""
    whole.juju.deploy(pack_test_charm(tmp_path_factory.mktemp("charms"), "python_slurmd"), "python")
    whole.juju.integrate("slurmctld", "python")
    whole.settle(slurmctld=1, python=1)
    eventually(lambda: whole.hosts(nodes=1, partition="python"), len, "a job on the Python node", 90)
    [old] = ids(whole, "slurmctld/0")
    whole.act("slurmctld/0", "rotate-auth-key")
    new = await_rotated(whole, old)
    assert ids(whole, "python/0") == [new]
    whole.await_state("python-0", "IDLE", 90)
    assert len(whole.hosts(nodes=1, partition="python")) == 1
    whole.juju.remove_application("python")


@pytest.mark.slow
@pytest.mark.skipif(not host.is_juju_local(), reason="only juju-local can be told which Juju to be")
def test_a_key_is_replaced_on_juju_3_6(new_cluster):
    cluster = new_cluster("3.6")
    cluster.deploy(units=1)
    cluster.deploy_charm("sackd", "login", 1)
    cluster.juju.integrate("login", "slurmctld")
    cluster.settle(slurmctld=1, compute=1, login=1)
    for _ in range(2):
        [old] = ids(cluster, "slurmctld/0")
        cluster.act("slurmctld/0", "rotate-auth-key")
        await_rotated(cluster, old, ("slurmctld/0", "compute/0", "login/0"))
        assert cluster.on("login/0", "srun", LITTLE, "hostname").strip()
