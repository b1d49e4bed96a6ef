//! Constraints (`mem=8G cores=2`): parsed and shown as Juju does. Machines here share the host, so nothing acts on
//! them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Every constraint, in the order Juju writes them.
const NAMES: &[(&str, Kind)] = &[
    ("arch", Kind::Architecture),
    ("container", Kind::Text),
    ("cores", Kind::Count),
    ("cpu-power", Kind::Count),
    ("instance-role", Kind::Text),
    ("instance-type", Kind::Text),
    ("mem", Kind::Size),
    ("root-disk", Kind::Size),
    ("root-disk-source", Kind::Text),
    ("tags", Kind::List),
    ("spaces", Kind::List),
    ("virt-type", Kind::Text),
    ("zones", Kind::List),
    ("allocate-public-ip", Kind::Flag),
    ("image-id", Kind::Text),
];
const ARCHITECTURES: &[&str] = &["amd64", "arm64", "ppc64el", "s390x", "riscv64"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Architecture,
    Count,
    /// Megabytes.
    Size,
    Flag,
    List,
    Text,
}

fn kind(name: &str) -> Option<Kind> {
    NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
}

/// Parses texts of `name=value` words into canonical values; the error is Juju's sentence.
pub fn parse(texts: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut constraints = BTreeMap::new();
    for word in texts.iter().flat_map(|text| text.split_whitespace()) {
        let Some((name, value)) = word.split_once('=') else { return Err(format!("malformed constraint \"{word}\"")) };
        let name = if name == "cpu-cores" { "cores" } else { name };
        let Some(kind) = kind(name) else { return Err(format!("unknown constraint \"{name}\"")) };
        let value = canonical(kind, value).map_err(|why| format!("bad \"{name}\" constraint: {why}"))?;
        if constraints.insert(name.to_owned(), value).is_some() {
            return Err(format!("bad \"{name}\" constraint: already set"));
        }
    }
    Ok(constraints)
}

fn canonical(kind: Kind, value: &str) -> Result<String, String> {
    if value.is_empty() {
        return Ok(String::new());
    }
    match kind {
        Kind::Architecture if !ARCHITECTURES.contains(&value) => Err(format!("\"{value}\" not recognized")),
        Kind::Count => match value.parse::<u64>() {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err("must be a non-negative integer".to_owned()),
        },
        Kind::Size => megabytes(value)
            .map(|size| format!("{size}M"))
            .ok_or_else(|| "must be a non-negative float with optional M/G/T/P suffix".to_owned()),
        Kind::Flag => match value {
            "true" | "false" => Ok(value.to_owned()),
            _ => Err("must be 'true' or 'false'".to_owned()),
        },
        Kind::Architecture | Kind::List | Kind::Text => Ok(value.to_owned()),
    }
}

fn megabytes(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'M' => (&text[..text.len() - 1], 1.0),
        b'G' => (&text[..text.len() - 1], 1024.0),
        b'T' => (&text[..text.len() - 1], 1024.0 * 1024.0),
        b'P' => (&text[..text.len() - 1], 1024.0 * 1024.0 * 1024.0),
        _ => (text, 1.0),
    };
    let number: f64 = digits.parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be finite and not negative"
    )]
    (number.is_finite() && number >= 0.0).then(|| (number * factor).ceil() as u64)
}

/// As JSON and YAML show them: numbers, flags and lists are such.
pub fn document(constraints: &BTreeMap<String, String>) -> Value {
    let mut shown = Map::new();
    for (name, value) in constraints {
        let value = match kind(name) {
            Some(Kind::Count) => json!(value.parse::<u64>().unwrap_or(0)),
            Some(Kind::Size) => json!(megabytes(value).unwrap_or(0)),
            Some(Kind::Flag) => json!(value == "true"),
            Some(Kind::List) => value.split(',').filter(|item| !item.is_empty()).collect(),
            _ => json!(value),
        };
        shown.insert(name.clone(), value);
    }
    Value::Object(shown)
}

/// As people write them.
pub fn text(constraints: &BTreeMap<String, String>) -> String {
    let words: Vec<String> =
        NAMES.iter().filter_map(|(name, _)| constraints.get(*name).map(|value| format!("{name}={value}"))).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<BTreeMap<String, String>, String> {
        parse(&[text.to_owned()])
    }

    #[test]
    fn sizes_are_megabytes() {
        let constraints = parsed("mem=1.5G cpu-cores=2 root-disk=8192 tags=a,b").unwrap();
        assert_eq!(text(&constraints), "cores=2 mem=1536M root-disk=8192M tags=a,b");
        assert_eq!(document(&constraints), json!({"cores": 2, "mem": 1536, "root-disk": 8192, "tags": ["a", "b"]}));
    }

    #[test]
    fn nonsense_is_refused_in_jujus_words() {
        for (text, expected) in [
            ("nosuch=1", "unknown constraint \"nosuch\""),
            ("mem", "malformed constraint \"mem\""),
            ("mem=lots", "bad \"mem\" constraint: must be a non-negative float with optional M/G/T/P suffix"),
            ("cores=-1", "bad \"cores\" constraint: must be a non-negative integer"),
            ("arch=abacus", "bad \"arch\" constraint: \"abacus\" not recognized"),
            ("cores=1 cpu-cores=2", "bad \"cores\" constraint: already set"),
            ("allocate-public-ip=maybe", "bad \"allocate-public-ip\" constraint: must be 'true' or 'false'"),
        ] {
            assert_eq!(parsed(text).unwrap_err(), expected);
        }
    }
}
