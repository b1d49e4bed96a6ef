"""Runs in an environment that has slurmutils, and nothing of ours.

`samples` prints partitions with a value for every key of its schema: as a dictionary, as its JSON and as its line of
slurm.conf. `judge` reads partitions as JSON, one per line, and prints for each what slurmutils says against it, or
null.
"""
import json
import sys

import slurmutils
from slurmutils.core import schema

RULES = schema.PARTITION_MODEL_SCHEMA["properties"]
NAME = {"partitionname": "compute", "nodes": ["compute"]}


def values(rule):
    """Values that a rule of the schema allows: every word, both truths, the ends of every range."""
    if "enum" in rule:
        return list(rule["enum"])
    if "const" in rule:
        return [rule["const"]]
    for several in ("anyOf", "oneOf"):
        if several in rule:
            return [value for option in rule[several] for value in values(option)]
    kinds = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
    return [value for kind in kinds for value in of_type(kind, rule)]


def of_type(kind, rule):
    match kind:
        case "boolean":
            return [True, False]
        case "integer" | "number":
            low = rule.get("minimum", 1)
            return sorted({low, low + 1, 7, rule.get("maximum", 1000)})
        case "string":
            return ["word"]
        case "array":
            items = values(rule.get("items", {"type": "string"}))
            return [items[:1], items[:2]] if len(items) > 1 else [items]
        case "object":
            return [{"CPU": 1.0, "GRES/gpu": 2.5}]
    raise ValueError(f"no values for {rule}")


def samples():
    for key, rule in RULES.items():
        if key in NAME:
            continue
        for value in values(rule):
            if rule == RULES["maxtime"] and value == "word":
                value = "1-12:30:00"
            record = slurmutils.Partition.from_dict({**NAME, key: value})
            yield {"key": key, "dict": record.dict(), "json": record.json(), "text": str(record)}


def judge(line):
    try:
        record = slurmutils.Partition.from_json(json.dumps(json.loads(line)["json"]))
        return {"dict": record.dict(), "error": None}
    except Exception as error:  # whatever it raises would be a hook error of the Python charms
        return {"dict": None, "error": f"{type(error).__name__}: {error}"}


if sys.argv[1] == "samples":
    for sample in samples():
        print(json.dumps(sample))
else:
    for line in sys.stdin:
        print(json.dumps(judge(line)))
