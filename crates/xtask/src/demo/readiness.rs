//! Reads a `juju status` document: what is not ready yet, and what has failed. Pure.

use serde_json::Value;

/// Returns what is still missing until each application has that many units, all active and idle. Empty: all is well.
pub(super) fn awaited(status: &Value, expected: &[(&str, usize)]) -> Vec<String> {
    let mut missing = Vec::new();
    for (application, count) in expected {
        let units = units(status, application);
        if units.len() < *count {
            missing.push(format!("{application} ({} of {count} units)", units.len()));
        }
        missing.extend(units.iter().filter_map(|(name, unit)| unready(name, unit)));
        let own = &status["applications"][application]["application-status"];
        if missing.is_empty() && own["current"] != "active" {
            missing.push(format!("{application} ({})", condition(own)));
        }
    }
    missing
}

/// Returns the units whose last hook failed.
pub(super) fn errors(status: &Value) -> Vec<String> {
    let Some(applications) = status["applications"].as_object() else { return Vec::new() };
    let all = applications.keys().flat_map(|application| units(status, application));
    all.filter(|(_, unit)| unit["workload-status"]["current"] == "error").map(|(name, _)| name.clone()).collect()
}

fn units<'a>(status: &'a Value, application: &str) -> Vec<(&'a String, &'a Value)> {
    let units = status["applications"][application]["units"].as_object();
    units.map(|units| units.iter().collect()).unwrap_or_default()
}

fn unready(name: &str, unit: &Value) -> Option<String> {
    let workload = &unit["workload-status"];
    if workload["current"] != "active" {
        return Some(format!("{name} ({})", condition(workload)));
    }
    let agent = &unit["juju-status"];
    (agent["current"] != "idle").then(|| format!("{name} ({})", condition(agent)))
}

/// Renders `{"current": "waiting", "message": "for X"}` as `waiting: for X`.
fn condition(status: &Value) -> String {
    let current = status["current"].as_str().unwrap_or("unknown");
    match status["message"].as_str() {
        Some(message) if !message.is_empty() => format!("{current}: {message}"),
        _ => current.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn unit(workload: &str, message: &str, agent: &str) -> Value {
        json!({"workload-status": {"current": workload, "message": message}, "juju-status": {"current": agent}})
    }

    fn status(first: Value, second: Value) -> Value {
        json!({"applications": {"compute": {
            "application-status": {"current": "active"},
            "units": {"compute/0": first, "compute/1": second},
        }}})
    }

    #[test]
    fn active_and_idle_units_are_not_awaited() {
        let ready = status(unit("active", "", "idle"), unit("active", "idle", "idle"));
        assert_eq!(awaited(&ready, &[("compute", 2)]), Vec::<String>::new());
    }

    #[test]
    fn what_is_awaited_says_why() {
        let early = status(unit("maintenance", "installing", "executing"), unit("active", "", "executing"));
        assert_eq!(
            awaited(&early, &[("compute", 2)]),
            ["compute/0 (maintenance: installing)", "compute/1 (executing)"]
        );
    }

    #[test]
    fn missing_units_are_awaited() {
        let ready = status(unit("active", "", "idle"), unit("active", "", "idle"));
        assert_eq!(awaited(&ready, &[("compute", 3)]), ["compute (2 of 3 units)"]);
    }

    #[test]
    fn a_missing_application_is_awaited() {
        assert_eq!(awaited(&json!({}), &[("slurmctld", 1)]), ["slurmctld (0 of 1 units)"]);
    }

    #[test]
    fn an_application_that_is_not_active_is_awaited() {
        let mut blocked = status(unit("active", "", "idle"), unit("active", "", "idle"));
        blocked["applications"]["compute"]["application-status"] = json!({"current": "blocked", "message": "no"});
        assert_eq!(awaited(&blocked, &[("compute", 2)]), ["compute (blocked: no)"]);
    }

    #[test]
    fn failed_hooks_are_found() {
        let failed = status(unit("error", "hook failed: \"install\"", "idle"), unit("active", "", "idle"));
        assert_eq!(errors(&failed), ["compute/0"]);
    }
}
