"""Archives that are not Debian's: an old Slurm, other packages, one that cannot be reached now.

A machine's archive is a directory of small stand-ins with names and versions of interest; the source that
`slurm-source` names is the pool of juju-local's image, signed with a key of the test's. Needs `gpg` where the tests
run.
"""
import hashlib
import re
import shutil
import subprocess

import pytest

import host
from cluster import eventually

pytestmark = [
    pytest.mark.skipif(not host.is_juju_local(), reason="a machine of a real Juju has the archive that it has"),
    pytest.mark.skipif(not shutil.which("gpg"), reason="needs gpg to sign a source"),
]

POOL = "/var/lib/juju-local/pool"
OLD = "23.11.4-1.2ubuntu5"
TOO_OLD = (
    r"^blocked: {} 23\.11\.4 is too old, 24\.11 is needed: "
    r"set option slurm-source, e\.g\. ppa:ubuntu-hpc/slurm-wlm-25\.11$"
)

# Makes a package of nothing but its name for each `name version` and an index of them; the daemon's has a unit.
ARCHIVE = r"""
mkdir -p /srv/archive && cd /srv/archive
while read -r name version; do
    mkdir -p build/DEBIAN
    printf '%s\n' "Package: $name" "Version: $version" 'Architecture: all' 'Maintainer: nobody <nobody@example.com>' \
        'Description: stand-in' >build/DEBIAN/control
    case $name in slurmd|slurmctld) mkdir -p build/usr/lib/systemd/system
        printf '[Service]\nExecStart=/bin/false\n' >build/usr/lib/systemd/system/$name.service;; esac
    dpkg-deb --root-owner-group --build build $name.deb >/dev/null
    rm -r build
    { dpkg-deb --field $name.deb
      echo "Filename: ./$name.deb"
      echo "Size: $(stat --format=%s $name.deb)"
      echo "SHA256: $(sha256sum $name.deb | cut -d' ' -f1)"
      echo; } >>Packages
done <<END
PACKAGES
END
printf 'Types: deb\nURIs: file:/srv/archive\nSuites: ./\nTrusted: yes\n' >/etc/apt/sources.list.d/juju-local.sources
apt-get --quiet update
"""

# Holds the lock that dpkg and apt take, as unattended-upgrades does for minutes.
LOCK = """
import fcntl, time
file = open("/var/lib/dpkg/lock-frontend", "a")
fcntl.lockf(file, fcntl.LOCK_EX)
open("/run/locked", "w").close()
time.sleep(600)
"""


@pytest.fixture(scope="module")
def gpg(tmp_path_factory):
    """Signs as somebody whose key nobody has yet."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)

    def run(*words, stdin=None):
        command = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--no-tty", *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout

    run("--passphrase", "", "--quick-generate-key", "test@example.com", "ed25519", "sign", "never")
    yield run
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)


@pytest.fixture(scope="module")
def cluster(new_cluster):
    return new_cluster()


def machines(cluster, count):
    """Adds machines on which nothing is installed yet, and returns their names."""
    before = set(cluster.juju.status().machines)
    for _ in range(count):
        cluster.juju.cli("add-machine")

    def started():
        found = cluster.juju.status().machines
        return [name for name in found if name not in before and found[name].juju_status.current == "started"]

    return sorted(eventually(started, lambda names: len(names) == count, "machines", 60))


def has_only(cluster, machine, *packages, version=OLD):
    """Replaces the machine's archive by one with these packages."""
    lines = "\n".join(f"{name} {version}" for name in packages)
    cluster.shell(machine, ARCHIVE.replace("PACKAGES", lines))


def signed_source(cluster, machine, gpg, without=()):
    """Signs the image's pool on that machine, without some packages, and returns the value of `slurm-source` that names
    it."""
    index = cluster.root(machine, "cat", f"{POOL}/Packages")
    kept = [
        one
        for one in index.split("\n\n")
        if not re.search(rf"^Package: ({'|'.join(without) or '-'})$", one, re.MULTILINE)
    ]
    index = "\n\n".join(kept)
    cluster.root(machine, "tee", f"{POOL}/Packages", stdin=index)
    digest = hashlib.sha256(index.encode()).hexdigest()
    release = f"Origin: test\nDate: Mon, 01 Jan 2024 00:00:00 UTC\nSHA256:\n {digest} {len(index.encode())} Packages\n"
    cluster.root(machine, "tee", f"{POOL}/InRelease", stdin=gpg("--clearsign", stdin=release))
    key = "\n".join(f" {line or '.'}" for line in gpg("--armor", "--export").strip().splitlines())
    return f"Types: deb\nURIs: file:{POOL}\nSuites: ./\nSigned-By:\n{key}\n"


def installed(cluster, machine):
    script = "dpkg-query --show --showformat='${Package} ${Version} ${Status}\\n' 'slurm*' 2>/dev/null || true"
    lines = cluster.shell(machine, script).splitlines()
    return {name: version for name, version, *status in map(str.split, lines) if status[-1] == "installed"}


def test_an_archive_that_is_too_old_is_healed_by_a_source(cluster, gpg):
    controller, node = machines(cluster, 2)
    has_only(cluster, controller, "slurmctld", "slurm-client", "slurm-wlm-jwt-plugin")
    has_only(cluster, node, "slurmd", "slurm-client")
    cluster.deploy_controller(to=controller)
    cluster.deploy_compute(to=node)
    cluster.juju.integrate("slurmctld", "compute")
    for unit, package in (("slurmctld/0", "slurmctld"), ("compute/0", "slurmd")):
        cluster.await_message(unit, TOO_OLD.format(package), 60)
    cluster.quiet()
    for machine in (controller, node):
        assert installed(cluster, machine) == {}
        leftovers = cluster.shell(
            machine,
            "cd /run/systemd/system"
            " && ls slurm* munge* /etc/slurm /etc/default/slurmd /var/lib/slurm 2>/dev/null || true",
        )
        assert not leftovers.strip(), leftovers
    # Another event changes nothing about it, and nothing flickers.
    cluster.fire("compute/0")
    assert re.search(TOO_OLD.format("slurmd"), cluster.message("compute/0"))
    # This one knows no package with the plugin for tokens.
    source = signed_source(cluster, controller, gpg, without=["slurm-wlm-jwt-plugin"])
    assert signed_source(cluster, node, gpg) == source
    for application in ("slurmctld", "compute"):
        cluster.juju.config(application, {"slurm-source": source})
    cluster.settle(slurmctld=1, compute=1)
    assert "AuthAlt" not in cluster.slurm_conf()
    assert cluster.srun().strip() == cluster.machines()[node]
    for machine in (controller, node):
        slurm = installed(cluster, machine)
        assert {version.split("-")[0] for version in slurm.values()} == {"24.11.5"}, slurm
        held = set(cluster.root(machine, "apt-mark", "showhold").split())
        assert "slurm-wlm-basic-plugins" in held and held <= set(slurm), (held, slurm)


@pytest.mark.slow
def test_a_plugin_that_comes_later_is_taken_up(cluster):
    """The plugin for tokens is installed by hand; the cluster then takes tokens."""
    file = cluster.shell(
        "slurmctld/0",
        f"cd {POOL} && dpkg-deb --extract slurm-wlm-jwt-plugin_*.deb /tmp/jwt && dpkg-deb --extract libjwt2_*.deb /"
        " && find /tmp/jwt -name auth_jwt.so",
    ).strip()
    cluster.shell("slurmctld/0", f"cp {file} $(dirname $(find /usr/lib -name auth_slurm.so))/ && ldconfig")
    cluster.fire("slurmctld/0")
    eventually(cluster.slurm_conf, lambda text: "AuthAltTypes=auth/jwt" in text, "slurm.conf", 30)
    assert "SLURM_JWT=" in cluster.scontrol("token", "lifespan=60")
    cluster.settle(slurmctld=1, compute=1)


@pytest.mark.slow
def test_an_old_slurm_that_somebody_installed_is_replaced(cluster, gpg):
    [machine] = machines(cluster, 1)
    has_only(cluster, machine, "slurmd", "slurm-client")
    cluster.root(machine, "apt-get", "--quiet", "--assume-yes", "install", "slurmd", "slurm-client")
    cluster.root(machine, "apt-mark", "hold", "slurmd")
    cluster.deploy_compute("old", to=machine)
    cluster.juju.integrate("slurmctld", "old")
    cluster.await_message("old/0", TOO_OLD.format("slurmd"), 60)
    assert set(installed(cluster, machine).values()) == {OLD}
    cluster.juju.config("old", {"slurm-source": signed_source(cluster, machine, gpg)})
    cluster.settle(old=1)
    assert installed(cluster, machine)["slurmd"].startswith("24.11.5")
    assert cluster.srun(partition="old").strip() == cluster.machines()[machine]


@pytest.mark.slow
def test_a_locked_apt_is_waited_for(cluster):
    [machine] = machines(cluster, 1)
    cluster.root(machine, "tee", "/root/lock.py", stdin=LOCK)
    cluster.shell(
        machine, "systemd-run --quiet --unit=locker python3 /root/lock.py; until [ -e /run/locked ]; do sleep 0.1; done"
    )
    cluster.deploy_compute("busy", to=machine)
    cluster.juju.integrate("slurmctld", "busy")
    cluster.await_message("busy/0", "^waiting: for apt: .*lock-frontend", 90)
    assert cluster.unit("busy/0").juju_status.current != "error"
    cluster.root(machine, "systemctl", "stop", "locker")
    # Nobody calls.
    eventually(
        lambda: cluster.message("busy/0"), lambda seen: seen == "active: idle, partition busy", "status of busy/0", 120
    )


@pytest.mark.slow
def test_a_network_that_is_away_is_waited_for(cluster):
    [machine] = machines(cluster, 1)
    sources = "/etc/apt/sources.list.d/juju-local.sources"
    away = "Types: deb\\nURIs: http://archive.invalid/\\nSuites: ./\\nTrusted: yes\\n"
    cluster.shell(
        machine, f"mv {sources} /root/; printf '{away}' >{sources}; rm -r /var/lib/apt/lists; apt-get update || true"
    )
    cluster.deploy_compute("far", to=machine)
    cluster.juju.integrate("slurmctld", "far")
    cluster.await_message("far/0", "^waiting: for apt: .*archive.invalid", 90)
    cluster.shell(machine, f"mv /root/juju-local.sources {sources}")
    eventually(
        lambda: cluster.message("far/0"), lambda seen: seen == "active: idle, partition far", "status of far/0", 120
    )
