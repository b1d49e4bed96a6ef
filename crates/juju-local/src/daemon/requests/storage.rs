//! Storage as `juju storage` and `juju status` show it: every filesystem with who has it where.

use serde_json::{Map, Value, json};

use crate::model::{Model, Storage};
use crate::paths::ModelPaths;

/// Nothing at all if there is no storage.
pub(super) fn document(model: &Model, paths: &ModelPaths) -> Value {
    if model.storage.is_empty() {
        return json!({});
    }
    let size = megabytes(paths);
    let storage: Map<String, Value> =
        model.storage.values().map(|one| (one.id.clone(), instance(model, one))).collect();
    let filesystems: Map<String, Value> =
        model.storage.values().map(|one| (number(one).to_owned(), filesystem(model, one, size))).collect();
    json!({"storage": storage, "filesystems": filesystems})
}

fn number(storage: &Storage) -> &str {
    storage.id.rsplit('/').next().unwrap_or(&storage.id)
}

fn machine<'a>(model: &'a Model, storage: &Storage) -> &'a str {
    model.units.get(&storage.unit).map_or("", |unit| unit.machine.as_str())
}

fn status(storage: &Storage) -> Value {
    json!({"current": "attached", "since": storage.since.status()})
}

fn instance(model: &Model, storage: &Storage) -> Value {
    let unit = json!({"machine": machine(model, storage), "location": storage.location, "life": "alive"});
    json!({
        "kind": "filesystem",
        "life": "alive",
        "status": status(storage),
        "persistent": false,
        "attachments": {"units": {storage.unit.to_string(): unit}},
    })
}

fn filesystem(model: &Model, storage: &Storage, size: u64) -> Value {
    let machine = machine(model, storage);
    let mount = json!({"mount-point": storage.location, "read-only": storage.read_only, "life": "alive"});
    json!({
        "provider-id": number(storage),
        "storage": storage.id,
        "attachments": {"machines": {machine: mount}, "units": {storage.unit.to_string(): {"machine": machine}}},
        "pool": "rootfs",
        "size": size,
        "life": "alive",
        "status": status(storage),
    })
}

/// The disk that all machines share.
fn megabytes(paths: &ModelPaths) -> u64 {
    nix::sys::statvfs::statvfs(paths.root())
        .map_or(0, |disk| disk.blocks().saturating_mul(disk.fragment_size()) / (1024 * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::names::UnitName;

    #[test]
    fn a_filesystem_is_shown_from_both_sides() {
        let mut model = Model::new("m", "00000000-0000-4000-8000-000000000001", "c", "24.11");
        assert_eq!(document(&model, &ModelPaths::of("m")), json!({}));
        let unit = UnitName::parse("server/0").unwrap();
        let storage = Storage {
            id: "data/0".to_owned(),
            unit,
            location: "/srv/data".to_owned(),
            read_only: false,
            since: Moment(0),
        };
        model.storage.insert(storage.id.clone(), storage);
        let shown = document(&model, &ModelPaths::of("m"));
        assert_eq!(shown["storage"]["data/0"]["attachments"]["units"]["server/0"]["location"], "/srv/data");
        assert_eq!(shown["filesystems"]["0"]["storage"], "data/0");
    }
}
