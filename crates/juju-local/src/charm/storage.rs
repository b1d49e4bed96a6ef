//! Storage as a charm declares it and as people ask for it: `storage:` of the metadata, and directives such as `3` or
//! `rootfs,2,10G`. Where instances are kept and who has them is the model's business.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Storage of type filesystem that a charm asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StorageDefinition {
    pub name: String,
    pub location: String,
    pub read_only: bool,
    /// How many a unit has at least, and gets when it is made.
    pub least: u32,
    /// How many a unit may have; none: any number.
    pub most: Option<u32>,
}

impl StorageDefinition {
    /// Where an instance is on the machine: where the charm wants its only one, else in a directory named after it.
    pub fn location_of(&self, id: &str) -> String {
        match self.location.as_str() {
            "" => format!("/var/lib/juju/storage/{id}"),
            location if self.most == Some(1) => location.to_owned(),
            location => format!("{}/{id}", location.trim_end_matches('/')),
        }
    }

    /// Refuses a number of instances that the charm does not want.
    pub fn check_count(&self, count: u32) -> Result<(), String> {
        let least = self.least;
        match self.most {
            _ if count < least => {
                Err(format!("storage directive count {count} is less than the charm minimum of {least}"))
            }
            Some(most) if count > most => {
                Err(format!("storage directive count {count} is greater than the charm maximum of {most}"))
            }
            _ => Ok(()),
        }
    }
}

/// Reads `storage:` of a charm's metadata.
pub fn parse_storage(metadata: &Value) -> Result<Vec<StorageDefinition>, String> {
    let mut storage = Vec::new();
    for (name, body) in metadata.get("storage").and_then(Value::as_object).into_iter().flatten() {
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        match text("type").as_str() {
            "filesystem" => {}
            "block" => return Err(format!("metadata: storage \"{name}\": juju-local has no storage of type block")),
            other => return Err(format!("metadata: storage.{name}.type: unexpected value \"{other}\"")),
        }
        let (least, most) = match body.get("multiple").and_then(|multiple| multiple.get("range")) {
            None => (1, Some(1)),
            Some(range) => {
                parse_range(range).map_err(|why| format!("metadata: storage.{name}.multiple.range: {why}"))?
            }
        };
        let read_only = body.get("read-only").and_then(Value::as_bool).unwrap_or(false);
        storage.push(StorageDefinition { name: name.clone(), location: text("location"), read_only, least, most });
    }
    Ok(storage)
}

/// `2`, `0-3`, `1-` or `1+`: the least and the most.
fn parse_range(range: &Value) -> Result<(u32, Option<u32>), String> {
    let text = range.as_str().map_or_else(|| range.to_string(), str::to_owned);
    let refuse = || format!("value \"{text}\" does not match 'm', 'm-n', or 'm+'");
    let number = |digits: &str| digits.parse::<u32>().map_err(|_| refuse());
    let (least, most) = match text.split_once(['-', '+']) {
        None => (number(&text)?, Some(number(&text)?)),
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) if text.contains('-') => (number(least)?, Some(number(most)?)),
        Some(_) => return Err(refuse()),
    };
    match most {
        Some(most) if most == 0 || most < least => Err(format!("invalid maximum count {most}")),
        _ => Ok((least, most)),
    }
}

/// What `name=directive` says of how many there are to be; nothing if it only names a pool.
pub type Directives = BTreeMap<String, Option<u32>>;

/// Reads `name=[pool,][count,][size]`. Pools and sizes make no difference here: storage is a directory.
pub fn parse_directives(words: &[String]) -> Result<Directives, String> {
    let mut directives = Directives::new();
    for word in words {
        let Some((name, fields)) = word.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(format!("expected \"name=directive\", got \"{word}\""));
        };
        let count = count_of(fields).map_err(|why| format!("cannot parse directives for storage \"{name}\": {why}"))?;
        if directives.insert(name.to_owned(), count).is_some() {
            return Err(format!("storage \"{name}\" specified more than once"));
        }
    }
    Ok(directives)
}

fn count_of(fields: &str) -> Result<Option<u32>, String> {
    if fields.is_empty() {
        return Err("storage directives require at least one field to be specified".to_owned());
    }
    let (mut count, mut sized) = (None, false);
    for field in fields.split(',') {
        if is_pool(field) {
            continue;
        }
        if is_size(field) {
            sized = true;
            continue;
        }
        if !field.strip_prefix('-').unwrap_or(field).bytes().all(|byte| byte.is_ascii_digit()) || field.is_empty() {
            return Err(format!("unrecognized storage directive field \"{field}\""));
        }
        let positive = field.parse::<u32>().ok().filter(|number| *number > 0);
        let number =
            positive.ok_or_else(|| format!("cannot parse count: count must be greater than zero, got \"{field}\""))?;
        count = Some(number);
    }
    // Whoever says how large means one, unless told otherwise.
    Ok(count.or(sized.then_some(1)))
}

fn is_pool(field: &str) -> bool {
    let begins = field.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    begins && field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// `10G`, `1.5TiB`.
fn is_size(field: &str) -> bool {
    let digits = field.trim_end_matches('B').trim_end_matches('i');
    let Some(number) = digits.strip_suffix(['M', 'G', 'T', 'P', 'E', 'Z', 'Y']) else { return false };
    number.bytes().next().is_some_and(|byte| byte.is_ascii_digit()) && number.parse::<f64>().is_ok()
}

/// `name` or `name=count`, the words of `storage-add`.
pub fn parse_additions(words: &[String]) -> Result<BTreeMap<String, u32>, String> {
    let mut additions = BTreeMap::new();
    for word in words {
        let (name, count) = match word.split_once('=') {
            None => (word.as_str(), 1),
            Some((name, fields)) => {
                let count = count_of(fields)
                    .map_err(|why| format!("cannot parse directives for storage \"{name}\": {why}"))?
                    .filter(|_| fields.bytes().all(|byte| byte.is_ascii_digit()));
                (name, count.ok_or_else(|| format!("only count can be specified for \"{name}\""))?)
            }
        };
        if additions.insert(name.to_owned(), count).is_some() {
            return Err(format!("storage \"{name}\" specified more than once"));
        }
    }
    Ok(additions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(range: Option<Value>) -> Result<StorageDefinition, String> {
        let mut body = json!({"type": "filesystem", "location": "/srv/data/"});
        if let Some(range) = range {
            body["multiple"] = json!({"range": range});
        }
        parse_storage(&json!({"storage": {"data": body}})).map(|mut found| found.remove(0))
    }

    #[test]
    fn the_place_depends_on_how_many_there_may_be() {
        for (range, least, most, location) in [
            (None, 1, Some(1), "/srv/data/"),
            (Some(json!(1)), 1, Some(1), "/srv/data/"),
            (Some(json!("0-1")), 0, Some(1), "/srv/data/"),
            (Some(json!(2)), 2, Some(2), "/srv/data/data/7"),
            (Some(json!("0-3")), 0, Some(3), "/srv/data/data/7"),
            (Some(json!("1-")), 1, None, "/srv/data/data/7"),
            (Some(json!("2+")), 2, None, "/srv/data/data/7"),
        ] {
            let found = definition(range.clone()).unwrap();
            assert_eq!((found.least, found.most), (least, most), "{range:?}");
            assert_eq!(found.location_of("data/7"), location, "{range:?}");
        }
    }

    #[test]
    fn a_range_that_is_none_is_refused() {
        for range in ["x", "-3", "1+2", "1-x", "", "3-2", "0-0"] {
            assert!(definition(Some(json!(range))).is_err(), "{range}");
        }
    }

    #[test]
    fn a_count_has_to_suit_the_charm() {
        let definition = definition(Some(json!("2-3"))).unwrap();
        assert!(definition.check_count(1).is_err() && definition.check_count(4).is_err());
        assert!(definition.check_count(2).is_ok() && definition.check_count(3).is_ok());
    }

    #[test]
    fn a_directive_is_read_field_by_field() {
        let count = |text: &str| parse_directives(&[format!("data={text}")]).map(|found| found["data"]);
        assert_eq!(count("3"), Ok(Some(3)));
        assert_eq!(count("rootfs,2,10G"), Ok(Some(2)));
        assert_eq!(count("10G"), Ok(Some(1)));
        assert_eq!(count("rootfs"), Ok(None));
        for wrong in ["", "0", "-1", "3x", "2,,"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert!(parse_directives(&["data".to_owned()]).is_err());
        assert!(parse_directives(&["data=1".to_owned(), "data=2".to_owned()]).is_err());
    }

    #[test]
    fn a_charm_may_ask_for_a_number_only() {
        let add = |text: &str| parse_additions(&[text.to_owned()]);
        assert_eq!(add("data").unwrap()["data"], 1);
        assert_eq!(add("data=2").unwrap()["data"], 2);
        assert_eq!(add("data=1M").unwrap_err(), "only count can be specified for \"data\"");
        assert_eq!(add("data=pool").unwrap_err(), "only count can be specified for \"data\"");
        assert!(add("data=-676").unwrap_err().contains("cannot parse count: count must be gre"));
        assert!(add("data=").unwrap_err().contains("storage directives require at least one"));
    }
}
