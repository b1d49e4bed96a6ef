"""Graphics cards that are none: a tree like that of NVIDIA's driver is laid over /proc, /sys and /dev of a machine.

On a real Juju this runs as well, on machines without cards.
"""
import jubilant
import pytest

from cluster import eventually

UNITS = 1
# What Slurm and the charm read of a driver that is loaded, for two cards.
CARDS = r"""
mount -t tmpfs tmpfs /proc/driver
mount -t tmpfs tmpfs /sys/bus/pci/drivers
minor=0
for bus in 0000:00:1d.0 0000:00:1e.0; do
    mkdir -p /proc/driver/nvidia/gpus/$bus /sys/bus/pci/drivers/nvidia/$bus
    printf '%b\n' 'Model: \t\t Tesla T4' 'IRQ:   \t\t 34' "GPU UUID: \t GPU-$minor" 'Bus Type: \t PCIe' \
        "Bus Location: \t $bus" "Device Minor: \t $minor" >/proc/driver/nvidia/gpus/$bus/information
    cat /sys/devices/system/cpu/online >/sys/bus/pci/drivers/nvidia/$bus/local_cpulist
    [ -e /dev/nvidia$minor ] || mknod -m 0666 /dev/nvidia$minor c 195 $minor
    minor=$((minor + 1))
done
"""


def lay_cards(cluster, machine):
    try:
        cluster.shell(machine, CARDS)
    except jubilant.CLIError as error:
        if "not permitted" in error.stderr or "denied" in error.stderr:
            pytest.skip(f"root of this machine may not do everything: {error.stderr.strip()}")
        raise


@pytest.fixture(scope="module")
def node(cluster):
    """A node whose driver was installed after it had joined: detection runs again when slurmd starts."""
    assert cluster.node("compute-0")["gres"] == ""
    lay_cards(cluster, "compute/0")
    cluster.root("compute/0", "systemctl", "restart", "slurmd")
    cluster.fire("compute/0")
    eventually(lambda: cluster.node("compute-0")["gres"], bool, "Gres of compute-0", 90)
    cluster.await_state("compute-0", "IDLE", 90)
    return "compute-0"


def test_cards_become_gres_of_the_node(cluster, node):
    assert cluster.node(node)["gres"].startswith("gpu:tesla_t4:2")
    options = cluster.root("compute/0", "cat", "/etc/default/slurmd")
    assert options.lower().count("gres=gpu:tesla_t4:2") == 1, options
    assert "gpu" in cluster.setting("GresTypes")
    assert "autodetect" in cluster.root("slurmctld/0", "cat", "/etc/slurm/gres.conf").lower()
    cluster.await_message("compute/0", "^active: idle, partition compute$")


def test_a_job_gets_exactly_one(cluster, node):
    seen = cluster.srun("--gres=gpu:1", command=("printenv", "CUDA_VISIBLE_DEVICES"))
    assert seen.strip() in ("0", "1"), seen
    seen = cluster.srun("--gres=gpu:tesla_t4:2", command=("printenv", "CUDA_VISIBLE_DEVICES"))
    assert seen.strip() == "0,1", seen


def test_a_job_without_gets_none(cluster, node):
    assert cluster.srun(command=("sh", "-c", "echo ${CUDA_VISIBLE_DEVICES:-none}")).strip() == "none"


@pytest.mark.slow
def test_a_node_that_has_cards_from_the_start_joins_with_them(cluster, node):
    cluster.add_unit("compute")
    eventually(lambda: cluster.juju.status().machines.get("2"), bool, "machine 2", 60)
    try:
        eventually(lambda: boots(cluster), bool, "machine 2 answers", 60)
        lay_cards(cluster, "2")
    finally:
        cluster.await_message("compute/1", "^active: idle", seconds=180)
    # Whichever came first, the driver or slurmd: what is there counts at the next look.
    cluster.root("compute/1", "systemctl", "restart", "slurmd")
    cluster.fire("compute/1")
    eventually(lambda: cluster.node("compute-1")["gres"], lambda seen: seen.startswith("gpu:tesla_t4:2"), "Gres", 90)


def boots(cluster):
    try:
        return "ok" in cluster.on("2", "echo", "ok")
    except Exception:
        return False
