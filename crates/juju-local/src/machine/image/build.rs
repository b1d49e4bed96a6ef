//! Carries out a recipe: mmdebstrap, the pool, the user, the files. No decisions on content, those are in `recipe.rs`.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::super::program::{line, run, system, tail};
use super::pool;
use super::recipe::{Recipe, USER, USER_ID};

/// Builds `rootfs` in an empty directory, while holding `lock`, an empty file.
pub(super) fn build(recipe: &Recipe, directory: &Path, lock: &File, phase: &mut dyn FnMut(&str)) -> Result<()> {
    // The package manager downloads as a user of its own, who has to get here.
    fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    let rootfs = directory.join("rootfs");
    bootstrap(recipe, &rootfs, lock, &directory.join("build.log"), phase)?;
    phase("downloading the packages of the pool");
    fs::copy("/etc/resolv.conf", rootfs.join("etc/resolv.conf")).context("could not copy /etc/resolv.conf")?;
    pool::download(&rootfs, recipe.pooled, recipe.pooled_bare)?;
    phase("writing the machine's own settings");
    run(in_image(&rootfs, "useradd")
        .args(["--create-home", "--shell", "/bin/bash", "--groups", "adm,sudo", "--uid"])
        .args([&USER_ID.to_string(), USER]))?;
    // The host's settings were for building only.
    fs::remove_file(rootfs.join("etc/apt/apt.conf.d/99mmdebstrap")).context("could not remove the host's settings")?;
    write_files(recipe, &rootfs)?;
    pool::use_only_pool(&rootfs)?;
    // Programs that run as root for anyone, like sudo, are the machines' and not for the users of this host.
    fs::set_permissions(directory, Permissions::from_mode(0o700)).context("could not close the image's directory")
}

/// A command that runs in the image as if it were the whole system.
pub(super) fn in_image(rootfs: &Path, program: &str) -> Command {
    let mut command = system("chroot");
    command.arg(rootfs).arg(program);
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root").env("LC_ALL", "C.UTF-8");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// How those lines of mmdebstrap begin that announce work which takes a while.
const PHASES: [&str; 4] = ["running", "downloading", "extracting", "installing"];

/// Runs mmdebstrap with the mirror it chooses by itself.
fn bootstrap(recipe: &Recipe, rootfs: &Path, lock: &File, log_path: &Path, phase: &mut dyn FnMut(&str)) -> Result<()> {
    // Its mounts are its own: they go with its processes, also when those are killed.
    let mut command = system("unshare");
    command.args(["--mount", "--propagation=slave", "mmdebstrap"]);
    command.args(["--mode=root", "--variant=minbase", "--format=directory", "--aptopt=Acquire::Languages \"none\""]);
    command.args(host_settings()?.iter().map(|setting| format!("--aptopt={setting}")));
    // The package lists are needed again for the pool.
    command.arg("--skip=cleanup/apt/lists");
    command.args(recipe.dpkg_options.iter().map(|option| format!("--dpkgopt={option}")));
    command.arg(format!("--include={}", recipe.installed.join(",")));
    command.arg(recipe.suite).arg(rootfs);
    let line = line(&command);
    let mut child = command
        // It lives on when we are killed, and then so must the lock: it holds as long as anyone has the file open.
        .stdin(lock.try_clone().context("could not share the lock")?)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start `{line}`"))?;
    let mut log = File::create(log_path).with_context(|| format!("could not write {}", log_path.display()))?;
    if let Some(stderr) = child.stderr.take() {
        for text in BufReader::new(stderr).split(b'\n') {
            let text = String::from_utf8_lossy(&text?).into_owned();
            writeln!(log, "{text}")?;
            if let Some(said) = text.strip_prefix("I: ").filter(|said| PHASES.iter().any(|verb| said.starts_with(verb)))
            {
                phase(said.trim_end_matches('.'));
            }
        }
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("`{line}` failed, {status}; its last words:\n{}", tail(log_path, 25));
    }
    Ok(())
}

/// How this host reaches mirrors and what it asks of them: proxies, and whether old package lists are accepted.
fn host_settings() -> Result<Vec<String>> {
    let dump = run(system("apt-config").args(["dump", "Acquire"]))?;
    let wanted = |line: &&str| {
        let key = line.split(' ').next().unwrap_or_default();
        key == "Acquire::Check-Valid-Until" || key.starts_with("Acquire::http") && key.contains("::Proxy")
    };
    Ok(dump.lines().filter(wanted).map(str::to_owned).collect())
}

fn write_files(recipe: &Recipe, rootfs: &Path) -> Result<()> {
    for (path, mode, content) in recipe.files {
        let path = rootfs.join(path);
        write(&path, *mode, content).with_context(|| format!("could not write {}", path.display()))?;
    }
    for unit in recipe.masked {
        let path = rootfs.join("etc/systemd/system").join(unit);
        fs::remove_file(&path).ok();
        symlink("/dev/null", &path).with_context(|| format!("could not mask {unit}"))?;
    }
    Ok(())
}

fn write(path: &Path, mode: u32, content: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    // A packaged symlink (resolv.conf) must not lead the write elsewhere.
    fs::remove_file(path).ok();
    fs::write(path, content)?;
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}
