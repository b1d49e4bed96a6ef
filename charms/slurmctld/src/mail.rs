//! How slurmctld sends mail while a mail integrator is related: mailx hands it to msmtp, which hands it to the relay.
//!
//! slurmctld calls `MailProg -s SUBJECT ADDRESS` as its own user and takes no options for it. So the configuration is
//! msmtp's own file for the whole machine, which only that user can read: the password is in it.

use crate::names;
use slurm_interface::{MailRelay, MailSecurity, Password};
use slurm_ops::files::{self, Access};
use slurm_ops::packages::{self, Obstacle};
use slurm_ops::{Host, HostWriter};
use slurm_unit::Error;
use std::fmt;

/// What is installed: mailx, and msmtp as the program that it hands mail to. Nothing of it waits for mail.
const PACKAGES: [&str; 2] = ["bsd-mailx", "msmtp-mta"];
/// What comes with them and is not wanted: it would listen on port 25.
const SERVICES: [&str; 1] = ["msmtpd.service"];
/// The first line of our file.
const HEADER: &str = "# Written by the slurmctld charm, endpoint smtp.";

/// A text with a password in it, which is printed nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateText(String);

impl fmt::Debug for PrivateText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PrivateText(…)")
    }
}

/// What of all this is on the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MailProgram {
    /// The packages are installed.
    pub installed: bool,
    /// msmtp's file for the whole machine.
    pub conf: Option<PrivateText>,
    /// Only slurmctld can read it.
    pub private: bool,
}

impl MailProgram {
    /// Looks. Starts no process.
    pub fn look(host: &Host, related: bool) -> Result<Self, Error> {
        let conf = files::read_text(host, names::MAIL_CONF)?.map(PrivateText);
        // Without a relation nobody asks for the packages.
        let installed = related && packages::are_present(host, &PACKAGES, &SERVICES)?;
        let private = files::has_access(host, names::MAIL_CONF, &Access::slurm(0o600))?;
        Ok(Self { installed, conf, private })
    }

    /// Says whether the file is one that the charm wrote.
    pub fn is_ours(&self) -> bool {
        self.conf.as_ref().is_some_and(|text| text.0.starts_with(HEADER))
    }

    /// Says whether the file is somebody else's.
    pub fn is_taken(&self) -> bool {
        self.conf.is_some() && !self.is_ours()
    }
}

/// Returns msmtp's file for a relay.
pub fn conf(relay: &MailRelay, password: Option<&Password>) -> PrivateText {
    let mut lines = vec![HEADER.to_owned(), "defaults".to_owned(), "syslog on".to_owned()];
    let tls = |on: bool| if on { "on" } else { "off" };
    lines.push(format!("tls {}", tls(relay.security != MailSecurity::None)));
    if relay.security != MailSecurity::None {
        lines.push(format!("tls_starttls {}", tls(relay.security == MailSecurity::StartTls)));
        if relay.verify {
            lines.push("tls_trust_file /etc/ssl/certs/ca-certificates.crt".to_owned());
        } else {
            lines.push("tls_certcheck off".to_owned());
        }
    }
    lines.extend(["account default".to_owned(), format!("host {}", relay.host), format!("port {}", relay.port)]);
    match (&relay.sender, &relay.domain) {
        (Some(sender), _) => lines.push(format!("from {sender}")),
        (None, Some(domain)) => lines.push(format!("from {}@{domain}", names::SLURM_USER)),
        (None, None) => lines.push(format!("from {}@%H", names::SLURM_USER)),
    }
    lines.extend(relay.domain.iter().map(|domain| format!("domain {domain}")));
    match (&relay.login, password) {
        (Some(login), Some(password)) => {
            lines.push("auth plain".to_owned());
            // msmtp takes off the first and the last quote, and knows no escapes.
            lines.push(format!("user \"{}\"", login.user));
            lines.push(format!("password \"{}\"", password.reveal()));
        }
        _ => lines.push("auth off".to_owned()),
    }
    PrivateText(lines.join("\n") + "\n")
}

/// A change of what sends mail on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailStep {
    Install,
    Configure(PrivateText),
    /// Takes the configuration away. The packages stay: who else uses them is not known.
    Remove,
}

impl MailStep {
    /// Names the step.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Install => "install the mail program",
            Self::Configure(_) => "configure the mail program",
            Self::Remove => "take the configuration of the mail program away",
        }
    }

    /// Makes the change. Returns what stood in the way: apt failing is no failure of the hook.
    pub fn apply(&self, host: &HostWriter) -> Result<Option<Obstacle>, Error> {
        match self {
            Self::Install => {
                if let Err(error) = packages::ensure_present(host, &PACKAGES, &SERVICES) {
                    tracing::warn!("could not {}: {error}", self.name());
                    return Ok(Some(Obstacle::try_from(error)?));
                }
            }
            Self::Configure(text) => {
                files::replace(host, names::MAIL_CONF, text.0.as_bytes(), &Access::slurm(0o600))?;
            }
            Self::Remove => {
                files::remove(host, names::MAIL_CONF)?;
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use charm::Databag;

    fn relay(members: &[(&str, &str)]) -> MailRelay {
        let bag: Databag = members.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        MailRelay::decode(&bag).unwrap().unwrap()
    }

    #[test]
    fn a_relay_with_a_password_is_a_file_of_msmtp() {
        let relay = relay(&[
            ("host", "mail.example.com"),
            ("port", "587"),
            ("auth_type", "plain"),
            ("transport_security", "starttls"),
            ("user", "slurm"),
            ("password", "p\"w #1"),
            ("domain", "example.com"),
        ]);
        let text = conf(&relay, Password::new("p\"w #1").as_ref());
        for line in ["tls on", "tls_starttls on", "host mail.example.com", "from slurm@example.com", "auth plain"] {
            assert!(text.0.lines().any(|own| own == line), "{line}: {}", text.0);
        }
        assert!(text.0.contains("password \"p\"w #1\"\n"));
        assert!(!format!("{text:?}{:?}", MailStep::Configure(text.clone())).contains("#1"));
    }

    #[test]
    fn a_relay_without_anything_is_spoken_to_plainly() {
        let text = conf(&relay(&[("host", "10.0.0.5"), ("port", "25"), ("smtp_sender", "hpc@example.com")]), None);
        assert!(
            text.0.contains("tls off\n") && text.0.contains("auth off\n") && text.0.contains("from hpc@example.com\n")
        );
        assert!(!text.0.contains("certcheck"));
    }
}
