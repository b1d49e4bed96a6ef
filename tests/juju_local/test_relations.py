"""What `juju integrate` refuses, in the words of either line."""
import jubilant
import pytest

import charms

LIMITED = {"use": {"interface": "probe-link", "limit": 1}}


@pytest.mark.parametrize("release", ["3.6", "4.0"])
def test_an_endpoint_has_no_more_relations_than_its_charm_allows(new_lab, probe, release, tmp_path):
    lab = new_lab(release=release)
    lab.juju.deploy(charms.probe(tmp_path, name="picky", requires=LIMITED), "picky")
    for name in ("one", "two"):
        lab.juju.deploy(probe, name)
    lab.juju.integrate("picky:use", "one:serve")
    words = "establishing a new relation for picky:use would exceed its maximum relation limit of 1"
    assert words in refusal(lab, "picky:use", "two:serve")
    assert "relation picky:use one:serve: already exists" in refusal(lab, "picky:use", "one:serve")
    unfit = {"3.6": "ERROR no relations found", "4.0": "no compatible endpoints found between applications"}
    assert unfit[release] in refusal(lab, "one:use", "two:use")
    lab.juju.integrate("one:use", "two:serve")
    lab.destroy()


def refusal(lab, one, other):
    with pytest.raises(jubilant.CLIError) as refused:
        lab.juju.integrate(one, other)
    return refused.value.stderr
