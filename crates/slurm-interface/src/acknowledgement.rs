//! Which keys a unit says to have, so that a key is retired only when nobody needs it any more.

use crate::databag::{Databag, DecodeError, json, written};
use serde_json::{Value, json};

/// It begins as what is a unit's own: a reader who looks for a copy of the application's bag passes it over.
const AUTH_KEY_IDS: &str = "unit_auth_key_ids";
/// Many more than a rotation has.
const MOST: usize = 16;
const LONGEST_ID: usize = 128;

/// Unit bag of whoever follows the controllers, on their relation, and of slurmctld on its peer relation: the ids of
/// the authentication keys that the daemon of this unit has loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAcknowledgement {
    /// The key that signs first. Empty: this unit keeps no key.
    pub ids: Vec<String>,
}

impl KeyAcknowledgement {
    /// Returns the bag.
    pub fn encode(&self) -> Databag {
        written([(AUTH_KEY_IDS, json!(self.ids))])
    }

    /// Reads the bag. `None`: the unit has said nothing. Its charm may not know how.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let items = match json(bag, AUTH_KEY_IDS)? {
            None => return Ok(None),
            Some(Value::Array(items)) => items,
            Some(other) => return Err(DecodeError::malformed(AUTH_KEY_IDS, &other.to_string(), "not a list")),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let id = |item: &Value| {
            item.as_str().filter(|id| id.len() <= LONGEST_ID && id.bytes().all(plain)).map(str::to_owned)
        };
        let ids: Option<Vec<String>> = items.iter().map(id).collect();
        match ids.filter(|ids| ids.len() <= MOST) {
            Some(ids) => Ok(Some(Self { ids })),
            None => {
                let text = Value::Array(items).to_string();
                Err(DecodeError::malformed(AUTH_KEY_IDS, &text, "not a list of ids of keys"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Result<Option<KeyAcknowledgement>, DecodeError> {
        KeyAcknowledgement::decode(&Databag::from([(AUTH_KEY_IDS.to_owned(), text.to_owned())]))
    }

    #[test]
    fn ids_go_both_ways() {
        for ids in [vec![], vec!["k1".to_owned()], vec!["k2".to_owned(), "k1".to_owned()]] {
            let told = KeyAcknowledgement { ids };
            assert_eq!(KeyAcknowledgement::decode(&told.encode()), Ok(Some(told)));
        }
        assert_eq!(decoded("[\"k2\", \"k1\"]").unwrap().unwrap().ids, ["k2", "k1"]);
    }

    #[test]
    fn a_unit_that_says_nothing_is_not_one_that_keeps_no_key() {
        assert_eq!(KeyAcknowledgement::decode(&Databag::new()), Ok(None));
        assert_eq!(decoded(""), Ok(None));
        assert_eq!(decoded("[]"), Ok(Some(KeyAcknowledgement { ids: Vec::new() })));
    }

    #[test]
    fn nonsense_is_an_error() {
        for text in ["k1", "{}", "[1]", "[\"a b\"]", "\"k1\"", "[\"k\\n\"]"] {
            assert!(decoded(text).is_err(), "{text}");
        }
        assert!(decoded(&format!("[{}]", vec!["\"k\""; MOST + 1].join(","))).is_err());
    }
}
