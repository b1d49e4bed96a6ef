//! `cargo xtask demo --full`: one of each charm around two compute nodes. A user submits from the login node, the job
//! is in the accounts, and the REST API lists it to whoever has a token.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{NODES, add_model, packed, settle};
use crate::console::{Phases, say};
use crate::juju::Juju;
use crate::pack;

/// The database is one of the tests: any charm that speaks `mysql_client` would do.
const DATABASE: &str = "mariadb";
const EXPECTED: &[(&str, usize)] =
    &[("slurmctld", 1), ("compute", NODES), ("login", 1), ("slurmdbd", 1), ("rest", 1), ("mysql", 1)];
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const RECORDED_WITHIN: Duration = Duration::from_secs(120);
/// Asks the REST API for the jobs in the accounts.
const ASK: &str = "import json, sys, urllib.request; \
    call = urllib.request.Request(sys.argv[1], headers={'X-SLURM-USER-TOKEN': sys.argv[2]}); \
    jobs = json.load(urllib.request.urlopen(call, timeout=30))['jobs']; \
    print('\\n'.join(f\"job {job['job_id']} of {job['user']}: {job['state']['current'][0]}\" for job in jobs))";

pub(super) const GOING_ON: &str = "
The cluster stays up. To look around:

  export PATH=\"$PWD/dist/bin:$PATH\"
  juju ssh login/0 srun -p compute -N2 hostname
  juju ssh login/0 sacct --allusers
  juju run slurmctld/0 token user=ubuntu               # a secret: juju show-secret --reveal
  juju run slurmdbd/0 explain
  juju run rest/0 explain
  cargo xtask demo --rm                                # takes it all down
";

pub(super) fn show(juju: Juju, phases: &mut Phases) -> Result<()> {
    phases.phase("pack the charm of the database", || pack::test_charm(DATABASE))?;
    phases.phase("deploy", || deploy(juju))?;
    phases.phase("settle", || settle(juju, EXPECTED))?;
    let job = phases.phase("a job from the login node", || submit(juju))?;
    phases.phase("its record", || recorded(juju, &job))?;
    let listed = phases.phase("the REST API", || ask(juju))?;
    print!("{listed}");
    ensure!(listed.contains(&format!("job {job} of ubuntu: COMPLETED")), "the REST API does not list job {job}");
    juju.run("status", &[])
}

fn deploy(juju: Juju) -> Result<()> {
    add_model(juju)?;
    juju.run("deploy", &[&packed("slurmctld")?])?;
    juju.run("deploy", &[&packed("slurmd")?, "compute", "-n", &NODES.to_string()])?;
    juju.run("deploy", &[&packed("sackd")?, "login"])?;
    juju.run("deploy", &[&packed(DATABASE)?, "mysql"])?;
    juju.run("deploy", &[&packed("slurmdbd")?])?;
    juju.run("deploy", &[&packed("slurmrestd")?, "rest"])?;
    juju.run("integrate", &["slurmdbd", "mysql"])?;
    ["compute", "login", "slurmdbd", "rest"].iter().try_for_each(|app| juju.run("integrate", &["slurmctld", app]))
}

/// Runs a job over all nodes as a user of the login node, and returns its number.
fn submit(juju: Juju) -> Result<String> {
    let nodes = format!("-N{NODES}");
    let words = ["login/0", "sbatch", "--parsable", "--wait", "-p", "compute", &nodes, "--chdir=/tmp"];
    let rest = ["--output=/dev/null", "--wrap", "hostname"];
    let number = juju.ask("ssh", &[&words[..], &rest[..]].concat(), ANSWER_WITHIN)?.trim().to_owned();
    ensure!(number.parse::<u64>().is_ok(), "sbatch should print a number and printed {number:?}");
    Ok(number)
}

/// Waits until slurmdbd has the record, and shows it.
fn recorded(juju: Juju, job: &str) -> Result<()> {
    let jobs = format!("--jobs={job}");
    let words = ["login/0", "sacct", "--allocations", "--format=JobID,User,Partition,NNodes,State", &jobs];
    let begun = Instant::now();
    loop {
        let shown = juju.ask_quietly("ssh", &words, ANSWER_WITHIN).unwrap_or_default();
        if shown.contains("COMPLETED") {
            say(&format!("$ juju ssh {}", words.join(" ")));
            print!("{shown}");
            return Ok(());
        }
        ensure!(begun.elapsed() < RECORDED_WITHIN, "slurmdbd has no record of job {job}: {shown}");
        thread::sleep(Duration::from_secs(1));
    }
}

/// Lists the jobs in the accounts through the REST API, with a token that is in a secret.
fn ask(juju: Juju) -> Result<String> {
    let answer = juju.act("slurmctld/0", &["token", "user=ubuntu"], ANSWER_WITHIN)?;
    let secret = answer["secret"].as_str().context("the action gives no secret")?;
    let shown = juju.ask("show-secret", &["--reveal", "--format=json", secret], ANSWER_WITHIN)?;
    let shown: Value = serde_json::from_str(&shown)?;
    let content = shown.as_object().and_then(|all| all.values().next()).map(|one| &one["content"]["Data"]["token"]);
    let token = content.and_then(Value::as_str).context("the secret has no token")?;
    let status = juju.status()?;
    let message = status["applications"]["rest"]["units"]["rest/0"]["workload-status"]["message"].as_str();
    let version = message.and_then(|message| message.split(' ').next_back()).context("slurmrestd names no version")?;
    let url = format!("http://localhost:6820/slurmdb/{version}/jobs");
    say(&format!("GET {url}, on rest/0, with the token of the secret {secret}"));
    let script = format!("python3 -c {} {url} {token}", quoted(ASK));
    juju.ask_quietly("ssh", &["rest/0", &script], ANSWER_WITHIN)
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
