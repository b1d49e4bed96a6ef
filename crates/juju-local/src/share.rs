//! `juju-local share`: a directory of the model that chosen machines see as a mount of their own, for charms that need
//! shared storage, and for taking it away from them. Inside a machine it is a systemd mount unit, so it is back after a
//! reboot.

use std::process::Stdio;

use anyhow::{Context as _, bail};

use crate::machine::Machine;
use crate::paths::ModelPaths;

pub const USAGE: &str = "usage: juju-local share <attach <name> <machine> <path> | \
    detach|lose|restore|readonly|writable <name> <machine>> [-m model]";

pub fn main(model: &str, words: &[&str]) -> anyhow::Result<()> {
    match words {
        ["attach", name, machine, path] => Share::new(model, name, machine)?.attach(path),
        ["detach", name, machine] => Share::new(model, name, machine)?.detach(),
        ["lose", name, machine] => Share::new(model, name, machine)?.lose(),
        ["restore", name, machine] => Share::new(model, name, machine)?.restore(),
        ["readonly", name, machine] => Share::new(model, name, machine)?.remount("ro"),
        ["writable", name, machine] => Share::new(model, name, machine)?.remount("rw"),
        _ => bail!("{USAGE}"),
    }
}

/// One shared directory as one machine sees it.
struct Share {
    machine: Machine,
    directory: String,
    /// Where the machine remembers the mount point.
    note: String,
}

impl Share {
    fn new(model: &str, name: &str, machine: &str) -> anyhow::Result<Self> {
        let plain = |text: &str| {
            !text.is_empty()
                && text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_')
        };
        if !plain(name) {
            bail!("{name:?} is not a name: use letters, digits, - and _");
        }
        let paths = ModelPaths::of(model);
        let found = if plain(machine) { Machine::open(&paths.machine(machine))? } else { None };
        let Some(found) = found else { bail!("model {model} has no machine {machine:?}") };
        let source = paths.shared().join(name);
        std::fs::create_dir_all(&source).with_context(|| format!("making {}", source.display()))?;
        let directory = format!("{}/{name}", crate::paths::inside::SHARED);
        Ok(Share { machine: found, note: format!("/var/lib/juju-local/share-{name}"), directory })
    }

    fn attach(&self, path: &str) -> anyhow::Result<()> {
        if !path.starts_with('/') || path.chars().any(|letter| letter.is_control() || letter == '%') {
            bail!("{path:?} is not an absolute path that systemd can mount");
        }
        let unit = self.say(&["systemd-escape", "-p", "--suffix=mount", path])?;
        let text = format!(
            "[Unit]\nDescription=shared directory {path}\n\n[Mount]\nWhat={}\nWhere={path}\nType=none\n\
             Options=bind\n\n[Install]\n\
             WantedBy=multi-user.target\n",
            self.directory
        );
        self.write(&format!("/etc/systemd/system/{unit}"), &text)?;
        self.write(&self.note, &format!("{unit}\n{path}\n"))?;
        self.say(&["mkdir", "-p", path])?;
        self.say(&["systemctl", "daemon-reload"])?;
        self.say(&["systemctl", "enable", "--now", &unit])?;
        Ok(())
    }

    fn detach(&self) -> anyhow::Result<()> {
        let (unit, path) = self.mount()?;
        self.say(&["systemctl", "disable", &unit])?;
        self.say(&["umount", "-l", &path])?;
        self.say(&["rm", "-f", &format!("/etc/systemd/system/{unit}"), &self.note])?;
        self.say(&["systemctl", "daemon-reload"])?;
        Ok(())
    }

    /// As when the server of a network file system is gone for good: the mount is away, whoever uses it.
    fn lose(&self) -> anyhow::Result<()> {
        let (_, path) = self.mount()?;
        self.say(&["umount", "-l", &path])?;
        Ok(())
    }

    fn restore(&self) -> anyhow::Result<()> {
        let (unit, _) = self.mount()?;
        self.say(&["systemctl", "start", &unit])?;
        Ok(())
    }

    fn remount(&self, mode: &str) -> anyhow::Result<()> {
        let (_, path) = self.mount()?;
        self.say(&["mount", "-o", &format!("remount,bind,{mode}"), &path])?;
        Ok(())
    }

    /// Mount unit and mount point, as noted when it was attached.
    fn mount(&self) -> anyhow::Result<(String, String)> {
        let note = self.say(&["cat", &self.note]).context("it is not attached to that machine")?;
        let mut lines = note.lines().map(str::to_owned);
        match (lines.next(), lines.next()) {
            (Some(unit), Some(path)) => Ok((unit, path)),
            _ => bail!("the note of the shared directory is damaged"),
        }
    }

    fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        use std::io::Write as _;
        let mut command = self.machine.command(["tee", path])?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().context("starting tee")?;
        child.stdin.take().context("tee has no input")?.write_all(text.as_bytes())?;
        match child.wait()?.success() {
            true => Ok(()),
            false => bail!("{path} could not be written in the machine"),
        }
    }

    /// What a short command in the machine prints; its complaint if it fails.
    fn say(&self, words: &[&str]) -> anyhow::Result<String> {
        let output = self.machine.command(words)?.stdin(Stdio::null()).output().context("starting a command")?;
        if !output.status.success() {
            bail!("`{}` failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
