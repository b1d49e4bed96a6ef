"""The REST API as the Python charms have it since August 2026: every file of the configuration comes through the bag,
and goes through slurmutils. slurmrestd is restarted when the configuration or the key changes.

When its relation is removed it stops slurmrestd. Key and configuration stay on the disk.
"""
import json
import os
import pathlib
import shutil
import subprocess

import ops
from slurmutils import SlurmConfig, slurmconfig

ETC = pathlib.Path("/etc/slurm")
KEY = ETC / "slurm.jwks"
LABEL = "slurm-auth-key"
USER = "slurmrestd"
# Debian's Slurm has its plugins in packages of their own.
PACKAGES = ["slurmrestd", "slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin"]
DROP_IN = pathlib.Path("/etc/systemd/system/slurmrestd.service.d/10-charmed-hpc.conf")
# Debian has neither this user nor this address. Which parts of the API it serves is left to slurmrestd.
SERVICE = f"""\
[Service]
User={USER}
Group={USER}
ExecStart=
ExecStart=/usr/sbin/slurmrestd $SLURMRESTD_OPTIONS 0.0.0.0:6820
"""


def systemctl(*words):
    subprocess.run(["systemctl", *words], check=True, timeout=90)


class Slurmrestd(ops.CharmBase):
    """The REST API."""

    def __init__(self, framework):
        super().__init__(framework)
        framework.observe(self.on.install, self._on_install)
        framework.observe(self.on.slurmctld_relation_changed, self._on_changed)
        framework.observe(self.on.slurmctld_relation_broken, self._on_broken)
        framework.observe(self.on.secret_changed, self._on_secret_changed)

    def _on_install(self, _):
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        # Debian starts a daemon that it installs, and this one would end without a configuration.
        systemctl("--runtime", "mask", "slurmrestd")
        for words in (["update"], ["install", "--yes", *PACKAGES]):
            subprocess.run(["apt-get", "--quiet", *words], check=True, timeout=600)
        subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", USER], check=True, timeout=60)
        DROP_IN.parent.mkdir(parents=True, exist_ok=True)
        DROP_IN.write_text(SERVICE)
        systemctl("--runtime", "unmask", "slurmrestd")
        systemctl("daemon-reload")
        systemctl("disable", "slurmrestd")
        self.unit.set_ports(6820)
        self.unit.status = ops.BlockedStatus("Waiting for integrations: [`slurmctld`]")

    def _on_changed(self, event):
        bag = event.relation.data[event.app]
        # The texts are compared, not what they say.
        if bag.get("auth_secret_id", '""') == '""' or bag.get("slurmconfig", "{}") == "{}":
            self.unit.status = ops.WaitingStatus("Waiting for controller data")
            event.defer()
            return
        self._write_key(self.model.get_secret(id=json.loads(bag["auth_secret_id"]), label=LABEL))
        for name, record in json.loads(bag["slurmconfig"]).items():
            slurmconfig.dump(SlurmConfig.from_dict(record), ETC / name, mode=0o644, user=USER, group=USER)
        try:
            systemctl("enable", "slurmrestd")
            systemctl("restart", "slurmrestd")
        except subprocess.CalledProcessError:
            event.defer()
            self.unit.status = ops.BlockedStatus("Failed to start `slurmrestd`. See `juju debug-log` for details")
            return
        # One that ends a moment later was started well: the package's service is of type simple.
        active = subprocess.run(["systemctl", "is-active", "--quiet", "slurmrestd"], timeout=60).returncode == 0
        waiting = ops.WaitingStatus("Waiting for `slurmrestd` to start")
        self.unit.status = ops.ActiveStatus() if active else waiting

    def _write_key(self, secret):
        """It knows a single key, and nothing of a set of them."""
        content = secret.get_content(refresh=True)
        key = {"alg": "HS256", "kty": "oct", "kid": content["keyid"], "k": content["key"]}
        ETC.mkdir(parents=True, exist_ok=True)
        KEY.write_text(json.dumps({"keys": [key]}))
        KEY.chmod(0o600)
        shutil.chown(KEY, USER, USER)

    def _on_secret_changed(self, event):
        if event.secret.label == LABEL:
            self._write_key(event.secret)
            # A reload would end it.
            systemctl("restart", "slurmrestd")

    def _on_broken(self, _):
        systemctl("disable", "--now", "slurmrestd")
        self.unit.status = ops.BlockedStatus("Waiting for integrations: [`slurmctld`]")


if __name__ == "__main__":
    ops.main(Slurmrestd)
