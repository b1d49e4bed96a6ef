"""Charm files that tests make: of texts and directories, with the packages that a charm in Python takes along."""
import pathlib
import shutil
import subprocess
import zipfile

import yaml

import wheels

HERE = pathlib.Path(__file__).parent
MANIFEST = {"bases": [{"name": "ubuntu", "channel": "24.04", "architectures": ["amd64"]}]}
# One list for all charms that are written with ops.
OPS = HERE / "juju_local" / "ops_charm"


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


def pack_test_charm(directory, name):
    """Packs a charm of `tests/charms`. One with a `charm.py` is written with ops and takes it along, and beside it what
    the charm lists in its `requirements.txt`."""
    source = HERE / "charms" / name
    texts = {path.name: path.read_text() for path in source.iterdir() if path.is_file()}
    if "charm.py" not in texts:
        return pack(directory / f"{name}.charm", texts)
    texts["src/charm.py"] = texts.pop("charm.py")
    texts["dispatch"] = (OPS / "dispatch").read_text()
    trees = [(ops_for_machines(), "venv")]
    if texts.pop("requirements.txt", None):
        more = wheels.for_charm(source / "requirements.txt", python_of_machines(), f"{name}-charm")
        trees.append((more, "lib"))
    return pack(directory / f"{name}.charm", texts, trees)


def ops_for_machines():
    """The directory with ops and what it needs, for the Python of juju-local's machines."""
    return wheels.for_charm(OPS / "requirements.txt", python_of_machines())


def python_of_machines():
    """Version of the Python in the image, such as 3.13."""
    command = [str(pathlib.Path(shutil.which("juju")).parent / "juju-local"), "image", "build"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    image = pathlib.Path(done.stdout.split()[-1])
    return (image / "usr/bin/python3").readlink().name.removeprefix("python")
