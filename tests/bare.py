"""Slurm with several controllers, set up by hand on machines of a model, for comparison. No charm has a part in it
but the one that serves the store.

Controllers mount the store through autofs and have `/etc/slurm` on it, as ours do; units of systemd are those of the
packages, so that nothing starts a slurmctld again but an operator (`recover`).
"""
import concurrent.futures

import packing
from cluster import eventually
from sites import CHECKPOINT, COMES_BACK, CONFIGURATION, STATE, TAKES_OVER, TIMEOUT, Silent, Site

APT = "DEBIAN_FRONTEND=noninteractive apt-get --yes --quiet install --no-install-recommends"
PLUGINS = "slurm-client slurm-wlm-basic-plugins"

CONF = f"""
ClusterName=bare
{{controllers}}
SlurmUser=slurm
AuthType=auth/slurm
CredType=cred/slurm
AuthInfo=use_client_ids
StateSaveLocation={STATE}
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldTimeout={TIMEOUT}
SlurmdTimeout=300
MinJobAge=86400
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
ReturnToService=1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
{{nodes}}
PartitionName=compute Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Bare(Site):
    """Two controllers and two nodes, without charms."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self.members = {}
        self.workers = {}

    def controllers(self):
        return self.members

    def nodes(self):
        return self.workers

    def store(self):
        return self.cluster.machine_of("store/0")

    # Setting up

    def deploy(self, directory, controllers=2, nodes=2):
        cluster = self.cluster
        cluster.juju.deploy(packing.pack_test_charm(directory, "moosefs"), "store")
        for number in range(controllers + nodes):
            cluster.juju.cli("add-machine")
        machines = lambda: {name: one for name, one in cluster.juju.status().machines.items() if one.hostname}
        started = lambda seen: len(seen) > controllers + nodes and all(
            one.juju_status.current == "started" for one in seen.values()
        )
        seen = eventually(machines, started, "machines", 180)
        cluster.settle(store=1)
        store = self.store()
        hosts = {one.hostname: name for name, one in sorted(seen.items()) if name != store}
        self.members = dict(list(hosts.items())[:controllers])
        self.workers = dict(list(hosts.items())[controllers:])
        script = self.controller_script(seen[store].dns_name)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            run = lambda machine, script: pool.submit(cluster.shell, machine, script, seconds=300)
            members = [run(machine, script) for machine in self.members.values()]
            workers = [run(machine, NODE_SCRIPT) for machine in self.workers.values()]
        [one.result() for one in members]
        self.write([one.result().split("\n")[0] for one in workers])
        for host in self.members:
            self.start_daemon(host)
        for machine in self.workers.values():
            cluster.root(machine, "systemctl", "start", "slurmd")
        self.settle()
        self.prepare_nodes()

    def controller_script(self, address):
        return f"""
        {APT} autofs moosefs-client slurmctld {PLUGINS} >/dev/null
        systemctl stop slurmctld || true
        mkdir -p /etc/auto.master.d {CHECKPOINT}
        echo '/- /etc/auto.data --timeout=0 --negative-timeout=1' >/etc/auto.master.d/data.autofs
        echo '{CHECKPOINT} -fstype=moosefs {address}:/' >/etc/auto.data
        systemctl restart autofs
        for try in $(seq 20); do ls {CHECKPOINT}/. >/dev/null && break; sleep 0.5; done
        mkdir -p {STATE} {CONFIGURATION}
        chown slurm:slurm {CHECKPOINT} {STATE} {CONFIGURATION}
        [ -L /etc/slurm ] || mv /etc/slurm /etc/slurm.packaged
        ln -sfn {CONFIGURATION} /etc/slurm
        """

    def write(self, described):
        """The configuration on the store, and a copy for the nodes."""
        conf = CONF.format(
            controllers="\n".join(f"SlurmctldHost={host}" for host in self.members), nodes="\n".join(described)
        )
        [first, *_] = self.members.values()
        script = f"""
        cat >{CONFIGURATION}/slurm.conf <<'END'
        {conf}
        END
        echo CgroupPlugin=disabled >{CONFIGURATION}/cgroup.conf
        head --bytes=1024 /dev/urandom >{CONFIGURATION}/slurm.key
        chmod 600 {CONFIGURATION}/slurm.key
        chown --recursive slurm:slurm {CONFIGURATION}
        """
        self.cluster.shell(first, "\n".join(line.strip() for line in script.splitlines()))
        archive = self.cluster.root(first, "sh", "-c", f"tar --create --directory={CONFIGURATION} . | base64")
        for machine in self.workers.values():
            unpack = "base64 --decode | tar --extract --directory=/etc/slurm"
            self.cluster.root(machine, "sh", "-c", unpack, stdin=archive)

    # After a story

    def settle(self, seconds=COMES_BACK + TAKES_OVER):
        """Waits until all answer and the primary serves."""
        eventually(self.is_well, lambda seen: seen is True, "all controllers are up", seconds)

    def is_well(self):
        [first, *_] = self.members
        try:
            return self.serving() == first and all(self.ping().values()) and self.answers()
        except Silent as error:
            return error

    def recover(self, host, seconds=2 * COMES_BACK):
        """What an operator does: starts the daemons that died, for as long as one dies."""

        def well():
            for one in [*(other for other in self.members if other != host), host]:
                if self.daemon(one) not in ("active", "activating"):
                    self.start_daemon(one)
            return self.is_well()

        eventually(well, lambda seen: seen is True, "all controllers are up", seconds)


NODE_SCRIPT = f"""
{APT} slurmd {PLUGINS} >/dev/null
systemctl stop slurmd || true
mkdir -p /etc/slurm /var/lib/slurm/slurmd
slurmd -C
"""
