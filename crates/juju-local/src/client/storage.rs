//! `juju storage` and `juju show-storage`.

use serde_json::{Map, Value};

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse, table};
use crate::flags::{Flag, switch, value};
use crate::output::{Format, render};
use crate::wire::Request;

const FLAGS: &[Flag] = &[
    value(&["m", "model"]),
    value(&["format"]),
    value(&["o", "output"]),
    switch(&["filesystem"]),
    switch(&["volume"]),
];

pub fn list(arguments: &[String]) -> Outcome {
    let parsed = parse(FLAGS, arguments)?;
    let format =
        Format::choose(parsed.get("format"), Format::Smart, &["json", "yaml", "tabular"]).map_err(Refusal::usage)?;
    let shown = Client::for_command(&parsed)?.ask(&Request::Storage)?;
    if shown.as_object().is_none_or(Map::is_empty) || parsed.has("volume") {
        eprintln!("No storage to display.");
        return DONE;
    }
    match format {
        Format::Smart => print!("{}", storage_table(&shown)),
        format => print!("{}", render(&shown, format)),
    }
    DONE
}

fn storage_table(shown: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rows = Vec::new();
    for (id, storage) in shown["storage"].as_object().into_iter().flatten() {
        let filesystem = &shown["filesystems"][id.rsplit('/').next().unwrap_or(id)];
        for unit in storage["attachments"]["units"].as_object().into_iter().flat_map(Map::keys) {
            rows.push(vec![
                unit.clone(),
                id.clone(),
                text(&storage["kind"]),
                text(&filesystem["pool"]),
                format!("{} MiB", filesystem["size"]),
                text(&storage["status"]["current"]),
                text(&storage["status"]["message"]),
            ]);
        }
    }
    table::render(&["Unit", "Storage ID", "Type", "Pool", "Size", "Status", "Message"], &rows, &[])
}

pub fn show(arguments: &[String]) -> Outcome {
    let parsed = parse(FLAGS, arguments)?;
    if parsed.arguments.is_empty() {
        return Err(Refusal::usage("must specify storage id(s)"));
    }
    let format =
        Format::choose(parsed.get("format"), Format::Yaml, &["json", "yaml", "smart"]).map_err(Refusal::usage)?;
    let all = Client::for_command(&parsed)?.ask(&Request::Storage)?;
    let mut shown = Map::new();
    for id in &parsed.arguments {
        let Some(one) = all["storage"].get(id) else {
            return Err(Refusal::failed(format!("storage instance \"{id}\" not found")));
        };
        shown.insert(id.clone(), one.clone());
    }
    print!("{}", render(&Value::Object(shown), format));
    DONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_names_unit_and_place() {
        let shown = json!({
            "storage": {"data/3": {"kind": "filesystem", "status": {"current": "attached"},
                "attachments": {"units": {"a/0": {}}}}},
            "filesystems": {"3": {"pool": "rootfs", "size": 1024}},
        });
        let expected = "Unit  Storage ID  Type        Pool    Size      Status    Message\n\
                        a/0   data/3      filesystem  rootfs  1024 MiB  attached\n";
        assert_eq!(storage_table(&shown), expected);
    }
}
