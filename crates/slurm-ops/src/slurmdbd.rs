//! slurmdbd: its file, whether it answers, and why not. Starting it is in `systemd`.
//!
//! What is said here about slurmdbd was measured with 24.11.5: it loads keys and the account of the database only at a
//! start, and other keys of its file also when it is told to (SIGHUP). A file that it does not understand ends it,
//! either way. While the database is away it runs on, or tries again every five seconds, and answers nobody.

use crate::command::{Command, Output};
use crate::defaults;
use crate::files::{self, Access, FileError};
use crate::journal;
use crate::machine::{Host, HostWriter};
use crate::scontrol::with_candidate;
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// What slurmdbd reads. It has the password of the database.
pub const CONF_FILE: &str = "/etc/slurm/slurmdbd.conf";
/// Environment file of the packaged unit.
pub const DEFAULTS_FILE: &str = "/etc/default/slurmdbd";
/// Where the client library of the database looks for a socket.
const SOCKET_VARIABLE: &str = "MYSQL_UNIX_PORT";

/// A slurmdbd of another authentication does nothing but read its file: that is how a file is tried out.
const NO_SUCH_PLUGIN: &str = "auth/none-such";
/// A slurmdbd that is well answers within milliseconds.
const PING_DEADLINE: Duration = Duration::from_secs(10);
const TRIAL_DEADLINE: Duration = Duration::from_secs(20);

/// The text of a slurmdbd.conf. Prints nothing of itself.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfText(String);

impl ConfText {
    /// Wraps a text.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// Returns the keys in which another text differs from this one, in the words of the lines.
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        let differs = |one: &str, two: &str| -> Vec<String> {
            let lines = one.lines().filter(|line| !two.lines().any(|own| own == *line));
            lines.filter_map(|line| line.split_once('=')).map(|(key, _)| key.to_owned()).collect()
        };
        let mut keys = differs(&self.0, &other.0);
        keys.extend(differs(&other.0, &self.0));
        keys
    }
}

impl fmt::Debug for ConfText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ConfText(..)")
    }
}

/// Reads slurmdbd.conf. `None`: there is none.
pub fn read_conf(host: &Host) -> Result<Option<ConfText>, FileError> {
    Ok(files::read_text(host, CONF_FILE)?.map(ConfText))
}

/// Tells whether slurmdbd.conf is for `slurm` alone. Anything else is fatal to slurmdbd.
pub fn conf_is_private(host: &Host) -> Result<bool, FileError> {
    files::has_access(host, CONF_FILE, &Access::slurm(0o600))
}

/// Writes slurmdbd.conf for `slurm` alone, and tells whether it was different.
pub fn ensure_conf(writer: &HostWriter, text: &ConfText) -> Result<bool, FileError> {
    files::replace(writer, CONF_FILE, text.0.as_bytes(), &Access::slurm(0o600))
}

/// Has slurmdbd read a file without serving, in a directory of our own. Returns what it has against it.
///
/// With an authentication plugin that does not exist it ends before it touches the database, the port or the process
/// that runs. So whatever else it complains about is the fault of the file.
pub fn try_conf(writer: &HostWriter, text: &ConfText, directory: &str) -> Result<Option<String>, FileError> {
    files::ensure_directory(writer, directory, &Access::own(0o700))?;
    let replaced = |line: &str| match line.split_once('=').map_or("", |(key, _)| key) {
        "AuthType" => format!("AuthType={NO_SUCH_PLUGIN}\n"),
        "PidFile" => format!("PidFile={directory}/slurmdbd.pid\n"),
        // Its own user has to own the file.
        "SlurmUser" => "SlurmUser=root\n".to_owned(),
        _ => format!("{line}\n"),
    };
    let trial: String = text.0.lines().map(replaced).collect();
    files::replace(writer, format!("{directory}/slurm.conf"), b"", &Access::own(0o600))?;
    files::replace(writer, format!("{directory}/slurmdbd.conf"), trial.as_bytes(), &Access::own(0o600))?;
    let conf = writer.host().path(format!("{directory}/slurm.conf"));
    let command = writer.command("slurmdbd").args(["-D", "-s"]).env("SLURM_CONF", conf.as_os_str());
    let ended = command.deadline(TRIAL_DEADLINE).output();
    for file in ["slurmdbd.conf", "slurm.conf", "slurmdbd.pid"] {
        files::remove(writer, format!("{directory}/{file}"))?;
    }
    // A slurmdbd that could not be asked says nothing about the file: the start will.
    Ok(ended.ok().and_then(|output| objection(&output)))
}

fn objection(output: &Output) -> Option<String> {
    let said = format!("{}{}", output.stdout, output.stderr);
    // It looks for the plugin after it has read the file.
    if said.contains(NO_SUCH_PLUGIN) {
        return None;
    }
    let lines: Vec<&str> = said.lines().filter_map(journal::complaint).collect();
    let first = lines.first()?;
    // The first line names key or value; where it is the last as well, what is fatal is all there is.
    Some(first.strip_prefix("fatal: ").unwrap_or(first).replace("_parse_next_key: ", ""))
}

/// Reads the socket at which slurmdbd will look for the database. `None`: it is to be found by its address.
pub fn read_socket(host: &Host) -> Result<Option<String>, FileError> {
    let text = files::read_text(host, DEFAULTS_FILE)?;
    Ok(text.as_deref().and_then(|text| defaults::words(text, SOCKET_VARIABLE)?.into_iter().next()))
}

/// Writes the socket at which slurmdbd will look for the database. Other lines of the file stay.
pub fn ensure_socket(writer: &HostWriter, socket: Option<&str>) -> Result<bool, FileError> {
    let present = files::read_text(writer.host(), DEFAULTS_FILE)?.unwrap_or_default();
    let text = match socket {
        Some(socket) => defaults::with(&present, SOCKET_VARIABLE, socket),
        None => defaults::without(&present, SOCKET_VARIABLE),
    };
    files::replace(writer, DEFAULTS_FILE, text.as_bytes(), &Access::own(0o644))
}

/// Why slurmdbd does not answer, as far as it has to do with the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The database refuses user or password.
    Credentials,
    /// The user may not use the database that it is to use.
    Grant,
    /// The database does not answer.
    Silent,
    /// The tables are being made, or brought to the form of this Slurm.
    Preparing,
}

impl Trouble {
    /// Finds the trouble in words of slurmdbd: of the last line that shows one.
    pub fn find(text: &str) -> Option<Self> {
        text.lines().rev().find_map(|line| {
            let signs = [
                ("slurmdbd version", None),
                ("failed: 1045", Some(Self::Credentials)),
                ("failed: 1044", Some(Self::Grant)),
                ("failed: 1049", Some(Self::Grant)),
                ("mysql_real_connect failed", Some(Self::Silent)),
                ("onver", Some(Self::Preparing)),
            ];
            signs.iter().find(|(sign, _)| line.contains(sign)).map(|(_, trouble)| *trouble)
        })?
    }
}

/// What the last run of slurmdbd wrote into the journal, as far as it tells why it does not serve.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// What has to do with the database.
    pub trouble: Option<Trouble>,
    /// What it complained about.
    pub complaint: Option<String>,
}

/// Looks why slurmdbd does not serve. Nothing is known where nobody could be asked.
pub fn said(host: &Host, unit: &str) -> Said {
    let said = journal::last_run_of(host, unit).unwrap_or_default();
    Said { trouble: Trouble::find(&said), complaint: journal::summary(&said) }
}

/// How slurmdbd is, as a client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Answers,
    /// Its machine is there, and nobody listens on the port.
    Refuses,
    /// Nothing comes back. Whoever has a connection to it waits.
    Silent,
}

/// Asks slurmdbd whether it serves. `conf` is a slurm.conf that names it; a slurmdbd whose database is away does not.
pub fn answers(host: &Host, conf: &str) -> bool {
    reach(host, conf) == Reach::Answers
}

/// Asks slurmdbd the same, and tells why not.
pub fn reach(host: &Host, conf: &str) -> Reach {
    #[derive(Deserialize)]
    struct Pings {
        pings: Vec<Ping>,
    }
    #[derive(Deserialize)]
    struct Ping {
        responding: bool,
    }
    let ping = sacctmgr(host, conf).args(["--json", "ping"]).deadline(PING_DEADLINE);
    let Ok(output) = ping.output() else { return Reach::Silent };
    let answer: Result<Pings, _> = serde_json::from_str(&output.stdout);
    if answer.is_ok_and(|answer| answer.pings.iter().any(|ping| ping.responding)) {
        return Reach::Answers;
    }
    let refuses = [&output.stdout, &output.stderr].iter().any(|said| said.contains("Connection refused"));
    if refuses { Reach::Refuses } else { Reach::Silent }
}

/// Asks slurmdbd the same as a client whose slurm.conf has this text. It is at `path` while it is asked.
pub fn answers_with(writer: &HostWriter, path: &str, text: &str) -> Result<bool, FileError> {
    with_candidate(writer, path.as_ref(), text, |_| answers(writer.host(), path))
}

/// What is in the state directory of slurmctld and says which cluster this is, and what was there before.
const CLUSTER_ID: &str = "clustername";
const CLUSTER_ID_BEFORE: &str = "clustername.before";

/// Has slurmctld take the identity of its cluster from slurmdbd. It makes one up as long as it knows no slurmdbd, and
/// ends when slurmdbd has another one. Without the file it asks slurmdbd, and serves nobody before it has an answer.
pub fn forget_cluster_id(writer: &HostWriter, state_directory: &str) -> Result<(), FileError> {
    let (file, before) = (format!("{state_directory}/{CLUSTER_ID}"), format!("{state_directory}/{CLUSTER_ID_BEFORE}"));
    if let Some(text) = files::read_text(writer.host(), &file)? {
        files::replace(writer, before, text.as_bytes(), &Access::slurm(0o644))?;
        files::remove(writer, file)?;
    }
    Ok(())
}

/// Puts the identity of before back, unless there is one.
pub fn recall_cluster_id(writer: &HostWriter, state_directory: &str) -> Result<(), FileError> {
    let (file, before) = (format!("{state_directory}/{CLUSTER_ID}"), format!("{state_directory}/{CLUSTER_ID_BEFORE}"));
    if files::read_text(writer.host(), &file)?.is_none()
        && let Some(text) = files::read_text(writer.host(), before)?
    {
        files::replace(writer, file, text.as_bytes(), &Access::slurm(0o644))?;
    }
    Ok(())
}

/// Lists the clusters that slurmdbd knows, each with the host of its controller. `None`: it did not say.
pub fn clusters(host: &Host, conf: &str) -> Option<Vec<(String, String)>> {
    let words = ["--noheader", "--parsable2", "show", "cluster", "format=cluster,controlhost"];
    let output = sacctmgr(host, conf).args(words).output().ok().filter(Output::success)?;
    let line = |line: &str| line.split_once('|').map(|(name, control)| (name.to_owned(), control.to_owned()));
    Some(output.stdout.lines().filter_map(line).collect())
}

/// Waits for as long as `patience` until slurmdbd answers, and then no longer.
pub fn await_answer(writer: &HostWriter, conf: &str, patience: Duration) {
    const PAUSE: Duration = Duration::from_millis(200);
    let mut waited = Duration::ZERO;
    while waited < patience && !answers(writer.host(), conf) {
        writer.pause(PAUSE);
        waited += PAUSE;
    }
}

fn sacctmgr(host: &Host, conf: &str) -> Command {
    host.command("sacctmgr").env("SLURM_CONF", host.path(conf).as_os_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(stderr: &str) -> Output {
        Output { code: 1, stdout: String::new(), stderr: stderr.to_owned() }
    }

    #[test]
    fn a_file_that_was_read_to_its_end_is_good() {
        let good = "slurmdbd: error: cannot find auth plugin for auth/none-such\n\
                    slurmdbd: fatal: Unable to initialize authentication plugins\n";
        assert_eq!(objection(&output(good)), None);
        let unknown = "slurmdbd: error: _parse_next_key: Parsing error at unrecognized key: Bogus\n\
                       slurmdbd: fatal: Could not open/read/parse slurmdbd.conf file /root/t/slurmdbd.conf\n";
        assert_eq!(objection(&output(unknown)).as_deref(), Some("Parsing error at unrecognized key: Bogus"));
        let level = "slurmdbd: fatal: Invalid DebugLevel loud\n";
        assert_eq!(objection(&output(level)).as_deref(), Some("Invalid DebugLevel loud"));
    }

    #[test]
    fn the_last_word_about_the_database_counts() {
        let refused = "slurmdbd: error: mysql_real_connect failed: 1045 Access denied for user 's'@'localhost'\n\
                       slurmdbd: error: The database must be up when starting the MYSQL plugin.  Trying again\n";
        assert_eq!(Trouble::find(refused), Some(Trouble::Credentials));
        let denied = "slurmdbd: error: mysql_real_connect failed: 1044 Access denied for user 'u'@'%' to database\n";
        assert_eq!(Trouble::find(denied), Some(Trouble::Grant));
        let away = "slurmdbd: error: mysql_real_connect failed: 2002 Can't connect to server on '127.0.0.1' (115)\n";
        assert_eq!(Trouble::find(&format!("{refused}{away}")), Some(Trouble::Silent));
        let over = format!("{away}slurmdbd: slurmdbd version 24.11.5 started\n");
        assert_eq!(Trouble::find(&over), None);
        let tables = "slurmdbd: accounting_storage/as_mysql: as_mysql_convert_tables_pre_create: converting tables\n";
        assert_eq!(Trouble::find(tables), Some(Trouble::Preparing));
    }

    #[test]
    fn what_differs_is_named_by_its_key() {
        let (one, two) = (ConfText::new("A=1\nB=2\n".to_owned()), ConfText::new("A=1\nB=3\nC=4\n".to_owned()));
        assert_eq!(one.changed_keys(&two), ["B", "B", "C"]);
        assert!(one.changed_keys(&one).is_empty());
        assert_eq!(format!("{one:?}"), "ConfText(..)");
    }
}
