//! What an OCI runtime wants in oci.conf: the `slurm-oci-runtime` interface, in both of its forms.

use crate::databag::{Databag, DecodeError, json, string};
use serde_json::Value;
use slurm_conf::shown;

const RECORD: &str = "ociconfig";
const TYPE: &str = "type";
const PATH: &str = "executable_path";

/// Of a value, and of all of them together.
const LONGEST: usize = 4096;

/// How the value of a key is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Flag,
    /// Slurm takes `true` and `false` and words.
    FlagOrText,
    /// In one line, with commas.
    List,
    /// In a line for each.
    Lines,
}

/// All keys of oci.conf: the name in the bag in lower case is the name that Slurm has.
const KEYS: [(&str, Form); 20] = [
    ("ContainerPath", Form::Text),
    ("CreateEnvFile", Form::FlagOrText),
    ("DebugFlags", Form::List),
    ("DisableCleanup", Form::Flag),
    ("DisableHooks", Form::List),
    ("EnvExclude", Form::Text),
    ("FileDebug", Form::Text),
    ("IgnoreFileConfigJson", Form::Flag),
    ("MountSpoolDir", Form::Text),
    ("RunTimeCreate", Form::Text),
    ("RunTimeDelete", Form::Text),
    ("RunTimeEnvExclude", Form::Text),
    ("RunTimeKill", Form::Text),
    ("RunTimeQuery", Form::Text),
    ("RunTimeRun", Form::Text),
    ("RunTimeStart", Form::Text),
    ("SrunArgs", Form::Lines),
    ("SrunPath", Form::Text),
    ("StdIODebug", Form::Text),
    ("SyslogDebug", Form::Text),
];

/// Application bag of an OCI runtime on the `slurm-oci-runtime` interface, written by its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OciRuntime {
    /// Key and value of each line of oci.conf, the value as it stands there.
    lines: Vec<(&'static str, String)>,
}

impl OciRuntime {
    /// Reads the bag: the record of oci.conf, or since August 2026 the kind of runtime and where its program is.
    /// `None`: nothing is there yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        if let Some(kind) = string(bag, TYPE)? {
            if kind != "apptainer" {
                return Err(DecodeError::malformed(TYPE, &kind, "expected `apptainer`"));
            }
            return match string(bag, PATH)? {
                Some(path) => Self::apptainer(&path).map(Some),
                None => Ok(None),
            };
        }
        match json(bag, RECORD)? {
            None => Ok(None),
            Some(Value::Object(record)) if record.is_empty() => Ok(None),
            Some(Value::Object(record)) => Self::of_record(&record).map(Some),
            Some(other) => Err(DecodeError::malformed(RECORD, &other.to_string(), "not a record")),
        }
    }

    /// What the charm of apptainer wrote itself before it only said where the program is.
    fn apptainer(path: &str) -> Result<Self, DecodeError> {
        let is_part = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.+".contains(&byte))
        };
        if path.len() > LONGEST || !path.strip_prefix('/').is_some_and(|parts| parts.split('/').all(is_part)) {
            return Err(DecodeError::malformed(PATH, path, "not an absolute path without detours"));
        }
        let quoted = |text: &str| format!("\"{text}\"");
        // A container must not ask the controllers as if it were the node.
        let private = quoted("^(SLURM_CONF|SLURM_CONF_SERVER)=");
        Ok(Self {
            lines: vec![
                ("EnvExclude", private.clone()),
                ("IgnoreFileConfigJson", "true".to_owned()),
                ("RunTimeDelete", quoted("kill -s SIGKILL %p")),
                ("RunTimeEnvExclude", private),
                ("RunTimeKill", quoted("kill -s SIGTERM %p")),
                ("RunTimeRun", quoted(&format!("{path} exec --userns %r %@"))),
            ],
        })
    }

    fn of_record(record: &serde_json::Map<String, Value>) -> Result<Self, DecodeError> {
        let known = |name: &str| KEYS.iter().any(|(key, _)| key.to_ascii_lowercase() == name);
        if let Some(unknown) = record.keys().find(|name| !known(name)) {
            return Err(DecodeError::malformed(RECORD, unknown, "no key of oci.conf"));
        }
        let mut lines = Vec::new();
        for (key, form) in KEYS {
            let Some(value) = record.get(&key.to_ascii_lowercase()) else { continue };
            let values = values(value, form).map_err(|problem| {
                let found = format!("{key}={}", shown(&value.to_string(), 40));
                DecodeError::malformed(RECORD, &found, problem)
            })?;
            lines.extend(values.into_iter().map(|value| (key, value)));
        }
        let read = Self { lines };
        match read.problem() {
            Some(problem) => Err(DecodeError::malformed(RECORD, "…", problem)),
            None => Ok(read),
        }
    }

    /// Says what Slurm would refuse on every node: it wants one of two complete sets of commands.
    fn problem(&self) -> Option<&'static str> {
        let has = |name: &str| self.lines.iter().any(|(key, _)| *key == name);
        let (run, create) = (has("RunTimeRun"), has("RunTimeCreate") || has("RunTimeStart"));
        let ignored = self.lines.contains(&("IgnoreFileConfigJson", "true".to_owned()));
        let common = has("RunTimeDelete") && has("RunTimeKill");
        let by_create = has("RunTimeCreate") && has("RunTimeStart") && has("RunTimeQuery");
        if self.lines.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > 4 * LONGEST {
            return Some("too long");
        }
        if ignored || (common && ((run && !create) || (!run && by_create))) {
            return None;
        }
        Some("expected runtimedelete, runtimekill and either runtimerun or runtimecreate, runtimestart, runtimequery")
    }

    /// Returns the lines of oci.conf.
    pub fn conf(&self) -> String {
        self.lines.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
    }
}

/// Returns what stands behind the key, in one line or several.
fn values(value: &Value, form: Form) -> Result<Vec<String>, &'static str> {
    let list = |value: &Value| -> Result<Vec<String>, &'static str> {
        let Value::Array(members) = value else { return Err("not a list") };
        members.iter().map(|member| text(member).map(str::to_owned)).collect()
    };
    match (value, form) {
        (Value::Bool(yes), Form::Flag | Form::FlagOrText) => Ok(vec![yes.to_string()]),
        (_, Form::Flag) => Err("not `true` or `false`"),
        (_, Form::Text | Form::FlagOrText) => Ok(vec![format!("\"{}\"", text(value)?)]),
        (_, Form::List) => {
            let members = list(value)?;
            if members.iter().any(|member| member.contains(',')) {
                return Err("a member with a comma");
            }
            Ok(if members.is_empty() { Vec::new() } else { vec![format!("\"{}\"", members.join(","))] })
        }
        (_, Form::Lines) => Ok(list(value)?.into_iter().map(|member| format!("\"{member}\"")).collect()),
    }
}

/// Returns a text that stays between its quotes: Slurm ends a value at a quote, a line at `#`, and drops backslashes.
fn text(value: &Value) -> Result<&str, &'static str> {
    let Value::String(text) = value else { return Err("not a string") };
    let leaves = |character: char| character.is_control() || "\"#\\".contains(character);
    if text.is_empty() || text.len() > LONGEST {
        return Err("empty or too long");
    }
    if text.chars().any(leaves) { Err("has a quote, `#`, backslash or control character") } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bag(record: &Value) -> Databag {
        Databag::from([(RECORD.to_owned(), record.to_string())])
    }

    fn refusal(record: &Value) -> String {
        OciRuntime::decode(&bag(record)).unwrap_err().to_string()
    }

    const RUN: [(&str, &str); 3] = [("runtimerun", "a %r %@"), ("runtimekill", "b %p"), ("runtimedelete", "c %p")];

    fn with(key: &str, value: Value) -> Value {
        let mut record: Value = RUN.into_iter().collect::<std::collections::BTreeMap<_, _>>().into_iter().collect();
        record[key] = value;
        record
    }

    #[test]
    fn both_forms_say_the_same() {
        let record = json!({"ignorefileconfigjson": true, "envexclude": "^(SLURM_CONF|SLURM_CONF_SERVER)=",
            "runtimeenvexclude": "^(SLURM_CONF|SLURM_CONF_SERVER)=", "runtimekill": "kill -s SIGTERM %p",
            "runtimerun": "/usr/bin/apptainer exec --userns %r %@", "runtimedelete": "kill -s SIGKILL %p"});
        let record = OciRuntime::decode(&bag(&record)).unwrap().unwrap();
        let short = Databag::from([
            (TYPE.to_owned(), "\"apptainer\"".to_owned()),
            (PATH.to_owned(), "\"/usr/bin/apptainer\"".to_owned()),
        ]);
        assert_eq!(OciRuntime::decode(&short).unwrap().unwrap(), record);
        assert!(record.conf().contains("RunTimeRun=\"/usr/bin/apptainer exec --userns %r %@\"\n"), "{}", record.conf());
    }

    #[test]
    fn nothing_is_no_error() {
        for empty in [Databag::new(), bag(&json!({})), bag(&Value::Null)] {
            assert_eq!(OciRuntime::decode(&empty), Ok(None));
        }
        assert_eq!(OciRuntime::decode(&Databag::from([(TYPE.to_owned(), "\"apptainer\"".to_owned())])), Ok(None));
    }

    #[test]
    fn lists_are_written_as_slurm_reads_them() {
        let read = |key, value| OciRuntime::decode(&bag(&with(key, value))).unwrap().unwrap().conf();
        assert!(read("srunargs", json!(["-v", "--mpi=none"])).contains("SrunArgs=\"-v\"\nSrunArgs=\"--mpi=none\"\n"));
        assert!(read("disablehooks", json!(["a", "b"])).contains("DisableHooks=\"a,b\"\n"));
        assert!(!read("debugflags", json!([])).contains("DebugFlags"));
        assert!(read("createenvfile", json!("newline")).contains("CreateEnvFile=\"newline\"\n"));
    }

    #[test]
    fn nothing_leaves_its_place_in_the_file() {
        for hostile in ["a\"\nRunTimeRun=\"evil", "a # b", "a\\", "a\u{7}", "", &"x".repeat(LONGEST + 1)] {
            assert!(refusal(&with("srunpath", json!(hostile))).contains("SrunPath"), "{hostile:?}");
            assert!(refusal(&with("srunargs", json!([hostile]))).contains("SrunArgs"), "{hostile:?}");
        }
        assert!(refusal(&with("include", json!("/etc/shadow"))).contains("no key of oci.conf"));
        assert!(refusal(&with("RunTimeRun", json!("x"))).contains("no key"), "keys are in lower case");
        assert!(refusal(&with("disablehooks", json!(["a,b"]))).contains("comma"));
        assert!(refusal(&with("disablecleanup", json!("true"))).contains("not `true`"));
        assert!(refusal(&json!([])).contains("not a record"));
    }

    #[test]
    fn half_a_set_of_commands_is_refused() {
        assert!(refusal(&json!({"runtimerun": "a"})).contains("runtimekill"));
        assert!(refusal(&with("runtimecreate", json!("x"))).contains("either"));
        assert!(OciRuntime::decode(&bag(&json!({"ignorefileconfigjson": true}))).unwrap().is_some());
    }

    #[test]
    fn a_program_is_a_path_and_nothing_else() {
        for hostile in ["apptainer", "/usr/../bin/sh", "/bin/sh -c x", "/a\"b", "/a;b"] {
            let bag = Databag::from([
                (TYPE.to_owned(), "\"apptainer\"".to_owned()),
                (PATH.to_owned(), Value::from(hostile).to_string()),
            ]);
            assert!(OciRuntime::decode(&bag).is_err(), "{hostile}");
        }
        let other = Databag::from([(TYPE.to_owned(), "\"podman\"".to_owned())]);
        assert!(OciRuntime::decode(&other).unwrap_err().to_string().contains("apptainer"));
    }
}
