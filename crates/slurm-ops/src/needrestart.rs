//! needrestart, which after an upgrade restarts whatever uses an old library: not daemons that have jobs.

use crate::files::{self, Access, FileError};
use crate::machine::{Host, HostWriter};

/// Where needrestart looks for more of its configuration, in the order of names.
const DIRECTORY: &str = "/etc/needrestart/conf.d";

/// Has needrestart leave these services alone, and tells whether that was new. It works whether needrestart is
/// installed or not: it may come later.
///
/// `name` is that of the file, without suffix.
pub fn ensure_left_alone(writer: &HostWriter, name: &str, services: &[&str]) -> Result<bool, FileError> {
    files::ensure_directory(writer, DIRECTORY, &Access::own(0o755))?;
    files::replace(writer, format!("{DIRECTORY}/{name}.conf"), render(services).as_bytes(), &Access::own(0o644))
}

/// Tells whether needrestart has been told so.
pub fn is_left_alone(host: &Host, name: &str, services: &[&str]) -> Result<bool, FileError> {
    let text = files::read(host, format!("{DIRECTORY}/{name}.conf"))?;
    Ok(text.is_some_and(|text| text == render(services).into_bytes()))
}

/// The file is Perl. A service's name is quoted letter by letter, so that it means nothing but itself.
fn render(services: &[&str]) -> String {
    let mut text = String::from("# Jobs depend on these; they are restarted when their charm says so.\n");
    for service in services {
        let quoted: String = service
            .chars()
            .filter(|character| !character.is_control())
            .flat_map(|character| [(!character.is_ascii_alphanumeric()).then_some('\\'), Some(character)])
            .flatten()
            .collect();
        text += &format!("$nrconf{{override_rc}}{{qr(^{quoted}$)}} = 0;\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn each_service_has_its_line_and_the_file_is_written_once() {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine::at(directory.path());
        assert!(!is_left_alone(&machine.host(), "slurm", &["slurmd.service", "slurmctld.service"]).unwrap());
        assert!(ensure_left_alone(&machine.writer(), "slurm", &["slurmd.service", "slurmctld.service"]).unwrap());
        assert!(is_left_alone(&machine.host(), "slurm", &["slurmd.service", "slurmctld.service"]).unwrap());
        assert!(!ensure_left_alone(&machine.writer(), "slurm", &["slurmd.service", "slurmctld.service"]).unwrap());
        let text = std::fs::read_to_string(directory.path().join("etc/needrestart/conf.d/slurm.conf")).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            r"$nrconf{override_rc}{qr(^slurmd\.service$)} = 0;",
            r"$nrconf{override_rc}{qr(^slurmctld\.service$)} = 0;",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_name_cannot_end_the_pattern() {
        assert_eq!(
            render(&["a)}\n;system(1)"]).lines().nth(1),
            Some(r"$nrconf{override_rc}{qr(^a\)\}\;system\(1\)$)} = 0;")
        );
    }
}
