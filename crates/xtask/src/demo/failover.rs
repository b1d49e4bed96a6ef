//! `cargo xtask demo --ha`: two controllers on a shared file system, of which one loses its power while a job runs and
//! a client submits. What happened when is printed on stdout as it is seen; the gap is measured where it hurts, between
//! two jobs that were accepted.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::client::{Client, longest_gap};
use super::{NODES, add_model, packed, settle};
use crate::console::{Phases, ProgressLine, say, seconds};
use crate::juju::Juju;
use crate::pack;

const CONTROLLERS: usize = 2;
const EXPECTED: &[(&str, usize)] = &[("store", 1), ("slurmctld", CONTROLLERS), ("compute", NODES)];
/// The store: a machine that serves it, and the subordinate that mounts it on every controller.
const STORE_CHARMS: [&str; 2] = ["moosefs", "filesystem-client"];
/// Slurm's default is 120: a backup waits so long before it takes over, and nobody wants to watch that.
const TIMEOUT: &str = "SlurmctldTimeout=10";
const HEARTBEAT: &str = "/var/lib/slurm/checkpoint/state/heartbeat";
const BEATS: &str = "/var/tmp/beats";
/// Where the client is.
const CLIENT: &str = "compute/1";
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const AGREE_WITHIN: Duration = Duration::from_secs(180);
const FAIL_OVER_WITHIN: Duration = Duration::from_secs(120);
const RETURN_WITHIN: Duration = Duration::from_secs(240);
/// slurmctld writes jobs down within so many seconds; before that a crash forgets them.
const SAVED_AFTER: Duration = Duration::from_secs(8);

pub(super) const GOING_ON: &str = "
The cluster stays up. To look around:

  export PATH=\"$PWD/dist/bin:$PATH\"
  juju run slurmctld/leader show-controllers           # who answers, and who serves
  juju run slurmctld/leader takeover                   # the other one takes over, without a failure
  juju add-unit slurmctld && juju status --watch 1s    # a third controller
  juju-local machine poweroff 1                        # a controller's machine; also poweron, cut, heal, freeze, thaw
  juju ssh compute/0 scontrol ping
  cargo xtask demo --rm                                # takes it all down
";

/// A controller as the action `show-controllers` tells of it.
struct Controller {
    host: String,
    unit: String,
    machine: String,
}

pub(super) fn show(juju: Juju, phases: &mut Phases) -> Result<()> {
    phases.phase("pack the charms of the store", || STORE_CHARMS.iter().try_for_each(|name| pack::test_charm(name)))?;
    phases.phase("deploy", || deploy(juju))?;
    let controllers = phases.phase("settle", || {
        settle(juju, EXPECTED)?;
        agree(juju)
    })?;
    juju.run("status", &[])?;
    let mut story = phases.phase("start a job and a client", || Story::begin(juju, controllers))?;
    phases.phase("failover", || story.fail_over())?;
    juju.run("status", &[])?;
    phases.phase("return", || story.come_back())?;
    phases.phase("count jobs", || story.end())?;
    phases.phase("settle again", || settle(juju, EXPECTED))?;
    juju.run("status", &[])
}

fn deploy(juju: Juju) -> Result<()> {
    add_model(juju)?;
    let [store, mounts] = STORE_CHARMS;
    juju.run("deploy", &[&packed(store)?, "store"])?;
    juju.run("deploy", &[&packed(mounts)?, "--config", "map-options=--timeout=0 --negative-timeout=1"])?;
    say("a backup waits for SlurmctldTimeout before it takes over: here 10 s, to be seen; Slurm's default is 120 s");
    let options = ["--config", "use-network-state=true", "--config", &format!("slurm-conf-parameters={TIMEOUT}")];
    let count = CONTROLLERS.to_string();
    juju.run("deploy", &[&[packed("slurmctld")?.as_str(), "-n", &count], &options[..]].concat())?;
    juju.run("deploy", &[&packed("slurmd")?, "compute", "-n", &NODES.to_string()])?;
    juju.run("integrate", &["filesystem-client:filesystem", "store:filesystem"])?;
    juju.run("integrate", &["filesystem-client:mount", "slurmctld:mount"])?;
    juju.run("integrate", &["slurmctld", "compute"])
}

/// Waits until both controllers are listed and answer, and the first one serves.
fn agree(juju: Juju) -> Result<Vec<Controller>> {
    let entries = wait("controllers that answer", AGREE_WITHIN, || {
        let Ok(results) = juju.act("slurmctld/0", &["show-controllers"], ANSWER_WITHIN) else { return Ok(None) };
        let entries: Vec<Value> = serde_json::from_str(results["controllers"].as_str().unwrap_or("[]"))?;
        let all = entries.len() == CONTROLLERS && entries.iter().all(|one| one["responding"] == true);
        Ok((all && entries[0]["serving"] == true).then_some(entries))
    })?;
    let status = juju.status()?;
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a controller without host or unit");
    let controller = |entry: &Value| -> Result<Controller> {
        let (host, unit) = (text(&entry["host"])?, text(&entry["unit"])?);
        let machine = text(&status["applications"]["slurmctld"]["units"][&unit]["machine"])?;
        Ok(Controller { host, unit, machine })
    };
    entries.iter().map(controller).collect()
}

/// The job, the client, and who was in charge when it began.
struct Story {
    juju: Juju,
    primary: Controller,
    backup: Controller,
    job: String,
    started: String,
    client: Client,
    /// When the power went, and came back.
    off: Duration,
    on: Duration,
}

impl Story {
    fn begin(juju: Juju, controllers: Vec<Controller>) -> Result<Self> {
        let mut controllers = controllers.into_iter();
        let (Some(primary), Some(backup)) = (controllers.next(), controllers.next()) else {
            bail!("there should be two controllers")
        };
        let submit = format!(
            "sbatch --parsable --partition=compute --nodelist=compute-0 --mem=20 --time=60 --output=/dev/null \
             --chdir=/tmp --wrap \"while :; do date +%s.%N >>{BEATS}; sleep 1; done\""
        );
        let job = juju.ask("ssh", &[CLIENT, &submit], ANSWER_WITHIN)?.trim().to_owned();
        wait("the job to run", ANSWER_WITHIN, || Ok((field(juju, &job, "JobState")? == "RUNNING").then_some(())))?;
        let started = field(juju, &job, "StartTime")?;
        println!("job {job} runs on compute-0 and beats each second; a client on {CLIENT} submits a job each second");
        let client = Client::start(juju, CLIENT);
        let nothing = Duration::ZERO;
        let story = Self { juju, primary, backup, job, started, client, off: nothing, on: nothing };
        // What is said to survive has to be written down first.
        wait("jobs to be saved", ANSWER_WITHIN, || Ok((story.client.elapsed() > SAVED_AFTER).then_some(())))?;
        Ok(story)
    }

    fn fail_over(&mut self) -> Result<()> {
        let Controller { host, unit, machine } = &self.primary;
        self.off = self.client.elapsed();
        self.juju.machine("poweroff", machine)?;
        self.tell(self.off, &format!("machine {machine} loses its power: {host}, {unit}, the primary"));
        self.watch(1, FAIL_OVER_WITHIN)?;
        let gap = longest_gap(&self.client.told(), self.off).as_secs_f64();
        println!("without control: {gap:.1} s, from the last job that was accepted to the next");
        self.show_job()?;
        say(&format!("$ juju run {} show-controllers", self.backup.unit));
        let shown = self.juju.act(&self.backup.unit, &["show-controllers"], ANSWER_WITHIN)?;
        println!("{}", shown["table"].as_str().unwrap_or_default().trim_end());
        Ok(())
    }

    fn come_back(&mut self) -> Result<()> {
        let Controller { host, machine, .. } = &self.primary;
        self.on = self.client.elapsed();
        self.juju.machine("poweron", machine)?;
        self.tell(self.on, &format!("machine {machine} has power again: {host} boots, and asks for control"));
        self.watch(0, RETURN_WITHIN)?;
        let gap = longest_gap(&self.client.told(), self.on).as_secs_f64();
        println!("without control on the way back: {gap:.1} s; Slurm alone needs half a minute to hand over");
        Ok(())
    }

    fn end(self) -> Result<()> {
        self.show_job()?;
        let (juju, job, off) = (self.juju, self.job, self.off);
        let told = self.client.finish();
        let shown = juju.ask_quietly("ssh", &[CLIENT, "squeue --noheader --states=all --format=%j"], ANSWER_WITHIN)?;
        let known: BTreeSet<&str> = shown.lines().map(str::trim).collect();
        let accepted: Vec<_> = told.iter().filter(|one| one.accepted).collect();
        let lost: Vec<_> = accepted.iter().filter(|one| !known.contains(one.name.as_str())).collect();
        println!(
            "{} jobs were accepted, {} are there, {} lost",
            accepted.len(),
            accepted.len() - lost.len(),
            lost.len()
        );
        for one in lost {
            let before = seconds(off.saturating_sub(one.ended));
            println!("  {} was accepted {before} before the power went: Slurm saves jobs every few seconds", one.name);
        }
        let refused: Vec<_> = told.iter().filter(|one| !one.accepted).collect();
        if !refused.is_empty() {
            let taken = refused.iter().filter(|one| known.contains(one.name.as_str())).count();
            println!(
                "{} times sbatch ended with an error; of these jobs {taken} are there all the same",
                refused.len()
            );
        }
        juju.ask_quietly("ssh", &[CLIENT, "scancel --user=ubuntu --state=pending"], ANSWER_WITHIN)?;
        say(&format!("job {job} runs on: `juju ssh compute/0 tail -f {BEATS}`"));
        Ok(())
    }

    /// Waits until the controller with this rank serves, and until a job was accepted after that; says when.
    fn watch(&self, rank: u64, within: Duration) -> Result<()> {
        let (controller, begun) = ([&self.primary, &self.backup][usize::try_from(rank)?], now());
        wait(&format!("{} to serve", controller.host), within, || {
            Ok(self.heartbeat().filter(|(at, serving)| *serving == rank && *at > begun).map(|_| ()))
        })?;
        let serves = self.client.elapsed();
        self.tell(serves, &format!("{} serves ({})", controller.host, controller.unit));
        wait("a job to be accepted", within, || Ok(self.client.was_accepted_after(serves).then_some(())))?;
        self.tell(self.client.elapsed(), "jobs are accepted");
        Ok(())
    }

    /// Returns when whoever serves gave its last sign of life, in seconds since 1970, and its rank. The machine of the
    /// backup is asked, which has power all the time.
    fn heartbeat(&self) -> Option<(u64, u64)> {
        let command = format!("sudo timeout --signal=KILL 5 od --address-radix=n --format=u1 -v {HEARTBEAT}");
        parse_heartbeat(&self.juju.ask_quietly("ssh", &[&self.backup.unit, &command], ANSWER_WITHIN).ok()?)
    }

    /// Shows that the job is the same and has beaten all the time.
    fn show_job(&self) -> Result<()> {
        let (state, restarts) = (field(self.juju, &self.job, "JobState")?, field(self.juju, &self.job, "Restarts")?);
        let started = field(self.juju, &self.job, "StartTime")?;
        ensure!(state == "RUNNING" && restarts == "0" && started == self.started, "job {} is {state}", self.job);
        let text = self.juju.ask_quietly("ssh", &["compute/0", &format!("cat {BEATS}")], ANSWER_WITHIN)?;
        let beats: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let longest = beats.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        println!(
            "job {} is {state} since {started} and was never restarted: {} beats, at most {longest:.1} s apart",
            self.job,
            beats.len()
        );
        Ok(())
    }

    /// Prints what was seen, by the time since the power went.
    fn tell(&self, at: Duration, what: &str) {
        println!("{:>6.1} s  {what}", at.saturating_sub(self.off).as_secs_f64());
    }
}

/// Reads the numbers of the 16 bytes of the file: a time, and a rank.
fn parse_heartbeat(shown: &str) -> Option<(u64, u64)> {
    let bytes: Option<Vec<u8>> = shown.split_whitespace().map(|word| word.parse().ok()).collect();
    let (at, rank) = bytes.as_deref()?.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*at), u64::from_be_bytes(rank.try_into().ok()?)))
}

/// Returns what Slurm says of a job.
fn field(juju: Juju, job: &str, key: &str) -> Result<String> {
    let shown = juju.ask_quietly("ssh", &[CLIENT, &format!("scontrol --oneliner show job {job}")], ANSWER_WITHIN)?;
    let prefix = format!("{key}=");
    let found = shown.split_whitespace().find_map(|word| word.strip_prefix(&prefix));
    found.map(str::to_owned).with_context(|| format!("job {job} has no {key}"))
}

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Asks until there is an answer, and shows what is awaited meanwhile.
fn wait<T>(what: &str, within: Duration, mut ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begun = Instant::now();
    let mut line = ProgressLine::new();
    loop {
        if let Some(found) = ask()? {
            line.end();
            return Ok(found);
        }
        if begun.elapsed() > within {
            line.end();
            bail!("waited {} for {what}", seconds(begun.elapsed()));
        }
        line.show(begun.elapsed(), &format!("waiting for {what}"));
        thread::sleep(Duration::from_millis(300));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_a_time_and_a_rank() {
        let shown = "   0   0   0   0 106  30   7 208   0   0   0   0   0   0   0\n   1\n";
        assert_eq!(parse_heartbeat(shown), Some((0x6a1e_07d0, 1)));
        assert_eq!(parse_heartbeat("   0   0\n"), None);
        assert_eq!(parse_heartbeat(""), None);
    }
}
