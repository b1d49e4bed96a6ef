//! The secrets in which the keys of a cluster travel: what is in them, for those who write and those who read them.

use charm::tools::SecretContent;
use slurm_ops::keys::{AuthKey, JwtKey, KeySet};

/// The label of the secret with the authentication key, which its owner and its readers give it.
pub const AUTH_LABEL: &str = "slurm-auth-key";
/// The label of the secret with the key of tokens.
pub const JWT_LABEL: &str = "slurm-jwt-key";
/// The key itself: of authentication, the one that signs.
pub const KEY: &str = "key";
/// The id of an authentication key.
pub const KEY_ID: &str = "keyid";
/// All authentication keys as `slurm.jwks` has them, while there are several. Other charms know the two above alone.
pub const KEY_SET: &str = "jwks";

/// Returns the content of the secret with these authentication keys.
pub fn of_keys(keys: &KeySet) -> SecretContent {
    let key = keys.default_key();
    let content = SecretContent::default().with(KEY, key.expose()).with(KEY_ID, key.id());
    match keys.keys() {
        [_] => content,
        _ => content.with(KEY_SET, String::from_utf8_lossy(&keys.render())),
    }
}

/// Reads the authentication keys. None: there is nothing in it that could be one.
pub fn keys(content: &SecretContent) -> Option<KeySet> {
    let key = AuthKey::new(content.get(KEY_ID)?, content.get(KEY)?).ok()?;
    // A set in which another key signs is not what the rest of the secret is about.
    let set = content.get(KEY_SET).and_then(|text| KeySet::parse(text.as_bytes()).ok());
    Some(set.filter(|set| *set.default_key() == key).unwrap_or_else(|| KeySet::of(key)))
}

/// Returns the content of the secret with this key of tokens.
pub fn of_token_key(key: &JwtKey) -> SecretContent {
    SecretContent::default().with(KEY, key.expose())
}

/// Reads the key of tokens.
pub fn token_key(content: &SecretContent) -> Option<JwtKey> {
    JwtKey::new(content.get(KEY)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str) -> AuthKey {
        AuthKey::new(id, &id.repeat(64)).unwrap()
    }

    #[test]
    fn a_single_key_travels_as_other_charms_write_it() {
        let set = KeySet::of(key("k1"));
        let content = of_keys(&set);
        assert_eq!((content.get(KEY_ID), content.get(KEY_SET)), (Some("k1"), None));
        assert_eq!(keys(&content), Some(set));
    }

    #[test]
    fn several_keys_travel_together_and_the_signing_one_is_readable_for_all() {
        let both = KeySet::of(key("k1")).with(key("k2"));
        for set in [both.clone(), both.signing_with("k2").unwrap()] {
            let content = of_keys(&set);
            assert_eq!(content.get(KEY_ID), Some(set.default_key().id()));
            assert_eq!(keys(&content), Some(set));
        }
    }

    #[test]
    fn a_set_that_contradicts_the_rest_does_not_count() {
        let content = of_keys(&KeySet::of(key("k1")).with(key("k2")));
        for set in ["nonsense", "{\"keys\": []}"] {
            assert_eq!(keys(&content.clone().with(KEY_SET, set)), Some(KeySet::of(key("k1"))));
        }
        let other = of_keys(&KeySet::of(key("k3")).with(key("k4")));
        let mixed = content.with(KEY_SET, other.get(KEY_SET).unwrap());
        assert_eq!(keys(&mixed), Some(KeySet::of(key("k1"))));
        assert_eq!(keys(&SecretContent::default().with(KEY, "short")), None);
    }
}
