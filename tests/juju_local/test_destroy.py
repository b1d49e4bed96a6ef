"""Destroying a model at any moment leaves nothing of it on the host, and in order it waits for those who are not
done."""
import subprocess

import pytest

from lab import PHASES, Event, eventually, for_a_while


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("force", [True, False], ids=["forced", "in-order"])
def test_a_model_destroyed_during_a_deploy_leaves_nothing(new_lab, probe, force, phase):
    lab = new_lab()
    lab.juju.deploy(probe, "server", num_units=2)
    lab.juju.deploy(probe, "client")
    lab.juju.integrate("server:serve", "client:use")
    lab.await_phase("server/0", phase)
    lab.destroy(force=force)


def test_a_model_destroyed_before_anything_is_in_it_leaves_nothing(new_lab):
    new_lab().destroy(force=False)


def test_a_model_with_lost_machines_is_destroyed_by_force(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web", num_units=3)
    lab.settle(web=3)
    lab.machine("poweroff", "web/0")
    lab.machine("freeze", "web/1")
    lab.machine("cut", "web/2")
    lab.destroy()


def test_in_order_it_waits_for_a_hook(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "server")
    lab.juju.deploy(probe, "client")
    lab.juju.integrate("server:serve", "client:use")
    lab.settle(server=1, client=1)
    lab.hold("client/0", "use-relation-departed")
    # What the leaving units log is read while the model is there: it goes with the model.
    words = ["juju", "destroy-model", lab.model, "--no-prompt"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as destroying:
        try:
            lab.await_begin("client/0", "use-relation-departed")
            eventually(
                lambda: sorted(lab.juju.status().get_units("server")), lambda seen: not seen, "units of server", 40
            )
            for_a_while(
                lambda: sorted(lab.juju.status().get_units("client")), lambda seen: seen == ["client/0"], "units", 2
            )
            assert destroying.poll() is None
            assert lab.journal("client/0")[-1] == Event("begin", "use-relation-departed", "server/0", "client/0")
            assert Event("end", "stop", "-", "-") in lab.logged("server/0")
            lab.release("client/0", "use-relation-departed")
            said, _ = destroying.communicate(timeout=60)
        except BaseException:
            destroying.kill()
            raise
    assert destroying.returncode == 0, said
    lab.assert_gone()


def test_a_time_limit_ends_the_wait_only(new_lab, probe):
    lab = new_lab()
    lab.juju.deploy(probe, "web")
    lab.settle(web=1)
    lab.hold("web/0", "stop")
    words = ["juju", "destroy-model", lab.model, "--no-prompt", "--timeout", "2s"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0, done.stderr
    assert "web/0" in lab.juju.status().get_units("web")
    lab.destroy()
