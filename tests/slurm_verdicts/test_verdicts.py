"""Asks real Slurm daemons about every configuration of the table in crates/slurm-conf/tests/verdicts/table.jsonl.

The crate's own test compares its verdicts with the recorded ones and needs no Slurm. This file makes and checks the
record:

    # one root directory for each version of Slurm, for example
    packages=slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,iproute2
    mmdebstrap --variant=apt --include=$packages trixie /var/tmp/slurm-24
    SLURM_ROOTS=/var/tmp/slurm-24:/var/tmp/slurm-26 python -m pytest tests/slurm_verdicts                   # compare
    SLURM_ROOTS=... SLURM_VERDICTS=record python -m pytest tests/slurm_verdicts                             # write

Needs root. Each candidate runs in namespaces of its own (mounts, processes, network, host name) and writes to a
temporary directory only (and makes an empty /etc/hosts in a root directory that has none). A candidate is accepted when
the daemon says that it is running, and refused when it ends by itself."""

import json
import os
import pathlib
import re
import secrets
import select
import signal
import subprocess
import time

import pytest

TABLE = pathlib.Path(__file__).parents[2] / "crates/slurm-conf/tests/verdicts/table.jsonl"
ROOTS = [root for root in os.environ.get("SLURM_ROOTS", "").split(":") if root]
RECORD = os.environ.get("SLURM_VERDICTS") == "record"
# Slurm waits a minute for a file that an Include names.
DEADLINE = 90

BASE = """\
ClusterName=lab
SlurmctldHost=c1(127.0.0.1)
SlurmUser=root
AuthType=auth/slurm
CredType=cred/slurm
StateSaveLocation=/mnt/state
SlurmdSpoolDir=/mnt/spool
SlurmctldPidFile=/mnt/slurmctld.pid
SlurmdPidFile=/mnt/slurmd.pid
SelectType=select/cons_tres
MaxNodeCount=100
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MailProg=/bin/true
GresTypes=gpu
NodeSet=compute Feature=compute
"""

# Runs the rest of the arguments in the root directory $1, with the directory $2 at /mnt.
INSIDE = """
root=$1; directory=$2; shift 2
hostname c1; ip link set lo up; ip address add 10.0.0.1/32 dev lo
mount --make-rprivate /
mount --bind "$directory" "$root/mnt"; mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"
mount -t sysfs sysfs "$root/sys"
[ -e "$root/etc/hosts" ] || : > "$root/etc/hosts"
mount --bind "$directory/hosts" "$root/etc/hosts"
exec chroot "$root" "$@"
"""

NODES = [f"n{n}" for n in range(1, 13)] + [f"n{n:02}" for n in range(1, 10)] + ["r1n1", "r1n2", "r2n1", "r2n2"]

CONTROLLER = (["slurmctld", "-D", "-f", "/mnt/slurm.conf"], "Running as primary controller")
COMPUTE = (["slurmd", "-D", "-Z", "-N", "n1", "-f", "/mnt/slurm.conf", "--conf"], " started on ")

pytestmark = pytest.mark.skipif(not ROOTS, reason="SLURM_ROOTS names no root directories with Slurm")


def files(case):
    """The configuration files of a case, and the daemon that reads them with its words that show that it runs."""
    text = case["text"]
    found = {"slurm.conf": BASE, "cgroup.conf": "CgroupPlugin=disabled\n"}
    match case["file"]:
        case "slurm.conf":
            found["slurm.conf"] = text if case.get("whole") else BASE + text
            return found, *CONTROLLER
        case "partition":
            found["slurm.conf"] += f"PartitionName=p Nodes=compute {text}\n"
            return found, *CONTROLLER
        case "cgroup.conf":
            found["cgroup.conf"] += text
            return found, *CONTROLLER
        case "node":
            return found, COMPUTE[0] + [text], COMPUTE[1]


def verdict(root, directory, case):
    """`accepted`, or `refused: ` and the first complaint that is not about the machine."""
    content, command, running = files(case)
    for name, text in content.items():
        (directory / name).write_bytes(text.encode())
    # A name that cannot be resolved costs the daemon ten seconds.
    (directory / "hosts").write_text("127.0.0.1 localhost c1\n10.0.0.1 " + " ".join(NODES) + "\n")
    (directory / "spool").mkdir()
    key = directory / "slurm.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    isolate = ["unshare", "--uts", "--net", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh"]
    daemon = subprocess.Popen(
        isolate + [root, str(directory)] + command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    seen = b""
    try:
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            ready, _, _ = select.select([daemon.stdout], [], [], end - time.monotonic())
            piece = os.read(daemon.stdout.fileno(), 65536) if ready else b""
            assert ready, f"neither running nor refused:\n{seen.decode(errors='replace')}"
            if not piece:
                break
            seen += piece
            if running.encode() in seen:
                return "accepted"
    finally:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()
        daemon.stdout.close()
    lines = [strip(line) for line in seen.decode(errors="replace").splitlines()]
    complaints = [line for line in lines if re.match("(error|fatal): ", line) and not noise(line)]
    assert complaints, f"neither running nor refused:\n{seen.decode(errors='replace')}"
    return f"refused: {complaints[0].partition(': ')[2]}"[:160]


def strip(line):
    return re.sub(r"^(\[[^\]]*\]|slurm(ctld|d(-n1)?):) ", "", line)


def noise(line):
    return (
        re.search(
            "hwloc|GPU detection|Domain socket|MailProg|state (save )?file|more than once|default partition not set",
            line,
        )
        is not None
    )


def version(root):
    said = subprocess.run(["chroot", root, "slurmctld", "-V"], capture_output=True, text=True, check=True).stdout
    return said.split()[-1]


def test_the_table_says_what_slurm_says(tmp_path):
    cases = [json.loads(line) for line in TABLE.read_text().splitlines()]
    different = []
    for root in ROOTS:
        release = version(root)
        for number, case in enumerate(cases):
            directory = tmp_path / f"{release}-{number}"
            directory.mkdir()
            found = verdict(root, directory, case)
            # The rest of the words may name this machine's processors and memory.
            if case.setdefault("slurm", {}).get(release, "").partition(":")[0] != found.partition(":")[0]:
                different.append(f"{case['name']}: {release} says {found}, the table {case['slurm'].get(release)}")
                case["slurm"][release] = found
    if RECORD:
        TABLE.write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases))
    else:
        assert not different, "\n".join(different)
