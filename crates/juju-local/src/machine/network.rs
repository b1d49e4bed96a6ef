//! Networks: one namespace with a bridge per model, one namespace with an `eth0` per machine. All of it through `ip`.
//!
//! Nothing is ever put into the host's own network namespace, so models cannot meet each other or the host, and
//! deleting a namespace deletes its links. Power and processes belong to `power.rs`.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, setns};

use super::program::{run, run_with_input, system};
use super::spec::{Spec, check_name};

/// Where `ip` keeps the namespaces it knows by name.
const NAMESPACES: &str = "/run/netns";

/// The network of one model: a namespace with a bridge, and the gateway's address on it.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    name: String,
}

impl Network {
    /// Names a network, `jl-9c41f0`; it may exist or not.
    pub(crate) fn new(name: &str) -> Result<Network> {
        check_name(name)?;
        Ok(Network { name: name.to_owned() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Makes the namespace and, in it, bridge `br0` with `gateway`/24.
    fn create(&self, gateway: Ipv4Addr) -> Result<()> {
        add_namespace(&self.name)?;
        // Without one of its own a bridge takes the lowest address of its ports, and another one when that port goes:
        // machines would then talk to an address that nobody has until they learn better.
        let hardware = hardware_address(gateway);
        let made = ip_batch(
            &self.name,
            &format!(
                "link set lo up\nlink add br0 address {hardware} type bridge\naddress add {gateway}/24 dev br0\nlink \
                 set br0 up\n"
            ),
        );
        if made.is_err() {
            delete_namespace(&self.name).ok();
        }
        made.with_context(|| format!("could not make network {}", self.name))
    }

    /// Sees to it that the network is there and whole; one whose making was cut short is made anew.
    pub(crate) fn ensure(&self, gateway: Ipv4Addr) -> Result<()> {
        let shown = run(system("ip").args(["-n", &self.name, "-o", "address", "show", "dev", "br0"]));
        if shown.is_ok_and(|line| line.contains(&format!(" {gateway}/24 "))) {
            return Ok(());
        }
        self.delete()?;
        self.create(gateway)
    }

    /// Deletes the namespace with all its links. Processes that are still in it keep it alive, unnamed.
    pub(crate) fn delete(&self) -> Result<()> {
        delete_namespace(&self.name)
    }

    /// Moves the calling thread into the network; call it while it is the only one.
    pub(crate) fn enter(&self) -> Result<()> {
        enter_namespace(&self.name)
    }
}

/// Gives the machine a namespace of its own with a configured `eth0`, whose other end is a port of the model's bridge.
pub(super) fn connect(spec: &Spec) -> Result<()> {
    add_namespace(&spec.name)?;
    let hardware = hardware_address(spec.address);
    let Spec { name, network, address, gateway, .. } = spec;
    ip_batch(
        network,
        &format!(
            "link add {name} type veth peer name eth0 address {hardware} netns {name}\nlink set {name} master br0 up\n"
        ),
    )?;
    ip_batch(
        name,
        &format!(
            "link set lo up\naddress add {address}/24 dev eth0\nlink set eth0 up\nroute add default via {gateway}\n"
        ),
    )
}

/// The same hardware address at every boot: neighbours need not learn a new one after a power cycle.
fn hardware_address(address: Ipv4Addr) -> String {
    let [_, a, b, c] = address.octets();
    format!("00:16:3e:{a:02x}:{b:02x}:{c:02x}")
}

/// Pulls or plugs the machine's cable at the bridge.
pub(super) fn set_link(network: &str, machine: &str, up: bool) -> Result<()> {
    let state = if up { "up" } else { "down" };
    run(system("ip").args(["-n", network, "link", "set", machine, state]))?;
    Ok(())
}

/// Removes the machine's link, if there is one.
///
/// It would vanish with the namespace, but only when the kernel gets to it, which is too late for a machine that is
/// powered on again at once.
pub(super) fn disconnect(network: &str, machine: &str) {
    run(system("ip").args(["-n", network, "link", "delete", machine])).ok();
}

pub(super) fn namespace_path(name: &str) -> PathBuf {
    Path::new(NAMESPACES).join(name)
}

/// Names of all namespaces that begin with `prefix`.
pub(super) fn namespaces(prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(NAMESPACES).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}

pub(super) fn enter_namespace(name: &str) -> Result<()> {
    let path = namespace_path(name);
    let file = File::open(&path).with_context(|| format!("could not open network namespace {}", path.display()))?;
    setns(file, CloneFlags::CLONE_NEWNET).with_context(|| format!("could not enter network namespace {name}"))
}

fn add_namespace(name: &str) -> Result<()> {
    let _guard = lock()?;
    run(system("ip").args(["netns", "add", name]))?;
    Ok(())
}

/// Deletes a namespace, if there is one, and the mount that `ip` makes for its first namespace after the last one.
pub(super) fn delete_namespace(name: &str) -> Result<()> {
    let _guard = lock()?;
    let path = namespace_path(name);
    if path.exists() {
        // A mount is missing when the program died between making the file and mounting on it: then only the file goes.
        umount2(&path, MntFlags::MNT_DETACH).ok();
        fs::remove_file(&path).with_context(|| format!("could not delete network namespace {name}"))?;
    }
    let is_empty = fs::read_dir(NAMESPACES).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty {
        umount2(NAMESPACES, MntFlags::MNT_DETACH).ok();
        fs::remove_dir(NAMESPACES).ok();
    }
    Ok(())
}

/// Keeps two of us from making the first and deleting the last namespace at the same moment.
fn lock() -> Result<File> {
    let path = "/run/juju-local.lock";
    let file = File::create(path).with_context(|| format!("could not open {path}"))?;
    file.lock().with_context(|| format!("could not lock {path}"))?;
    Ok(file)
}

fn ip_batch(namespace: &str, lines: &str) -> Result<()> {
    run_with_input(system("ip").args(["-n", namespace, "-batch", "-"]), lines)?;
    Ok(())
}
