//! What goes wrong while a unit leaves: daemons, agents and machines come and go, news are lost, a change is under way.

use crate::departures::{REASON, SLURMCTLD, SLURMD, both, busy};
use crate::world::World;
use charm_testing::{Hook, Model};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[test]
fn a_slurmctld_that_is_away_is_waited_for() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        let (controller, slurm) = (world.machine("slurmctld/0").clone(), world.slurm.clone());
        controller.crash(SLURMCTLD);
        world.model.while_waiting(move |_, _, count| match count {
            30 => slurm.end_job(job),
            40 => controller.revive(SLURMCTLD),
            _ => {}
        });
        world.remove("compute/1");
        world.model.run_hooks();
        world.model.settle();
        world.assert_removed("compute/1");
        assert!(world.machine("compute/1").waited().as_secs() >= 40);
        world.assert_well();
    }
}

#[test]
fn the_status_says_that_slurmctld_does_not_answer() {
    let world = World::of_apps(Model::new(), &[("compute", 2)]);
    let controller = world.machine("slurmctld/0").clone();
    controller.crash(SLURMCTLD);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let own = seen.clone();
    world.model.while_waiting(move |model, unit, count| {
        own.lock().unwrap().push(model.status(unit).unwrap().message().to_owned());
        if count == 3 {
            controller.revive(SLURMCTLD);
        }
    });
    world.see_off("compute/1");
    assert_eq!(seen.lock().unwrap()[0], "leaving: slurmctld does not answer");
    world.assert_well();
}

#[test]
fn neither_a_silent_slurmctld_nor_a_silent_juju_reads_as_a_controller_that_is_gone() {
    let (world, job) = busy(Model::new(), 2, "compute-1");
    let (controller, slurm) = (world.machine("slurmctld/0").clone(), world.slurm.clone());
    world.model.while_waiting(move |model, _, count| match count {
        1 => {
            controller.crash(SLURMCTLD);
            model.refuse_tool(Some("goal-state"));
        }
        2 => slurm.end_job(job),
        50 => {
            controller.revive(SLURMCTLD);
            model.refuse_tool(None);
        }
        _ => {}
    });
    world.see_off("compute/1");
    assert!(world.machine("compute/1").waited().as_secs() > 50);
    world.assert_well();
}

#[test]
fn slurmctld_may_be_restarted_and_reconfigured_at_any_moment() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        let (controller, slurm) = (world.machine("slurmctld/0").clone(), world.slurm.clone());
        let pauses = world.while_waiting(move |_, _, count| {
            match count % 3 {
                0 => drop(controller.run("systemctl", &["restart", "--", SLURMCTLD])),
                1 => drop(controller.ask_scontrol(&["reconfigure"])),
                _ => {
                    controller.crash(SLURMCTLD);
                    controller.revive(SLURMCTLD);
                }
            }
            if count == 9 {
                slurm.end_job(job);
            }
        });
        world.see_off("compute/1");
        let states = ["MIXED", "IDLE"].map(|state| format!("{state}+DRAIN+DYNAMIC_NORM ({REASON})"));
        assert_eq!(pauses.nodes("compute/1"), states);
        world.assert_well();
    }
}

#[test]
fn a_node_that_is_removed_just_after_a_start_of_slurmctld_does_not_come_back() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2)]);
        let controller = world.machine("slurmctld/0");
        controller.crash(SLURMCTLD);
        controller.revive(SLURMCTLD);
        let pauses = world.while_waiting(|_, _, _| {});
        world.see_off("compute/1");
        assert_eq!(pauses.statuses("compute/1"), ["waiting: leaving: slurmctld was just started"]);
        world.assert_well();
    }
}

#[test]
fn a_slurmd_that_has_crashed_is_started_to_leave() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        world.machine("compute/1").crash(SLURMD);
        world.end_while_waiting(job, 3);
        world.see_off("compute/1");
        world.assert_well();
    }
}

#[test]
fn a_slurmd_that_crashes_while_its_unit_waits_is_started_again() {
    let (world, job) = busy(Model::new(), 2, "compute-1");
    let (machine, slurm) = (world.machine("compute/1").clone(), world.slurm.clone());
    world.while_waiting(move |_, _, count| match count {
        2 => machine.crash(SLURMD),
        6 => slurm.end_job(job),
        _ => {}
    });
    world.see_off("compute/1");
    world.assert_well();
}

#[test]
fn an_agent_that_was_restarted_before_or_meanwhile_changes_nothing() {
    for early in [true, false] {
        for model in both() {
            let (world, job) = busy(model, 2, "compute-1");
            let slurm = world.slurm.clone();
            if early {
                world.model.restart_agent(&"compute/1".parse().unwrap()).unwrap();
                world.model.restart_agent(&"slurmctld/0".parse().unwrap()).unwrap();
            }
            world.while_waiting(move |model, unit, count| match count {
                2 => model.restart_agent(&unit.parse().unwrap()).unwrap(),
                5 => slurm.end_job(job),
                _ => {}
            });
            world.see_off("compute/1");
            world.assert_well();
        }
    }
}

#[test]
fn a_machine_that_reboots_while_its_unit_waits_goes_on_where_it_was() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        let (slurm, pauses) = (world.slurm.clone(), AtomicUsize::new(0));
        let seen = world.while_waiting(move |model, unit, _| match pauses.fetch_add(1, Ordering::SeqCst) {
            2 => model.reboot(&unit.parse().unwrap()),
            5 => slurm.end_job(job),
            _ => {}
        });
        world.see_off("compute/1");
        assert!(seen.nodes("compute/1").iter().all(|node| node.ends_with(&format!("({REASON})"))));
        world.assert_well();
    }
}

#[test]
fn a_controller_s_machine_that_reboots_in_the_middle_changes_nothing() {
    let (world, job) = busy(Model::new(), 2, "compute-1");
    let slurm = world.slurm.clone();
    world.while_waiting(move |model, _, count| match count {
        2 => model.reboot(&"slurmctld/0".parse().unwrap()),
        6 => slurm.end_job(job),
        _ => {}
    });
    world.see_off("compute/1");
    world.assert_well();
}

#[test]
fn a_departure_that_nobody_heard_of_leaves_no_record() {
    for model in both() {
        let world = World::of_apps(model, &[("compute", 2)]);
        for unit in ["slurmctld/0", "compute/0"] {
            world.model.lose_departed(&unit.parse().unwrap());
        }
        world.see_off("compute/1");
        world.assert_well();
    }
}

fn configure(world: &World, unit: &str) {
    let action = Hook::action("node-config", json!({"parameters": "RealMemory=900 Weight=7"}));
    assert!(world.model.run(&unit.parse().unwrap(), &action).unwrap().succeeded);
}

#[test]
fn a_node_config_that_waits_for_a_job_is_not_applied_to_a_node_that_leaves() {
    for model in both() {
        let (world, job) = busy(model, 2, "compute-1");
        configure(&world, "compute/1");
        world.ticks(1);
        let pauses = world.end_while_waiting(job, 3);
        world.see_off("compute/1");
        assert_eq!(pauses.nodes("compute/1"), [format!("MIXED+DRAIN+DYNAMIC_NORM ({REASON})")]);
        world.assert_well();
    }
}

#[test]
fn a_node_config_killed_anywhere_is_no_hindrance_to_a_unit_that_leaves() {
    for at in 0.. {
        let world = World::of_apps(Model::new(), &[("compute", 2)]);
        world.model.knife().kill_before(at);
        let action = Hook::action("node-config", json!({"parameters": "RealMemory=900"}));
        world.model.run(&"compute/1".parse().unwrap(), &action).unwrap();
        if world.model.knife().spare() {
            assert!(at > 5, "only {at} effects");
            break;
        }
        world.see_off("compute/1");
        world.assert_well();
    }
}

#[test]
fn a_node_config_is_applied_when_the_relation_is_there_again() {
    for model in both() {
        let (world, job) = busy(model, 1, "compute-0");
        configure(&world, "compute/0");
        world.ticks(1);
        world.model.remove_relation(&world.relation("compute").unwrap());
        world.ticks(2);
        assert_eq!(world.slurm.reason("compute-0"), REASON);
        world.integrate();
        world.ticks(6);
        assert_eq!(world.slurm.nodes()["compute-0"], "MIXED+DYNAMIC_NORM");
        world.slurm.end_job(job);
        world.ticks(2);
        world.model.settle();
        assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM");
        assert!(shown(&world).contains("\"real_memory\":900"), "{}", shown(&world));
        world.assert_well();
    }
}

fn shown(world: &World) -> String {
    world.controller().ask_scontrol(&["show", "node", "compute-0", "--json"]).unwrap()
}

#[test]
fn a_node_config_killed_anywhere_before_the_relation_ends_and_comes_back_is_applied() {
    for at in 0.. {
        let world = World::of_apps(Model::new(), &[("compute", 1)]);
        world.model.knife().kill_before(at);
        let action = Hook::action("node-config", json!({"parameters": "RealMemory=900"}));
        world.model.run(&"compute/0".parse().unwrap(), &action).unwrap();
        if world.model.knife().spare() {
            assert!(at > 5, "only {at} effects");
            break;
        }
        let noted = world.machine("compute/0").read("/var/lib/slurmd-charm/node.json").unwrap_or_default();
        world.model.remove_relation(&world.relation("compute").unwrap());
        world.model.run_round();
        world.model.run_round();
        world.model.run_hooks();
        world.integrate();
        world.model.settle();
        assert_eq!(world.slurm.nodes()["compute-0"], "IDLE+DYNAMIC_NORM", "killed before {at}");
        let is_requested = noted.contains("900");
        assert_eq!(shown(&world).contains("\"real_memory\":900"), is_requested, "{at}: {noted} {}", shown(&world));
        world.assert_well();
    }
}
