//! What a daemon of Slurm complained about, from the journal. Which words are harmless is known here and nowhere else.
//!
//! ```
//! use slurm_ops::journal::Cause;
//!
//! let said = "slurmd: error: _fetch_child: failed to fetch remote configs: Protocol authentication error";
//! assert_eq!(Cause::find(said), Some(Cause::Authentication));
//! ```

use crate::clock;
use crate::machine::Host;
use std::time::{Duration, Instant};

/// How far back to look. A daemon that fails to start writes a few dozen lines.
const LINES: u32 = 200;

/// Returns what a unit's last run complained about, on one line: the first complaint, which names the culprit, and the
/// last fatal line; or how it was killed, if it complained about nothing. `None`: nothing, or nobody could be asked.
pub fn last_complaint(host: &Host, unit: &str) -> Option<String> {
    let journal = read(host, unit, &format!("--lines={LINES}"))?;
    // The last start in sight is the one to tell about.
    reason(last_run(&journal))
}

/// What slurmctld says when it serves. What it complained about before that did not end it.
const SERVES: &str = "Running as primary controller";

fn reason(run: &str) -> Option<String> {
    let end = run.rfind(SERVES).map_or(run, |serves| &run[serves..]);
    summary(end).or_else(|| killed(end))
}

/// How systemd says that it killed a unit, or that somebody else did.
fn killed(run: &str) -> Option<String> {
    if run.contains("State 'stop-sigterm' timed out") {
        return Some("it did not end when it was stopped, and was killed".to_owned());
    }
    let (_, end) = run.rsplit_once("Main process exited, ")?;
    let status = end.lines().next()?.trim();
    (!status.starts_with("code=exited")).then(|| format!("its process ended: {status}"))
}

/// How far the journal may lag behind what was done.
const LAG: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(100);
/// The last that slurmctld says about files that it did not take up.
const GIVEN_UP: &str = "reconfigure failed";

/// Returns what slurmctld complained about when it was asked to take up new files and did not, from what it logged
/// since `began`.
pub(crate) fn complaint_of_reconfigure(host: &Host, began: u64) -> Option<String> {
    let end = Instant::now() + LAG;
    loop {
        let journal = read(host, "slurmctld.service", &format!("--since=@{began}"))?;
        let attempt = last_attempt(&journal);
        if attempt.contains(GIVEN_UP) || Instant::now() >= end {
            return summary(attempt);
        }
        std::thread::sleep(PAUSE);
    }
}

/// How slurmctld begins to take up new files.
const ATTEMPT: &str = "Processing Reconfiguration Request";

/// How an attempt to take up new files ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The successor serves.
    Accepted,
    /// The successor gave up, for this reason.
    Refused(String),
    /// The successor is still at it.
    Pending,
}

/// Returns how the last attempt since `began` ended. `None`: nobody could be asked, or nothing was logged of an
/// attempt.
pub(crate) fn verdict_of_reconfigure(host: &Host, began: u64) -> Option<Verdict> {
    verdict(&read(host, "slurmctld.service", &format!("--since=@{began}"))?)
}

fn verdict(journal: &str) -> Option<Verdict> {
    let attempt = last_attempt(journal);
    if attempt.contains("Relinquishing control to new") {
        return Some(Verdict::Accepted);
    }
    if attempt.contains(GIVEN_UP) || attempt.contains("fatal: ") {
        return Some(Verdict::Refused(summary(attempt).unwrap_or_else(|| GIVEN_UP.to_owned())));
    }
    attempt.contains(ATTEMPT).then_some(Verdict::Pending)
}

/// The journal is asked by the second, so it may begin with an earlier attempt.
fn last_attempt(journal: &str) -> &str {
    journal.rfind(ATTEMPT).map_or(journal, |start| &journal[start..])
}

/// Why a daemon of Slurm cannot talk to the others, where Slurm's own words would mislead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The name of a host cannot be resolved.
    NameResolution,
    /// The other side refuses what this one says about itself: keys or clocks differ.
    Authentication,
    /// What the other side says about itself has run out, so its clock is behind.
    Clocks,
}

/// A cause that is older than this many lines may be over.
const RECENT: usize = 30;

impl Cause {
    /// Finds the cause in words of Slurm: of the last line that shows one.
    pub fn find(text: &str) -> Option<Self> {
        // This one comes with a refusal of its own, which says less.
        if text.lines().rev().take(RECENT).any(|line| line.contains("token expired")) {
            return Some(Self::Clocks);
        }
        text.lines().rev().take(RECENT).find_map(|line| {
            let signs = [
                ("getaddrinfo() failed", Self::NameResolution),
                ("Unable to resolve", Self::NameResolution),
                ("authentication error", Self::Authentication),
                ("jwt_decode (with key) failure", Self::Authentication),
                ("could not find kid", Self::Authentication),
            ];
            signs.iter().find(|(sign, _)| line.contains(sign)).map(|(_, cause)| *cause)
        })
    }
}

/// Looks in what a unit's last run wrote for why it cannot talk to the others. `None`: nothing known, or nobody could
/// be asked.
pub fn cause(host: &Host, unit: &str) -> Option<Cause> {
    let journal = read(host, unit, &format!("--lines={LINES}"))?;
    Cause::find(last_run(&journal))
}

/// Tells whether slurmd complained about how its own node is described, that is, about `--conf`.
pub fn blames_description(complaint: &str) -> bool {
    complaint.contains("failed to create dynamic node") || complaint.contains("Failed to parse nodeline")
}

/// Tells whether slurmd may have refused to start because of how its own node is described. Why it may be fatal is for
/// every plugin to say; what surely has to do with something else is known.
pub fn may_blame_description(complaint: &str) -> bool {
    const ELSEWHERE: [&str; 9] = [
        "listen port",
        "Address already in use",
        "auth",
        "key file",
        "configuration source",
        "Hybrid mode",
        "No space left",
        "Read-only file system",
        "Permission denied",
    ];
    complaint.contains("fatal:") && !ELSEWHERE.iter().any(|sign| complaint.contains(sign))
}

/// A machine whose messages slurmctld refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Its name or address, as slurmctld tells it.
    pub host: String,
    /// Why.
    pub cause: Cause,
}

/// Returns the machine whose messages slurmctld refused last, within the time given. A slurmd that is refused tries
/// again every ten seconds. `None`: nobody, or nobody could be asked.
pub fn refused_lately(host: &Host, within: Duration) -> Option<Stranger> {
    let since = clock::now().saturating_sub(within.as_secs());
    stranger(&read(host, "slurmctld.service", &format!("--since=@{since}"))?)
}

/// The line is `… [[host]:port] Protocol authentication error`, with an address instead of a name without its brackets.
fn stranger(journal: &str) -> Option<Stranger> {
    let line = journal.lines().rev().find(|line| line.trim_end().ends_with("Protocol authentication error"))?;
    // Brackets of a time stamp come before these.
    let host = line[line.rfind('[')? + 1..].split([']', ':']).next()?;
    let plain = !host.is_empty() && host.chars().all(|letter| letter.is_ascii_alphanumeric() || "-.".contains(letter));
    let cause = Cause::find(journal).unwrap_or(Cause::Authentication);
    plain.then(|| Stranger { host: host.to_owned(), cause })
}

/// Returns what a unit's last run wrote. `None`: nobody could be asked.
pub(crate) fn last_run_of(host: &Host, unit: &str) -> Option<String> {
    read(host, unit, &format!("--lines={LINES}")).map(|journal| last_run(&journal).to_owned())
}

/// systemd says that it starts a unit in words that are the same for every unit.
fn last_run(journal: &str) -> &str {
    let last = journal.rfind("\nStarting ").or_else(|| journal.rfind("Starting "));
    // A unit that does not tell when it is ready is called started at once.
    let last = last.or_else(|| journal.rfind("Started "));
    last.map_or(journal, |start| &journal[start..])
}

fn read(host: &Host, unit: &str, range: &str) -> Option<String> {
    let unit = format!("--unit={unit}");
    let arguments = [unit.as_str(), "--output=cat", "--no-pager", "--quiet", range];
    host.command("journalctl").args(arguments).run().ok().map(|output| output.stdout)
}

pub(crate) fn summary(text: &str) -> Option<String> {
    let complaints: Vec<&str> = text.lines().filter_map(complaint).filter(|line| !is_harmless(line)).collect();
    let first = *complaints.first()?;
    let fatal = complaints.iter().rfind(|line| line.starts_with("fatal:")).filter(|line| **line != first);
    Some(fatal.map_or_else(|| first.to_owned(), |fatal| format!("{first} / {fatal}")))
}

/// Returns a line from `error:` or `fatal:` on. What is before differs between versions.
pub(crate) fn complaint(line: &str) -> Option<&str> {
    let start = ["fatal: ", "error: "].iter().filter_map(|mark| line.find(mark)).min()?;
    let text = &line[start..];
    Some(text.strip_prefix("error: ").unwrap_or(text).trim())
}

/// Complaints of every start, also of a good one.
fn is_harmless(line: &str) -> bool {
    [
        "MailProg is invalid",
        "default partition not set",
        "glob parsing",
        "\"Include\" failed in file",
        GIVEN_UP,
        "Limited MemSpecLimit support",
        "Job accounting information gathered, but not stored",
        "System GPU detection failed",
        "Database settings not recommended values",
        "Unable to set keepalive",
        "The database must be up when starting",
    ]
    .iter()
    .any(|known| line.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_culprit_and_the_end_are_told() {
        let text = "slurmctld: error: Configured MailProg is invalid\n[2026-01-01T00:00:00] error: bad thing\n\
                    slurmctld: fatal: could not go on\n";
        assert_eq!(summary(text).as_deref(), Some("bad thing / fatal: could not go on"));
        assert_eq!(summary("slurmctld: fatal: only this\n").as_deref(), Some("fatal: only this"));
        assert_eq!(summary("all is well\n"), None);
    }

    #[test]
    fn what_was_said_before_a_daemon_served_is_not_why_it_ended() {
        let served = "Starting slurmctld.service - Slurm controller daemon...\n\
                      slurmctld: error: Could not open job state file /var/lib/slurm/job_state: No such file\n\
                      slurmctld: Running as primary controller\n";
        assert_eq!(reason(served), None);
        let fatal = format!("{served}slurmctld: fatal: out of luck\n");
        assert_eq!(reason(&fatal).as_deref(), Some("fatal: out of luck"));
        let exited = "slurmctld.service: Main process exited, code=killed, status=9/KILL\n";
        let killed = format!("{served}{exited}slurmctld.service: Failed with result 'signal'.\n");
        assert_eq!(reason(&killed).as_deref(), Some("its process ended: code=killed, status=9/KILL"));
        let hung = format!("{served}slurmctld.service: State 'stop-sigterm' timed out. Killing.\n{exited}");
        assert_eq!(reason(&hung).as_deref(), Some("it did not end when it was stopped, and was killed"));
        let gave_up = "slurmctld.service: Main process exited, code=exited, status=1/FAILURE\n";
        assert_eq!(reason(&format!("{served}{gave_up}")), None);
    }

    #[test]
    fn the_last_sign_of_the_last_run_is_the_cause() {
        let text = "slurmd: error: _xgetaddrinfo: getaddrinfo() failed: Name or service not known: Success\n\
                    Starting slurmd.service - Slurm node daemon...\n\
                    slurmd: error: _fetch_child: failed to fetch remote configs: Protocol authentication error\n\
                    slurmd: error: _establish_configuration: failed to load configs. Retrying in 10 seconds.\n";
        assert_eq!(Cause::find(last_run(text)), Some(Cause::Authentication));
        let first = text.lines().next().unwrap();
        assert_eq!(Cause::find(last_run(first)), Some(Cause::NameResolution));
        assert_eq!(Cause::find("slurmd: slurmd version 24.11.5 started\n"), None);
        let behind = "slurmd: error: decode_jwt: token expired at 1794838120\n\
                      slurmd: error: service_connection: slurm_receive_msg: Protocol authentication error\n";
        assert_eq!(Cause::find(behind), Some(Cause::Clocks));
    }

    #[test]
    fn an_attempt_that_has_not_ended_has_no_verdict() {
        let asked = "slurmctld: Relinquishing control to new slurmctld process\n\
                     slurmctld: Processing Reconfiguration Request\nslurmctld: Attempting to reconfigure\n\
                     slurmctld: error: Configured MailProg is invalid\n\
                     slurmctld: error: s_p_parse_file: cannot stat file /etc/slurm/topology.conf: No such file, retrying in 1sec up to 60sec\n";
        assert_eq!(verdict(asked), Some(Verdict::Pending));
        assert_eq!(verdict("slurmctld: error: nothing about it\n"), None);
        let gave_up =
            format!("{asked}slurmctld: fatal: something wrong with opening/reading /etc/slurm/topology.conf\n");
        let Some(Verdict::Refused(reason)) = verdict(&gave_up) else { panic!("no verdict") };
        assert!(reason.contains("cannot stat file") && reason.contains("fatal: something wrong"), "{reason}");
        let unsaid =
            "slurmctld: Processing Reconfiguration Request\nslurmctld: Resuming operation, reconfigure failed.\n";
        assert_eq!(verdict(unsaid), Some(Verdict::Refused("reconfigure failed".to_owned())));
        let served = "slurmctld: Processing Reconfiguration Request\nslurmctld: error: some node is away\n\
                      slurmctld: child started successfully\nslurmctld: Relinquishing control to new slurmctld process\n";
        assert_eq!(verdict(served), Some(Verdict::Accepted));
    }

    #[test]
    fn what_surely_has_another_cause_is_not_the_descriptions_fault() {
        for blamed in [
            "fatal: option 'NodeName=' not allowed in --conf",
            "Parsing error at unrecognized key: Bogus / fatal: failed to create dynamic node 'x'",
            "fatal: Resource spec: unable to set core specialization",
        ] {
            assert!(may_blame_description(blamed), "{blamed}");
        }
        for other in [
            "fatal: Unable to bind listen port (6818): Address already in use",
            "fatal: failed to initialize auth plugin",
            "fatal: Hybrid mode is not supported. Mounted cgroups are: 1",
            "something else",
        ] {
            assert!(!may_blame_description(other), "{other}");
        }
    }

    #[test]
    fn whoever_is_refused_is_named() {
        let name =
            "slurmctld: error: slurm_unpack_received_msg: [[juju-69ea83-1]:14565] Protocol authentication error\n";
        let told = |journal: &str| stranger(journal).map(|stranger| (stranger.host, stranger.cause));
        assert_eq!(told(name), Some(("juju-69ea83-1".to_owned(), Cause::Authentication)));
        let address =
            "[2026-11-16T14:29:13.788] error: slurm_receive_msg [10.0.0.5:41234]: x: Protocol authentication error\n";
        assert_eq!(told(address), Some(("10.0.0.5".to_owned(), Cause::Authentication)));
        let late = format!("slurmctld: error: decode_jwt: token expired\n{name}");
        assert_eq!(told(&late), Some(("juju-69ea83-1".to_owned(), Cause::Clocks)));
        assert_eq!(told("all is well\n"), None);
        assert_eq!(told("[[$(x)]:1] Protocol authentication error\n"), None);
    }
}
