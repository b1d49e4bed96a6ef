//! Machines for the model: made when a unit needs one, each by a thread of its own, with an agent that finds its way
//! here.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use anyhow::Context as _;

use super::{Shared, State, network_of};
use crate::agent::AgentConf;
use crate::machine::{self, Bind, SeedFile, Spec};
use crate::model::{Life, Machine, Model, Status, StatusInfo};
use crate::paths::{self, inside};

/// Machines that are being made at once; each boots in a second or two of processor time.
const AT_ONCE: usize = 3;

/// Adds the record of a machine; it is made by the next [`start_missing`].
pub(super) fn add_machine(model: &mut Model, base: &(String, String)) -> anyhow::Result<String> {
    let id = model.counters.machine.to_string();
    model.counters.machine += 1;
    let (_, gateway) = network_of(model)?;
    let [a, b, c, _] = gateway.octets();
    let last = model.counters.address;
    model.counters.address = last.checked_add(1).context("the model has no address left for another machine")?;
    let machine = Machine {
        id: id.clone(),
        hostname: format!("juju-{}-{id}", model.short_id()),
        address: [a, b, c, last].into(),
        base: base.clone(),
        life: Life::Alive,
        keep: false,
        emptied: None,
        boot: None,
        agent: StatusInfo::new(Status::Pending, ""),
        instance: StatusInfo::new(Status::Pending, ""),
        lost: None,
        password: crate::random_hex(16)?,
    };
    model.machines.insert(id.clone(), machine);
    Ok(id)
}

/// A host that was booted anew has no machines on: those that were are powered on again, from their disks.
pub(super) fn note_boot(model: &mut Model) {
    let boot = machine::host_boot();
    if !model.host_boot.is_empty() && model.host_boot != boot {
        let was_on = |machine: &&mut Machine| machine.instance.current == Status::Running;
        for machine in model.machines.values_mut().filter(was_on) {
            machine.instance = StatusInfo::new(Status::Pending, "");
        }
    }
    model.host_boot = boot;
}

/// Starts making every machine that has no instance yet.
pub(super) fn start_missing(shared: &Arc<Shared>, state: &mut State) {
    let missing: Vec<String> = state
        .model
        .machines
        .values()
        .filter(|machine| machine.life == Life::Alive && machine.instance.current == Status::Pending)
        .filter(|machine| !state.provisioning.contains(&machine.id))
        .map(|machine| machine.id.clone())
        .collect();
    for id in missing {
        if state.provisioning.len() >= AT_ONCE {
            return;
        }
        state.provisioning.insert(id.clone());
        super::agents::announce_hosts(state);
        let shared = Arc::clone(shared);
        thread::spawn(move || provision(&shared, &id));
    }
}

fn provision(shared: &Arc<Shared>, id: &str) {
    let made = boot(shared, id);
    shared.update(|state| {
        state.provisioning.remove(id);
        let Some(record) = state.model.machines.get_mut(id) else { return };
        match made {
            Ok(()) => {
                record.instance = StatusInfo::new(Status::Running, "Running");
                for unit in
                    state.model.units.values_mut().filter(|unit| unit.machine == id && unit.uniter.charm.is_none())
                {
                    unit.workload = StatusInfo::new(Status::Waiting, "installing agent");
                }
            }
            Err(error) => {
                let message = format!("{error:#}");
                record.instance = StatusInfo::new(Status::Error, &message);
                record.agent = StatusInfo::new(Status::Down, "agent is not communicating with the server");
                state.log(&format!("machine-{id}"), "ERROR", "juju.provisioner", &message);
            }
        }
    });
}

fn boot(shared: &Arc<Shared>, id: &str) -> anyhow::Result<()> {
    machine::preflight(&paths::state())?;
    // Before the lock: the image may have to be built.
    let release = machine::image::SlurmRelease::parse(&shared.lock().model.slurm)?;
    let image = machine::image::ensure(&paths::cache(), release, &mut |_| {})?;
    let spec = spec_of(&shared.lock(), id, image.rootfs)?;
    machine::Machine::boot(&spec)?;
    Ok(())
}

fn spec_of(state: &State, id: &str, rootfs: PathBuf) -> anyhow::Result<Spec> {
    let model = &state.model;
    let machine = model.machines.get(id).context("the machine is gone")?;
    let (network, gateway) = network_of(model)?;
    Ok(Spec {
        name: format!("{}-{id}", network.name()),
        hostname: machine.hostname.clone(),
        directory: state.paths.machine(id),
        network: network.name().to_owned(),
        address: machine.address,
        gateway,
        files: seed_files(state, machine, &rootfs)?,
        rootfs,
        binds: vec![Bind { source: state.paths.shared(), target: inside::SHARED.into(), read_only: false }],
    })
}

/// The agent, its configuration, and the names of all machines known so far.
fn seed_files(state: &State, machine: &Machine, rootfs: &Path) -> anyhow::Result<Vec<SeedFile>> {
    let id = &machine.id;
    let program = std::fs::read(current_program()?).context("reading juju-local's own program")?;
    let conf = AgentConf { machine: id.clone(), password: machine.password.clone(), address: state.api_address() };
    let unit = format!(
        "[Unit]\nDescription=juju agent for machine-{id}\nAfter=network.target\nStartLimitIntervalSec=0\n\n[Service]\n\
         ExecStart={} machine {id}\n\
         Environment=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin\nRestart=always\n\
         RestartSec=300ms\n\
         LimitNOFILE=64000\nUMask=0022\n\n[Install]\nWantedBy=multi-user.target\n",
        inside::program(id)
    );
    let service = format!("jujud-machine-{id}.service");
    let hosts: Vec<(String, String)> =
        state.model.machines.values().map(|other| (other.hostname.clone(), other.address.to_string())).collect();
    let base = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n";
    // The machine's own name is in /etc/hosts. Asked for one of the newer kind, this service would give a link-local
    // address.
    let services = std::fs::read_to_string(rootfs.join("etc/nsswitch.conf")).unwrap_or_default();
    Ok(vec![
        SeedFile::file("/etc/nsswitch.conf", 0o644, services.replace(" myhostname", "")),
        SeedFile::directory(inside::machine_agent(id), 0o755),
        SeedFile::file(format!("{}/agent.conf", inside::machine_agent(id)), 0o600, serde_json::to_vec(&conf)?),
        SeedFile::file(inside::program(id), 0o755, program),
        SeedFile::symlink(inside::EXEC, inside::program(id)),
        SeedFile::file(format!("/etc/systemd/system/{service}"), 0o644, unit),
        SeedFile::symlink(
            format!("/etc/systemd/system/multi-user.target.wants/{service}"),
            format!("/etc/systemd/system/{service}"),
        ),
        SeedFile::file(inside::HOSTS, 0o644, crate::agent::render_hosts(base, &hosts)),
    ])
}

/// This very program; also when it was replaced on disk since it started.
fn current_program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?;
    Ok(if path.exists() { path } else { PathBuf::from("/proc/self/exe") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_boot_of_the_host_powers_those_on_that_were_on() {
        let mut model = Model::new("m", "00000000-0000-4000-8000-000000000001", "c", "24.11");
        model.machines.insert("0".to_owned(), Machine::new("0"));
        model.machines.insert("1".to_owned(), Machine::new("1"));
        model.machines.get_mut("1").unwrap().instance = StatusInfo::new(Status::Stopped, "");
        let seen = |model: &Model| model.machines.values().map(|one| one.instance.current).collect::<Vec<_>>();
        note_boot(&mut model);
        note_boot(&mut model);
        assert_eq!(seen(&model), [Status::Running, Status::Stopped]);
        model.host_boot = "another".to_owned();
        note_boot(&mut model);
        assert_eq!(seen(&model), [Status::Pending, Status::Stopped]);
    }
}
