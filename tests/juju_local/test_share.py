"""A directory that machines of a model share: given to them, made read-only, taken away, and given back."""
import jubilant
import pytest

from lab import eventually

NAME, MOUNT = "data", "/srv/shared data"


@pytest.fixture(scope="module")
def lab(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web", num_units=3)
    lab.settle(web=3)
    for unit in ("web/0", "web/1"):
        lab.local("share", "attach", NAME, lab.machine_of(unit), MOUNT)
    return lab


def share(lab, verb, unit):
    lab.local("share", verb, NAME, lab.machine_of(unit))


def write(lab, unit, name):
    lab.on(unit, f"echo {unit} >\"{MOUNT}/{name}\"")


def read(lab, unit, name):
    return lab.on(unit, f"cat \"{MOUNT}/{name}\"").strip()


def is_mounted(lab, unit):
    try:
        lab.on(unit, f"mountpoint -q \"{MOUNT}\"")
    except jubilant.CLIError:
        return False
    return True


def test_what_one_machine_writes_the_other_reads(lab):
    write(lab, "web/0", "first")
    assert read(lab, "web/1", "first") == "web/0"
    assert not is_mounted(lab, "web/2"), "only chosen machines have it"


def test_a_read_only_one_is_read_only_for_that_machine(lab):
    share(lab, "readonly", "web/1")
    with pytest.raises(jubilant.CLIError, match="Read-only file system"):
        write(lab, "web/1", "second")
    write(lab, "web/0", "second")
    assert read(lab, "web/1", "second") == "web/0"
    share(lab, "writable", "web/1")
    write(lab, "web/1", "second")
    assert read(lab, "web/0", "second") == "web/1"


def test_a_lost_one_is_gone_for_that_machine_only(lab):
    share(lab, "lose", "web/1")
    assert not is_mounted(lab, "web/1")
    # What is written meanwhile lands on the machine's own disk, as with a real mount that is gone.
    write(lab, "web/1", "astray")
    write(lab, "web/0", "third")
    assert read(lab, "web/0", "first") == "web/0"
    share(lab, "restore", "web/1")
    assert read(lab, "web/1", "third") == "web/0"
    with pytest.raises(jubilant.CLIError):
        read(lab, "web/1", "astray")


def test_it_is_there_again_after_every_kind_of_boot(lab):
    lab.machine("reboot", "web/0")
    lab.machine("poweroff", "web/1")
    lab.machine("poweron", "web/1")
    for unit in ("web/0", "web/1"):
        eventually(lambda: is_mounted(lab, unit), lambda seen: seen, f"{MOUNT} on {unit}", 20)
        assert read(lab, unit, "first") == "web/0"
    lab.settle(web=3)


def test_a_detached_one_stays_away(lab):
    share(lab, "detach", "web/1")
    assert not is_mounted(lab, "web/1")
    assert read(lab, "web/0", "first") == "web/0"
    lab.machine("reboot", "web/1")
    lab.settle(web=3)
    assert not is_mounted(lab, "web/1")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["attach", "../other", "0", "/srv"], "is not a name"),
        (["attach", NAME, "99", "/srv"], "has no machine"),
        (["attach", NAME, "0", "srv"], "absolute path"),
        (["lose", "never-attached", "0"], "not attached"),
    ],
)
def test_nonsense_is_refused(lab, words, complaint):
    with pytest.raises(AssertionError, match=complaint):
        lab.local("share", *words)
