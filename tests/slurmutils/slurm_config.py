"""Runs in an environment that has slurmutils, and nothing of ours.

`judge` reads configurations as JSON, one object of file names and records per line, and prints for each its files as
slurmutils writes them, or its complaint. `samples` prints a record with one value for each key of its schema.
"""
import json
import sys

import slurmutils
from slurmutils.core import schema

# What slurmutils has wrong: it refuses it (1.2.0), fails when it writes it, or writes what Slurm cannot read.
WRONG = "schedulerparameters hashplugin prepparameters suspendexcnodes gpufreqdef preemptmode topologyplugin".split()
NESTED = ("downnodes", "frontendnodes", "nodes", "nodesets", "partitions")


def value(rule):
    """A value that a rule of the schema allows."""
    if "enum" in rule:
        return rule["enum"][0]
    if "oneOf" in rule:
        return value(rule["oneOf"][0])
    match rule["type"]:
        case "boolean":
            return True
        case "integer":
            return max(rule.get("minimum", 1), 1)
        case "string":
            return "word"
        case "array":
            return [value(rule["items"])]
        case "object" if "properties" in rule:
            return {key: value(inner) for key, inner in rule["properties"].items()}
        case "object":
            return {"some": value(next(iter(rule["patternProperties"].values())))}
    raise ValueError(f"no value for {rule}")


def judge(config):
    try:
        records = {name: slurmutils.SlurmConfig.from_dict(record) for name, record in config.items()}
        return {"texts": {name: str(record) for name, record in records.items()}}
    except Exception as error:  # whatever it raises would be a hook error of the Python charms
        return {"error": f"{type(error).__name__}: {error}"}


if sys.argv[1] == "samples":
    for key, rule in schema.SLURM_CONFIG_MODEL_SCHEMA["properties"].items():
        # A file that is included has to be there, and "word" is no name of one.
        if key not in NESTED and key not in WRONG and key != "include":
            print(json.dumps({"slurm.conf": {key: value(rule)}}))
else:
    for line in sys.stdin:
        print(json.dumps(judge(json.loads(line))))
