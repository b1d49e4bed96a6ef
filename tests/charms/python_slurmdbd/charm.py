"""Accounting as the Python charms have it since August 2026: it starts slurmdbd when it has both keys, and then says
where it is. When one of the keys changes it restarts slurmdbd.

When its relation is removed it does nothing: slurmdbd runs on, and may have other controllers.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess

import ops

KEY = pathlib.Path("/etc/slurm/slurm.jwks")
TOKEN_KEY = pathlib.Path("/etc/slurm/jwt_hs256.key")
CONF = pathlib.Path("/etc/slurm/slurmdbd.conf")
LABEL = "slurm-auth-key"
TOKEN_LABEL = "slurm-jwt-key"
# Debian's Slurm has its plugins in packages of their own.
PLUGINS = ["slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin", "slurm-wlm-mysql-plugin"]
PACKAGES = ["mariadb-server", "slurmdbd", *PLUGINS]
HOST = socket.gethostname().split(".")[0]
SETTINGS = f"""\
authtype=auth/slurm
authalttypes=auth/jwt
authaltparameters=jwt_key={TOKEN_KEY}
dbdhost={HOST}
slurmuser=slurm
pidfile=/run/slurmdbd/slurmdbd.pid
storagetype=accounting_storage/mysql
storageuser=slurm
storageloc=slurm_acct_db
"""
# Whoever is the user slurm on this machine is the user slurm of the database.
DATABASE = """
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE OR REPLACE USER slurm@localhost IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""


def systemctl(*words):
    subprocess.run(["systemctl", *words], check=True, timeout=120)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    shutil.chown(path, "slurm", "slurm")


class Slurmdbd(ops.CharmBase):
    """The accounting."""

    def __init__(self, framework):
        super().__init__(framework)
        framework.observe(self.on.install, self._on_install)
        framework.observe(self.on.slurmctld_relation_changed, self._on_changed)
        framework.observe(self.on.secret_changed, self._on_secret_changed)

    def _on_install(self, _):
        os.environ["DEBIAN_FRONTEND"] = "noninteractive"
        # Debian starts a daemon that it installs, and this one would end without a configuration.
        systemctl("--runtime", "mask", "slurmdbd")
        for words in (["update"], ["install", "--yes", "--no-install-recommends", *PACKAGES]):
            subprocess.run(["apt-get", "--quiet", *words], check=True, timeout=600)
        systemctl("--runtime", "unmask", "slurmdbd")
        systemctl("disable", "slurmdbd")
        subprocess.run(["mariadb"], input=DATABASE, text=True, check=True, timeout=60)
        self.unit.set_ports(6819)
        self.unit.status = ops.BlockedStatus("Waiting for integrations: [`slurmctld`]")

    def _on_changed(self, event):
        bag = event.relation.data[event.app]
        # The texts are compared, not what they say.
        if '""' in (bag.get("auth_secret_id", '""'), bag.get("jwt_secret_id", '""')):
            self.unit.status = ops.WaitingStatus("Waiting for controller data")
            event.defer()
            return
        self._write_key(self.model.get_secret(id=json.loads(bag["auth_secret_id"]), label=LABEL))
        self._write_token_key(self.model.get_secret(id=json.loads(bag["jwt_secret_id"]), label=TOKEN_LABEL))
        write(CONF, SETTINGS)
        try:
            systemctl("enable", "slurmdbd")
            systemctl("restart", "slurmdbd")
        except subprocess.CalledProcessError:
            event.defer()
            self.unit.status = ops.BlockedStatus("Failed to start `slurmdbd`. See `juju debug-log` for details")
            return
        if self.unit.is_leader():
            event.relation.data[self.app]["hostname"] = json.dumps(HOST)
        self.unit.status = ops.ActiveStatus()

    def _write_key(self, secret):
        """It knows a single key, and nothing of a set of them."""
        content = secret.get_content(refresh=True)
        key = {"alg": "HS256", "kty": "oct", "kid": content["keyid"], "k": content["key"]}
        write(KEY, json.dumps({"keys": [key]}))

    def _write_token_key(self, secret):
        write(TOKEN_KEY, secret.get_content(refresh=True)["key"])

    def _on_secret_changed(self, event):
        match event.secret.label:
            case "slurm-auth-key":
                self._write_key(event.secret)
            case "slurm-jwt-key":
                self._write_token_key(event.secret)
            case _:
                return
        systemctl("restart", "slurmdbd")


if __name__ == "__main__":
    ops.main(Slurmdbd)
