"""Puts the configuration that slurmrestd is told beside slurmutils, with which its Python charm reads it.

    SLURMUTILS="1.2.0 1.3.2" python -m pytest tests/slurmutils

What we publish slurmutils accepts, and writes such that it says the same; what slurmutils writes for each key of its
schema we read, and publish as it was.
"""
import pathlib

import pytest

from test_slurmutils import VERSIONS, lines, python  # noqa: F401

SLURM_CONFIG = pathlib.Path(__file__).with_name("slurm_config.py")

pytestmark = pytest.mark.skipif(not VERSIONS, reason="SLURMUTILS names no versions")

# As the charm writes it, with what operators and administrators add.
CONFIGURATION = """\
ClusterName=charmed-hpc-aB3_
SlurmctldHost=juju-c9fc6f-1
SlurmctldHost=juju-c9fc6f-9(10.0.0.9)
AuthType=auth/slurm
CredType=cred/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key,new_member=1
SlurmctldParameters=enable_configless,rl_enable,rl_bucket_size=30,new_flag
SlurmctldPort=6817-6818
SchedulerParameters=bf_continue,bf_interval=30
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PrologFlags=Contain,X11
PreemptMode=SUSPEND,GANG
SuspendTime=INFINITE
ReturnToService=2
JobRequeue=0
TrackWCKey=YES
DebugFlags=NO_CONF_HASH
SlurmdDebug=5
KillWait=99999999
GresTypes=gpu
TaskPlugin=task/cgroup,task/affinity
RebootProgram="/usr/sbin/reboot --reboot"
Licenses=matlab:5,ansys
PriorityWeightTRES=CPU=1000,Mem=2000
CommunicationParameters=EnableIPv6
TLSType=tls/s2n
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=juju-c9fc6f-3
AccountingStoragePort=6819
AccountingStorageEnforce=limits,qos
Include slurm.conf.site
Include slurm.conf.site
Include /etc/slurm/elsewhere.conf
DownNodes=n[1-2] State=DOWN Reason="no power"
NodeName=DEFAULT State=UNKNOWN
NodeName=n[1-3] CPUs=4 RealMemory=1000 Feature=x Topology=a
NodeSet=compute Feature=compute
PartitionName=compute Nodes=compute Default=YES MaxTime=1-00:00:00 State=UP OverSubscribe=EXCLUSIVE MaxNodes=UNLIMITED
PartitionName=long Nodes=compute MaxTime=UNLIMITED AllowGroups=1000,staff TRESBillingWeights=CPU=1.0,Mem=0.25G New=1
"""
FILES = {"slurm.conf": CONFIGURATION, "slurm.conf.site": "KillWait=60\nMessageTimeout=20\n", "gres.conf": "Name=gpu"}


def ours(requests, *words):
    command = ["cargo", "run", "--quiet", "--package", "slurm-interface", "--example", "rest_config", "--", *words]
    return lines(command, requests)


def judged(python, requests):  # noqa: F811
    answers = lines([python, SLURM_CONFIG, "judge"], requests)
    problems = [f"{request}: {answer['error']}" for request, answer in zip(requests, answers) if "error" in answer]
    assert not problems, "\n".join(problems)
    return [answer["texts"] for answer in answers]


def test_what_is_published_is_accepted_and_says_the_same(python):  # noqa: F811
    [published] = ours([FILES])
    main = published["slurm.conf"]
    assert set(published) == {"slurm.conf", "slurm.conf.site"}
    assert not {"schedulerparameters", "preemptmode", "tlstype", "killwait", "slurmddebug"} & set(main)
    assert main["include"] == ["slurm.conf.site"]
    assert main["accountingstoragetype"] == "accounting_storage/slurmdbd"
    assert main["slurmctldhost"] == ["juju-c9fc6f-1", "juju-c9fc6f-9(10.0.0.9)"]
    assert list(main["partitions"]) == ["compute", "long"]
    # Written by slurmutils and published again it is the same.
    [texts] = judged(python, [published])
    assert "partitionname=long" in texts["slurm.conf"]
    [again] = ours([texts])
    assert again == published


def test_our_texts_of_it_say_the_same(python):  # noqa: F811
    [published] = ours([FILES])
    [texts] = ours([published], "read")
    assert ours([texts]) == [published]


def test_every_key_of_its_schema_is_read_and_published(python):  # noqa: F811
    known = lines([python, SLURM_CONFIG, "samples"])
    assert len(known) > 190
    judged(python, known)
    texts = ours(known, "read")
    assert ours(texts) == known
