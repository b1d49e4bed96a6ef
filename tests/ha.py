"""Our charms with several controllers on a store: what has to agree, and who joins and leaves."""
import contextlib
import json
import time

import jubilant

import packing
from cluster import Cluster, eventually
from sites import COMES_BACK, STATE, TAKES_OVER, TIMEOUT, Silent, Site

MARKER = f"{STATE}/.cluster"
FENCE = "/run/slurmctld-charm/fence.json"
FENCE_SERVICE = "slurmctld-fence.service"
# Jobs are kept in mind until they are counted.
PARAMETERS = f"SlurmctldTimeout={TIMEOUT}\nMinJobAge=86400"


class Charmed(Site):
    """Our charms: `slurmctld` on a store, `filesystem-client` beside each controller, `compute`."""

    def controllers(self):
        status = self.cluster.juju.status()
        units = status.get_units("slurmctld")
        machines = [units[name].machine for name in sorted(units, key=number_of)]
        return {status.machines[machine].hostname: machine for machine in machines if machine in status.machines}

    def nodes(self):
        units = self.cluster.juju.status().get_units("compute")
        return {name.replace("/", "-"): units[name].machine for name in sorted(units, key=number_of)}

    def store(self):
        return self.cluster.machine_of("store/0")

    def unit_of(self, host):
        machine = self.controllers()[host]
        units = self.cluster.juju.status().get_units("slurmctld")
        return next(name for name, unit in units.items() if unit.machine == machine)

    def host_of(self, unit):
        return self.cluster.machines()[self.cluster.machine_of(unit)]

    # Deploying

    def deploy_store(self, directory):
        """A machine that serves MooseFS, and the subordinate that mounts it."""
        self.cluster.juju.deploy(packing.pack_test_charm(directory, "moosefs"), "store")
        self.deploy_client(directory)
        self.cluster.juju.integrate("filesystem-client:filesystem", "store:filesystem")

    def deploy_client(self, charms, **options):
        # Tests do not wait a minute for autofs to look again.
        config = {"map-options": "--timeout=0 --negative-timeout=1", **options}
        self.cluster.juju.deploy(packing.pack_test_charm(charms, "filesystem-client"), config=config)

    def deploy(self, directory, controllers=2, nodes=2):
        self.deploy_store(directory)
        config = {"use-network-state": True, "slurm-conf-parameters": PARAMETERS}
        self.cluster.deploy_charm("slurmctld", "slurmctld", controllers, config=config)
        self.cluster.juju.integrate("filesystem-client:mount", "slurmctld:mount")
        self.cluster.deploy_compute(units=nodes)
        self.cluster.juju.integrate("slurmctld", "compute")
        self.cluster.settle(store=1, slurmctld=controllers, compute=nodes)
        self.await_agreement()
        self.prepare_nodes()

    # What they have to agree on

    def published(self):
        """The lists of controllers in the bags that compute units read."""
        lists = []
        for unit, relations in self.cluster.databags().items():
            for relation in relations:
                told = (relation["application-data"] or {}).get("controllers")
                if unit.startswith("compute/") and told:
                    lists.append([address.split(":")[0] for address in json.loads(told)])
        return lists

    def fetched(self):
        """The lists in the configuration that nodes have fetched."""
        script = "sed --quiet 's/^SlurmctldHost=\\([^ (]*\\).*/\\1/p' /run/slurm/conf/slurm.conf"
        return [self.look(machine, script).split() for machine in self.nodes().values()]

    def statuses(self):
        """Host → status of its unit."""
        units = self.cluster.juju.status().get_units("slurmctld")
        names = self.cluster.machines()
        told = lambda unit: f"{unit.workload_status.current}: {unit.workload_status.message}"
        return {names[unit.machine]: told(unit) for unit in units.values()}

    def expected_statuses(self, order, serving):
        """What units say when all is well."""
        rank = {host: "primary" if index == 0 else "backup" if len(order) == 2 else f"backup{index}"
                for index, host in enumerate(order)}
        if serving == order[0]:
            return {host: f"active: {name} - UP" for host, name in rank.items()}
        words = {host: "serves" if host == serving else f"{serving} serves" for host in order}
        return {host: f"active: {name} - UP; {words[host]}" for host, name in rank.items()}

    def mismatches(self):
        """What controllers say of others that run with another list: each pings the others every few seconds. One that
        stands by with a list of before shuts itself down when it takes over."""
        script = "journalctl --quiet --unit=slurmctld --output=cat --since=-8s | grep 'index mismatch' || true"
        lines = [line for machine in self.controllers().values() for line in self.look(machine, script).splitlines()]
        return sorted(set(lines))

    def agreement(self):
        """All that has to say the same, as a list of what does not."""
        try:
            order, serving = self.order(), self.serving()
            hosts, ping = set(self.controllers()), self.ping()
            running, fetched = self.running_order(), self.fetched()
        except Silent as error:
            return [str(error)]
        found = []
        if serving is None:
            return ["nobody serves"]
        if set(order) != hosts or len(order) != len(hosts):
            found.append(f"slurm.conf has {order}, the units are on {sorted(hosts)}")
        if running != order:
            found.append(f"slurmctld runs with {running}, slurm.conf has {order}")
        if list(ping) != order or not all(ping.values()):
            found.append(f"scontrol ping says {ping}, slurm.conf has {order}")
        found += [f"a node has {one}, slurm.conf {order}" for one in fetched if one != order]
        # The one that serves may come first there: it helps a node to start.
        found += [f"a bag has {one}, slurm.conf {order}" for one in self.published() if sorted(one) != sorted(order)]
        found += self.mismatches()
        if found:
            return found
        statuses, expected = self.statuses(), self.expected_statuses(order, serving)
        stale = [host for host in order if statuses.get(host) != expected[host]]
        # A status is as old as the last hook of its unit. Juju has each run one every few minutes.
        for host in stale:
            self.refreshed(host)
        return [f"status of {host} was {statuses.get(host)!r}, expected {expected[host]!r}" for host in stale]

    def await_agreement(self, seconds=120):
        """Waits until order, bags, daemons, nodes and statuses say the same; returns the order."""
        eventually(self.agreement, lambda found: not found, "what does not agree", seconds)
        return self.order()

    def settle(self):
        self.await_agreement(COMES_BACK + 120)

    def recover(self, host):
        """Nobody does anything: they come back by themselves."""
        self.await_agreement(COMES_BACK + 120)

    def await_primary(self):
        """A primary that has come back takes control."""
        self.await_serving(self.order()[0], COMES_BACK)

    # Members

    def units(self, application):
        status = self.cluster.juju.status()
        return set(status.get_units(application)) if application in status.apps else set()

    def numbers(self):
        return sorted(map(number_of, self.units("slurmctld")))

    def scale(self, count):
        """Waits for so many controllers of one mind, of which the primary serves, and makes or removes what differs."""
        found = len(self.units("slurmctld"))
        if found < count:
            self.cluster.add_unit("slurmctld", count - found)
            self.cluster.settle(slurmctld=count)
        for host in self.order()[count:] if found > count else []:
            self.remove(host)
        self.await_agreement(COMES_BACK + 180)
        self.await_primary()
        return self

    def remove(self, host):
        """Removes the unit of a controller and waits until it is gone."""
        unit = self.unit_of(host)
        self.cluster.juju.remove_unit(unit)
        eventually(lambda: self.units("slurmctld"), lambda seen: unit not in seen, f"units without {unit}", 180)

    def fire(self, unit):
        """Lets a unit look at everything, as Juju would sooner or later."""
        self.cluster.fire(unit)

    def refresh(self):
        for unit in sorted(self.units("slurmctld")):
            with contextlib.suppress(jubilant.CLIError, jubilant.TaskError, TimeoutError):
                self.fire(unit)

    def refreshed(self, host):
        """Status of a controller that has just looked at everything."""
        unit = self.unit_of(host)
        with contextlib.suppress(jubilant.CLIError, jubilant.TaskError, TimeoutError):
            self.fire(unit)
        return self.cluster.message(unit)

    # Daemons

    def daemon_of(self, unit):
        machine = self.cluster.machine_of(unit)
        return self.look(machine, "systemctl is-active slurmctld || true").strip()

    def identity(self, host):
        """Changes when slurmctld is started anew; a reconfigure makes a new process of the same start."""
        properties = "NRestarts,ActiveEnterTimestampMonotonic"
        return self.look(self.controllers()[host], f"systemctl show --property={properties} slurmctld")

    def saves_on_store(self, host):
        return "fuse" in self.mounted(host)

    def sizes(self):
        """Name of a file of Slurm's state → its size."""
        lines = self.anywhere(f"find {STATE} -maxdepth 1 -type f -printf '%f %s\\n'").splitlines()
        return {name: int(size) for name, size in map(str.split, lines)}

    # Drills

    def takeover(self, host):
        """Has a standby take over with our action. The primary takes control back within a second or two, so what
        counts is that the standby has served, and not that it is found serving."""
        since = time.time()

        def accepted():
            try:
                self.cluster.act(self.unit_of(host), "takeover", controller=host)
            except jubilant.TaskError as error:
                # One that has not been restarted with a new list would end instead of serving.
                if "try again" not in str(error):
                    raise
                return False
            return True

        eventually(accepted, bool, f"{host} may take over", 60)
        eventually(lambda: self.has_served(host, since), bool, f"{host} has served", TAKES_OVER)

    def drill(self):
        """A takeover by the last standby works, and all come back."""
        order = self.await_agreement()
        if len(order) > 1:
            self.takeover(order[-1])
            # Slurm has ended the one that served. Its charm starts it again at its next hook.
            self.refresh()
        self.await_agreement(seconds=COMES_BACK + 120)
        self.await_primary()

    def fence(self, host):
        """What the fence of a controller says of itself."""
        return json.loads(self.look(self.controllers()[host], f"cat {FENCE}"))

    def fence_state(self, host):
        try:
            return self.fence(host)["state"]
        except Silent as error:
            return str(error)

    def fences(self):
        return {host: self.fence_state(host) for host in self.controllers()}


class Shared(Charmed):
    """Our charms on a directory that juju-local shares: a store that needs no network."""

    SHARE = "/srv/store"

    def store(self):
        return None

    def deploy(self, directory, controllers=2, nodes=2):
        self.deploy_client(directory, directory=self.SHARE)
        config = {"use-network-state": True, "slurm-conf-parameters": PARAMETERS}
        self.cluster.deploy_charm("slurmctld", "slurmctld", controllers, config=config)
        self.cluster.deploy_compute(units=nodes)
        self.cluster.juju.integrate("slurmctld", "compute")
        for unit in eventually(lambda: self.units("slurmctld"), lambda seen: len(seen) == controllers, "units", 60):
            self.cluster.await_message(unit, "^blocked: ", 180)
            self.cluster.local("share", "attach", "store", self.cluster.machine_of(unit), self.SHARE)
        self.cluster.juju.integrate("filesystem-client:mount", "slurmctld:mount")
        self.cluster.settle(slurmctld=controllers, compute=nodes)
        self.await_agreement()
        self.prepare_nodes()


class Wide(Cluster):
    """A cluster with several controllers: clients of Slurm are asked on a node, which finds whoever serves."""

    controller = "compute/0"


def number_of(unit):
    return int(unit.split("/")[1])
