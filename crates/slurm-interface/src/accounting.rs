//! What travels between a controller and slurmdbd: where the keys are one way, where slurmdbd is the other.

use crate::controller::{auth_secret, slurm_version};
use crate::databag::{Databag, DecodeError, loose_string, string, written};
use crate::secret::SecretUri;
use serde_json::json;
use slurm_conf::HostName;

const JWT_SECRET_ID: &str = "jwt_secret_id";
/// The name of the same in the generation of charms before the current one.
const JWT_KEY_ID: &str = "jwt_key_id";
const HOST_NAME: &str = "hostname";

/// Application bag of slurmctld on the `slurmdbd` interface, written by its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingKeys {
    /// The secret that holds the cluster's authentication key.
    pub auth_secret: SecretUri,
    /// The secret that holds the key of users' tokens; `None` where the controllers take none.
    pub jwt_secret: Option<SecretUri>,
    /// The version of Slurm that the controllers run, such as `24.11.5`; `None` if the controller's charm does not say.
    pub slurm_version: Option<String>,
}

impl AccountingKeys {
    /// Returns the bag. slurmdbd has no use for the controllers, so their list is empty, as the Python charms write it.
    pub fn encode(&self) -> Databag {
        let jwt = self.jwt_secret.as_ref().map_or("", SecretUri::as_str);
        written([
            ("auth_key", json!("")),
            ("auth_key_id", json!(self.auth_secret.as_str())),
            ("auth_secret_id", json!(self.auth_secret.as_str())),
            ("controllers", json!([])),
            ("jwt_key", json!("")),
            (JWT_KEY_ID, json!(jwt)),
            (JWT_SECRET_ID, json!(jwt)),
            ("slurm_version", json!(self.slurm_version.as_deref().unwrap_or_default())),
            ("slurmconfig", json!({})),
        ])
    }

    /// Reads the bag. `None`: the controller has not published its key yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let Some(auth_secret) = auth_secret(bag)? else { return Ok(None) };
        let jwt_secret = match string(bag, JWT_SECRET_ID)? {
            Some(uri) => Some(SecretUri::decode(JWT_SECRET_ID, &uri)?),
            None => string(bag, JWT_KEY_ID)?.map(|uri| SecretUri::decode(JWT_KEY_ID, &uri)).transpose()?,
        };
        Ok(Some(Self { auth_secret, jwt_secret, slurm_version: slurm_version(bag)? }))
    }
}

/// Application bag of slurmdbd on the `slurmdbd` interface, written by its leader once slurmdbd answers; and the bag of
/// the unit that runs slurmdbd in the peer relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingHost {
    /// Short name of the host that runs slurmdbd.
    pub hostname: HostName,
}

impl AccountingHost {
    /// Returns the bag.
    pub fn encode(&self) -> Databag {
        written([(HOST_NAME, json!(self.hostname.as_str()))])
    }

    /// Reads the bag. `None`: slurmdbd does not serve yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let Some(name) = loose_string(bag, HOST_NAME)? else { return Ok(None) };
        let unfit = |_| DecodeError::malformed(HOST_NAME, &name, "not a host name");
        Ok(Some(Self { hostname: HostName::new(name.as_str()).map_err(unfit)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "secret:d3k2v5nmp25c762q3bvg";

    fn keys() -> AccountingKeys {
        let jwt_secret = SecretUri::new("secret:d3k2v5nmp25c762q3bw0");
        let slurm_version = Some("24.11.5".to_owned());
        AccountingKeys { auth_secret: SecretUri::new(URI).unwrap(), jwt_secret, slurm_version }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(AccountingKeys::decode(&keys().encode()), Ok(Some(keys())));
        let without = AccountingKeys { jwt_secret: None, slurm_version: None, ..keys() };
        assert_eq!(AccountingKeys::decode(&without.encode()), Ok(Some(without)));
        let host = AccountingHost { hostname: HostName::new("juju-c9fc6f-3").unwrap() };
        assert_eq!(host.encode()["hostname"], "\"juju-c9fc6f-3\"");
        assert_eq!(AccountingHost::decode(&host.encode()), Ok(Some(host)));
    }

    #[test]
    fn nothing_yet_is_no_error() {
        let mut bag = keys().encode();
        bag.insert("auth_secret_id".to_owned(), "\"\"".to_owned());
        bag.insert("auth_key_id".to_owned(), "\"\"".to_owned());
        assert_eq!(AccountingKeys::decode(&bag), Ok(None));
        assert_eq!(AccountingKeys::decode(&Databag::new()), Ok(None));
        assert_eq!(AccountingHost::decode(&Databag::new()), Ok(None));
    }

    #[test]
    fn a_malformed_value_names_its_key() {
        for (key, value) in [("jwt_secret_id", "\"key\""), ("jwt_secret_id", "[]"), ("slurm_version", "\"x\"")] {
            let mut bag = keys().encode();
            bag.insert(key.to_owned(), value.to_owned());
            let error = AccountingKeys::decode(&bag).unwrap_err().to_string();
            assert!(error.starts_with(&format!("databag key `{key}`")), "{error}");
        }
        let bag = Databag::from([("hostname".to_owned(), "\"a b\\nc\"".to_owned())]);
        assert!(AccountingHost::decode(&bag).is_err());
    }
}
