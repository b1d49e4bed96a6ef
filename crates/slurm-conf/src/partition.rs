//! A partition: its name, and the options that its operator chose.

use crate::error::{OptionError, excerpt};
use crate::lexer::{self, Content};
use crate::name::PartitionName;
use crate::nodeset::NodeSet;
use crate::partition_option::{OptionValue, PartitionOption};
use crate::record::{Record, RecordKind};
use serde_json::{Map, Value};

const NAME_KEY: &str = "partitionname";
const NODES_KEY: &str = "nodes";

/// One partition of the cluster. Its nodes are always those of the node set of the same name.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    name: PartitionName,
    /// In the order in which the operator wrote them.
    options: Vec<(PartitionOption, OptionValue)>,
}

impl Partition {
    /// Returns a partition with Slurm's defaults.
    pub fn new(name: PartitionName) -> Self {
        Self { name, options: Vec::new() }
    }

    /// Reads the operator's options, one line of `Key=Value`, for the partition of `application`. Keys may have any letter case.
    ///
    /// `PartitionName` and `Nodes` are refused: they follow from the application.
    pub fn from_config(application: &str, text: &str) -> Result<Self, OptionError> {
        let mut partition = Self::new(PartitionName::new(application)?);
        for (key, value) in option_pairs(text)? {
            if key.eq_ignore_ascii_case(NAME_KEY) || key.eq_ignore_ascii_case(NODES_KEY) {
                return Err(OptionError::Reserved { key });
            }
            let option = PartitionOption::find_or_refuse(&key)?;
            if partition.get(option.name).is_some() {
                return Err(OptionError::Duplicate { key });
            }
            partition.set(&key, &value)?;
        }
        Ok(partition)
    }

    /// Reads the JSON form in which databags carry a partition: lower-case keys, typed values.
    ///
    /// `nodes`, if there, has to be the partition's own node set.
    pub fn from_json(value: &Value) -> Result<Self, OptionError> {
        const EXPECTED: &str = "an object with the member `partitionname`";
        let members = value.as_object().ok_or(OptionError::Json { expected: EXPECTED })?;
        let name = members.get(NAME_KEY).and_then(Value::as_str).ok_or(OptionError::Json { expected: EXPECTED })?;
        let mut partition = Self::new(PartitionName::new(name)?);
        for (key, value) in members {
            let refused = |expected: String| OptionError::Value {
                key: key.clone(),
                value: excerpt(&value.to_string()),
                expected,
            };
            match key.as_str() {
                NAME_KEY => {}
                NODES_KEY => {
                    let own = value
                        .as_array()
                        .is_some_and(|nodes| matches!(nodes.as_slice(), [only] if only.as_str() == Some(name)));
                    if !own {
                        return Err(refused(format!("[\"{name}\"]")));
                    }
                }
                _ => {
                    let option = PartitionOption::find_or_refuse(key)?;
                    let value = option.value_from_json(value).map_err(refused)?;
                    partition.put(*option, value);
                }
            }
        }
        Ok(partition)
    }

    /// Returns the JSON form: options in order, then `partitionname` and `nodes`.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        for (option, value) in &self.options {
            members.insert(option.name.to_ascii_lowercase(), option.value_to_json(value));
        }
        members.insert(NAME_KEY.to_owned(), Value::from(self.name.as_str()));
        members.insert(NODES_KEY.to_owned(), Value::from(vec![self.name.as_str()]));
        Value::Object(members)
    }

    /// Returns the name.
    pub fn name(&self) -> &PartitionName {
        &self.name
    }

    /// Returns the node set that belongs to this partition: same name, and as feature the name again.
    pub fn nodeset(&self) -> NodeSet {
        NodeSet::of(&self.name)
    }

    /// Returns the options in order.
    pub fn options(&self) -> impl Iterator<Item = (&PartitionOption, &OptionValue)> {
        self.options.iter().map(|(option, value)| (option, value))
    }

    /// Returns the value of an option, by name in any letter case.
    pub fn get(&self, name: &str) -> Option<&OptionValue> {
        let wanted = PartitionOption::find(name)?;
        self.options.iter().find(|(option, _)| option == wanted).map(|(_, value)| value)
    }

    /// Sets one option from slurm.conf text, in place if it is there already.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        let option = PartitionOption::find_or_refuse(key)?;
        let checked = option.value_from_text(value).map_err(|expected| OptionError::Value {
            key: option.name.to_owned(),
            value: excerpt(value),
            expected,
        })?;
        self.put(*option, checked);
        Ok(())
    }

    /// Takes an option away, so that Slurm's default holds again.
    pub fn unset(&mut self, key: &str) {
        if let Some(unwanted) = PartitionOption::find(key) {
            self.options.retain(|(option, _)| option != unwanted);
        }
    }

    fn put(&mut self, option: PartitionOption, value: OptionValue) {
        match self.options.iter_mut().find(|(known, _)| *known == option) {
            Some((_, slot)) => *slot = value,
            None => self.options.push((option, value)),
        }
    }

    /// Returns the pairs of the slurm.conf line, name first.
    pub(crate) fn pairs(&self, nodeset: &NodeSet) -> Vec<(&'static str, String)> {
        let identity = [("PartitionName", self.name.to_string()), ("Nodes", nodeset.name().to_string())];
        identity
            .into_iter()
            .chain(self.options.iter().map(|(option, value)| (option.name, option.value_to_text(value))))
            .collect()
    }
}

impl TryFrom<Record<'_>> for Partition {
    type Error = OptionError;

    /// Reads a partition line of a file. `Nodes` is left out, since it need not be a node set.
    fn try_from(record: Record<'_>) -> Result<Self, OptionError> {
        if record.kind() != RecordKind::Partition {
            return Err(OptionError::Syntax {
                found: record.kind().key().to_owned(),
                expected: "a PartitionName line",
            });
        }
        let mut partition = Self::new(PartitionName::new(record.name())?);
        for (key, value) in record.options().filter(|(key, _)| !key.eq_ignore_ascii_case(NODES_KEY)) {
            partition.set(key, value)?;
        }
        Ok(partition)
    }
}

/// Splits one line of `Key=Value` that came from outside. Values come back without their quotes.
pub(crate) fn option_pairs(text: &str) -> Result<Vec<(String, String)>, OptionError> {
    let text = text.trim();
    for (character, expected) in [
        ('\n', "a single line"),
        ('\r', "a single line"),
        ('#', "no comment"),
        ('\\', "no backslash"),
        ('\'', "no single quote"),
    ] {
        if text.contains(character) {
            return Err(OptionError::Syntax { found: excerpt(text), expected });
        }
    }
    if text.chars().any(char::is_control) {
        return Err(OptionError::Syntax { found: excerpt(text), expected: "no control character" });
    }
    let (line, _) = lexer::next_line(text, 1)
        .map_err(|error| OptionError::Syntax { found: error.found, expected: error.expected })?;
    match &line.content {
        Content::Blank => Ok(Vec::new()),
        Content::Include(_) => Err(OptionError::Syntax { found: excerpt(text), expected: "`Key=Value`" }),
        Content::Pairs(pairs) => pairs
            .iter()
            .map(|pair| {
                let (key, value) = (line.key(pair), line.value(pair));
                if value.contains('"') {
                    Err(OptionError::Syntax {
                        found: excerpt(value),
                        expected: "quotes around the whole value or none",
                    })
                } else {
                    Ok((key.to_owned(), value.to_owned()))
                }
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_operators_line_becomes_the_wire_form() {
        let partition = Partition::from_config("compute", "DefaultTime=45:00 MAXTIME=1:00:00 state=UP").unwrap();
        let expected =
            r#"{"defaulttime":"45:00","maxtime":"1:00:00","state":"up","partitionname":"compute","nodes":["compute"]}"#;
        assert_eq!(partition.to_json().to_string(), expected);
        assert_eq!(Partition::from_json(&partition.to_json()).unwrap(), partition);
    }

    #[test]
    fn no_options_make_the_minimal_form() {
        let partition = Partition::from_config("compute", "  ").unwrap();
        assert_eq!(partition.to_json(), json!({"partitionname": "compute", "nodes": ["compute"]}));
    }

    #[test]
    fn the_operators_line_cannot_leave_its_line() {
        for text in [
            "MaxTime=1\nPartitionName=x",
            "MaxTime=1\rState=UP",
            "MaxTime=1 # x",
            "MaxTime=1 \\",
            "QOS=\"a",
            "QOS=\"a\"b",
            "QOS='a b'",
            "MaxTime",
            "=1",
            "Include /etc/passwd",
            "QOS=a\u{7}",
            "MaxTime=1 MaxTime=2",
            "Nonsense=1",
            "Nodes=ALL",
            "partitionname=other",
        ] {
            assert!(Partition::from_config("compute", text).is_err(), "{text:?}");
        }
        assert!(Partition::from_config("../x", "").is_err());
    }

    #[test]
    fn a_refusal_names_option_value_and_form() {
        let error = Partition::from_config("compute", "MaxTime=zzz").unwrap_err();
        assert!(error.to_string().starts_with("value `zzz` of MaxTime: expected minutes"), "{error}");
        let error = Partition::from_config("compute", "MaxTim=1").unwrap_err();
        assert_eq!(error.to_string(), "unknown option `MaxTim`");
        assert_eq!(error.hint().as_deref(), Some("the nearest known option is `MaxTime`"));
    }

    #[test]
    fn foreign_json_is_checked() {
        for value in [
            json!([]),
            json!({"nodes": ["compute"]}),
            json!({"partitionname": "a b"}),
            json!({"partitionname": "compute", "nodes": ["other"]}),
            json!({"partitionname": "compute", "nodes": "ALL"}),
            json!({"partitionname": "compute", "qos": "x\nNodeName=evil"}),
            json!({"partitionname": "compute", "maxtime": [1]}),
            json!({"partitionname": "compute", "surprise": 1}),
        ] {
            assert!(Partition::from_json(&value).is_err(), "{value}");
        }
        let tolerant = json!({"partitionname": "compute", "state": "UP", "default": "YES", "maxnodes": "7"});
        let partition = Partition::from_json(&tolerant).unwrap();
        assert_eq!(partition.to_json()["state"], "up");
        assert_eq!(partition.to_json()["default"], true);
        assert_eq!(partition.to_json()["maxnodes"], 7);
    }

    #[test]
    fn options_can_be_set_and_taken_away() {
        let mut partition = Partition::from_config("compute", "State=UP").unwrap();
        partition.set("default", "YES").unwrap();
        partition.set("STATE", "DOWN").unwrap();
        partition.unset("Default");
        assert_eq!(partition.get("state"), Some(&OptionValue::Text("down".to_owned())));
        assert_eq!(partition.get("default"), None);
        assert!(partition.set("Nodes", "ALL").is_err());
    }
}
