//! What each dispatch path and its variables are understood as.

use super::*;
use crate::event::{RelationEvent, RelationEventKind};

const LOOK_AGAIN: &str = "look-again";

fn read(path: &str, more: &[(&str, &str)]) -> Result<Context, ContextError> {
    let mut all = vec![
        ("JUJU_DISPATCH_PATH", path),
        ("JUJU_UNIT_NAME", "slurmctld/0"),
        ("JUJU_CHARM_DIR", "/var/lib/juju/agents/unit-slurmctld-0/charm"),
        ("JUJU_MODEL_UUID", "7f1f5b0e-0000-4000-8000-000000000001"),
        ("JUJU_VERSION", "4.0.9"),
    ];
    all.extend_from_slice(more);
    Context::read(&[LOOK_AGAIN], &|name| {
        all.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    })
}

#[track_caller]
fn event(path: &str, more: &[(&str, &str)]) -> Event {
    read(path, more).unwrap().event
}

fn relation(endpoint: &str, kind: RelationEventKind, remote_app: Option<&str>) -> Event {
    Event::Relation(RelationEvent {
        endpoint: endpoint.parse().unwrap(),
        relation: format!("{endpoint}:3").parse().unwrap(),
        remote_app: remote_app.map(|app| app.parse().unwrap()),
        kind,
    })
}

#[test]
fn lifecycle_hooks_are_told_apart() {
    assert_eq!(event("hooks/install", &[]), Event::Hook("install".to_owned()));
    assert_eq!(event("hooks/stop", &[]), Event::Stop);
    assert_eq!(event("hooks/remove", &[]), Event::Remove);
}

#[test]
fn an_endpoint_with_hyphens_keeps_its_name() {
    let variables = [("JUJU_RELATION_ID", "slurmctld-peer:3"), ("JUJU_REMOTE_APP", "slurmctld")];
    let seen = event("hooks/slurmctld-peer-relation-created", &variables);
    assert_eq!(seen, relation("slurmctld-peer", RelationEventKind::Created, Some("slurmctld")));
    assert_eq!(seen.to_string(), "slurmctld-peer-relation-created");
}

#[test]
fn an_endpoint_that_sounds_like_a_hook_is_cut_at_its_end_only() {
    let variables = [("JUJU_RELATION_ID", "my-relation-changed:3"), ("JUJU_REMOTE_APP", "other")];
    let seen = event("hooks/my-relation-changed-relation-broken", &variables);
    assert_eq!(seen, relation("my-relation-changed", RelationEventKind::Broken, Some("other")));
}

#[test]
fn a_changed_bag_names_its_application_whoever_it_belongs_to() {
    for unit in ["", "compute/2"] {
        let variables = [("JUJU_RELATION_ID", "slurmd:3"), ("JUJU_REMOTE_APP", "compute"), ("JUJU_REMOTE_UNIT", unit)];
        let seen = event("hooks/slurmd-relation-changed", &variables);
        assert_eq!(seen, relation("slurmd", RelationEventKind::Changed, Some("compute")));
    }
}

#[test]
fn a_broken_relation_may_lack_the_remote_application() {
    let variables = [("JUJU_RELATION_ID", "slurmd:3"), ("JUJU_REMOTE_APP", "")];
    let seen = event("hooks/slurmd-relation-broken", &variables);
    assert_eq!(seen, relation("slurmd", RelationEventKind::Broken, None));
    assert_eq!(seen.broken_relation().map(ToString::to_string), Some("slurmd:3".to_owned()));
}

#[test]
fn who_departs_is_told_by_its_own_variable() {
    let variables = [
        ("JUJU_RELATION_ID", "slurmd:3"),
        ("JUJU_REMOTE_APP", "compute"),
        ("JUJU_REMOTE_UNIT", "compute/1"),
        ("JUJU_DEPARTING_UNIT", "slurmctld/0"),
    ];
    let seen = event("hooks/slurmd-relation-departed", &variables);
    assert_eq!(seen.departing_unit().map(ToString::to_string), Some("slurmctld/0".to_owned()));
}

#[test]
fn an_action_is_no_hook() {
    match event("actions/resume", &[]) {
        Event::Action(name) => assert_eq!(name.as_str(), "resume"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_declared_timer_is_known_and_any_other_private_name_is_just_a_moment() {
    assert_eq!(event("hooks/look-again", &[]), Event::Timer(LOOK_AGAIN));
    assert_eq!(event("hooks/leader-settings-changed", &[]), Event::Hook("leader-settings-changed".to_owned()));
}

#[test]
fn what_is_no_dispatch_path_is_refused_with_the_text_found() {
    for path in ["hooks/", "actions/", "install", "charm/install", "hooks"] {
        let text = read(path, &[]).unwrap_err().to_string();
        assert!(text.contains(&format!("found `{path}`")), "{text}");
    }
    assert!(matches!(read("", &[]), Err(ContextError::Missing { variable: "JUJU_DISPATCH_PATH" })));
}

#[test]
fn a_relation_hook_without_its_relation_is_refused() {
    let refused = read("hooks/slurmd-relation-changed", &[]);
    assert!(matches!(refused, Err(ContextError::Missing { variable: "JUJU_RELATION_ID" })));
}
