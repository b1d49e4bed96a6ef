//! The configuration in effect, and where each line of it comes from.

use super::{Act, ActionFailure, ActionResults, names};
use crate::config::files::Files;
use crate::config::origin::{LineOrigin, origin};
use slurm_conf::{Overlaid, SlurmConf};
use slurm_ops::files;
use std::collections::BTreeSet;

pub(super) fn show(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let read = |path| files::read_text(&act.view.host, path).map_err(ActionFailure::broken);
    let [slurm, cgroup, gres, oci] = Files::PATHS.map(read);
    let Some(slurm) = slurm? else {
        let others = super::other_controllers(act)?;
        let go =
            if others.is_empty() { "no unit has one yet".to_owned() } else { format!("ask {}", others.join(" or ")) };
        return Err(ActionFailure::refused(format!(
            "there is no {} on {}: {go}",
            names::SLURM_CONF,
            act.view.ctx.unit
        )));
    };
    let applications = applications(act)?;
    let mut results = ActionResults::default().with("slurm.conf", slurm.as_str());
    for (key, text) in [("cgroup.conf", cgroup?), ("gres.conf", gres?), ("oci.conf", oci?)] {
        if let Some(text) = text {
            results = results.with(key, text);
        }
    }
    Ok(results.with("annotated", annotated(&slurm, &applications)))
}

fn applications(act: &Act<'_>) -> Result<BTreeSet<String>, ActionFailure> {
    let endpoint = names::ENDPOINT_SLURMD.parse().expect("invariant: our own endpoints have proper names");
    let mut found = BTreeSet::new();
    for relation in act.tools.relation_ids(&endpoint)? {
        found.extend(act.tools.relation_list_app(&relation)?.map(|app| app.to_string()));
    }
    Ok(found)
}

/// Returns every line with where it comes from in front.
fn annotated(text: &str, applications: &BTreeSet<String>) -> String {
    // A line that continues has its key in the first one only.
    let mut last = String::new();
    let mut continued = false;
    let lines: Vec<(String, &str)> = Overlaid::lines(text)
        .into_iter()
        .map(|(kind, line)| {
            if !continued {
                let key = SlurmConf::parse(line.trim_end_matches('\\')).unwrap_or_default();
                last = match origin(kind, &key, applications) {
                    LineOrigin::Charm => "charm".to_owned(),
                    LineOrigin::Option(option) => format!("option {option}"),
                    LineOrigin::Outweighed => "outweighed".to_owned(),
                    LineOrigin::Application(app) => format!("application {app}"),
                    LineOrigin::Former(name) => format!("was application {name}"),
                    LineOrigin::Hand if line.trim().is_empty() => String::new(),
                    LineOrigin::Hand => "by hand".to_owned(),
                };
            }
            continued = line.trim_end().ends_with('\\');
            (last.clone(), line)
        })
        .collect();
    let width = lines.iter().map(|(origin, _)| origin.chars().count()).max().unwrap_or(0);
    lines.iter().map(|(origin, line)| format!("{origin:<width$} | {line}")).collect::<Vec<_>>().join("\n")
}
