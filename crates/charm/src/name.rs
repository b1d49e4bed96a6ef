//! Names that Juju gives to things, as types: what is in one of them has been checked.
//!
//! Only names belong here. What a name stands for (bags, secrets, events) lives beside the tool that reads it.

use std::fmt;
use std::str::FromStr;

/// A text that is not the name it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: expected {expected}, found `{found}`")]
pub struct NameError {
    kind: &'static str,
    expected: &'static str,
    found: String,
}

/// True for the words Juju's names are made of: lower case letters, digits and inner hyphens, not all digits at the
/// end.
fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

macro_rules! text_name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $expected:literal, $kept:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Returns the name as Juju writes it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                // What of the text is the name. None: it is no such name.
                let kept: fn(&str) -> Option<&str> = $kept;
                let refused =
                    || NameError { kind: $kind, expected: $expected, found: text.escape_debug().to_string() };
                kept(text).map(|name| Self(name.to_owned())).ok_or_else(refused)
            }
        }
    };
}

text_name! {
    /// The name of an application, such as `compute`.
    AppName, "application", "lower case letters, digits and hyphens", |text| is_word(text).then_some(text)
}
text_name! {
    /// The name of a unit, such as `compute/0`.
    UnitName, "unit", "an application, `/` and a number", |text| {
        let (app, digits) = text.split_once('/')?;
        let number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        (is_word(app) && number).then_some(text)
    }
}
text_name! {
    /// The name of an endpoint, such as `slurmctld-peer`.
    EndpointName, "endpoint", "letters, digits and hyphens", |text| is_endpoint(text).then_some(text)
}
text_name! {
    /// The identifier of a relation as the unit sees it, such as `slurmd:3`.
    RelationId, "relation", "an endpoint, `:` and a number", |text| {
        let (endpoint, digits) = text.rsplit_once(':')?;
        (is_endpoint(endpoint) && digits.parse::<u64>().is_ok()).then_some(text)
    }
}
text_name! {
    /// The bare identifier of a secret, such as `d3k2v5nmp25c762q3bvg`. It is read from `<id>`, `secret:<id>` and
    /// `secret://<model uuid>/<id>`: Juju uses all three for the same secret.
    SecretId, "secret", "`secret:` and an id", |text| {
        let bare = text.strip_prefix("secret:").map_or(text, |rest| rest.rsplit('/').next().unwrap_or(rest));
        let plain = bare.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        (!bare.is_empty() && plain).then_some(bare)
    }
}

/// Endpoints of other charms may carry underscores and dots; a blank or a colon may not occur.
fn is_endpoint(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.bytes().all(plain)
}

impl UnitName {
    /// Returns the application that the unit belongs to.
    pub fn app(&self) -> AppName {
        let (app, _) = self.0.split_once('/').expect("invariant: a unit name has a slash");
        AppName(app.to_owned())
    }

    /// Returns the number of the unit, in the order in which Juju made them.
    pub fn number(&self) -> u64 {
        let number = self.0.rsplit_once('/').and_then(|(_, number)| number.parse().ok());
        number.expect("invariant: a unit name ends with a number")
    }

    /// Returns the name with `-` for `/`: `compute-0`, fit for file names and host-like names.
    pub fn dashed(&self) -> String {
        self.0.replace('/', "-")
    }
}

impl RelationId {
    /// Returns the name of this unit's end.
    pub fn endpoint(&self) -> &str {
        self.0.rsplit_once(':').map_or("", |(endpoint, _)| endpoint)
    }

    /// Returns the number that is unique in the model.
    pub fn number(&self) -> u64 {
        let (_, digits) = self.0.rsplit_once(':').expect("invariant: a relation id has a colon");
        digits.parse().expect("invariant: a relation id ends in a number")
    }
}

impl SecretId {
    /// Returns the form that also works from another model: `secret://<model uuid>/<id>`.
    pub fn uri_in(&self, model_uuid: &str) -> String {
        format!("secret://{model_uuid}/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_knows_its_application_and_its_dashed_form() {
        let unit: UnitName = "slurm-compute/12".parse().unwrap();
        assert_eq!(unit.app().as_str(), "slurm-compute");
        assert_eq!(unit.dashed(), "slurm-compute-12");
    }

    #[test]
    fn text_that_could_become_a_path_or_an_option_is_no_name() {
        for text in ["", "compute", "compute/", "/0", "../0", "a b/0", "Compute/0", "compute/0\n", "-x/0"] {
            assert!(text.parse::<UnitName>().is_err(), "{text:?}");
        }
        for text in ["", "a b", "a\nb", "-a", "../etc"] {
            assert!(text.parse::<AppName>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_three_forms_of_a_secret_id_are_one() {
        let bare: SecretId = "d3k2v5nmp25c762q3bvg".parse().unwrap();
        assert_eq!("secret:d3k2v5nmp25c762q3bvg".parse(), Ok(bare.clone()));
        assert_eq!("secret://a1b2/d3k2v5nmp25c762q3bvg".parse(), Ok(bare.clone()));
        assert_eq!(bare.uri_in("a1b2"), "secret://a1b2/d3k2v5nmp25c762q3bvg");
        assert!("secret:".parse::<SecretId>().is_err());
        assert!("--label".parse::<SecretId>().is_err());
    }

    #[test]
    fn a_relation_id_has_an_endpoint_and_a_number() {
        assert_eq!("slurmctld-peer:7".parse::<RelationId>().unwrap().number(), 7);
        for text in ["7", "slurmd:", "slurmd:x", ":3", "slurmd :3"] {
            assert!(text.parse::<RelationId>().is_err(), "{text:?}");
        }
    }
}
