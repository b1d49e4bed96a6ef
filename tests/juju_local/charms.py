"""Charm files for these tests: a probe that tells what it was called for, with whatever metadata a test asks for."""
import pathlib

import yaml

from packing import pack

PROBE = pathlib.Path(__file__).parent / "probe" / "dispatch"

# Two applications of one charm can be integrated with each other, and each has a peer relation.
ENDPOINTS = {
    "provides": {"serve": {"interface": "probe-link"}},
    "requires": {"use": {"interface": "probe-link"}},
    "peers": {"crew": {"interface": "probe-crew"}},
}


def probe(directory, name="probe", **metadata):
    """Packs the probe; keywords replace or add parts of its metadata, `None` leaves a part out."""
    document = {
        "name": name,
        "summary": "a probe",
        "description": "Tells what it was called for.",
        **ENDPOINTS,
        **metadata,
    }
    return pack(
        directory / f"{name}.charm",
        {
            "metadata.yaml": yaml.safe_dump({key: value for key, value in document.items() if value is not None}),
            "config.yaml": yaml.safe_dump(
                {"options": {"word": {"type": "string", "default": "", "description": "any"}}}
            ),
            "actions.yaml": yaml.safe_dump({"poke": {"description": "Does what was left for it."}}),
            "dispatch": PROBE.read_text(),
        },
    )
