"""A compute node as the Python charms have it since August 2026: it leaves its record to the controller, and reloads
slurmd when the key changes.

When its relation is removed it stops slurmd. When its unit is removed it does nothing at all.
"""
import json
import os
import pathlib
import subprocess

import ops

KEY = pathlib.Path("/etc/slurm/slurm.jwks")
OPTIONS = pathlib.Path("/etc/default/slurmd")


class Slurmd(ops.CharmBase):
    """The compute node."""

    def __init__(self, framework):
        super().__init__(framework)
        framework.observe(self.on.install, self._on_install)
        framework.observe(self.on.slurmctld_relation_created, self._on_created)
        framework.observe(self.on.slurmctld_relation_changed, self._on_changed)
        framework.observe(self.on.secret_changed, self._on_secret_changed)
        framework.observe(self.on.slurmctld_relation_departed, self._on_departed)
        framework.observe(self.on.slurmctld_relation_broken, self._on_broken)

    def _on_install(self, _):
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        # Debian starts a daemon that it installs, and this one would wait for a configuration.
        subprocess.run(["systemctl", "--runtime", "mask", "slurmd"], check=True, timeout=60)
        for words in (["update"], ["install", "--yes", "slurmd", "slurm-client"]):
            subprocess.run(["apt-get", "--quiet", *words], check=True, timeout=600)
        subprocess.run(["systemctl", "--runtime", "unmask", "slurmd"], check=True, timeout=60)
        subprocess.run(["systemctl", "disable", "slurmd"], check=True, timeout=60)
        self.unit.set_ports(6818)
        self.unit.status = ops.BlockedStatus("Waiting for integrations: [`slurmctld`]")

    def _on_created(self, event):
        if self.unit.is_leader():
            partition = {"partitionname": self.app.name, "nodes": [self.app.name]}
            event.relation.data[self.app]["partition"] = json.dumps(partition)

    def _on_changed(self, event):
        data = {key: json.loads(value) for key, value in event.relation.data[event.app].items()}
        if not (data.get("auth_secret_id") and data.get("controllers")):
            self.unit.status = ops.WaitingStatus("Waiting for controller data")
            return
        self._write_key(self.model.get_secret(id=data["auth_secret_id"], label="slurm-auth-key"))
        node = self.unit.name.replace("/", "-")
        servers = ",".join(data["controllers"])
        OPTIONS.write_text(f"SLURMD_OPTIONS=--conf '{self._description()}' -Z -N {node} --conf-server {servers}\n")
        for verb in ("enable", "restart"):
            subprocess.run(["systemctl", verb, "slurmd"], check=True, timeout=90)
        self.unit.status = ops.ActiveStatus()

    def _write_key(self, secret):
        """It knows a single key, and nothing of a set of them."""
        content = secret.get_content(refresh=True)
        key = {"alg": "HS256", "kty": "oct", "kid": content["keyid"], "k": content["key"]}
        KEY.parent.mkdir(parents=True, exist_ok=True)
        KEY.write_text(json.dumps({"keys": [key]}))
        KEY.chmod(0o600)

    def _on_secret_changed(self, event):
        if event.secret.label == "slurm-auth-key":
            self._write_key(event.secret)
            subprocess.run(["systemctl", "reload", "slurmd"], check=True, timeout=90)

    def _description(self):
        shown = subprocess.run(["slurmd", "-C"], check=True, capture_output=True, text=True, timeout=60).stdout
        pairs = [word.split("=", 1) for word in shown.splitlines()[0].split()]
        found = {key.lower(): value for key, value in pairs if key != "NodeName"}
        found["memspeclimit"] = min(1024, int(found["realmemory"]) // 2)
        return " ".join(f"{key}={value}" for key, value in found.items()) + f"  features={self.app.name}"

    def _on_departed(self, event):
        # `-broken` does not tell who leaves.
        if event.departing_unit == self.unit:
            pathlib.Path("leaves").touch()

    def _on_broken(self, _):
        if pathlib.Path("leaves").exists():
            return
        subprocess.run(["systemctl", "disable", "--now", "slurmd"], check=True, timeout=90)
        self.unit.status = ops.BlockedStatus("Waiting for integrations: [`slurmctld`]")


if __name__ == "__main__":
    ops.main(Slurmd)
