//! Secrets: listed, shown, and those of the user made, changed, granted and removed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse, table};
use crate::agent::go_error;
use crate::clock::Moment;
use crate::flags::{Flag, Parsed, switch, value};
use crate::output::{Format, render};
use crate::tools::is_content_key;
use crate::wire::{Request, SecretRequest};
use crate::yaml;

const FORMATS: &[&str] = &["json", "yaml", "tabular"];
const MODEL: Flag = value(&["m", "model"]);

fn ask(parsed: &Parsed, request: SecretRequest) -> Result<Value, Refusal> {
    Client::for_command(parsed)?.ask(&Request::Secrets(request))
}

pub fn list(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[MODEL, value(&["format"]), value(&["o", "output"]), value(&["owner"]), switch(&["revisions"])],
        arguments,
    )?;
    parsed.at_most(0).map_err(Refusal::usage)?;
    let format = Format::choose(parsed.get("format"), Format::Smart, FORMATS).map_err(Refusal::usage)?;
    let owner = parsed.get("owner").map(str::to_owned);
    let shown = ask(&parsed, SecretRequest::List { owner, revisions: parsed.has("revisions") })?;
    match format {
        Format::Smart => print!("{}", secrets_table(&shown, Moment::now())),
        format => print!("{}", render(&shown, format)),
    }
    DONE
}

fn secrets_table(shown: &Value, now: Moment) -> String {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (id, secret) in shown.as_object().into_iter().flatten() {
        let text = |key: &str| secret[key].as_str().unwrap_or_default().to_owned();
        let name = Some(text("name")).filter(|name| !name.is_empty()).unwrap_or_else(|| "-".to_owned());
        let age = Moment::parse(&text("updated")).map_or_else(String::new, |updated| age(updated, now));
        rows.push(vec![id.clone(), name, text("owner"), text("rotation"), secret["revision"].to_string(), age]);
    }
    rows.sort_by(|one, other| one[2].cmp(&other[2]).then_with(|| one[0].cmp(&other[0])));
    table::render(&["ID", "Name", "Owner", "Rotation", "Revision", "Last updated"], &rows, &[4])
}

/// How long ago, in the largest unit that fits; a date after a day.
fn age(then: Moment, now: Moment) -> String {
    let seconds = now.0.saturating_sub(then.0) / 1000;
    let (number, unit) = match seconds {
        0..=14 => return "just now".to_owned(),
        15..=59 => (seconds, "second"),
        60..=3599 => (seconds / 60, "minute"),
        3600..=86_399 => (seconds / 3600, "hour"),
        _ => return then.rfc3339()[..10].to_owned(),
    };
    format!("{number} {unit}{} ago", if number == 1 { "" } else { "s" })
}

pub fn show(arguments: &[String]) -> Outcome {
    let parsed = parse(
        &[
            MODEL,
            value(&["format"]),
            value(&["o", "output"]),
            switch(&["reveal"]),
            switch(&["revisions"]),
            value(&["r", "revision"]),
        ],
        arguments,
    )?;
    let Some(secret) = parsed.arguments.first().cloned() else { return Err(Refusal::usage("secret ID is required")) };
    parsed.at_most(1).map_err(Refusal::usage)?;
    let revision = revision(&parsed)?;
    let (reveal, revisions) = (parsed.has("reveal"), parsed.has("revisions"));
    if revisions && reveal {
        return Err(Refusal::usage("specify either --revisions or --reveal but not both"));
    }
    if revisions && revision.is_some() {
        return Err(Refusal::usage("specify either --revisions or --revision but not both"));
    }
    let format = Format::choose(parsed.get("format"), Format::Yaml, &["json", "yaml"]).map_err(Refusal::usage)?;
    let request = SecretRequest::Show { secret, reveal, revisions, revision };
    let shown = ask(&parsed, request).map_err(Refusal::with_empty_document)?;
    print!("{}", render(&shown, format));
    DONE
}

fn revision(parsed: &Parsed) -> Result<Option<u32>, Refusal> {
    match parsed.get("r").map(str::parse::<u32>) {
        None => Ok(None),
        Some(Ok(number)) => Ok((number > 0).then_some(number)),
        Some(Err(_)) => Err(Refusal::usage("revision must be a positive integer")),
    }
}

/// `key=value`, `key#base64=…`, `key#file=path`, and `--file` with a map of them; values as base64.
fn content(parsed: &Parsed, words: &[String]) -> Result<BTreeMap<String, String>, Refusal> {
    let mut content = BTreeMap::new();
    for word in words {
        let Some((key, text)) = word.split_once('=').filter(|(_, text)| !text.is_empty()) else {
            return Err(Refusal::usage(format!("key value \"{word}\" not valid")));
        };
        put(&mut content, key, text)?;
    }
    if let Some(path) = parsed.get("file") {
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        let map = yaml::parse(&text).map_err(Refusal::usage)?;
        let Some(map) = map.as_object() else {
            return Err(Refusal::usage(format!("{path}: expected a map of keys to values")));
        };
        for (key, value) in map {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            put(&mut content, key, &text)?;
        }
    }
    Ok(content)
}

fn put(content: &mut BTreeMap<String, String>, key: &str, text: &str) -> Result<(), Refusal> {
    let (name, value) = match key.split_once('#') {
        Some((name, "base64")) => (name, text.to_owned()),
        Some((name, "file")) => (name, STANDARD.encode(read(text)?)),
        _ => (key, STANDARD.encode(text)),
    };
    if !is_content_key(name) {
        return Err(Refusal::usage(format!("key \"{name}\" not valid")));
    }
    content.insert(name.to_owned(), value);
    Ok(())
}

fn read(path: &str) -> Result<Vec<u8>, Refusal> {
    if path == "-" {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut bytes)
            .map_err(|error| Refusal::failed(error.to_string()))?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(|error| Refusal::usage(format!("open {path}: {}", go_error(&error))))
}

pub fn add(arguments: &[String]) -> Outcome {
    let parsed = parse(&[MODEL, value(&["file"]), value(&["info"])], arguments)?;
    let Some((name, words)) = parsed.arguments.split_first() else {
        return Err(Refusal::usage("missing secret name"));
    };
    let content = content(&parsed, words)?;
    if content.is_empty() {
        return Err(Refusal::usage("missing secret value or filename"));
    }
    let description = parsed.get("info").unwrap_or_default().to_owned();
    let uri = ask(&parsed, SecretRequest::Add { name: name.clone(), description, content })?;
    println!("{}", uri.as_str().unwrap_or_default());
    DONE
}

pub fn update(arguments: &[String]) -> Outcome {
    let parsed =
        parse(&[MODEL, value(&["file"]), value(&["info"]), value(&["name"]), switch(&["auto-prune"])], arguments)?;
    let Some((secret, words)) = parsed.arguments.split_first() else {
        return Err(Refusal::usage("missing secret URI"));
    };
    let content = content(&parsed, words)?;
    let request = SecretRequest::Update {
        secret: secret.clone(),
        name: parsed.get("name").map(str::to_owned),
        description: parsed.get("info").map(str::to_owned),
        auto_prune: parsed.has("auto-prune"),
        content: (!content.is_empty()).then_some(content),
    };
    ask(&parsed, request)?;
    DONE
}

/// The secret, and the applications of a list with commas.
fn access(parsed: &Parsed) -> Result<(String, Vec<String>), Refusal> {
    let [secret, applications] = parsed.arguments.as_slice() else {
        parsed.at_most(2).map_err(Refusal::usage)?;
        return Err(Refusal::usage("missing secret URI or application name"));
    };
    Ok((secret.clone(), applications.split(',').map(str::to_owned).collect()))
}

pub fn grant(arguments: &[String]) -> Outcome {
    let parsed = parse(&[MODEL], arguments)?;
    let (secret, applications) = access(&parsed)?;
    ask(&parsed, SecretRequest::Grant { secret, applications })?;
    DONE
}

pub fn revoke(arguments: &[String]) -> Outcome {
    let parsed = parse(&[MODEL], arguments)?;
    let (secret, applications) = access(&parsed)?;
    ask(&parsed, SecretRequest::Revoke { secret, applications })?;
    DONE
}

pub fn remove(arguments: &[String]) -> Outcome {
    let parsed = parse(&[MODEL, value(&["r", "revision"])], arguments)?;
    let Some(secret) = parsed.arguments.first().cloned() else { return Err(Refusal::usage("missing secret URI")) };
    parsed.at_most(1).map_err(Refusal::usage)?;
    let revision = revision(&parsed)?;
    ask(&parsed, SecretRequest::Remove { secret, revision })?;
    DONE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags;
    use serde_json::json;

    fn given(options: &[&str], words: &[&str]) -> Result<BTreeMap<String, String>, Refusal> {
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let parsed = flags::parse(&[value(&["file"])], &owned(options), false).unwrap();
        content(&parsed, &owned(words))
    }

    #[test]
    fn content_is_gathered_from_all_sources() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("map.yaml"), "token: two\nsecond#base64: YQ==\n").unwrap();
        std::fs::write(path("text"), "from file").unwrap();
        let words = ["token=one", "third#base64=Yg==", &format!("fourth#file={}", path("text"))];
        let content = given(&["--file", &path("map.yaml")], &words).ok().unwrap();
        let shown: Vec<(&str, &str)> = content.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(shown, [("fourth", "ZnJvbSBmaWxl"), ("second", "YQ=="), ("third", "Yg=="), ("token", "dHdv")]);
    }

    #[test]
    fn bad_content_is_refused_in_jujus_words() {
        let check = |word: &str, expected: &str| {
            let refusal = given(&[], &[word]).err().unwrap();
            assert_eq!((refusal.message.as_str(), refusal.code), (expected, 2));
        };
        check("ab=1", "key \"ab\" not valid");
        check("token", "key value \"token\" not valid");
        check("token=", "key value \"token=\" not valid");
    }

    #[test]
    fn the_table_tells_owner_and_age() {
        let shown = json!({"d4u": {"owner": "<model>", "name": "mine", "rotation": "never", "revision": 2,
            "updated": "2025-03-01T10:04:05Z"}});
        let text = secrets_table(&shown, Moment(1_740_823_445_000 + 125_000));
        let expected = "ID   Name  Owner    Rotation  Revision  Last updated\nd4u  mine  <model>  never            2  \
            2 minutes ago\n";
        assert_eq!(text, expected);
    }
}
