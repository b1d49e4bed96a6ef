//! Answers of hook tools, and the environment of a dispatch. The first line of the input is the exit code, `answer` and
//! `message` are the rest: whatever Juju prints, every tool gives a value or an error that can be shown, and what was
//! read is sent back only once.
#![no_main]

use charm::tools::{Call, Output, Port, SecretAnswer, ToolRunner};
use charm::{Context, Databag, ToolError, Tools};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Says the same to every call.
struct Says {
    exit_code: Option<i32>,
    text: String,
    writes: AtomicUsize,
}

impl ToolRunner for Says {
    fn run(&self, call: &Call<'_>) -> std::io::Result<Output> {
        assert!(!call.command_line().contains('\n'), "a command line is one line");
        let writes = call.tool.ends_with("-set") || matches!(call.tool, "open-port" | "close-port");
        self.writes.fetch_add(usize::from(writes), Ordering::Relaxed);
        let bytes = self.text.as_bytes().to_vec();
        Ok(match self.exit_code {
            Some(0) => Output { exit_code: Some(0), stdout: bytes, stderr: Vec::new() },
            exit_code => Output { exit_code, stdout: Vec::new(), stderr: bytes },
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[expect(dead_code, reason = "read by Debug alone")]
struct Parameters {
    nodes: String,
    #[serde(default)]
    wait: bool,
    #[serde(default)]
    timeout: Option<u64>,
}

/// An error must be fit to be shown, with its cause; a value only has to be one.
fn show<T: Debug>(answer: &Result<T, ToolError>) {
    match answer {
        Ok(value) => drop(format!("{value:?}")),
        Err(error) => {
            let mut chain: Option<&dyn std::error::Error> = Some(error);
            while let Some(cause) = chain {
                assert!(!cause.to_string().is_empty());
                chain = cause.source();
            }
            let _ = (error.refusal(), error.exit_code());
        }
    }
}

fuzz_target!(|text: &str| {
    environment(text);
    let (first, rest) = text.split_once('\n').unwrap_or(("0", text));
    let says = Arc::new(Says { exit_code: first.parse().ok(), text: rest.to_owned(), writes: AtomicUsize::new(0) });
    let unit = "slurmctld/0".parse().expect("a unit");
    let tools = Tools::with_runner(&unit, says.clone());
    let endpoint = "slurmd".parse().expect("an endpoint");
    let relation = "slurmd:3".parse().expect("a relation");
    let app = "slurmctld".parse().expect("an application");

    if let Ok(config) = tools.config_get() {
        let _ = (config.string("a"), config.boolean("a"));
    }
    if let Ok(goal) = tools.goal_state() {
        let _ = (goal.planned_units(), goal.remote_units("slurmd"), goal.is_dying(&unit));
    }
    drop(format!("{:?}", tools.action_get::<Parameters>().map_err(|failure| format!("{failure:?}"))));
    show(&tools.relation_ids(&endpoint));
    show(&tools.relation_list(&relation));
    show(&tools.relation_list_app(&relation));
    show(&tools.relation_get_remote_unit(&relation, &"compute/7".parse().expect("a unit")));
    show(&tools.relation_get_app(&relation, &"compute".parse().expect("an application")));
    show(&tools.opened_ports());
    show(&tools.is_leader());
    show(&tools.status_get());
    show(&tools.secret_info_get("label"));
    let secret = tools.secret_get("secret:d3k2v5nmp25c762q3bvg", "label");
    if let Ok(SecretAnswer::Content(content)) = &secret {
        let _ = content.get("key");
    }
    show(&secret);

    // What is there already is not written again.
    let bag = tools.relation_get_app(&relation, &app).unwrap_or_default();
    let settled = bag.iter().all(|(_, value)| !value.is_empty());
    tools.writer().relation_set_app(&relation, &bag);
    let outcome = tools.writer().send();
    assert!(!settled || outcome.is_err() || says.writes.load(Ordering::Relaxed) == 0, "nothing differs");
    show(&outcome);
    tools.writer().relation_set_unit(&relation, &Databag::from([("a".to_owned(), "b".to_owned())]));
    tools.writer().open_port(Port::tcp(6817));
    show(&tools.writer().send());
});

/// Reads one `VARIABLE=value` per line as the environment of a dispatch.
fn environment(text: &str) {
    let pairs: Vec<(&str, &str)> = text.split('\n').filter_map(|line| line.split_once('=')).collect();
    let read = |name: &str| pairs.iter().rfind(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    match Context::read(&["slurmctld-check"], &read) {
        Ok(context) => {
            let _ = (context.event.broken_relation(), context.event.departing_unit(), format!("{context:?}"));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
