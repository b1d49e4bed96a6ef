//! What the controller tells its compute nodes: where the controllers are, and where the key is to be had.

use crate::databag::{Databag, DecodeError, json, string, written};
use crate::secret::SecretUri;
use serde_json::{Value, json};
use slurm_conf::ControllerAddress;

pub(crate) const AUTH_KEY: &str = "auth_key";
pub(crate) const AUTH_KEY_ID: &str = "auth_key_id";
pub(crate) const AUTH_SECRET_ID: &str = "auth_secret_id";
pub(crate) const CONTROLLERS: &str = "controllers";
pub(crate) const JWT_KEY: &str = "jwt_key";
pub(crate) const JWT_SECRET_ID: &str = "jwt_secret_id";
pub(crate) const SLURM_CONFIG: &str = "slurmconfig";
pub(crate) const SLURM_VERSION: &str = "slurm_version";
const CONF_DIGEST: &str = "slurm_conf_digest";
const CLUSTER_INFO: &str = "cluster_info";

/// Application bag of slurmctld on the `slurmd` and `sackd` interfaces, written by its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerData {
    /// The secret that holds the cluster's authentication key.
    pub auth_secret: SecretUri,
    /// The controllers: the primary first, then the backups in the order of failover. Never empty.
    pub controllers: Vec<ControllerAddress>,
    /// The version of Slurm that the controllers run, such as `24.11.5`; `None` if the controller's charm does not say.
    pub slurm_version: Option<String>,
    /// The digest of the slurm.conf that the controllers have; `None` where nobody compares it. It is told to login
    /// nodes, which slurmctld may forget and then sends no configuration.
    pub conf_digest: Option<String>,
}

impl ControllerData {
    /// Returns the bag.
    ///
    /// `auth_key_id` carries the secret's address again: that is its name in the specification and in the generation of
    /// charms before the current one, and the current one does not read it from the wire.
    pub fn encode(&self) -> Databag {
        let controllers: Vec<String> = self.controllers.iter().map(ToString::to_string).collect();
        let mut bag = written([
            (AUTH_KEY, json!("")),
            (AUTH_KEY_ID, json!(self.auth_secret.as_str())),
            (AUTH_SECRET_ID, json!(self.auth_secret.as_str())),
            (CONTROLLERS, json!(controllers)),
            (JWT_KEY, json!("")),
            (JWT_SECRET_ID, json!("")),
            (SLURM_CONFIG, json!({})),
            (SLURM_VERSION, json!(self.slurm_version.as_deref().unwrap_or_default())),
        ]);
        if let Some(digest) = &self.conf_digest {
            bag.extend(written([(CONF_DIGEST, json!(digest))]));
        }
        bag
    }

    /// Reads the bag. `None`: the controller has not published both parts yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let Some(auth_secret) = auth_secret(bag)? else {
            let old = bag.get(CLUSTER_INFO).is_some_and(|text| !text.is_empty());
            let expected = "expected one that passes its key as a secret";
            return if old { Err(DecodeError::Obsolete { key: CLUSTER_INFO, expected }) } else { Ok(None) };
        };
        let (controllers, slurm_version) = (controllers(bag)?, slurm_version(bag)?);
        // It is compared and never used for anything else.
        let conf_digest = string(bag, CONF_DIGEST)?;
        Ok((!controllers.is_empty()).then_some(Self { auth_secret, controllers, slurm_version, conf_digest }))
    }
}

/// Returns the digest of a text: 16 hexadecimal digits that differ for another text, by chance and not by craft
/// (FNV-1a).
pub fn digest(text: &str) -> String {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, mix))
}

/// The current name wins; the older one counts only if it holds an address, since the current charms may keep a key's
/// id there.
pub(crate) fn auth_secret(bag: &Databag) -> Result<Option<SecretUri>, DecodeError> {
    if let Some(uri) = string(bag, AUTH_SECRET_ID)? {
        return SecretUri::decode(AUTH_SECRET_ID, &uri).map(Some);
    }
    let older = string(bag, AUTH_KEY_ID)?.filter(|uri| uri.starts_with("secret:"));
    older.map(|uri| SecretUri::decode(AUTH_KEY_ID, &uri)).transpose()
}

fn controllers(bag: &Databag) -> Result<Vec<ControllerAddress>, DecodeError> {
    let items = match json(bag, CONTROLLERS)? {
        None => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(other) => return Err(DecodeError::malformed(CONTROLLERS, &other.to_string(), "not a list")),
    };
    let mut addresses: Vec<ControllerAddress> = Vec::with_capacity(items.len());
    for item in items {
        let refused = |problem: &str| DecodeError::malformed(CONTROLLERS, &item.to_string(), problem);
        let text = item.as_str().ok_or_else(|| refused("not a string"))?;
        let address = text.parse().map_err(|_| refused("not `host:port`"))?;
        if addresses.contains(&address) {
            return Err(refused("named twice"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// Numbers and dots, nothing else: the text is compared and shown.
pub(crate) fn slurm_version(bag: &Databag) -> Result<Option<String>, DecodeError> {
    let Some(text) = string(bag, SLURM_VERSION)? else { return Ok(None) };
    let number = |part: &str| matches!(part.len(), 1..=4) && part.bytes().all(|byte| byte.is_ascii_digit());
    match text.split('.').all(number) && (2..=3).contains(&text.split('.').count()) {
        true => Ok(Some(text)),
        false => Err(DecodeError::malformed(SLURM_VERSION, &text, "not a version as in `24.11.5`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URI: &str = "secret:d3k2v5nmp25c762q3bvg";

    fn bag(members: &[(&str, &str)]) -> Databag {
        members.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn sample() -> ControllerData {
        ControllerData {
            auth_secret: SecretUri::new(URI).unwrap(),
            controllers: vec!["c1:6817".parse().unwrap(), "c2:6817".parse().unwrap()],
            slurm_version: Some("24.11.5".to_owned()),
            conf_digest: None,
        }
    }

    #[test]
    fn the_digest_of_the_configuration_is_there_for_who_compares_it() {
        let data = ControllerData { conf_digest: Some(digest("ClusterName=lab\n")), ..sample() };
        assert_eq!(data.encode()["slurm_conf_digest"], "\"9e9c430ed9f5d4a6\"");
        assert_eq!(ControllerData::decode(&data.encode()), Ok(Some(data)));
        assert_ne!(digest(""), digest("x"));
    }

    #[test]
    fn every_key_is_written_as_json() {
        let expected = bag(&[
            ("auth_key", "\"\""),
            ("auth_key_id", "\"secret:d3k2v5nmp25c762q3bvg\""),
            ("auth_secret_id", "\"secret:d3k2v5nmp25c762q3bvg\""),
            ("controllers", "[\"c1:6817\", \"c2:6817\"]"),
            ("jwt_key", "\"\""),
            ("jwt_secret_id", "\"\""),
            ("slurm_version", "\"24.11.5\""),
            ("slurmconfig", "{}"),
        ]);
        assert_eq!(sample().encode(), expected);
        assert_eq!(ControllerData::decode(&expected), Ok(Some(sample())));
    }

    #[test]
    fn the_generation_before_is_read() {
        let before = bag(&[
            ("auth_key", "\"***\""),
            ("auth_key_id", "\"secret:d3k2v5nmp25c762q3bvg\""),
            ("controllers", "[\"c1:6817\", \"c2:6817\"]"),
            ("nhc_args", "\"\""),
            ("slurmconfig", "{}"),
        ]);
        let unsaid = ControllerData { slurm_version: None, ..sample() };
        assert_eq!(ControllerData::decode(&before), Ok(Some(unsaid)));
    }

    #[test]
    fn the_specification_is_read() {
        let unsaid = ControllerData { slurm_version: None, ..sample() };
        let specification =
            bag(&[("auth_key_id", "\"secret:d3k2v5nmp25c762q3bvg\""), ("controllers", "[\"c1\", \"c2\"]")]);
        assert_eq!(ControllerData::decode(&specification), Ok(Some(unsaid)));
    }

    #[test]
    fn a_version_that_is_not_known_is_written_as_not_set() {
        let unsaid = ControllerData { slurm_version: None, ..sample() };
        assert_eq!(unsaid.encode()["slurm_version"], "\"\"");
        assert_eq!(ControllerData::decode(&unsaid.encode()), Ok(Some(unsaid)));
    }

    #[test]
    fn what_is_not_there_yet_is_no_error() {
        for members in [
            &[][..],
            &[("auth_secret_id", "\"\""), ("controllers", "[]")],
            &[("auth_secret_id", "\"secret:d3k2v5nmp25c762q3bvg\"")],
            &[("auth_secret_id", "\"secret:d3k2v5nmp25c762q3bvg\""), ("controllers", "[]")],
            &[("controllers", "[\"c1:6817\"]")],
            &[("auth_key_id", "\"a-key-id\""), ("controllers", "[\"c1:6817\"]")],
            &[("egress-subnets", "10.0.0.1/32")],
        ] {
            assert_eq!(ControllerData::decode(&bag(members)), Ok(None), "{members:?}");
        }
    }

    #[test]
    fn a_malformed_value_names_its_key() {
        for (key, value) in [
            ("controllers", "c1:6817"),
            ("controllers", "{}"),
            ("controllers", "[1]"),
            ("controllers", "[\"c1:6817\\nSlurmctldHost=x\"]"),
            ("controllers", "[\"c1:6817,c2\"]"),
            ("controllers", "[\"c1\", \"c1:6817\"]"),
            ("slurm_version", "24.11.5"),
            ("slurm_version", "\"24.11.5; rm\""),
            ("slurm_version", "\"24\""),
            ("slurm_version", "[24, 11]"),
            ("auth_secret_id", "secret:raw"),
            ("auth_secret_id", "\"not a secret\""),
            ("auth_secret_id", "[]"),
        ] {
            let mut members = sample().encode();
            members.insert(key.to_owned(), value.to_owned());
            let error = ControllerData::decode(&members).unwrap_err();
            assert!(error.to_string().starts_with(&format!("databag key `{key}`")), "{error}");
        }
    }

    #[test]
    fn the_refusal_of_a_key_in_clear_text_does_not_repeat_it() {
        let old =
            bag(&[("cluster_info", "{\"auth_key\": \"c2VjcmV0\", \"slurmctld_host\": \"c1\", \"nhc_params\": \"#\"}")]);
        let error = ControllerData::decode(&old).unwrap_err();
        assert!(error.to_string().contains("`cluster_info`"));
        assert!(!error.to_string().contains("c2VjcmV0"));
    }
}
