"""Loads a slurm.conf, adds one partition and writes it back, and prints how many nanoseconds that took. Runs with
slurmutils alone.

    python add_partition.py <file> <times>
"""
import pathlib
import sys
import time

from slurmutils import Partition, SlurmConfig, slurmconfig

file, times = pathlib.Path(sys.argv[1]), int(sys.argv[2])
original = file.read_text()
for _ in range(times):
    file.write_text(original)
    begun = time.monotonic_ns()
    with slurmconfig.edit(file) as conf:
        conf.partitions["added"] = Partition(partitionname="added", nodes=["added"], maxtime=60, state="up")
    print(time.monotonic_ns() - begun, flush=True)
assert "added" in SlurmConfig.from_str("\n".join(file.read_text().splitlines()[-3:])).partitions
