"""Charm files that tests make by themselves, out of texts and directories. Ours are made by `cargo xtask pack`."""
import pathlib
import zipfile

import yaml

CHARMS = pathlib.Path(__file__).parent / "charms"
MANIFEST = {"bases": [{"name": "ubuntu", "channel": "24.04", "architectures": ["amd64"]}]}


def of_tests(directory, name):
    """Packs a charm of `tests/charms`."""
    texts = {path.name: path.read_text() for path in sorted((CHARMS / name).iterdir()) if path.is_file()}
    return pack(directory / f"{name}.charm", texts)


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
