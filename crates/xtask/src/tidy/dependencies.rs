//! Which crate may use which: the map's arrows. A crate without a rule here does not pass.

use anyhow::Result;
use serde_json::Value;

use super::Findings;

/// Each crate of ours, and the crates of ours that it may use.
const ARROWS: &[(&str, &[&str])] = &[
    ("charm", &[]),
    ("slurm-conf", &[]),
    ("slurm-interface", &["slurm-conf"]),
    ("slurm-ops", &["slurm-conf"]),
    ("slurm-unit", &["charm", "slurm-conf", "slurm-interface", "slurm-ops"]),
    ("charm-testing", &["charm", "slurm-conf", "slurm-ops"]),
    ("sackd-charm", &["charm", "slurm-conf", "slurm-interface", "slurm-ops", "slurm-unit"]),
    ("slurmctld-charm", &["charm", "slurm-conf", "slurm-interface", "slurm-ops", "slurm-unit"]),
    ("slurmd-charm", &["charm", "slurm-conf", "slurm-interface", "slurm-ops", "slurm-unit"]),
    ("slurmdbd-charm", &["charm", "slurm-conf", "slurm-interface", "slurm-ops", "slurm-unit"]),
    ("slurmrestd-charm", &["charm", "slurm-conf", "slurm-interface", "slurm-ops", "slurm-unit"]),
    ("juju-local", &[]),
    ("xtask", &[]),
];

/// A hook is a short sequential program: none of these in what a charm is made of.
const ASYNCHRONOUS: &[&str] = &["async-std", "futures", "smol", "tokio"];
const SEQUENTIAL: &[&str] = &[
    "charm",
    "slurm-conf",
    "slurm-interface",
    "slurm-ops",
    "slurm-unit",
    "sackd-charm",
    "slurmctld-charm",
    "slurmd-charm",
    "slurmdbd-charm",
    "slurmrestd-charm",
];

/// Only these have a test that takes the in-memory model.
const TESTED_IN_MEMORY: &[&str] =
    &["charm", "slurm-unit", "sackd-charm", "slurmctld-charm", "slurmd-charm", "slurmdbd-charm", "slurmrestd-charm"];

/// And only the in-memory model has a test that takes the charms.
const TESTED_TOGETHER: &[&str] = &[
    "slurm-interface",
    "slurm-unit",
    "sackd-charm",
    "slurmctld-charm",
    "slurmd-charm",
    "slurmdbd-charm",
    "slurmrestd-charm",
];

pub(super) fn check() -> Result<Findings> {
    Ok(findings(&super::cargo_metadata()?))
}

fn findings(metadata: &Value) -> Findings {
    let packages: Vec<&Value> = metadata["packages"].as_array().into_iter().flatten().collect();
    let ours: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut findings = Vec::new();
    for package in &packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("crate {name} is not on the map: give it a rule"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"] == "dev";
            let in_memory = used == "charm-testing" && for_tests && TESTED_IN_MEMORY.contains(&name);
            let together = name == "charm-testing" && for_tests && TESTED_TOGETHER.contains(&used);
            if ours.contains(&used) && !allowed.contains(&used) && !in_memory && !together {
                findings.push(format!("{name} may not use {used}"));
            }
            if SEQUENTIAL.contains(&name) && ASYNCHRONOUS.contains(&used) {
                findings.push(format!("{name} is sequential and may not use {used}"));
            }
        }
        findings.extend(misnamed_binaries(name, package));
    }
    findings
}

/// Two packages with a binary of one name overwrite each other in the target directory, and the wrong charm ships.
fn misnamed_binaries(name: &str, package: &Value) -> Findings {
    let targets = package["targets"].as_array().into_iter().flatten();
    let binaries = targets.filter(|target| target["kind"].as_array().into_iter().flatten().any(|kind| kind == "bin"));
    let names = binaries.filter_map(|target| target["name"].as_str());
    names.filter(|binary| *binary != name).map(|binary| format!("{name} builds a binary called {binary}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
        let dependencies: Vec<Value> =
            dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        json!({"name": name, "dependencies": dependencies, "targets": [{"kind": ["bin"], "name": name}]})
    }

    fn check(packages: &[Value]) -> Findings {
        findings(&json!({"packages": packages}))
    }

    #[test]
    fn arrows_of_the_map_pass() {
        let conf = package("slurm-conf", &[("serde", None)]);
        assert_eq!(check(&[conf, package("slurm-ops", &[("slurm-conf", None)])]), Findings::new());
    }

    #[test]
    fn other_arrows_do_not() {
        let charm = package("charm", &[]);
        let found = check(&[charm.clone(), package("juju-local", &[("charm", Some("dev"))])]);
        assert_eq!(found, ["juju-local may not use charm"]);
        assert_eq!(check(&[charm, package("slurm-ops", &[("charm", None)])]), ["slurm-ops may not use charm"]);
    }

    #[test]
    fn the_in_memory_model_is_for_tests_only() {
        let testing = package("charm-testing", &[]);
        let with = |kind| check(&[testing.clone(), package("slurmd-charm", &[("charm-testing", kind)])]);
        assert_eq!(with(Some("dev")), Findings::new());
        assert_eq!(with(None), ["slurmd-charm may not use charm-testing"]);
    }

    #[test]
    fn both_charms_meet_in_the_tests_of_the_in_memory_model() {
        let charm = package("slurmd-charm", &[]);
        let with = |kind| check(&[charm.clone(), package("charm-testing", &[("slurmd-charm", kind)])]);
        assert_eq!(with(Some("dev")), Findings::new());
        assert_eq!(with(None), ["charm-testing may not use slurmd-charm"]);
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(check(&[package("novel", &[])]), ["crate novel is not on the map: give it a rule"]);
    }

    #[test]
    fn an_asynchronous_charm_is_found() {
        assert_eq!(check(&[package("charm", &[("tokio", None)])]), ["charm is sequential and may not use tokio"]);
    }

    #[test]
    fn a_stray_binary_is_found() {
        let mut twin = package("slurmd-charm", &[]);
        twin["targets"][0]["name"] = "dispatch".into();
        assert_eq!(check(&[twin]), ["slurmd-charm builds a binary called dispatch"]);
    }
}
