//! Names of the model's machines in `/etc/hosts`: one marked block, the rest of the file is left alone.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::paths::inside::HOSTS;

const BEGIN: &str = "# begin of the machines of this model";
const END: &str = "# end of the machines of this model";

pub fn write(hosts: &[(String, String)]) -> anyhow::Result<()> {
    let before = fs::read_to_string(HOSTS).unwrap_or_default();
    let after = render(&before, hosts);
    if after != before {
        let temporary = format!("{HOSTS}.juju");
        fs::write(&temporary, after)?;
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o644))?;
        fs::rename(&temporary, HOSTS)?;
    }
    Ok(())
}

/// The file with its block replaced, or appended.
pub fn render(before: &str, hosts: &[(String, String)]) -> String {
    let mut kept = String::new();
    let mut inside = false;
    for line in before.lines() {
        match line {
            BEGIN => inside = true,
            END => inside = false,
            _ if !inside => {
                kept.push_str(line);
                kept.push('\n');
            }
            _ => {}
        }
    }
    let lines: String = hosts.iter().map(|(name, address)| format!("{address} {name}\n")).collect();
    format!("{kept}{BEGIN}\n{lines}{END}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_block_changes() {
        let first = render("127.0.0.1 localhost\n", &[("a".into(), "10.0.0.1".into())]);
        let own = format!("{first}192.0.2.1 mine\n");
        let second = render(&own, &[("b".into(), "10.0.0.2".into())]);
        assert!(second.starts_with("127.0.0.1 localhost\n192.0.2.1 mine\n"));
        assert!(second.contains("10.0.0.2 b\n") && !second.contains("10.0.0.1 a\n"));
        assert_eq!(render(&second, &[("b".into(), "10.0.0.2".into())]), second);
    }
}
