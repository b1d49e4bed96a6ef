//! A node set: the nodes that carry a feature, under one name that a partition can use.

use crate::error::{NameError, OptionError};
use crate::name::PartitionName;
use serde_json::{Value, json};

/// One `NodeSet=… Feature=…` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSet {
    name: PartitionName,
    feature: PartitionName,
}

impl NodeSet {
    /// Checks and makes a node set.
    pub fn new(name: &str, feature: &str) -> Result<Self, NameError> {
        Ok(Self { name: PartitionName::new(name)?, feature: PartitionName::new(feature)? })
    }

    /// Returns the node set of a partition: name and feature are the partition's name.
    pub fn of(partition: &PartitionName) -> Self {
        Self { name: partition.clone(), feature: partition.clone() }
    }

    /// Returns the name.
    pub fn name(&self) -> &PartitionName {
        &self.name
    }

    /// Reads `{"nodeset": …, "feature": …}`.
    pub fn from_json(value: &Value) -> Result<Self, OptionError> {
        let member = |name: &str| value.get(name).and_then(Value::as_str);
        match (member("nodeset"), member("feature")) {
            (Some(name), Some(feature)) => Ok(Self::new(name, feature)?),
            _ => Err(OptionError::Json("an object with the members `nodeset` and `feature`")),
        }
    }

    /// Returns `{"nodeset": …, "feature": …}`.
    pub fn to_json(&self) -> Value {
        json!({"nodeset": self.name.as_str(), "feature": self.feature.as_str()})
    }

    /// Returns the pairs of the slurm.conf line, name first.
    pub(crate) fn pairs(&self) -> Vec<(&'static str, String)> {
        vec![("NodeSet", self.name.to_string()), ("Feature", self.feature.to_string())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_goes_both_ways() {
        let nodeset = NodeSet::new("compute", "fast").unwrap();
        assert_eq!(nodeset.to_json().to_string(), r#"{"nodeset":"compute","feature":"fast"}"#);
        assert_eq!(NodeSet::from_json(&nodeset.to_json()).unwrap(), nodeset);
    }

    #[test]
    fn foreign_json_is_checked() {
        for value in [
            json!(null),
            json!({"nodeset": "a"}),
            json!({"nodeset": "a b", "feature": "a"}),
            json!({"nodeset": "a", "feature": ["a"]}),
        ] {
            assert!(NodeSet::from_json(&value).is_err(), "{value}");
        }
    }
}
