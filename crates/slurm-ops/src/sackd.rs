//! sackd on a login node: with which options the daemon starts, and what it has fetched. Starting it is in `systemd`.

use crate::defaults;
use crate::files::{self, Access, FileError};
use crate::machine::{Host, HostWriter};
use slurm_conf::ControllerAddress;
use std::time::Duration;

/// Environment file of the packaged unit.
pub const DEFAULTS_FILE: &str = "/etc/default/sackd";
const VARIABLE: &str = "SACKD_OPTIONS";
const SERVERS: &str = "--conf-server";

/// Reads the controllers that sackd will ask for its configuration: the first that answers. `None`: none are set.
pub fn read_controllers(host: &Host) -> Result<Option<Vec<ControllerAddress>>, FileError> {
    Ok(files::read_text(host, DEFAULTS_FILE)?.as_deref().and_then(parse_defaults))
}

/// Writes the controllers that sackd will ask, and tells whether they were others. Other lines of the file stay.
pub fn ensure_controllers(writer: &HostWriter, controllers: &[ControllerAddress]) -> Result<bool, FileError> {
    let present = files::read_text(writer.host(), DEFAULTS_FILE)?.unwrap_or_default();
    files::replace(writer, DEFAULTS_FILE, render_defaults(&present, controllers).as_bytes(), &Access::own(0o644))
}

/// Takes away the options that sackd would start with. Other lines of the file stay.
pub fn remove_options(writer: &HostWriter) -> Result<bool, FileError> {
    let Some(present) = files::read_text(writer.host(), DEFAULTS_FILE)? else { return Ok(false) };
    files::replace(writer, DEFAULTS_FILE, defaults::without(&present, VARIABLE).as_bytes(), &Access::own(0o644))
}

/// Waits for as long as `patience` until sackd has fetched a configuration, and then no longer.
pub fn await_configuration(writer: &HostWriter, path: &str, patience: Duration) {
    const PAUSE: Duration = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while !files::exists(writer.host(), path) && waited < patience {
        writer.pause(PAUSE);
        waited += PAUSE;
    }
}

/// Returns the environment file with these controllers in it. Every other line stays as it is.
pub fn render_defaults(present: &str, controllers: &[ControllerAddress]) -> String {
    let controllers: Vec<String> = controllers.iter().map(ToString::to_string).collect();
    defaults::with(present, VARIABLE, &format!("{SERVERS} {}", controllers.join(",")))
}

/// Reads the controllers from the environment file. `None`: they are not set.
pub fn parse_defaults(text: &str) -> Option<Vec<ControllerAddress>> {
    let words = defaults::words(text, VARIABLE)?;
    let list = words.iter().position(|word| word == SERVERS).and_then(|at| words.get(at + 1));
    let attached = || words.iter().find_map(|word| word.strip_prefix("--conf-server="));
    list.map(String::as_str).or_else(attached)?.split(',').map(|address| address.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<ControllerAddress> {
        text.split(',').map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let packaged = "# Additional options\n#SACKD_OPTIONS=\"\"\n";
        let text = render_defaults(packaged, &list("c1:6817,c2:6817"));
        assert_eq!(text, format!("{packaged}SACKD_OPTIONS=--conf-server c1:6817,c2:6817\n"));
        assert_eq!(parse_defaults(&text), Some(list("c1:6817,c2:6817")));
        assert_eq!(
            render_defaults(&text, &list("c2:6817")),
            format!("{packaged}SACKD_OPTIONS=--conf-server c2:6817\n")
        );
    }

    #[test]
    fn what_an_administrator_wrote_is_read() {
        for line in [
            "SACKD_OPTIONS=\"--conf-server c1\"",
            "SACKD_OPTIONS=-v --conf-server=c1:6817",
            " SACKD_OPTIONS='--conf-server c1'",
        ] {
            assert_eq!(parse_defaults(line), Some(list("c1:6817")), "{line}");
        }
        for line in [
            "",
            "SACKD_OPTIONS=",
            "SACKD_OPTIONS=--conf-server",
            "SACKD_OPTIONS=\"--conf-server c1",
            "X=--conf-server c1",
        ] {
            assert_eq!(parse_defaults(line), None, "{line}");
        }
    }
}
