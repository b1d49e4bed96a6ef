//! What an application of compute nodes tells the controller: its partition, and the node set the partition consists
//! of.

use crate::databag::{Databag, DecodeError, json, written};
use serde_json::Value;
use slurm_conf::{NodeSet, Partition};

const PARTITION: &str = "partition";
const NODESET: &str = "nodeset";
/// Name of `partition` in early builds of the Python charms.
const PARTITION_CONFIG: &str = "partitionconfig";

/// Application bag of slurmd on the `slurmd` interface, written by its leader. Nodes register themselves, so units
/// write nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct ComputeData {
    /// The partition, named after the application.
    pub partition: Partition,
    /// The node set of that partition.
    pub nodeset: NodeSet,
}

impl ComputeData {
    /// Returns the data of a partition with the node set that belongs to it.
    pub fn new(partition: Partition) -> Self {
        let nodeset = partition.nodeset();
        Self { partition, nodeset }
    }

    /// Returns the bag.
    pub fn encode(&self) -> Databag {
        written([(PARTITION, self.partition.to_json()), (NODESET, self.nodeset.to_json())])
    }

    /// Reads the bag. `None`: the application has not published its partition yet. A missing node set follows from the
    /// partition.
    ///
    /// Names only have to agree with each other; that they are the remote application's is for the caller to check.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let key = if bag.contains_key(PARTITION) { PARTITION } else { PARTITION_CONFIG };
        let value = match json(bag, key)? {
            None => return Ok(None),
            Some(Value::Object(members)) if members.is_empty() => return Ok(None),
            Some(value) => value,
        };
        if is_static_partition(&value) {
            return Err(DecodeError::Obsolete { key, expected: "expected one with dynamic nodes" });
        }
        let partition = Partition::from_json(&value)
            .map_err(|error| DecodeError::malformed(key, &value.to_string(), error.to_string()))?;
        let nodeset = match json(bag, NODESET)? {
            None => partition.nodeset(),
            Some(value) => {
                let refused = |problem: String| DecodeError::malformed(NODESET, &value.to_string(), problem);
                let nodeset = NodeSet::from_json(&value).map_err(|error| refused(error.to_string()))?;
                if nodeset != partition.nodeset() {
                    // Anything else would let one application reach into the nodes of another.
                    return Err(refused(format!("expected name and feature `{}` as in `{key}`", partition.name())));
                }
                nodeset
            }
        };
        Ok(Some(Self { partition, nodeset }))
    }
}

/// The oldest form is `{"compute": {"State": "UP"}}`: name to options, for nodes that slurm.conf lists.
fn is_static_partition(value: &Value) -> bool {
    value.as_object().is_some_and(|members| {
        !members.contains_key("partitionname") && !members.is_empty() && members.values().all(Value::is_object)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bag(members: &[(&str, &str)]) -> Databag {
        members.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn partition_and_node_set_are_written() {
        let data = ComputeData::new(Partition::from_config("compute", "DefaultTime=45:00 MaxTime=1:00:00").unwrap());
        let expected = bag(&[
            ("nodeset", r#"{"nodeset": "compute", "feature": "compute"}"#),
            (
                "partition",
                r#"{"defaulttime": "45:00", "maxtime": "1:00:00", "partitionname": "compute", "nodes": ["compute"]}"#,
            ),
        ]);
        assert_eq!(data.encode(), expected);
        assert_eq!(ComputeData::decode(&expected), Ok(Some(data)));
    }

    #[test]
    fn a_missing_node_set_follows_from_the_partition() {
        let data = ComputeData::decode(&bag(&[("partition", r#"{"partitionname": "compute", "nodes": ["compute"]}"#)]))
            .unwrap()
            .unwrap();
        assert_eq!(data.nodeset, NodeSet::new("compute", "compute").unwrap());
        let early =
            ComputeData::decode(&bag(&[("partitionconfig", r#"{"partitionname": "compute"}"#)])).unwrap().unwrap();
        assert_eq!(early, data);
    }

    #[test]
    fn what_is_not_there_yet_is_no_error() {
        for members in
            [&[][..], &[("partition", "")], &[("partition", "{}")], &[("partition", "null")], &[("other", "x")]]
        {
            assert_eq!(ComputeData::decode(&bag(members)), Ok(None), "{members:?}");
        }
    }

    #[test]
    fn a_malformed_value_names_its_key_and_option() {
        for (members, expected) in [
            (&[("partition", "compute")][..], "databag key `partition`: not JSON"),
            (&[("partition", "[]")], "databag key `partition`: expected an object"),
            (
                &[("partition", r#"{"partitionname": "a", "maxtime": "zzz"}"#)],
                "databag key `partition`: value `\"zzz\"` of maxtime",
            ),
            (
                &[("partition", r#"{"partitionname": "a\nNodeName=b"}"#)],
                "databag key `partition`: `a\\nNodeName=b` is not",
            ),
            (
                &[("partition", r#"{"partitionname": "a", "bogus": "1\nNodeName=b"}"#)],
                "databag key `partition`: value `1\\nNodeName=b` of bogus",
            ),
            (
                &[("partition", r#"{"partitionname": "a"}"#), ("nodeset", r#"{"nodeset": "b", "feature": "b"}"#)],
                "databag key `nodeset`: expected name and feature `a`",
            ),
            (
                &[("partition", r#"{"compute": {"State": "UP"}}"#)],
                "databag key `partition`: the remote charm is too old",
            ),
        ] {
            let error = ComputeData::decode(&bag(members)).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
