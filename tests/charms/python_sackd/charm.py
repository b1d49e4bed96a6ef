"""A login node as the Python charms have it since August 2026: it reloads sackd when the key changes.

When its relation is removed it stops sackd. Its key stays on the disk.
"""
import json
import os
import pathlib
import shutil
import subprocess

import ops

KEY = pathlib.Path("/etc/slurm/slurm.jwks")
OPTIONS = pathlib.Path("/etc/default/sackd")
LABEL = "slurm-auth-key"
# Debian's Slurm has its plugins in packages of their own.
PACKAGES = ["sackd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin"]


def systemctl(*words):
    subprocess.run(["systemctl", *words], check=True, timeout=90)


class Sackd(ops.CharmBase):
    """The login node."""

    def __init__(self, framework):
        super().__init__(framework)
        framework.observe(self.on.install, self._on_install)
        framework.observe(self.on.slurmctld_relation_changed, self._on_changed)
        framework.observe(self.on.slurmctld_relation_broken, self._on_broken)
        framework.observe(self.on.secret_changed, self._on_secret_changed)

    def _on_install(self, _):
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        # Debian starts a daemon that it installs, and this one would wait for a configuration.
        systemctl("--runtime", "mask", "sackd")
        for words in (["update"], ["install", "--yes", *PACKAGES]):
            subprocess.run(["apt-get", "--quiet", *words], check=True, timeout=600)
        systemctl("--runtime", "unmask", "sackd")
        systemctl("disable", "sackd")
        self.unit.set_ports(6818)
        self.unit.status = ops.BlockedStatus("Waiting for integrations: [`slurmctld`]")

    def _on_changed(self, event):
        bag = event.relation.data[event.app]
        # The texts are compared, not what they say.
        if bag.get("auth_secret_id", '""') == '""' or bag.get("controllers", "[]") == "[]":
            self.unit.status = ops.WaitingStatus("Waiting for controller data")
            event.defer()
            return
        self._write_key(self.model.get_secret(id=json.loads(bag["auth_secret_id"]), label=LABEL))
        servers = ",".join(json.loads(bag["controllers"]))
        OPTIONS.write_text(f"SACKD_OPTIONS=--conf-server {servers}\n")
        try:
            systemctl("enable", "sackd")
            systemctl("restart", "sackd")
        except subprocess.CalledProcessError:
            event.defer()
            self.unit.status = ops.BlockedStatus("Failed to start `sackd`. See `juju debug-log` for details")
            return
        self.unit.status = ops.ActiveStatus()

    def _write_key(self, secret):
        """It knows a single key, and nothing of a set of them."""
        content = secret.get_content(refresh=True)
        key = {"alg": "HS256", "kty": "oct", "kid": content["keyid"], "k": content["key"]}
        KEY.parent.mkdir(parents=True, exist_ok=True)
        KEY.write_text(json.dumps({"keys": [key]}))
        KEY.chmod(0o600)
        shutil.chown(KEY, "slurm", "slurm")

    def _on_secret_changed(self, event):
        if event.secret.label == LABEL:
            self._write_key(event.secret)
            systemctl("reload", "sackd")

    def _on_broken(self, _):
        systemctl("disable", "--now", "sackd")
        OPTIONS.write_text("")
        self.unit.status = ops.BlockedStatus("Waiting for integrations: [`slurmctld`]")


if __name__ == "__main__":
    ops.main(Sackd)
