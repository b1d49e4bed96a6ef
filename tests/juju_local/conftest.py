"""Models for the tests of juju-local itself: made for each test file, shown when something failed, and gone without a
trace.

With `RUN_ALL=1` the tests marked `slow` run too: those that wait for a lease or a time limit of Juju's to run out.
"""
import contextlib
import os
import pathlib

import jubilant
import pytest

import charms
import host
import lab

HERE = pathlib.Path(__file__).parent
LOG_LINES = 120


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: waits a minute or more for a time limit of Juju's; run with RUN_ALL=1")


def pytest_collection_modifyitems(items):
    ours = [item for item in items if HERE in item.path.parents]
    for item in ours:
        if not host.is_juju_local():
            item.add_marker(pytest.mark.skip(reason="the `juju` on PATH is not juju-local"))
        elif item.get_closest_marker("slow") and not os.environ.get("RUN_ALL"):
            item.add_marker(pytest.mark.skip(reason="slow: run with RUN_ALL=1"))


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    """The charm file of the probe."""
    return charms.probe(tmp_path_factory.mktemp("charms"))


@pytest.fixture(scope="module")
def new_lab(request):
    """Makes models. At the end of the test file they are destroyed, and nothing of them may be left on the host."""
    labs = []
    failed_before = request.session.testsfailed

    def make(**options):
        labs.append(lab.Lab(**options))
        return labs[-1]

    yield make
    with contextlib.ExitStack() as rest:
        # One that cannot be destroyed must not keep the others alive.
        for one in labs:
            if one.exists:
                rest.callback(one.destroy)
                if request.session.testsfailed > failed_before:
                    show(one)


def show(one):
    """Prints what a person would look at first; pytest shows it with the failure."""
    for arguments in (["status"], ["debug-log", "--replay", "--no-tail", "--limit", str(LOG_LINES)]):
        try:
            text = one.juju.cli(*arguments)
        except jubilant.CLIError as error:
            text = str(error)
        print(f"--- {one.model}: {' '.join(arguments)}\n{text}")
