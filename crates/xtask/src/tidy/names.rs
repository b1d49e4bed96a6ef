//! Endpoints, options and actions that `charmcraft.yaml` declares must be known to the charm's code. (The other
//! direction, that the code names nothing undeclared, is a test of each charm.)

use anyhow::Result;
use serde_yaml::Value;

use super::{Findings, source};
use crate::layout;
use crate::pack::Charmcraft;

pub(super) fn check() -> Result<Findings> {
    let mut findings = Vec::new();
    for directory in layout::charm_directories()? {
        let charm = Charmcraft::read(&directory.join("charmcraft.yaml"))?;
        let name = layout::file_name(&directory);
        let sources = source::read(&format!("charms/{name}/src"), "rs")?;
        let known = |word: &str| sources.iter().any(|file| file.text.contains(&format!("\"{word}\"")));
        let unknown = declared(&charm).into_iter().filter(|(_, name)| !known(name));
        findings.extend(unknown.map(|(kind, unknown)| format!("charms/{name}: no code knows {kind} `{unknown}`")));
    }
    Ok(findings)
}

fn declared(charm: &Charmcraft) -> Vec<(&'static str, String)> {
    let options = charm.get("config").and_then(|config| config.get("options")).and_then(Value::as_mapping);
    let groups = [
        ("endpoint", charm.mapping("provides")),
        ("endpoint", charm.mapping("requires")),
        ("endpoint", charm.mapping("peers")),
        ("option", options.cloned().unwrap_or_default()),
        ("action", charm.mapping("actions")),
    ];
    let mut declared = Vec::new();
    for (kind, names) in groups {
        declared.extend(names.keys().filter_map(Value::as_str).map(|name| (kind, name.to_owned())));
    }
    declared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_names_are_declared() {
        let charm = Charmcraft::parse(
            "provides: {a: {interface: x}}\npeers: {b: {interface: y}}\nconfig: {options: {c: {type: int}}}\nactions: \
             {d: {}}\n",
        );
        let names: Vec<String> = declared(&charm.unwrap()).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
    }
}
