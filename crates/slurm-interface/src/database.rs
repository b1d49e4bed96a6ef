//! The relation with a database (`mysql_client`): what slurmdbd asks for, and what the database answers. Both are the
//! ones of the library `data_interfaces`: plain texts, not JSON, but for the list of secrets.

use crate::databag::{Databag, DecodeError, dumps};
use crate::secret::SecretUri;
use serde_json::json;
use std::fmt;
use std::net::Ipv6Addr;

const DATABASE: &str = "database";
const REQUESTED_SECRETS: &str = "requested-secrets";
const ENDPOINTS: &str = "endpoints";
const SECRET_USER: &str = "secret-user";
/// What databases of before secrets have in their bag.
const USER_NAME: &str = "username";
const PASSWORD: &str = "password";
/// The port of every MySQL that says nothing else.
const PORT: u16 = 3306;

/// Application bag of slurmdbd on the `mysql_client` interface, written by its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseRequest {
    /// The database that slurmdbd keeps its tables in.
    pub database: &'static str,
}

impl DatabaseRequest {
    /// Returns the bag.
    pub fn encode(&self) -> Databag {
        let secrets = json!([USER_NAME, PASSWORD, "tls", "tls-ca", "uris"]);
        Databag::from([
            (DATABASE.to_owned(), self.database.to_owned()),
            (REQUESTED_SECRETS.to_owned(), dumps(&secrets)),
        ])
    }
}

/// Where a database listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseEndpoint {
    /// Name or address, and port.
    Network {
        /// Name or address, without brackets.
        host: String,
        /// Port.
        port: u16,
    },
    /// A socket on the machine itself, as a router beside slurmdbd has it.
    Socket(String),
}

impl DatabaseEndpoint {
    /// Reads `host:port`, `host`, `[address]:port` or `file:///path`. What it lets through can stand in a file.
    fn parse(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("file://") {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
            let fits = path.starts_with('/') && path.len() < 108 && path.bytes().all(plain);
            return (fits && !path.split('/').any(|part| part == "..")).then(|| Self::Socket(path.to_owned()));
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (address, port.strip_prefix(':'))
        } else {
            let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
            let begins = host.bytes().next()?.is_ascii_alphanumeric();
            (begins && host.len() < 254 && host.bytes().all(plain)).then_some((host, port))?
        };
        let port = port.map_or(Some(PORT), |port| port.parse().ok())?;
        Some(Self::Network { host: host.to_owned(), port })
    }
}

impl fmt::Display for DatabaseEndpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { host, port } => write!(formatter, "{host}:{port}"),
            Self::Socket(path) => formatter.write_str(path),
        }
    }
}

/// Where the name and the password of slurmdbd's user are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialSource {
    /// In a secret, as `username` and `password`.
    Secret(SecretUri),
    /// In the bag itself, under the same names.
    Bag,
}

/// Application bag of the database on the `mysql_client` interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseAnswer {
    /// Where it can be written to: the first one first. Never empty.
    pub endpoints: Vec<DatabaseEndpoint>,
    /// Where the credentials are.
    pub credentials: CredentialSource,
    /// The database that was made, if it says so.
    pub database: Option<String>,
}

impl DatabaseAnswer {
    /// Reads the bag. `None`: the database is not ready yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let text = |key: &str| bag.get(key).map(|text| text.trim()).filter(|text| !text.is_empty());
        let credentials = match text(SECRET_USER) {
            Some(uri) => CredentialSource::Secret(SecretUri::decode(SECRET_USER, uri)?),
            None if text(USER_NAME).is_some() && text(PASSWORD).is_some() => CredentialSource::Bag,
            None => return Ok(None),
        };
        let Some(list) = text(ENDPOINTS) else { return Ok(None) };
        let endpoint = |one: &str| {
            let refused = || DecodeError::malformed(ENDPOINTS, one, "not `host:port` or `file:///path`");
            DatabaseEndpoint::parse(one.trim()).ok_or_else(refused)
        };
        let endpoints = list.split(',').map(endpoint).collect::<Result<_, _>>()?;
        let word = |name: &str| {
            name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        };
        let database = match text(DATABASE) {
            Some(name) if !word(name) => return Err(DecodeError::malformed(DATABASE, name, "not a plain name")),
            other => other.map(str::to_owned),
        };
        Ok(Some(Self { endpoints, credentials, database }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(members: &[(&str, &str)]) -> Result<Option<DatabaseAnswer>, DecodeError> {
        DatabaseAnswer::decode(&members.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    const USER: (&str, &str) = ("secret-user", "secret://4f3a1a5e-1111-4222-8333-444455556666/d3k2v5nmp25c762q3bvg");

    #[test]
    fn endpoints_come_in_several_forms() {
        let shown = |list: &str| {
            let answer = answer(&[USER, ("endpoints", list)]).unwrap().unwrap();
            answer.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("10.0.0.5:3306,db-2.example.com:3307"), "10.0.0.5:3306 db-2.example.com:3307");
        assert_eq!(shown("db"), "db:3306");
        assert_eq!(shown("[2001:db8::1]:3306"), "2001:db8::1:3306");
        assert_eq!(shown("file:///run/mysqlrouter/mysql.sock"), "/run/mysqlrouter/mysql.sock");
    }

    #[test]
    fn what_could_leave_its_place_in_a_file_is_refused() {
        for list in [
            "db:3306\nStoragePass=x",
            "db:99999",
            "-db",
            "a b:1",
            "db:1,,",
            "file://relative",
            "file:///../etc",
            "file:///a b",
            "[x]:1",
        ] {
            let error = answer(&[USER, ("endpoints", list)]).unwrap_err().to_string();
            assert!(error.starts_with("databag key `endpoints`"), "{list:?}: {error}");
        }
        assert!(answer(&[USER, ("endpoints", "db"), ("database", "a;b")]).is_err());
    }

    #[test]
    fn a_secret_outweighs_a_password_in_the_bag() {
        let old = [("username", "u"), ("password", "p"), ("endpoints", "db:3306")];
        assert_eq!(answer(&old).unwrap().unwrap().credentials, CredentialSource::Bag);
        let both = [USER, old[0], old[1], old[2]];
        assert!(matches!(answer(&both).unwrap().unwrap().credentials, CredentialSource::Secret(_)));
    }

    #[test]
    fn a_database_that_is_not_ready_has_said_nothing() {
        for members in [&[][..], &[USER], &[("endpoints", "db:3306")], &[("username", "u"), ("endpoints", "db")]] {
            assert_eq!(answer(members), Ok(None), "{members:?}");
        }
    }

    #[test]
    fn the_refusal_of_a_secret_does_not_repeat_it() {
        let error = answer(&[("secret-user", "pa55word"), ("endpoints", "db")]).unwrap_err().to_string();
        assert!(!error.contains("pa55word"), "{error}");
    }
}
