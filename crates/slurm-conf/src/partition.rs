//! A partition: its name, and the options that its operator chose.

use crate::error::OptionError;
use crate::lexer::{self, Content};
use crate::name::PartitionName;
use crate::nodeset::NodeSet;
use crate::partition_option::{OptionValue, PartitionOption, json_text};
use crate::record::{Record, RecordKind};
use crate::unknown::{UnknownKey, unknown_key, unknown_value};
use serde_json::{Map, Value};

const NAME_KEY: &str = "partitionname";
const NODES_KEY: &str = "nodes";
/// The keys whose values follow from the application.
const IDENTITY: [&str; 2] = ["PartitionName", "Nodes"];

/// One partition of the cluster. Its nodes are always those of the node set of the same name.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    name: PartitionName,
    /// In the order in which the operator wrote them.
    options: Vec<(PartitionOption, OptionValue)>,
    /// Keys that no table has, in lower case, with their text.
    others: Vec<(String, String)>,
}

impl Partition {
    /// Returns a partition with Slurm's defaults.
    pub fn new(name: PartitionName) -> Self {
        Self { name, options: Vec::new(), others: Vec::new() }
    }

    /// Reads the operator's options, one line of `Key=Value`, for the partition of `application`. Keys may have any
    /// letter case.
    ///
    /// `PartitionName` and `Nodes` follow from the application, so the only value that they may have is its name. A key
    /// that this crate does not know is taken as free text, since the installed Slurm may know it: see
    /// [`Partition::unknown`].
    pub fn from_config(application: &str, text: &str) -> Result<Self, OptionError> {
        let mut partition = Self::new(PartitionName::new(application)?);
        for (key, value) in option_pairs(text)? {
            if let Some(given) = IDENTITY.into_iter().find(|given| given.eq_ignore_ascii_case(&key)) {
                if value != application {
                    let expected = format!("`{application}`, the name of the application");
                    return Err(OptionError::value(given, &value, expected));
                }
            } else if partition.has(&key) {
                return Err(OptionError::Duplicate(key));
            } else {
                partition.set(&key, &value)?;
            }
        }
        Ok(partition)
    }

    /// Reads the JSON form in which databags carry a partition: lower-case keys, typed values.
    ///
    /// `nodes`, if there, has to be the partition's own node set.
    pub fn from_json(value: &Value) -> Result<Self, OptionError> {
        let named = value.as_object().and_then(|members| Some((members, members.get(NAME_KEY)?.as_str()?)));
        let (members, name) = named.ok_or(OptionError::Json("an object with the member `partitionname`"))?;
        let mut partition = Self::new(PartitionName::new(name)?);
        for (key, value) in members {
            let refused = |expected: String| OptionError::value(key, &value.to_string(), expected);
            match key.as_str() {
                NAME_KEY => {}
                NODES_KEY if *value == Value::from(vec![name]) => {}
                NODES_KEY => return Err(refused(format!("[\"{name}\"]"))),
                _ => match PartitionOption::find(key) {
                    Some(option) => partition.put(*option, option.value_from_json(value).map_err(refused)?),
                    None => {
                        let text = json_text(value).ok_or_else(|| refused("a text, a number or a list".to_owned()))?;
                        partition.set(key, &text)?;
                    }
                },
            }
        }
        Ok(partition)
    }

    /// Returns the JSON form: options in order, those that are not known here as text, then `partitionname` and
    /// `nodes`.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        for (option, value) in &self.options {
            members.insert(option.name.to_ascii_lowercase(), option.value_to_json(value));
        }
        for (key, value) in &self.others {
            members.insert(key.clone(), Value::from(value.as_str()));
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

    /// Returns the keys that are not known here, each with the known one that is nearest to it.
    pub fn unknown(&self) -> impl Iterator<Item = UnknownKey<'_>> {
        let known = || PartitionOption::all().iter().map(|option| option.name);
        self.others.iter().map(move |(key, value)| UnknownKey::new(key, value, known()))
    }

    /// Returns the value of a known option, by name in any letter case.
    pub fn get(&self, name: &str) -> Option<&OptionValue> {
        let wanted = PartitionOption::find(name)?;
        self.options.iter().find(|(option, _)| option == wanted).map(|(_, value)| value)
    }

    /// Sets one option from slurm.conf text, in place if it is there already.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        let Some(option) = PartitionOption::find(key) else {
            return self.set_unknown(key, value);
        };
        let refused = |expected| OptionError::value(option.name, value, expected);
        self.put(*option, option.value_from_text(value).map_err(refused)?);
        Ok(())
    }

    /// Takes an option away, so that Slurm's default holds again.
    pub fn unset(&mut self, key: &str) {
        if let Some(unwanted) = PartitionOption::find(key) {
            self.options.retain(|(option, _)| option != unwanted);
        }
        self.others.retain(|(other, _)| !other.eq_ignore_ascii_case(key));
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some() || self.others.iter().any(|(other, _)| other.eq_ignore_ascii_case(key))
    }

    fn set_unknown(&mut self, key: &str, value: &str) -> Result<(), OptionError> {
        if IDENTITY.iter().any(|given| given.eq_ignore_ascii_case(key)) {
            return Err(OptionError::Reserved(key.to_owned()));
        }
        let key = unknown_key(key)?;
        unknown_value(&key, value, true)?;
        match self.others.iter_mut().find(|(other, _)| *other == key) {
            Some((_, slot)) => *slot = value.to_owned(),
            None => self.others.push((key, value.to_owned())),
        }
        Ok(())
    }

    fn put(&mut self, option: PartitionOption, value: OptionValue) {
        match self.options.iter_mut().find(|(known, _)| *known == option) {
            Some((_, slot)) => *slot = value,
            None => self.options.push((option, value)),
        }
    }

    /// Returns the pairs of the slurm.conf line, name first.
    pub(crate) fn pairs(&self, nodeset: &NodeSet) -> Vec<(&str, String)> {
        let names = [self.name.to_string(), nodeset.name().to_string()];
        IDENTITY
            .into_iter()
            .zip(names)
            .chain(self.options.iter().map(|(option, value)| (option.name, option.value_to_text(value))))
            .chain(self.others.iter().map(|(key, value)| (key.as_str(), value.clone())))
            .collect()
    }
}

impl TryFrom<Record<'_>> for Partition {
    type Error = OptionError;

    /// Reads a partition line of a file. `Nodes` is left out, since it need not be a node set.
    fn try_from(record: Record<'_>) -> Result<Self, OptionError> {
        if record.kind() != RecordKind::Partition {
            return Err(OptionError::syntax(record.kind().key(), "a PartitionName line"));
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
            return Err(OptionError::syntax(text, expected));
        }
    }
    if text.chars().any(char::is_control) {
        return Err(OptionError::syntax(text, "no control character"));
    }
    let (line, _) = lexer::next_line(text, 1)
        .map_err(|error| OptionError::Syntax { found: error.found, expected: error.expected })?;
    if matches!(line.content, Content::Include(_)) {
        return Err(OptionError::syntax(text, "`Key=Value`"));
    }
    if let Some(pair) = line.pairs().iter().find(|pair| line.value(pair).contains('"')) {
        return Err(OptionError::syntax(line.value(pair), "quotes around the whole value or none"));
    }
    Ok(line.pairs().iter().map(|pair| (line.key(pair).to_owned(), line.value(pair).to_owned())).collect())
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
    fn what_follows_from_the_application_may_be_said_again() {
        let partition =
            Partition::from_config("compute", "partitionname=compute MaxTime=60 NODES=\"compute\"").unwrap();
        assert_eq!(partition, Partition::from_config("compute", "MaxTime=60").unwrap());
    }

    #[test]
    fn another_name_or_other_nodes_are_named() {
        for (text, message) in [
            ("PartitionName=other", "value `other` of PartitionName: expected `compute`, the name of the application"),
            (
                "partitionname=Compute",
                "value `Compute` of PartitionName: expected `compute`, the name of the application",
            ),
            ("MaxTime=1 nodes=ALL", "value `ALL` of Nodes: expected `compute`, the name of the application"),
        ] {
            assert_eq!(Partition::from_config("compute", text).unwrap_err().to_string(), message);
        }
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
            "NodeName=evil",
            "MaxTime=1 NodeSet=x",
            "New=1 new=2",
            "New=\" \"",
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
    }

    #[test]
    fn a_key_of_a_newer_slurm_goes_all_the_way() {
        let text = "MaxTim=60 State=UP NewKey=cpu=1,mem=2 Other=\"a b\"";
        let partition = Partition::from_config("compute", text).unwrap();
        let json = json!({
            "state": "up", "maxtim": "60", "newkey": "cpu=1,mem=2", "other": "a b",
            "partitionname": "compute", "nodes": ["compute"],
        });
        assert_eq!(partition.to_json(), json);
        assert_eq!(Partition::from_json(&json).unwrap(), partition);
        let mut conf = crate::SlurmConf::new();
        conf.set_partition(&partition, &partition.nodeset());
        let line = "PartitionName=compute Nodes=compute State=UP maxtim=60 newkey=cpu=1,mem=2 other=\"a b\"\n";
        assert!(conf.render().ends_with(line), "{}", conf.render());
        assert_eq!(
            Partition::try_from(conf.partition("compute").unwrap()).unwrap(),
            partition,
            "the line is read back"
        );
        assert!(!conf.set_partition(&partition, &partition.nodeset()), "the same again changes nothing");
    }

    #[test]
    fn an_unknown_key_has_its_nearest_known_one() {
        let partition = Partition::from_config("compute", "MaxTim=1 Quality=best").unwrap();
        let found: Vec<_> = partition.unknown().map(|unknown| (unknown.key, unknown.value, unknown.nearest)).collect();
        assert_eq!(found, [("maxtim", "1", Some("MaxTime")), ("quality", "best", None)]);
    }

    #[test]
    fn an_unknown_key_of_foreign_json_is_text() {
        let foreign = json!({"partitionname": "compute", "surprise": 1, "list": ["a", 2], "flag": true});
        let partition = Partition::from_json(&foreign).unwrap();
        assert_eq!(partition.to_json()["surprise"], "1");
        assert_eq!(partition.to_json()["list"], "a,2");
        assert_eq!(partition.to_json()["flag"], "yes");
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
            json!({"partitionname": "compute", "surprise": null}),
            json!({"partitionname": "compute", "surprise": {"a": 1}}),
            json!({"partitionname": "compute", "surprise": "a\nNodeName=evil"}),
            json!({"partitionname": "compute", "sur prise": "a"}),
            json!({"partitionname": "compute", "nodename": "a"}),
            json!({"partitionname": "compute", "PartitionName": "a"}),
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
