"""Charm files for these tests: a probe that tells what it was called for, with whatever metadata a test asks for."""
import pathlib
import zipfile

import yaml

PROBE = pathlib.Path(__file__).parent / "probe" / "dispatch"
MANIFEST = {"bases": [{"name": "ubuntu", "channel": "24.04", "architectures": ["amd64"]}]}

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


def pack(file, texts, trees=()):
    """Writes a charm file from texts by name, and from directories with the name they get inside."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"manifest.yaml": yaml.safe_dump(MANIFEST), **texts}.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name == "dispatch" else 0o644) << 16
            archive.writestr(entry, text)
        for directory, inside in trees:
            for path in sorted(
                path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts
            ):
                archive.write(path, f"{inside}/{path.relative_to(directory)}")
    return file
