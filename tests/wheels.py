"""Python packages that tests need beside their own: kept below `target`, and made again when their list changes."""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

TARGET = os.environ.get("CARGO_TARGET_DIR") or pathlib.Path(__file__).parents[1] / "target"
CACHE = pathlib.Path(TARGET).resolve() / "juju-local-tests"


def kept(name, requirements, make, flavour=""):
    """The directory made from that list of packages; a half-made one never counts."""
    digest = hashlib.sha256(requirements.read_bytes() + flavour.encode()).hexdigest()[:12]
    directory = CACHE / f"{name}-{digest}"
    complete = directory / "complete"
    if not complete.exists():
        for stale in CACHE.glob(f"{name}-*"):
            shutil.rmtree(stale)
        directory.mkdir(parents=True)
        make(directory)
        complete.touch()
    return directory


def for_charm(requirements, version, name="charm"):
    """Packages for a charm on machines with another Python than this one. The list has all that they pull in."""

    def make(directory):
        options = ["--only-binary=:all:", "--implementation=cp", f"--python-version={version}", "--no-compile"]
        # What is pulled in would be looked up for this Python.
        options.append("--no-deps")
        pip(sys.executable, "install", *options, f"--target={directory}", "--requirement", str(requirements))

    return kept(name, requirements, make, version)


def programs(name, requirements):
    """Packages with their own interpreter; `bin` has it."""

    def make(directory):
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True, timeout=300)
        pip(str(directory / "bin" / "python"), "install", "--requirement", str(requirements))

    return kept(name, requirements, make, sys.version)


def pip(interpreter, *words):
    command = [interpreter, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
