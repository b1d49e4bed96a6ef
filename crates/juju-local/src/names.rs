//! Names of Juju's things and the rules they obey. No look-ups: whether a name exists is the model's business.

use std::fmt;

use serde::{Deserialize, Serialize};

/// `<application>/<number>`. Ordered as text, because that is the order Juju runs joins and lists members in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnitName(String);

impl UnitName {
    pub fn new(application: &str, number: u32) -> Self {
        UnitName(format!("{application}/{number}"))
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (application, number) = text.split_once('/')?;
        let canonical = number.parse::<u32>().ok()?.to_string() == number;
        (canonical && check_application(application).is_ok()).then(|| UnitName(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn application(&self) -> &str {
        self.0.split_once('/').map_or(self.0.as_str(), |(application, _)| application)
    }

    pub fn number(&self) -> u32 {
        self.0.split_once('/').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
    }

    /// `unit-app-0`: the form used in paths and log lines.
    pub fn tag(&self) -> String {
        format!("unit-{}-{}", self.application(), self.number())
    }

    pub fn from_tag(tag: &str) -> Option<Self> {
        let (application, number) = tag.strip_prefix("unit-")?.rsplit_once('-')?;
        UnitName::parse(&format!("{application}/{number}"))
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl AsRef<str> for UnitName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for UnitName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Checks an application name; the error is Juju's sentence.
pub fn check_application(name: &str) -> Result<(), String> {
    let refuse = |why: &str| Err(format!("invalid application name \"{name}\"{why}"));
    if name.chars().any(|letter| letter.is_ascii_uppercase()) {
        return refuse(", unexpected uppercase character");
    }
    let first_is_letter = name.starts_with(|letter: char| letter.is_ascii_lowercase());
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if !first_is_letter || !name.chars().all(allowed) || name.ends_with('-') || name.contains("--") {
        return refuse("");
    }
    match name.rsplit_once('-') {
        Some((_, last)) if last.chars().all(|letter| letter.is_ascii_digit()) => {
            refuse(", unexpected number(s) found after last hyphen")
        }
        _ if name.split('-').skip(1).any(|part| !part.contains(|letter: char| letter.is_ascii_lowercase())) => {
            refuse("")
        }
        _ => Ok(()),
    }
}

/// Checks a model name; the error is Juju's sentence.
pub fn check_model(name: &str) -> Result<(), String> {
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let edges = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    if !name.is_empty() && name.chars().all(allowed) && name.starts_with(edges) && name.ends_with(edges) {
        return Ok(());
    }
    Err(format!("\"{name}\" is not a valid name: model names may only contain lowercase letters, digits and hyphens"))
}

/// The bare id of `secret:<id>`, `secret://<model>/<id>` or `<id>`; the error is Juju's sentence.
pub fn parse_secret_uri(text: &str) -> Result<String, String> {
    let id = match text.strip_prefix("secret://") {
        Some(rest) => rest.rsplit('/').next().unwrap_or(rest),
        None => text.strip_prefix("secret:").unwrap_or(text),
    };
    let valid = id.len() == 20 && id.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    match valid {
        true => Ok(id.to_owned()),
        false => Err(format!("secret URI \"{text}\" not valid")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_name_knows_its_parts() {
        let unit = UnitName::parse("my-app/12").unwrap();
        assert_eq!((unit.application(), unit.number(), unit.tag().as_str()), ("my-app", 12, "unit-my-app-12"));
        assert_eq!(UnitName::from_tag("unit-my-app-12"), Some(unit));
    }

    #[test]
    fn what_is_no_unit_name_is_refused() {
        for text in ["app", "app/", "app/01", "app/x", "/0", "App/0", "app/0/1", "not-a-unit/x", "app/-1"] {
            assert_eq!(UnitName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn application_names_are_refused_in_jujus_words() {
        assert!(check_application("a-b2").is_ok());
        assert_eq!(
            check_application("Bad_Name").unwrap_err(),
            "invalid application name \"Bad_Name\", unexpected uppercase character"
        );
        assert_eq!(
            check_application("a-1").unwrap_err(),
            "invalid application name \"a-1\", unexpected number(s) found after last hyphen"
        );
        for text in ["", "-a", "a-", "a--b", "1a", "a_b", "a-1-b"] {
            assert!(check_application(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_forms_of_a_uri_are_one_secret() {
        let id = "d4u0000000000000000g";
        for text in [id.to_owned(), format!("secret:{id}"), format!("secret://some-uuid/{id}")] {
            assert_eq!(parse_secret_uri(&text).unwrap(), id);
        }
        assert_eq!(parse_secret_uri("nonsense").unwrap_err(), "secret URI \"nonsense\" not valid");
    }

    #[test]
    fn a_model_name_cannot_be_a_path() {
        assert!(check_model("conf-00ff").is_ok());
        for text in ["", ".", "..", "a/b", "Bad", "-a"] {
            assert!(check_model(text).is_err(), "{text}");
        }
    }
}
