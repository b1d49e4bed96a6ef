//! What an agent that collects metrics is told: where slurmctld has them, when to raise an alert, and a dashboard.
//!
//! slurmctld itself serves metrics, since 25.11 and where its plugin is installed, on the port where it serves
//! everything else. The rules and the dashboard name what 26.05.5 was seen to have.

use crate::config::Situation;
use crate::config::managed_keys::METRICS;
use crate::names;
use serde_json::{Value, json};
use slurm_interface::AgentData;

/// Rules of Prometheus, as JSON, which is YAML as well.
const ALERTS: &str = include_str!("metrics/alerts.json");
const DASHBOARD: &str = include_str!("metrics/dashboard.json");
/// In the rules: stands for the labels that tell the series of this application from those of others.
const TOPOLOGY: &str = "%%juju_topology%%";
/// What slurmctld serves. There is no path with everything.
const PATHS: [&str; 5] = ["jobs", "nodes", "partitions", "scheduler", "jobs-users-accts"];

/// Who this is, among all that an agent's server hears of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub model: String,
    pub model_uuid: String,
    pub application: String,
}

/// Why there are no metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoMetrics {
    /// This Slurm has no plugin for them.
    NoPlugin(String),
    /// slurm.conf does not load it.
    SwitchedOff,
    /// slurmctld refuses every reader that says no name: 401, as soon as `PrivateData` says anything.
    Private,
}

/// Says why slurmctld, with the files that it has accepted, serves no metrics.
pub fn obstacle(situation: &Situation<'_>) -> Option<NoMetrics> {
    if !situation.has_metrics() {
        return Some(NoMetrics::NoPlugin(situation.version.to_owned()));
    }
    let conf = &situation.accepted().effective;
    let (key, value) = METRICS;
    if !conf.get(key).is_some_and(|found| found.eq_ignore_ascii_case(value)) {
        return Some(NoMetrics::SwitchedOff);
    }
    conf.get("PrivateData").filter(|data| !data.eq_ignore_ascii_case("none")).map(|_| NoMetrics::Private)
}

/// Returns what the agent is told. Where there are no metrics it is told of none, and its alerts stay silent.
pub fn agent_data(origin: &Origin, served: bool) -> AgentData {
    let job = |(index, path): (usize, &&str)| {
        json!({
            "metrics_path": format!("/metrics/{path}"),
            "static_configs": [{"targets": [format!("localhost:{}", names::PORT)]}],
            "job_name": format!("{}_{index}_default", origin.application),
        })
    };
    AgentData {
        alert_rules: if served { rules(origin) } else { json!({}) },
        dashboards: if served { vec![DASHBOARD.to_owned()] } else { Vec::new() },
        scrape_jobs: if served { PATHS.iter().enumerate().map(job).collect() } else { Vec::new() },
    }
}

/// Returns the rules of this application: they look at its series alone, and say whose they are.
fn rules(origin: &Origin) -> Value {
    let labels = [
        ("juju_model", origin.model.as_str()),
        ("juju_model_uuid", origin.model_uuid.as_str()),
        ("juju_application", origin.application.as_str()),
    ];
    let matchers: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value:?}")).collect();
    let mut rules: Value = serde_json::from_str(ALERTS).expect("invariant: our own rules are JSON");
    let short = origin.model_uuid.split('-').next().unwrap_or_default();
    for group in rules["groups"].as_array_mut().into_iter().flatten() {
        let name = group["name"].as_str().unwrap_or_default();
        group["name"] = json!(format!("{}_{short}_{}_{name}_alerts", origin.model, origin.application));
        for rule in group["rules"].as_array_mut().into_iter().flatten() {
            let expression = rule["expr"].as_str().unwrap_or_default().replace(TOPOLOGY, &matchers.join(", "));
            rule["expr"] = json!(expression);
            for (name, value) in labels.iter().chain([&("juju_charm", "slurmctld")]) {
                rule["labels"][name] = json!(value);
            }
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin() -> Origin {
        Origin {
            model: "hpc".to_owned(),
            model_uuid: "cdf60fc1-82af-4c62-8f79-e23be1a4a5ea".to_owned(),
            application: "slurmctld".to_owned(),
        }
    }

    #[test]
    fn every_rule_looks_at_this_application_alone_and_says_what_to_do() {
        let data = agent_data(&origin(), true);
        let text = data.alert_rules.to_string();
        assert!(!text.contains(TOPOLOGY) && text.contains("hpc_cdf60fc1_slurmctld_"), "{text}");
        let groups = data.alert_rules["groups"].as_array().unwrap();
        let rules: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
        assert!(rules.len() >= 8);
        for rule in rules {
            let expression = rule["expr"].as_str().unwrap();
            // Each series that is named is chosen by labels.
            let series = expression.matches("slurm_").count();
            assert_eq!(expression.matches("juju_model_uuid=").count(), series, "{expression}");
            assert_eq!(rule["labels"]["juju_application"], "slurmctld");
            assert!(["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()));
            assert!(rule["for"].is_string() && rule["annotations"]["description"].is_string(), "{rule}");
        }
    }

    #[test]
    fn the_dashboard_can_be_told_from_others() {
        let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
        let uid = dashboard["uid"].as_str().unwrap();
        assert!(uid.len() == 40 && uid.bytes().all(|byte| byte.is_ascii_hexdigit()), "{uid}");
        assert!(dashboard["panels"].as_array().unwrap().len() > 5);
    }

    #[test]
    fn without_metrics_nobody_is_told_to_look_for_them() {
        let data = agent_data(&origin(), false);
        assert!(data.scrape_jobs.is_empty() && data.dashboards.is_empty());
        assert_eq!(data.alert_rules, json!({}));
    }
}
