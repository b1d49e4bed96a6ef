//! Command lines as Juju parses them: flags may stand anywhere, `--` ends them, and a refusal has Juju's words.
//! Used by the client's commands and by the hook tools alike.

use std::collections::BTreeMap;

/// One option a command knows. `name` has no dashes; a name of one letter is written with one dash.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    pub names: &'static [&'static str],
    pub takes_value: bool,
}

pub const fn value(names: &'static [&'static str]) -> Flag {
    Flag { names, takes_value: true }
}

pub const fn switch(names: &'static [&'static str]) -> Flag {
    Flag { names, takes_value: false }
}

/// What was on the command line. Options are kept under the first name of their flag, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    options: BTreeMap<&'static str, Vec<String>>,
    pub arguments: Vec<String>,
}

impl Parsed {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.options.get(name).and_then(|values| values.last()).map(String::as_str)
    }

    pub fn all(&self, name: &str) -> &[String] {
        self.options.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a switch is on; `--x=false` turns it off, in each spelling that Go takes for false (Python's `False` is
    /// one).
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !["false", "False", "FALSE", "f", "F", "0"].contains(&value))
    }

    /// Refuses more arguments than `most`.
    pub fn at_most(&self, most: usize) -> Result<(), String> {
        match self.arguments.get(most..) {
            Some(rest) if !rest.is_empty() => Err(format!("unrecognized args: {}", quoted_list(rest))),
            _ => Ok(()),
        }
    }
}

/// A list of strings as Go prints it with `%q`.
pub fn quoted_list(items: &[String]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

/// Parses `arguments`. With `stop_at_first` everything from the first positional argument on is left alone, as
/// `juju ssh` needs it.
pub fn parse(flags: &[Flag], arguments: &[String], stop_at_first: bool) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            parsed.arguments.extend(rest.cloned());
            break;
        }
        if argument == "-" || !argument.starts_with('-') {
            parsed.arguments.push(argument.clone());
            if stop_at_first {
                parsed.arguments.extend(rest.cloned());
                break;
            }
            continue;
        }
        let (name, attached) = split(argument);
        let Some(flag) = flags.iter().find(|flag| flag.names.contains(&name.as_str())) else {
            return Err(format!("option provided but not defined: {}", dashed(&name)));
        };
        let value = match (flag.takes_value, attached) {
            (_, Some(value)) => value,
            (false, None) => "true".to_owned(),
            (true, None) => {
                rest.next().cloned().ok_or_else(|| format!("option needs an argument: {}", dashed(&name)))?
            }
        };
        parsed.options.entry(flag.names[0]).or_default().push(value);
    }
    Ok(parsed)
}

fn dashed(name: &str) -> String {
    format!("{}{name}", if name.chars().count() == 1 { "-" } else { "--" })
}

/// `--name=value`, `--name`, `-nvalue`, `-n=value`, `-n`.
fn split(argument: &str) -> (String, Option<String>) {
    if let Some(long) = argument.strip_prefix("--") {
        return match long.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (long.to_owned(), None),
        };
    }
    let mut letters = argument.chars().skip(1);
    let name: String = letters.next().map(String::from).unwrap_or_default();
    let attached: String = letters.collect();
    match attached.strip_prefix('=') {
        Some(value) => (name, Some(value.to_owned())),
        None if attached.is_empty() => (name, None),
        None => (name, Some(attached)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: &[Flag] = &[value(&["format"]), value(&["r", "relation"]), switch(&["app"]), value(&["m", "model"])];

    fn check(line: &[&str]) -> Result<Parsed, String> {
        parse(FLAGS, &line.iter().map(ToString::to_string).collect::<Vec<_>>(), false)
    }

    #[test]
    fn options_may_follow_arguments() {
        let parsed = check(&["key", "--format", "json", "-r", "link:1", "--app", "-", "--", "--dash"]).unwrap();
        assert_eq!(parsed.get("format"), Some("json"));
        assert_eq!(parsed.get("r"), Some("link:1"));
        assert!(parsed.has("app"));
        assert_eq!(parsed.arguments, ["key", "-", "--dash"]);
    }

    #[test]
    fn a_value_may_be_attached() {
        assert_eq!(check(&["--format=json"]).unwrap().get("format"), Some("json"));
        assert_eq!(check(&["-rlink:1"]).unwrap().get("r"), Some("link:1"));
        assert_eq!(check(&["--relation", "3"]).unwrap().get("r"), Some("3"));
        for off in ["false", "False", "0"] {
            assert!(!check(&[&format!("--app={off}")]).unwrap().has("app"));
        }
        assert!(check(&["--app=True"]).unwrap().has("app"));
    }

    #[test]
    fn refusals_have_jujus_words() {
        assert_eq!(check(&["--nosuch"]).unwrap_err(), "option provided but not defined: --nosuch");
        assert_eq!(check(&["-dash"]).unwrap_err(), "option provided but not defined: -d");
        assert_eq!(check(&["--format"]).unwrap_err(), "option needs an argument: --format");
        assert_eq!(check(&["a", "b"]).unwrap().at_most(1).unwrap_err(), "unrecognized args: [\"b\"]");
    }
}
