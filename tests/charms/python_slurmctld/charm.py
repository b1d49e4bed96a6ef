"""A controller as the Python charms have it since August 2026: it deletes the record of a node when its unit departs.

It neither drains nor waits. Whatever keeps slurmctld from the delete, a record that is gone already included, defers
the event and blocks the unit.
"""
import base64
import json
import os
import pathlib
import pwd
import secrets
import socket
import subprocess
import uuid

import ops

ETC = pathlib.Path("/etc/slurm")
KEY = ETC / "slurm.jwks"
CONF = ETC / "slurm.conf"
STATE = pathlib.Path("/var/lib/slurm/checkpoint")
LABEL = "slurm-auth-key"
TOKEN_KEY = ETC / "jwt_hs256.key"
SETTINGS = f"""\
clustername=charmed-hpc-test
slurmctldhost={socket.gethostname()}
authtype=auth/slurm
authalttypes=auth/jwt
authaltparameters=jwt_key={TOKEN_KEY}
credtype=cred/slurm
maxnodecount=65533
proctracktype=proctrack/linuxproc
selecttype=select/cons_tres
selecttypeparameters=cr_cpu_memory
slurmctldparameters=enable_configless
slurmctldport=6817
slurmdport=6818
statesavelocation={STATE}
slurmdspooldir=/var/lib/slurm/slurmd
slurmuser=slurm
slurmduser=root
taskplugin=task/affinity
jobcomptype=jobcomp/filetxt
jobcomploc=/var/log/slurm/ended
"""


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    user = pwd.getpwnam("slurm")
    os.chown(path, user.pw_uid, user.pw_gid)


def record(text):
    """A file in the form of slurmutils, as far as this one's files go."""
    found = {}
    for line in text.splitlines():
        if line.startswith("include "):
            found.setdefault("include", []).append(line.removeprefix("include "))
            continue
        pairs = dict(word.split("=", 1) for word in line.split())
        key, value = next(iter(pairs.items()))
        match key:
            case "nodeset":
                found.setdefault("nodesets", {})[value] = pairs
            case "partitionname":
                found.setdefault("partitions", {})[value] = pairs | {"nodes": pairs["nodes"].split(",")}
            case "slurmctldhost" | "authalttypes" | "taskplugin":
                found[key] = value.split(",")
            case "authaltparameters" | "slurmctldparameters" | "selecttypeparameters":
                members = (member.partition("=") for member in value.split(","))
                found[key] = {name: inner if equals else True for name, equals, inner in members}
            case _:
                found[key] = int(value) if value.isdigit() else value
    return found


class Slurmctld(ops.CharmBase):
    """The controller."""

    def __init__(self, framework):
        super().__init__(framework)
        framework.observe(self.on.install, self._on_install)
        framework.observe(self.on.slurmd_relation_created, self._on_created)
        framework.observe(self.on.slurmrestd_relation_created, self._on_rest_created)
        framework.observe(self.on.slurmd_relation_changed, self._on_changed)
        framework.observe(self.on.slurmd_relation_departed, self._on_departed)
        # An event that was deferred comes again before any other, also before one that nobody observes.
        framework.observe(self.on.slurmd_relation_broken, self._on_broken)

    def _on_install(self, _):
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        # Debian starts a daemon that it installs, and this one would wait for a configuration.
        subprocess.run(["systemctl", "--runtime", "mask", "slurmctld"], check=True, timeout=60)
        for words in (["update"], ["install", "--yes", "slurmctld", "slurm-client", "slurm-wlm-jwt-plugin"]):
            subprocess.run(["apt-get", "--quiet", *words], check=True, timeout=600)
        subprocess.run(["systemctl", "--runtime", "unmask", "slurmctld"], check=True, timeout=60)
        content = {"key": base64.b64encode(secrets.token_bytes(2048)).decode(), "keyid": str(uuid.uuid4())}
        self.app.add_secret(content, label=LABEL)
        key = {"alg": "HS256", "kty": "oct", "kid": content["keyid"], "k": content["key"]}
        write(KEY, json.dumps({"keys": [key]}), 0o600)
        write(TOKEN_KEY, secrets.token_urlsafe(48), 0o600)
        write(CONF, SETTINGS)
        # Their charm writes none in a container. On a host with both kinds of control groups slurmd needs one.
        write(ETC / "cgroup.conf", "cgroupplugin=disabled\n")
        user = pwd.getpwnam("slurm")
        for directory in (STATE.parent, STATE):
            directory.mkdir(parents=True, exist_ok=True)
            os.chown(directory, user.pw_uid, user.pw_gid)
        subprocess.run(["systemctl", "enable", "slurmctld"], check=True, timeout=60)
        subprocess.run(["systemctl", "restart", "slurmctld"], check=True, timeout=60)
        self.unit.set_ports(6817)
        self._tell()

    def _on_created(self, event):
        secret = self.model.get_secret(label=LABEL)
        secret.grant(event.relation)
        values = {
            "auth_key": "",
            "auth_key_id": "",
            "auth_secret_id": secret.get_info().id,
            "controllers": [f"{socket.gethostname()}:6817"],
            "jwt_key": "",
            "jwt_secret_id": "",
            "slurmconfig": {},
        }
        event.relation.data[self.app].update({key: json.dumps(value) for key, value in values.items()})

    def _on_rest_created(self, event):
        secret = self.model.get_secret(label=LABEL)
        secret.grant(event.relation)
        self._publish(secret.get_info().id)

    def _publish(self, secret_id=None):
        """Tells every slurmrestd the configuration, as slurmutils has it."""
        files = {file.name: record(file.read_text()) for file in sorted(ETC.glob("slurm.conf*"))}
        values = {"auth_key": "", "auth_key_id": "", "controllers": [], "jwt_key": "", "jwt_secret_id": ""}
        values |= {"slurmconfig": files} | ({"auth_secret_id": secret_id} if secret_id else {})
        for relation in self.model.relations["slurmrestd"]:
            relation.data[self.app].update({key: json.dumps(value) for key, value in values.items()})

    def _on_changed(self, event):
        text = event.relation.data[event.app].get("partition")
        if not text:
            return
        partition = json.loads(text)
        name = partition["partitionname"]
        # Slurm wants the name first, whatever the order in the bag.
        pairs = {"partitionname": name} | partition
        options = [f"{key}={','.join(value) if isinstance(value, list) else value}" for key, value in pairs.items()]
        self._configure(name, f"nodeset={name} feature={name}\n{' '.join(options)}\n")

    def _on_departed(self, event):
        leaver = event.departing_unit
        if leaver is None or leaver.app is self.app or not self.unit.is_leader():
            return
        done = run("scontrol", "delete", f"nodename={leaver.name.replace('/', '-')}")
        if done.returncode != 0:
            self.unit.status = ops.BlockedStatus(f"Failed to delete {leaver.name}: {done.stderr.strip()}")
            event.defer()
            return
        self._tell()

    def _on_broken(self, event):
        self._configure(event.app.name, None)

    def _configure(self, name, text):
        """Has a partition in the configuration, or not."""
        file, include = ETC / f"slurm.conf.{name}", f"include slurm.conf.{name}\n"
        lines = CONF.read_text().replace(include, "")
        if text is None:
            file.unlink(missing_ok=True)
            write(CONF, lines)
        else:
            write(file, text)
            write(CONF, include + lines)
        subprocess.run(["scontrol", "reconfigure"], check=True, timeout=60)
        self._publish()
        self._tell()

    def _tell(self):
        self.unit.status = ops.ActiveStatus("primary - UP")


if __name__ == "__main__":
    ops.main(Slurmctld)
