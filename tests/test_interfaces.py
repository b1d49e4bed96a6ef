"""What is written into databags is what the schemas in `interfaces/` allow: our own examples, and every partition that
an operator may ask for. That the code decodes the examples is tested beside it. No machine is needed.
"""
import json
import pathlib
import subprocess

import jsonschema
import pytest

TOP = pathlib.Path(__file__).parent.parent
INTERFACES = TOP / "interfaces"

# (interface, side) → examples that a writer of ours wrote.
OWN = {
    ("sackd", "requirer"): ["controller"],
    ("slurmd", "requirer"): ["controller"],
    ("slurmrestd", "requirer"): ["controller"],
    ("slurmd", "provider"): ["compute", "compute-minimal", "compute-every-kind-of-option"],
    ("slurmd", "unit"): ["unit", "unit-rotating"],
    ("sackd", "unit"): ["unit"],
    ("slurmdbd", "unit"): ["unit"],
    ("slurmrestd", "unit"): ["unit"],
    ("slurmd-peer", "application"): ["application"],
    ("slurmd-peer", "unit"): ["unit"],
    ("slurmctld-peer", "application"): ["application"],
    ("slurmctld-peer", "unit"): ["unit", "unit-left"],
    ("cos_agent", "provider"): ["unit", "unit-without-metrics"],
    ("mount_info", "provider"): ["request"],
    ("mount_info", "requirer"): ["client-mounted"],
    ("slurmdbd", "requirer"): ["controller"],
    ("slurmdbd", "provider"): ["slurmdbd"],
    ("slurmdbd-peer", "application"): ["application"],
    ("slurmdbd-peer", "unit"): ["unit"],
    ("mysql_client", "requirer"): ["request"],
}
# What others write for us, in the forms of today.
FOREIGN = {
    ("slurm-oci-runtime", "provider"): ["runtime", "runtime-before-2026-08"],
    ("smtp", "provider"): ["relay", "relay-without-login"],
    ("mysql_client", "provider"): ["answer", "answer-without-secrets"],
}
# Interfaces whose values are no JSON, and one in which some are.
PLAIN = {"smtp"}
MIXED = {"mysql_client"}
# Those of older or foreign writers: they must not fit, and are read or refused by name all the same.
OTHERS = {
    ("sackd", "requirer"): ["controller-python", "controller-python-before-2026-04"],
    ("slurmdbd", "requirer"): ["controller-python", "controller-python-before-2026-04"],
    ("slurmd", "requirer"): [
        "controller-not-ready",
        "controller-python",
        "controller-python-before-2026-04",
        "controller-specification",
        "controller-static-nodes",
    ],
    ("slurmd", "provider"): ["compute-python", "compute-static-nodes"],
    ("slurmrestd", "requirer"): ["controller-python", "controller-not-ready"],
    ("slurmctld-peer", "unit"): ["unit-unquoted"],
    ("mount_info", "requirer"): ["client-not-ready"],
}
NODESET = json.dumps({"nodeset": "a", "feature": "a"})


def examples(group):
    return [(interface, side, name) for (interface, side), names in group.items() for name in names]


def bag(interface, name):
    return json.loads((INTERFACES / interface / "examples" / f"{name}.json").read_text())


def complaints(interface, side, bag):
    """What a bag has against it. Schemas describe decoded values; what is no JSON fits nothing."""
    schema = json.loads((INTERFACES / interface / "schema.json").read_text())
    # References begin at the root of the file.
    of_side = {"$schema": schema["$schema"], "$defs": schema.get("$defs", {}), **schema["properties"][side]}
    jsonschema.Draft202012Validator.check_schema(schema)
    if interface in PLAIN:
        values = bag
    else:
        values = {key: decoded(text, text if interface in MIXED else None) for key, text in bag.items()}
    errors = jsonschema.Draft202012Validator(of_side).iter_errors(values)
    return [f"{error.json_path}: {error.message}" for error in errors]


def decoded(text, otherwise):
    try:
        return json.loads(text)
    except ValueError:
        return otherwise


@pytest.mark.parametrize("interface, side, name", examples(OWN | FOREIGN))
def test_an_example_of_today_fits(interface, side, name):
    assert complaints(interface, side, bag(interface, name)) == []


@pytest.mark.parametrize("interface, side, name", examples(OTHERS))
def test_an_example_of_another_generation_does_not_fit(interface, side, name):
    assert complaints(interface, side, bag(interface, name))


@pytest.mark.parametrize("interface", sorted(path.name for path in INTERFACES.iterdir()))
def test_no_example_is_forgotten(interface):
    known = {name for group in (OWN, FOREIGN, OTHERS) for of, _, name in examples(group) if of == interface}
    assert {path.stem for path in (INTERFACES / interface / "examples").iterdir()} == known


@pytest.mark.parametrize("interface", sorted(path.name for path in INTERFACES.iterdir()))
def test_an_interface_is_described(interface):
    assert (INTERFACES / interface / "README.md").read_text().startswith(f"# {interface}\n")


def test_every_accepted_partition_fits():
    command = ["cargo", "run", "--quiet", "--package", "slurm-interface", "--example", "accepted_partitions"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=TOP)
    bags = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(bags) >= 40
    assert {json.dumps(bag): found for bag in bags if (found := complaints("slurmd", "provider", bag))} == {}


@pytest.mark.parametrize(
    "partition",
    [
        {"partitionname": "a b", "nodes": ["a b"]},
        {"partitionname": "a"},
        {"partitionname": "a", "nodes": ["a", "b"]},
        {"partitionname": "a", "nodes": ["a"], "default": "yes"},
        {"partitionname": "a", "nodes": ["a"], "state": "open"},
        {"partitionname": "a", "nodes": ["a"], "newkey": 7},
    ],
    ids=json.dumps,
)
def test_the_schema_refuses(partition):
    assert complaints("slurmd", "provider", {"partition": json.dumps(partition), "nodeset": NODESET})
