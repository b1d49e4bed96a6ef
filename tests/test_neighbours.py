"""A mail integrator and an OCI runtime at the controller."""
import json
import shlex

import pytest

from cluster import LITTLE, equals, eventually
from packing import pack_test_charm

UNITS = 1
OCI = "/etc/slurm/oci.conf"
# What a server of mail does, as far as a test needs it: it takes everything, and says what it took.
SINK = """
import socketserver, sys, base64
class Sink(socketserver.StreamRequestHandler):
    def handle(self):
        say = lambda text: (self.wfile.write(text.encode() + b"\\r\\n"), self.wfile.flush())
        note = lambda text: (print(text, flush=True))
        say("220 sink")
        while line := self.rfile.readline().decode().strip():
            word = line.split(" ")[0].upper()
            if word == "EHLO":
                say("250-sink"); say("250 AUTH PLAIN")
            elif word == "AUTH":
                note("AUTH " + base64.b64decode(line.split(" ")[2]).decode().replace(chr(0), "|")); say("235 ok")
            elif word == "DATA":
                say("354 go")
                while (text := self.rfile.readline().decode().rstrip("\\r\\n")) != ".":
                    note(text)
                say("250 ok")
            elif word == "QUIT":
                say("221 bye"); return
            else:
                note(line); say("250 ok")
socketserver.ThreadingTCPServer(("127.0.0.1", 2525), Sink).serve_forever()
"""
RELAY = "host=127.0.0.1\nport=2525\ntransport_security=none\nskip_ssl_verify=False\ndomain=example.com"


@pytest.fixture(scope="module")
def charm(tmp_path_factory):
    return pack_test_charm(tmp_path_factory.mktemp("charms"), "integrator")


def deploy(cluster, charm, name, endpoint, **config):
    cluster.juju.deploy(charm, name, config=config)
    cluster.juju.integrate(f"slurmctld:{endpoint}", f"{name}:{'slurmctld' if endpoint == 'oci-runtime' else endpoint}")


def fetched(cluster):
    """The oci.conf that the compute node has."""
    script = "cat /run/slurm/conf/oci.conf 2>/dev/null || true"
    return cluster.shell("compute/0", script)


@pytest.mark.core
def test_a_job_that_ends_is_told_by_mail(cluster, charm):
    unit = cluster.controller
    cluster.root(unit, "tee", "/srv/sink.py", stdin=SINK)
    cluster.root(unit, "systemd-run", "--unit=sink", "python3", "/srv/sink.py")
    said = f"{RELAY}\nauth_type=plain\nuser=hpc"
    deploy(cluster, charm, "mail", "smtp", said=said, password='se"cret #1')
    eventually(cluster.slurm_conf, lambda text: "MailProg=/usr/bin/bsd-mailx" in text, "slurm.conf", 180)
    cluster.await_message(unit, "^active: primary - UP$", 120)
    assert cluster.root(unit, "stat", "--format=%U:%G %a", "/etc/msmtprc").strip() == "slurm:slurm 600"
    job = cluster.submit("true", "--mail-type=END")
    cluster.await_job(job, "COMPLETED")
    log = lambda: cluster.root(unit, "journalctl", "--unit=sink", "--output=cat")
    seen = eventually(log, lambda text: f"Job_id={job} " in text, "the mail", 60)
    assert 'AUTH |hpc|se"cret #1' in seen
    assert "MAIL FROM:<slurm@example.com>" in seen
    assert "RCPT TO:<ubuntu@example.com>" in seen
    assert "cret #1" not in cluster.juju.cli("debug-log", "--limit", "1000", "--no-tail")
    # Nobody listens for mail here.
    assert "msmtpd" not in cluster.root(unit, "systemctl", "list-units", "--no-legend", "--state=active")


def test_mail_ends_with_the_relation(cluster):
    cluster.juju.remove_relation("slurmctld:smtp", "mail:smtp")
    eventually(cluster.slurm_conf, lambda text: "MailProg" not in text, "slurm.conf", 120)
    there = lambda: cluster.shell(cluster.controller, "ls /etc/msmtprc 2>/dev/null || true").strip()
    eventually(there, equals(""), "the configuration of msmtp", 120)


@pytest.mark.core
def test_what_a_runtime_says_reaches_the_nodes_and_goes_with_it(cluster, charm):
    said = 'type="apptainer"\nexecutable_path="/usr/bin/apptainer"'
    deploy(cluster, charm, "apptainer", "oci-runtime", said=said)
    unit = cluster.controller
    wanted = 'RunTimeRun="/usr/bin/apptainer exec --userns %r %@"'
    eventually(lambda: fetched(cluster), lambda text: wanted in text, "oci.conf of the node", 120)
    assert cluster.root(unit, "stat", "--format=%U:%G %a", OCI).strip() == "slurm:slurm 644"
    assert cluster.root(unit, "cat", OCI) == fetched(cluster)
    # slurmd takes it: a job that asks for no container runs as before.
    job = cluster.submit("true")
    cluster.await_job(job, "COMPLETED")
    record = {"runtimerun": "echo container %r %@", "runtimekill": "true", "runtimedelete": "true",
              "ignorefileconfigjson": True}
    said = "type=\nexecutable_path=\nociconfig=" + json.dumps(record)
    cluster.juju.config("apptainer", {"said": said})
    eventually(lambda: fetched(cluster), lambda text: "echo container" in text, "the other form of it", 120)
    cluster.juju.remove_relation("slurmctld:oci-runtime", "apptainer:slurmctld")
    there = lambda: cluster.shell(unit, f"ls {shlex.quote(OCI)} 2>/dev/null || true").strip()
    eventually(there, equals(""), "oci.conf", 120)
    cluster.await_message(unit, "^active: primary - UP$", 60)
    assert cluster.on(unit, "srun", LITTLE, "hostname").strip()
