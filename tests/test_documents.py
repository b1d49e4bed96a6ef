"""What the README says about options and actions is what the charms declare. No machine is needed."""
import pathlib
import re

import pytest
import yaml

TOP = pathlib.Path(__file__).parent.parent
CHARMS = ("slurmctld", "slurmd", "sackd", "slurmdbd", "slurmrestd")
# Charms that share the actions about nodes.
OF_NODES = ("slurmctld", "slurmd")


def charmcraft(name):
    return yaml.safe_load((TOP / "charms" / name / "charmcraft.yaml").read_text())


def rows(heading, charm):
    """Cells of a charm's rows in the table below a heading of the README."""
    section = (TOP / "README.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith(f"| {charm} |")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("charm", CHARMS)
def test_options_are_those_that_the_charm_has(charm):
    declared = {
        name: (option["type"], str(option.get("default", "")).lower())
        for name, option in charmcraft(charm)["config"]["options"].items()
    }
    written = {quoted(row[1])[0]: (row[2], row[3].strip("`")) for row in rows("Options", charm)}
    assert written == declared


@pytest.mark.parametrize("charm", CHARMS)
def test_actions_are_those_that_the_charm_has(charm):
    declared = {
        name: (bool(action.get("parallel")), sorted(action.get("params", {})))
        for name, action in charmcraft(charm)["actions"].items()
    }
    written = {quoted(row[1])[0]: ("∥" in row[1], sorted(quoted(row[2]))) for row in rows("Actions", charm)}
    assert written == declared


@pytest.mark.parametrize("charm", CHARMS)
def test_answers_are_those_that_the_code_gives(charm):
    """Every key that an action can answer with is in the README."""
    own = TOP / "charms" / charm / "src"
    places = (own, TOP / "crates" / "slurm-unit" / "src") if charm in OF_NODES else (own,)
    files = [path for place in places for path in place.glob("actions/*.rs") if "test" not in path.name]
    files.append(own / "actions.rs")
    code = "".join(path.read_text() for path in files)
    given = set(re.findall(r'\.with\(\s*"([a-z.-]+)"', code))
    assert given, "no answer was found in the code at all"
    written = {key for row in rows("Actions", charm) for key in quoted(row[3])}
    assert given <= written, f"not in the README: {sorted(given - written)}"


def test_links_lead_somewhere():
    for document in [*TOP.glob("*.md"), *(TOP / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text()):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"
