//! The address of a Juju secret. What is inside the secret never passes through here.

use crate::databag::DecodeError;
use std::fmt;

/// A secret's address in one of the forms that `secret-get` takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretUri(String);

impl SecretUri {
    /// Checks and wraps `secret:<id>`, `secret://<model>/<id>` or a bare id.
    pub fn new(uri: &str) -> Option<Self> {
        let is_id =
            |id: &str| id.len() == 20 && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let is_model =
            |model: &str| model.len() == 36 && model.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        if let Some(path) = uri.strip_prefix("secret://") {
            let (model, id) = path.split_once('/')?;
            (is_model(model) && is_id(id)).then(|| Self(uri.to_owned()))
        } else {
            let id = uri.strip_prefix("secret:").unwrap_or(uri);
            is_id(id).then(|| Self(format!("secret:{id}")))
        }
    }

    pub(crate) fn decode(key: &'static str, uri: &str) -> Result<Self, DecodeError> {
        // Who knows what an old or broken writer put here: it could be a key, so it is not shown.
        Self::new(uri).ok_or_else(|| DecodeError::malformed(key, "…", "not the address of a secret"))
    }

    /// Returns the address as text, with the scheme in front.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretUri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "d3k2v5nmp25c762q3bvg";

    #[test]
    fn every_form_of_an_address_is_taken() {
        let full = format!("secret://4f3a1a5e-1111-4222-8333-444455556666/{ID}");
        assert_eq!(SecretUri::new(ID).unwrap().as_str(), format!("secret:{ID}"));
        assert_eq!(SecretUri::new(&format!("secret:{ID}")).unwrap().as_str(), format!("secret:{ID}"));
        assert_eq!(SecretUri::new(&full).unwrap().as_str(), full);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "secret:", "***", "secret:x y", "--help", "secret://x/y", "c2VjcmV0IGtleSBtYXRlcmlhbA=="] {
            assert_eq!(SecretUri::new(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_refusal_does_not_repeat_the_value() {
        let error = SecretUri::decode("auth_secret_id", "c2VjcmV0").unwrap_err();
        assert!(!error.to_string().contains("c2VjcmV0"));
    }
}
