"""charmcraft accepts the charm files that we pack: every check that applies to them is passed."""
import json
import os
import pathlib
import subprocess

import pytest

import wheels

HERE = pathlib.Path(__file__).parent
DIST = HERE.parent.parent / "dist"
# What says something about a charm in Python has nothing to say about ours; two checks name language and framework.
ACCEPTED = {"ok", "nonapplicable", "unknown"}
MUST_BE_OK = {"metadata", "juju-actions", "juju-config", "naming-conventions"}


@pytest.fixture(scope="module")
def charmcraft():
    return wheels.programs("charmcraft", HERE / "charmcraft-requirements.txt") / "bin" / "charmcraft"


def analyse(charmcraft, file, home):
    environment = {**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "CHARMCRAFT_SOFT_ERRORS": "0"}
    words = [str(charmcraft), "analyse", "--format", "json", "--force", str(file)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment, cwd=home)


@pytest.mark.parametrize("name", ["sackd", "slurmctld", "slurmd", "slurmdbd", "slurmrestd"])
def test_charmcraft_accepts_the_packed_charm(charmcraft, name, tmp_path):
    file = pathlib.Path(os.environ.get(f"{name.upper()}_CHARM") or DIST / f"{name}_amd64.charm")
    assert file.is_file(), f"{file} is missing: run `cargo xtask pack`"
    done = analyse(charmcraft, file, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    results = {one["name"]: one["result"] for one in json.loads(done.stdout)}
    assert set(results.values()) <= ACCEPTED, results
    assert {results.get(check) for check in MUST_BE_OK} == {"ok"}, results


def test_charmcraft_does_find_fault(charmcraft, tmp_path):
    """It must be able to refuse, or its consent means nothing."""
    import charms

    file = charms.pack(tmp_path / "broken.charm", {"metadata.yaml": "name: broken\n", "dispatch": "#!/bin/sh\n"})
    done = analyse(charmcraft, file, tmp_path)
    assert done.returncode != 0 or '"errors"' in done.stdout, done.stdout
