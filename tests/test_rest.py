"""The REST API: whoever has a token submits jobs, and slurmrestd follows the configuration of the controllers.

The controller is one as the Python charms have it (`tests/charms/python_slurmctld`): what it publishes is what ours has
to read.
"""
import json

import pytest

import host
from cluster import equals, eventually
from packing import pack_test_charm

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="a charm with ops is packed for its machines")

WELL = "^active: REST API of slurmctld, v0[.]0[.][0-9]+$"
# Answers are JSON; what could not be asked is an answer as well.
ASK = """
import json, sys, urllib.error, urllib.request
request = json.load(sys.stdin)
body = request["body"] and json.dumps(request["body"]).encode()
headers = {"Content-Type": "application/json"} | ({"X-SLURM-USER-TOKEN": request["token"]} if request["token"] else {})
try:
    call = urllib.request.Request(f"http://localhost:6820{request['path']}", body, headers)
    with urllib.request.urlopen(call, timeout=30) as answer:
        print(json.dumps({"code": answer.status, "body": json.load(answer)}))
except urllib.error.HTTPError as error:
    print(json.dumps({"code": error.code, "body": None}))
except urllib.error.URLError as error:
    print(json.dumps({"code": None, "body": str(error)}))
"""


@pytest.fixture(scope="module")
def rest(new_cluster, tmp_path_factory):
    """A controller, a node, and the REST API, which was deployed beside them and integrated afterwards."""
    cluster = new_cluster()
    cluster.juju.deploy(pack_test_charm(tmp_path_factory.mktemp("charms"), "python_slurmctld"), "slurmctld")
    cluster.deploy_compute(units=1)
    cluster.deploy_charm("slurmrestd", "rest", 1)
    cluster.juju.integrate("slurmctld", "compute")
    cluster.await_message("rest/0", "^blocked: no controller: `juju integrate rest slurmctld`$", 240)
    cluster.juju.integrate("rest", "slurmctld")
    cluster.settle(slurmctld=1, compute=1, rest=1)
    return cluster


def token(cluster, user="ubuntu"):
    return cluster.root("slurmctld/0", "scontrol", "token", f"username={user}", "lifespan=600").strip().split("=", 1)[1]


def ask(cluster, path, token=None, body=None):
    request = json.dumps({"path": path, "token": token, "body": body})
    return json.loads(cluster.on("rest/0", "python3", "-c", ASK, stdin=request))


def version(cluster):
    return cluster.message("rest/0").split()[-1]


def pid(cluster):
    return cluster.root("rest/0", "systemctl", "show", "--property=MainPID", "slurmrestd")


def test_a_job_is_submitted_with_a_token(rest):
    newest, user = version(rest), token(rest)
    ping = ask(rest, f"/slurm/{newest}/ping", user)
    assert ping["code"] == 200 and ping["body"]["pings"][0]["responding"], ping
    options = {"name": "rest", "partition": "compute", "current_working_directory": "/tmp"}
    options |= {"environment": ["PATH=/usr/bin:/bin"], "memory_per_node": {"set": True, "number": 50}}
    job = {"script": "#!/bin/sh\nhostname\n", "job": options}
    done = ask(rest, f"/slurm/{newest}/job/submit", user, job)
    assert done["code"] == 200 and done["body"]["job_id"], done
    number = str(done["body"]["job_id"])
    rest.await_job(number, "COMPLETED")
    assert rest.job(number)["UserId"].startswith("ubuntu(")


def test_nobody_is_let_in_without_a_token(rest):
    newest = version(rest)
    assert ask(rest, f"/slurm/{newest}/jobs")["code"] == 401
    assert ask(rest, f"/slurm/{newest}/jobs", "nonsense")["code"] not in (None, 200)


def test_slurmrestd_has_a_user_of_its_own_and_no_key(rest):
    main = pid(rest).strip().split("=")[1]
    assert rest.root("rest/0", "stat", "--format=%U", f"/proc/{main}").strip() == "slurmrestd"
    assert rest.shell("rest/0", "ls /etc/slurm/*.jwks /etc/slurm/*.key 2>/dev/null || true") == ""
    modes = rest.shell("rest/0", "stat --format='%U:%G %a' /etc/slurm/slurm.conf*").split("\n")
    assert set(modes) - {""} == {"slurmrestd:slurmrestd 644"}
    assert "slurmrestd" in rest.root("rest/0", "apt-mark", "showhold").split()


def test_a_settled_unit_writes_nothing(rest):
    rest.quiet()
    before = rest.files("rest/0"), pid(rest)
    rest.fire("rest/0")
    assert before == (rest.files("rest/0"), pid(rest))


def test_a_changed_configuration_is_one_restart(rest):
    before, served = pid(rest), version(rest)
    rest.juju.config("compute", {"partition-config": "MaxTime=61"})
    text = lambda: rest.root("rest/0", "cat", "/etc/slurm/slurm.conf.compute")
    eventually(text, lambda seen: "maxtime=61" in seen, "the changed partition", 60)
    rest.await_message("rest/0", WELL)
    assert pid(rest) != before
    assert ask(rest, f"/slurm/{served}/ping", token(rest))["code"] == 200


def test_the_action_explains(rest):
    said = rest.act("rest/0", "explain")
    assert said["state"].startswith("active: REST API of slurmctld") and said["port"] == "6820"
    assert said["controllers"] == rest.machines()[rest.machine_of("slurmctld/0")]
    assert version(rest) in said["versions"].split(", ")


def test_a_slurmrestd_that_was_killed_and_a_machine_that_was_rebooted_serve_again(rest):
    newest = version(rest)
    serves = lambda: ask(rest, f"/slurm/{newest}/jobs")["code"]
    rest.root("rest/0", "systemctl", "kill", "--kill-whom=main", "--signal=KILL", "slurmrestd")
    eventually(serves, equals(401), "an answer after the kill", 60)
    rest.reboot("rest/0")
    eventually(serves, equals(401), "an answer after the reboot", 60)


def test_a_relation_that_ends_takes_the_configuration_along_and_one_made_again_brings_it_back(rest):
    rest.juju.remove_relation("rest", "slurmctld")
    rest.await_message("rest/0", "^blocked: no controller")
    assert rest.shell("rest/0", "ls /etc/slurm/slurm.conf* 2>/dev/null || true") == ""
    assert rest.shell("rest/0", "systemctl is-active slurmrestd || true").strip() == "inactive"
    related = lambda: rest.juju.status().apps["rest"].relations.get("slurmctld")
    eventually(related, lambda seen: not seen, "the relation", 60)
    rest.juju.integrate("rest", "slurmctld")
    # Juju 4 may leave an agent deaf to a relation made again, and a Python charm leaves no copy in its unit bag.
    rest.reboot("rest/0")
    rest.await_message("rest/0", WELL, 120)
