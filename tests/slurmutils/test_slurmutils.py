"""Puts our partitions beside slurmutils, which the Python charms read and write databags with.

    SLURMUTILS="1.2.0 1.3.2" python -m pytest tests/slurmutils

For every key of its schema, and the values that it allows there: what slurmutils writes we read, as JSON and as a line
of slurm.conf; what we write from it slurmutils accepts, and reads as the same. Each version gets an environment in
target/slurmutils-<version>, made once; needs cargo, and the network the first time.
"""
import json
import os
import pathlib
import subprocess
import sys

import pytest

VERSIONS = os.environ.get("SLURMUTILS", "").split()
ROOT = pathlib.Path(__file__).parents[2]
REFERENCE = pathlib.Path(__file__).with_name("reference.py")

# What we deliberately write differently: (key, value) and the reason.
OTHERWISE = {("maxnodes", -1): "unlimited"}  # Slurm refuses -1 in slurm.conf

pytestmark = pytest.mark.skipif(not VERSIONS, reason="SLURMUTILS names no versions")


@pytest.fixture(scope="module", params=VERSIONS or ["none"])
def python(request):
    place = ROOT / "target" / f"slurmutils-{request.param}"
    program = place / "bin/python"
    if not (place / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        subprocess.run([program, "-m", "pip", "install", "--quiet", f"slurmutils=={request.param}"], check=True)
        (place / "complete").touch()
    return program


def lines(command, requests=()):
    text = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT)
    return [json.loads(line) for line in done.stdout.splitlines()]


def exchange(requests):
    return lines(["cargo", "run", "--quiet", "--package", "slurm-conf", "--example", "exchange"], requests)


def samples(python):
    found = lines([python, REFERENCE, "samples"])
    assert len({sample["key"] for sample in found}) > 30
    return [(sample, sample["dict"][sample["key"]]) for sample in found]


def expected(sample, value):
    """The record as we should write it: the same, but for what is otherwise on purpose."""
    record = dict(sample["dict"])
    if not isinstance(value, (list, dict)):
        record[sample["key"]] = OTHERWISE.get((sample["key"], value), value)
    return record


def check(python, requests, known):
    answers = exchange(requests)
    problems = []
    read = []
    for (sample, value), answer in zip(known, answers, strict=True):
        shown = f"{sample['key']}={value!r}"
        if "error" in answer:
            problems.append(f"we on {shown}: {answer}")
        else:
            read.append((shown, expected(sample, value), {"json": answer["json"]}))
    verdicts = lines([python, REFERENCE, "judge"], [request for _, _, request in read])
    for (shown, record, request), verdict in zip(read, verdicts, strict=True):
        if verdict["error"]:
            problems.append(f"slurmutils on {shown}: {verdict['error']}")
        elif verdict["dict"] != record:
            problems.append(f"{shown} became {request['json']}")
    assert not problems, "\n".join(problems)


def test_its_json_is_read_and_ours_is_accepted(python):
    known = samples(python)
    check(python, [{"json": json.loads(sample["json"])} for sample, _ in known], known)


def test_its_lines_of_slurm_conf_are_read(python):
    known = samples(python)
    check(python, [{"text": sample["text"]} for sample, _ in known], known)
