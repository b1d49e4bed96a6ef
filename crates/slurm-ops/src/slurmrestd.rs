//! slurmrestd: its user, the options with which it starts, what its installation can do, whether it listens. Starting it
//! is in `systemd`.
//!
//! Measured with 24.11.5: it passes the token of each request on to slurmctld and needs no key. SIGHUP ends it, so only
//! a restart has it read its configuration. With the OpenAPI plugin `slurmdbd`, which it loads by itself, it does not
//! start unless slurm.conf names a slurmdbd. `[::]` is every IPv4 address, and every IPv6 address too where slurm.conf
//! has `EnableIPv6`. It lists its plugins only where there is a slurm.conf already, so the files are looked at instead.

use crate::command::CommandError;
use crate::connections;
use crate::defaults;
use crate::files::{self, Access, FileError};
use crate::machine::{Host, HostWriter};
use std::collections::BTreeSet;
use std::time::Duration;

/// Environment file of the packaged unit.
pub const DEFAULTS_FILE: &str = "/etc/default/slurmrestd";
/// Who runs it. Slurm refuses the user of slurmctld, and root is never needed.
pub const USER: &str = "slurmrestd";
/// Where it listens.
pub const PORT: u16 = 6820;
const VARIABLE: &str = "SLURMRESTD_OPTIONS";
const QUICK_DEADLINE: Duration = Duration::from_secs(60);

/// Returns what is said about the service: the user of its own, the port alone (the packaged unit also wants a socket
/// below `/run`, where this user may not write), tokens only, and no reload, since the packaged one would end it.
pub fn service_lines() -> String {
    format!(
        "User={USER}\nGroup={USER}\nEnvironment=SLURM_JWT=daemon\nExecStart=\n\
         ExecStart=/usr/sbin/slurmrestd ${VARIABLE} [::]:{PORT}\nExecReload=\n\
         NoNewPrivileges=yes\nCapabilityBoundingSet=\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\n\
         PrivateDevices=yes\nProtectKernelTunables=yes\nProtectKernelModules=yes\nProtectControlGroups=yes\n\
         RestrictSUIDSGID=yes\nRestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK\n"
    )
}

/// Returns the options with which it starts: tokens only, and what of the API can be served. `plugins` are the files of
/// the installation, `accounting` says that slurm.conf names a slurmdbd.
pub fn options(plugins: &BTreeSet<String>, accounting: bool) -> String {
    let served = ["slurmctld", "slurmdbd"].into_iter().filter(|part| *part != "slurmdbd" || accounting);
    let served: Vec<&str> = served.filter(|part| plugins.contains(&format!("openapi_{part}.so"))).collect();
    match served.as_slice() {
        [] => "-a rest_auth/jwt".to_owned(),
        served => format!("-a rest_auth/jwt -s {}", served.join(",")),
    }
}

/// Returns the versions of the API that an installation has, such as `v0.0.42`: the oldest first.
pub fn api_versions(plugins: &BTreeSet<String>) -> Vec<String> {
    let version = |file: &String| -> Option<[u64; 3]> {
        let parts = file.strip_prefix("data_parser_v")?.strip_suffix(".so")?.split('_');
        parts.map(|part| part.parse().ok()).collect::<Option<Vec<_>>>()?.try_into().ok()
    };
    let versions: BTreeSet<[u64; 3]> = plugins.iter().filter_map(version).collect();
    versions.iter().map(|[major, minor, micro]| format!("v{major}.{minor}.{micro}")).collect()
}

/// Reads the options with which it will start. `None`: none are set.
pub fn read_options(host: &Host) -> Result<Option<String>, FileError> {
    let text = files::read_text(host, DEFAULTS_FILE)?;
    Ok(text.and_then(|text| defaults::words(&text, VARIABLE)).map(|words| words.join(" ")))
}

/// Writes the options with which it will start. Other lines of the file stay.
pub fn ensure_options(writer: &HostWriter, options: &str) -> Result<bool, FileError> {
    let present = files::read_text(writer.host(), DEFAULTS_FILE)?.unwrap_or_default();
    let text = defaults::with(&present, VARIABLE, options);
    files::replace(writer, DEFAULTS_FILE, text.as_bytes(), &Access::own(0o644))
}

/// Takes away the options with which it would start. Other lines of the file stay.
pub fn remove_options(writer: &HostWriter) -> Result<bool, FileError> {
    let Some(present) = files::read_text(writer.host(), DEFAULTS_FILE)? else { return Ok(false) };
    files::replace(writer, DEFAULTS_FILE, defaults::without(&present, VARIABLE).as_bytes(), &Access::own(0o644))
}

/// Tells whether a user is there. Starts no process.
pub fn has_user(host: &Host, user: &str) -> Result<bool, FileError> {
    match files::user_ids(host, user) {
        Ok(_) => Ok(true),
        Err(FileError::NoSuchUser { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes a user of the system that can neither log in nor own a home.
pub fn add_user(writer: &HostWriter, user: &str) -> Result<(), CommandError> {
    let words = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent", "--shell"];
    let command = writer.command("useradd").args(words).args(["/usr/sbin/nologin", "--", user]);
    command.deadline(QUICK_DEADLINE).run()?;
    Ok(())
}

/// Tells whether somebody listens on the port.
pub fn is_listening(host: &Host) -> Result<bool, FileError> {
    connections::is_listening(host, PORT)
}

/// Waits for as long as `patience` until somebody listens, and then no longer.
pub fn await_listening(writer: &HostWriter, patience: Duration) -> Result<(), FileError> {
    const PAUSE: Duration = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while waited < patience && !is_listening(writer.host())? {
        writer.pause(PAUSE);
        waited += PAUSE;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugins(files: &[&str]) -> BTreeSet<String> {
        files.iter().map(|file| (*file).to_owned()).collect()
    }

    #[test]
    fn what_is_installed_is_served_and_accounting_only_where_there_is_some() {
        let all = plugins(&["openapi_slurmctld.so", "openapi_slurmdbd.so", "auth_jwt.so"]);
        assert_eq!(options(&all, true), "-a rest_auth/jwt -s slurmctld,slurmdbd");
        assert_eq!(options(&all, false), "-a rest_auth/jwt -s slurmctld");
        assert_eq!(options(&plugins(&["openapi_slurmctld.so"]), true), "-a rest_auth/jwt -s slurmctld");
        assert_eq!(options(&plugins(&[]), true), "-a rest_auth/jwt");
    }

    #[test]
    fn versions_are_ordered_as_numbers() {
        let files = ["data_parser_v0_0_9.so", "data_parser_v0_0_42.so", "data_parser_v0_0_41.so", "data_parser_x.so"];
        assert_eq!(api_versions(&plugins(&files)), ["v0.0.9", "v0.0.41", "v0.0.42"]);
    }
}
