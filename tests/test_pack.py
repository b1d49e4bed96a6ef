"""The charm files: what is in them, how large they are, and that charmcraft itself would make the same."""
import os
import pathlib
import shutil
import struct
import subprocess
import zipfile

import pytest
import yaml

from cluster import charm_file

CHARMS = ("slurmctld", "slurmd")
LARGEST = 2_000_000
TOP = pathlib.Path(__file__).parent.parent
PROGRAM_INTERPRETER = 3


@pytest.mark.parametrize("name", CHARMS)
def test_a_charm_file_is_small(name):
    size = charm_file(name).stat().st_size
    assert size <= LARGEST, f"{size} bytes"


@pytest.mark.parametrize("name", CHARMS)
def test_it_has_what_juju_and_the_store_want(name):
    with zipfile.ZipFile(charm_file(name)) as charm:
        names = set(charm.namelist())
        assert names == {
            "metadata.yaml",
            "manifest.yaml",
            "config.yaml",
            "actions.yaml",
            "dispatch",
            "icon.svg",
            "LICENSE",
        }
        assert charm.getinfo("dispatch").external_attr >> 16 & 0o777 == 0o755


@pytest.mark.parametrize("name", CHARMS)
def test_its_program_is_static(name):
    with zipfile.ZipFile(charm_file(name)) as charm:
        program = charm.read("dispatch")
    assert program[:6] == b"\x7fELF\x02\x01"
    table, size, count = (*struct.unpack_from("<Q", program, 32), *struct.unpack_from("<HH", program, 54))
    kinds = [struct.unpack_from("<I", program, table + index * size)[0] for index in range(count)]
    assert kinds and PROGRAM_INTERPRETER not in kinds, "it asks for a loader"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and mounts of its own")
@pytest.mark.parametrize("name", CHARMS)
def test_charmcraft_makes_the_same_charm(name, tmp_path):
    """Byte for byte, but for the YAML of charmcraft (compared by content) and what it says about itself and the
    time."""
    done = subprocess.run([TOP / "charmcraft" / "pack", name, tmp_path], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    (packed,) = tmp_path.glob("*.charm")
    assert packed.stat().st_size <= LARGEST
    with zipfile.ZipFile(packed) as theirs, zipfile.ZipFile(charm_file(name)) as ours:
        assert sorted(theirs.namelist()) == sorted(ours.namelist())
        for entry in ours.namelist():
            assert theirs.getinfo(entry).external_attr >> 16 == ours.getinfo(entry).external_attr >> 16, entry
            one, other = theirs.read(entry), ours.read(entry)
            if entry.endswith(".yaml"):
                assert without_charmcraft(yaml.safe_load(one)) == yaml.safe_load(other), entry
            else:
                assert one == other, entry


def without_charmcraft(document):
    """The manifest without what charmcraft writes about itself, the time, and its own analysis."""
    return {
        key: value
        for key, value in document.items()
        if key not in ("charmcraft-version", "charmcraft-started-at", "analysis")
    }
