//! Which server takes mail: the `smtp` interface. Its values are plain texts, not JSON.

use crate::databag::{Databag, DecodeError};
use crate::secret::SecretUri;
use std::fmt;

const HOST: &str = "host";
const PORT: &str = "port";
const USER: &str = "user";
const PASSWORD: &str = "password";
const PASSWORD_ID: &str = "password_id";
const AUTH_TYPE: &str = "auth_type";
const SECURITY: &str = "transport_security";
const DOMAIN: &str = "domain";
const SKIP_VERIFY: &str = "skip_ssl_verify";
const SENDER: &str = "smtp_sender";

/// Of a text without a limit of its own.
const LONGEST: usize = 512;

/// Application bag of a mail integrator on the `smtp` interface, written by its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailRelay {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is kept private.
    pub security: MailSecurity,
    /// The certificate of the server is checked.
    pub verify: bool,
    /// Who this cluster says that it is. None: nobody.
    pub login: Option<MailLogin>,
    /// Behind the `@` of addresses without one.
    pub domain: Option<String>,
    /// Whom mail is from.
    pub sender: Option<String>,
}

/// A user of a mail server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailLogin {
    /// The name.
    pub user: String,
    /// What proves it.
    pub password: MailPassword,
}

/// Where the password of a mail server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailPassword {
    /// In the bag itself.
    Given(Password),
    /// In a secret, under the key `password`.
    InSecret(SecretUri),
}

/// A password, which is printed nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Checks and wraps a password: a text in one line.
    pub fn new(text: &str) -> Option<Self> {
        is_line(text).then(|| Self(text.to_owned()))
    }

    /// Returns the password, for the file that has it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(…)")
    }
}

/// How the connection to a mail server is kept private.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailSecurity {
    /// Not at all.
    None,
    /// From the first command that asks for it.
    StartTls,
    /// From the first byte.
    Tls,
}

impl MailRelay {
    /// The key of the password in a secret.
    pub const SECRET_KEY: &'static str = PASSWORD;

    /// Reads the bag. `None`: nothing is there yet.
    pub fn decode(bag: &Databag) -> Result<Option<Self>, DecodeError> {
        let Some(host) = value(bag, HOST) else { return Ok(None) };
        if !is_host(host) {
            return Err(DecodeError::malformed(HOST, host, "not the name or address of a host"));
        }
        let port = value(bag, PORT).unwrap_or_default();
        let port = port.parse().ok().filter(|port| *port > 0);
        let port = port.ok_or_else(|| {
            DecodeError::malformed(PORT, value(bag, PORT).unwrap_or_default(), "not a port from 1 to 65535")
        })?;
        let security = match value(bag, SECURITY) {
            None | Some("none") => MailSecurity::None,
            Some("starttls") => MailSecurity::StartTls,
            Some("tls") => MailSecurity::Tls,
            Some(other) => return Err(DecodeError::malformed(SECURITY, other, "expected none, starttls or tls")),
        };
        let verify = match value(bag, SKIP_VERIFY) {
            None | Some("False" | "false" | "None") => true,
            Some("True" | "true") => false,
            Some(other) => return Err(DecodeError::malformed(SKIP_VERIFY, other, "expected True or False")),
        };
        let login = match value(bag, AUTH_TYPE) {
            None | Some("none" | "not_provided") => None,
            Some("plain") => Some(login(bag)?),
            Some(other) => {
                return Err(DecodeError::malformed(AUTH_TYPE, other, "expected none, not_provided or plain"));
            }
        };
        let domain = value(bag, DOMAIN);
        if let Some(domain) = domain.filter(|domain| !is_domain(domain)) {
            return Err(DecodeError::malformed(DOMAIN, domain, "not the name of a domain"));
        }
        let sender = value(bag, SENDER);
        if let Some(sender) = sender.filter(|sender| !is_address(sender)) {
            return Err(DecodeError::malformed(SENDER, sender, "not the address of a sender"));
        }
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let (domain, sender) = (owned(domain), owned(sender));
        Ok(Some(Self { host: host.to_owned(), port, security, verify, login, domain, sender }))
    }
}

fn login(bag: &Databag) -> Result<MailLogin, DecodeError> {
    let user = value(bag, USER).unwrap_or_default();
    if !is_line(user) {
        return Err(DecodeError::malformed(USER, user, "expected the name of a user, in one line"));
    }
    // What is there may be a password, so it is not shown.
    let password = match (value(bag, PASSWORD), value(bag, PASSWORD_ID)) {
        (Some(text), _) => MailPassword::Given(
            Password::new(text).ok_or_else(|| DecodeError::malformed(PASSWORD, "…", "not a text in one line"))?,
        ),
        (None, Some(uri)) => MailPassword::InSecret(SecretUri::decode(PASSWORD_ID, uri)?),
        (None, None) => return Err(DecodeError::malformed(PASSWORD_ID, "", "expected a password for auth_type plain")),
    };
    Ok(MailLogin { user: user.to_owned(), password })
}

/// An empty value is none.
fn value<'b>(bag: &'b Databag, key: &str) -> Option<&'b str> {
    bag.get(key).map(String::as_str).filter(|text| !text.is_empty())
}

fn is_line(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && !text.chars().any(char::is_control)
}

fn is_host(text: &str) -> bool {
    text.len() <= 255
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.:_".contains(&byte))
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        || text.parse::<std::net::Ipv6Addr>().is_ok()
}

fn is_domain(text: &str) -> bool {
    text.len() <= 255
        && text
            .split('.')
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
}

fn is_address(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-_=".contains(&byte))
    };
    text.len() <= LONGEST && text.split_once('@').is_some_and(|(name, domain)| is_name(name) && is_domain(domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: [(&str, &str); 5] =
        [(HOST, "mail.example.com"), (PORT, "587"), (AUTH_TYPE, "plain"), (SECURITY, "starttls"), (USER, "slurm")];

    fn bag(members: &[(&str, &str)]) -> Databag {
        PLAIN.iter().chain(members).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_relay_is_read_as_the_integrator_writes_it() {
        let uri = "secret:d3k2v5nmp25c762q3bvg";
        let relay = MailRelay::decode(&bag(&[(PASSWORD_ID, uri), (SKIP_VERIFY, "False"), (DOMAIN, "example.com")]));
        let relay = relay.unwrap().unwrap();
        assert_eq!((relay.host.as_str(), relay.port, relay.verify), ("mail.example.com", 587, true));
        assert_eq!(relay.security, MailSecurity::StartTls);
        assert_eq!(relay.login.unwrap().password, MailPassword::InSecret(SecretUri::new(uri).unwrap()));
        assert_eq!(relay.domain.as_deref(), Some("example.com"));
        assert_eq!(MailRelay::decode(&Databag::new()), Ok(None));
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let relay = MailRelay::decode(&bag(&[(PASSWORD, "s3cret")])).unwrap().unwrap();
        assert!(!format!("{relay:?}").contains("s3cret"));
        let broken = MailRelay::decode(&bag(&[(PASSWORD, "s3cret\nhost evil")])).unwrap_err();
        assert!(!format!("{broken}{broken:?}").contains("s3cret"));
    }

    #[test]
    fn what_could_leave_its_place_in_a_file_is_refused() {
        let given = (PASSWORD, "p");
        for (key, value) in [
            (HOST, "a\nhost b"),
            (HOST, "-x"),
            (PORT, "0"),
            (PORT, "65536"),
            (PORT, "25 "),
            (USER, "a\nb"),
            (AUTH_TYPE, "login"),
            (SECURITY, "ssl"),
            (SKIP_VERIFY, "maybe"),
            (DOMAIN, "a b"),
            (DOMAIN, "a\nMailProg=x"),
            (SENDER, "a@b\nc"),
            (SENDER, "nobody"),
        ] {
            assert!(MailRelay::decode(&bag(&[given, (key, value)])).is_err(), "{key} {value:?}");
        }
        assert!(MailRelay::decode(&bag(&[])).unwrap_err().to_string().contains("password"));
    }
}
