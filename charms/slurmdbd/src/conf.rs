//! slurmdbd.conf as it should be, and what of the operator's parameters is in it. Pure.

use crate::names;
use serde::{Deserialize, Serialize};
use slurm_conf::{DbdConf, HostName, Parameters};
use slurm_interface::{DatabaseAnswer, DatabaseEndpoint};
use slurm_ops::keys;
use slurm_ops::slurmdbd::ConfText;
use slurm_unit::OptionProblem;
use slurm_unit::note::Note;
use std::fmt;

const HEADER: &str = "# Written by the slurmdbd charm. Add to it with option slurmdbd-conf-parameters.\n";

/// Keys of slurmdbd.conf that the charm sets itself, or that would lead slurmdbd away from what the charm looks at.
const OWNED: [&str; 20] = [
    "AuthAltParameters",
    "AuthAltTypes",
    "AuthInfo",
    "AuthType",
    "DbdAddr",
    "DbdBackupHost",
    "DbdHost",
    "DbdPort",
    "PidFile",
    "PluginDir",
    "SlurmUser",
    "StorageBackupHost",
    "StorageHost",
    "StorageLoc",
    "StoragePass",
    "StoragePassScript",
    "StoragePort",
    "StorageType",
    "StorageUser",
    "TLSType",
];

/// Keys that slurmdbd takes over when it is told to. All others need a start (measured with 24.11.5).
const RELOADED: [&str; 3] = ["DebugLevel", "PurgeJobAfter", "TrackWCKey"];

/// The operator's parameters, as far as they can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// As they were written.
    pub text: String,
    pub parameters: Result<Parameters, OptionProblem>,
}

impl Wanted {
    /// Understands the option.
    pub fn read(text: &str) -> Self {
        let parameters = DbdConf::parameters(text, &OWNED);
        let problem =
            |error: slurm_conf::ParameterError| OptionProblem::new(names::OPTION_PARAMETERS, "", error.to_string());
        Self { text: text.to_owned(), parameters: parameters.map_err(problem) }
    }
}

/// What became of parameters, kept beyond a boot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Tried {
    /// Those with which slurmdbd answered last.
    pub accepted: String,
    /// Those that it did not take.
    pub rejected: Option<Rejected>,
}

/// Parameters that slurmdbd did not take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    pub text: String,
    pub reason: String,
    /// The Slurm that did not take them.
    pub version: String,
}

impl Note for Tried {
    const PATH: &'static str = names::PARAMETERS_NOTE;
    const VERSION: u64 = 1;
}

impl Tried {
    /// Returns why a text was not taken by this Slurm.
    pub fn reason(&self, text: &str, version: &str) -> Option<&str> {
        let rejected = self.rejected.as_ref().filter(|own| own.text == text && own.version == version);
        rejected.map(|rejected| rejected.reason.as_str())
    }
}

/// User and password of the database. Prints nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
}

impl Login {
    /// Checks both. None: they cannot stand in a file.
    pub fn new(user: &str, password: &str) -> Option<Self> {
        let mut conf = DbdConf::new("");
        let fits = |text: &str| !text.is_empty() && text.len() <= 1024;
        let written = fits(user) && conf.set("StorageUser", user).is_ok();
        let written = written && fits(password) && conf.set("StoragePass", password).is_ok();
        written.then(|| Self { user: user.to_owned(), password: password.to_owned() })
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Login(..)")
    }
}

/// Returns the file.
pub fn render(
    host: &HostName,
    answer: &DatabaseAnswer,
    login: &Login,
    tokens: bool,
    parameters: &Parameters,
) -> ConfText {
    let mut conf = DbdConf::new(HEADER);
    let mut set = |key: &str, value: &str| {
        let written = conf.set(key, value);
        debug_assert!(written.is_ok(), "invariant: {key} was checked when it was read");
    };
    set("DbdHost", host.as_str());
    set("DbdPort", &names::PORT.to_string());
    set("SlurmUser", names::SLURM_USER);
    set("PidFile", "/run/slurmdbd/slurmdbd.pid");
    set("AuthType", "auth/slurm");
    if tokens {
        set("AuthAltTypes", "auth/jwt");
        set("AuthAltParameters", &format!("jwt_key={}", keys::JWT_KEY_FILE));
    }
    set("StorageType", "accounting_storage/mysql");
    if let Some(DatabaseEndpoint::Network { host, port }) = endpoint(answer) {
        set("StorageHost", host);
        set("StoragePort", &port.to_string());
    }
    set("StorageUser", &login.user);
    set("StoragePass", &login.password);
    set("StorageLoc", answer.database.as_deref().unwrap_or(names::DATABASE));
    conf.merge(parameters);
    ConfText::new(conf.render())
}

/// Returns where slurmdbd is to look for the database: a socket on this machine, else the first address.
pub fn endpoint(answer: &DatabaseAnswer) -> Option<&DatabaseEndpoint> {
    let socket = |one: &&DatabaseEndpoint| matches!(one, DatabaseEndpoint::Socket(_));
    answer.endpoints.iter().find(socket).or(answer.endpoints.first())
}

/// Returns the socket, if that is where the database is.
pub fn socket(answer: &DatabaseAnswer) -> Option<&str> {
    match endpoint(answer) {
        Some(DatabaseEndpoint::Socket(path)) => Some(path),
        _ => None,
    }
}

/// Says whether slurmdbd takes a changed file over without a start.
pub fn needs_reload_only(before: &ConfText, after: &ConfText) -> bool {
    before.changed_keys(after).iter().all(|key| RELOADED.iter().any(|own| own.eq_ignore_ascii_case(key)))
}

/// The slurm.conf of clients on this machine, who talk with slurmdbd alone.
pub const CLIENT_CONF: &str = "\
# Written by the slurmdbd charm, which asks slurmdbd with it. Nobody else reads it.
ClusterName=accounting
SlurmctldHost=localhost
AuthType=auth/slurm
CredType=cred/slurm
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
";

#[cfg(test)]
mod tests {
    use super::*;
    use slurm_interface::CredentialSource;

    fn answer(endpoints: Vec<DatabaseEndpoint>) -> DatabaseAnswer {
        DatabaseAnswer { endpoints, credentials: CredentialSource::Bag, database: None }
    }

    fn network(host: &str) -> DatabaseEndpoint {
        DatabaseEndpoint::Network { host: host.to_owned(), port: 3306 }
    }

    fn file(answer: &DatabaseAnswer, tokens: bool, text: &str) -> ConfText {
        let login = Login::new("slurm", "s3cret word").unwrap();
        render(&HostName::new("d1").unwrap(), answer, &login, tokens, &Wanted::read(text).parameters.unwrap())
    }

    #[test]
    fn the_file_has_what_slurmdbd_needs_and_what_the_operator_adds() {
        let text = file(&answer(vec![network("db")]), true, "PurgeJobAfter=12months");
        let expected = "DbdHost=d1\nDbdPort=6819\nSlurmUser=slurm\nPidFile=/run/slurmdbd/slurmdbd.pid\n\
            AuthType=auth/slurm\nAuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key\n\
            StorageType=accounting_storage/mysql\nStorageHost=db\nStoragePort=3306\nStorageUser=slurm\n\
            StoragePass=\"s3cret word\"\nStorageLoc=slurm_acct_db\nPurgeJobAfter=12months\n";
        assert_eq!(text, ConfText::new(format!("{HEADER}{expected}")));
    }

    #[test]
    fn a_socket_on_this_machine_is_preferred() {
        let near = answer(vec![network("db"), DatabaseEndpoint::Socket("/run/router.sock".to_owned())]);
        assert_eq!(socket(&near), Some("/run/router.sock"));
        assert!(file(&near, false, "").changed_keys(&file(&answer(vec![network("db")]), false, "")).len() == 2);
        assert_eq!(socket(&answer(vec![network("db")])), None);
    }

    #[test]
    fn keys_of_the_charm_are_refused_by_name() {
        for key in OWNED {
            let problem = Wanted::read(&format!("{}=x", key.to_uppercase())).parameters.unwrap_err().to_string();
            assert!(problem.starts_with("option slurmdbd-conf-parameters: line 1: key `"), "{problem}");
        }
    }

    #[test]
    fn only_what_was_seen_to_be_reloaded_is_reloaded() {
        let plain = file(&answer(vec![network("db")]), false, "");
        let purge = file(&answer(vec![network("db")]), false, "PurgeJobAfter=1month\nDebugLevel=debug");
        assert!(needs_reload_only(&plain, &purge) && needs_reload_only(&purge, &plain));
        for other in [
            file(&answer(vec![network("db2")]), false, ""),
            file(&answer(vec![network("db")]), true, ""),
            file(&answer(vec![network("db")]), false, "MessageTimeout=20"),
        ] {
            assert!(!needs_reload_only(&plain, &other));
        }
    }

    #[test]
    fn a_password_that_would_leave_its_line_is_no_password() {
        for password in ["", "a\nSlurmUser=root", "a#b", "a\"b", &"x".repeat(2000)] {
            assert!(Login::new("slurm", password).is_none(), "{password:?}");
        }
        assert_eq!(format!("{:?}", Login::new("slurm", "s3cret").unwrap()), "Login(..)");
    }
}
