"""The same failures on our controllers and on bare ones, side by side. `cargo xtask bench ha` starts it, and makes a
table.

| environment | meaning |
| --- | --- |
| `HA_RESULTS` | file that gets a line of JSON for each story told |
| `HA_ROUNDS` | how often each story is told (default 1) |
| `HA_STORIES` | names of stories, with blanks between them (default: all of `stories.py`) |
"""
import concurrent.futures
import json
import os
import pathlib
import time

import pytest

import bare
import ha
import host
import stories

pytestmark = pytest.mark.skipif(not host.is_juju_local(), reason="needs faults that only juju-local can make")

ROUNDS = int(os.environ.get("HA_ROUNDS") or 1)
NAMES = (os.environ.get("HA_STORIES") or " ".join(story.__name__ for story in stories.ALL)).split()


def test_both_sides(new_cluster, tmp_path_factory):
    results = pathlib.Path(os.environ.get("HA_RESULTS") or tmp_path_factory.mktemp("results") / "ha.jsonl")
    directory = tmp_path_factory.mktemp("charms")
    sites = {}
    for side, kind in (("bare", bare.Bare), ("ours", ha.Charmed)):
        sites[side] = kind(ha.Wide(new_cluster().juju))
        sites[side].deploy(directory)
    told = 0
    for number in range(ROUNDS):
        for name in NAMES:
            # At the same time, so that whatever else the host does hits both.
            with concurrent.futures.ThreadPoolExecutor() as pool:
                begun = {side: pool.submit(tell, site, getattr(stories, name)) for side, site in sites.items()}
            for side, figures in begun.items():
                sample = {"story": name, "side": side, "round": number, **figures.result()}
                print(json.dumps(sample), flush=True)
                with results.open("a") as file:
                    file.write(json.dumps(sample) + "\n")
                told += "failed" not in sample
    assert told, "not one story came to its end"


def tell(site, story):
    """Figures of one story, or why it has none."""
    begun = time.monotonic()
    try:
        job = site.start_beating()
        with site.submitting() as tally:
            story(site, tally)
        site.assert_beats(job)
        return tally.summary() | {"seconds": round(time.monotonic() - begun)}
    except Exception as error:
        site.repair()
        site.recover(site.order()[0])
        return {"failed": f"{type(error).__name__}: {error}"[:500]}
    finally:
        site.clear_jobs()
