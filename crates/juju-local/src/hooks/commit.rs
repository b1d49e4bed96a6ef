//! The commit at the end of a successful run: everything that was buffered becomes part of the model, or is refused.

use super::context::{Context, PendingSecret};
use crate::clock::Moment;
use crate::model::{Model, Owner, Release, Revision, Secret, overlay};

/// Writes the context's changes into the model, or refuses them. 3.6 takes all or nothing; in 4.0.9 refused secrets
/// keep what came before them, refused ports and storage keep nothing.
pub fn commit(model: &mut Model, context: &Context) -> Result<(), String> {
    if model.release == Release::V4 {
        return write(model, context);
    }
    let mut changed = model.clone();
    write(&mut changed, context)?;
    *model = changed;
    Ok(())
}

fn write(model: &mut Model, context: &Context) -> Result<(), String> {
    check(model, context)?;
    for (relation, changes) in &context.unit_changes {
        if let Some(bag) = model.relations.get_mut(relation).and_then(|record| record.unit_bags.get_mut(&context.unit))
        {
            bag.apply(changes);
        }
    }
    for (relation, changes) in &context.application_changes {
        let application = context.unit.application();
        if let Some(bag) =
            model.relations.get_mut(relation).and_then(|record| record.application_bags.get_mut(application))
        {
            bag.apply(changes);
        }
    }
    if let Some(unit) = model.units.get_mut(&context.unit) {
        overlay(&mut unit.state, &context.state_changes);
        if let Some(ports) = &context.ports {
            unit.ports = ports.clone();
        }
    }
    for (name, count) in &context.storage_adds {
        let definition = model.check_addition(&context.unit, name, *count)?;
        model.add_storage(&context.unit, &definition, *count);
    }
    context.secrets.iter().try_for_each(|change| apply_secret(model, context, change))
}

fn check(model: &Model, context: &Context) -> Result<(), String> {
    if !context.application_changes.is_empty() && !model.is_leader(&context.unit) {
        return Err("prerequisites failed: leadership was lost".to_owned());
    }
    for (name, count) in &context.storage_adds {
        model.check_addition(&context.unit, name, *count)?;
    }
    let known = model.charm_of(context.unit.application()).map(|charm| charm.endpoints()).unwrap_or_default();
    let unknown = context
        .ports
        .iter()
        .flatten()
        .find(|port| !port.endpoint.is_empty() && !known.iter().any(|endpoint| endpoint.name == port.endpoint));
    match unknown {
        Some(port) => Err(format!("opening ports: endpoint \"{}\" not found", port.endpoint)),
        None => Ok(()),
    }
}

fn apply_secret(model: &mut Model, context: &Context, change: &PendingSecret) -> Result<(), String> {
    let unit = &context.unit;
    let now = Moment::now();
    let denied = |prefix: &str| format!("{prefix}: \"{unit}\" is not allowed to manage this secret");
    match change {
        PendingSecret::Add { id, unit_owned, label, description, content, expires, rotate } => {
            let owner = match unit_owned {
                true => Owner::Unit(unit.clone()),
                false => Owner::Application(unit.application().to_owned()),
            };
            let taken = |secret: &&Secret| secret.owner == owner && !label.is_empty() && secret.label == *label;
            if model.secrets.values().find(taken).is_some() {
                return Err(format!("creating secrets: secret with label \"{label}\" already exists"));
            }
            let revision = Revision { content: content.clone(), created: now };
            let secret = Secret {
                id: id.clone(),
                owner,
                label: label.clone(),
                description: description.clone(),
                created: now,
                updated: now,
                latest: 1,
                revisions: [(1, revision)].into(),
                grants: Default::default(),
                consumers: Default::default(),
                removal_announced: Vec::new(),
                expires: *expires,
                expiry_said: None,
                rotate: rotate.clone(),
                rotates: Secret::next_rotation(rotate, now),
            };
            model.secrets.insert(id.clone(), secret);
        }
        PendingSecret::Set { id, label, description, content, expires, rotate } => {
            let allowed = model.secrets.get(id).is_some_and(|secret| model.may_manage(unit, secret));
            let Some(secret) = model.secrets.get_mut(id).filter(|_| allowed) else {
                return Err(denied("updating secrets"));
            };
            secret.label = label.clone().unwrap_or_else(|| secret.label.clone());
            secret.description = description.clone().unwrap_or_else(|| secret.description.clone());
            secret.updated = now;
            // What was added in this very hook has one revision, however often its content was set.
            let added = |other: &PendingSecret| matches!(other, PendingSecret::Add { id: added, .. } if added == id);
            let fresh = context.secrets.iter().any(added);
            if let Some(content) = content.as_ref().filter(|content| secret.content(secret.latest) != Some(content)) {
                secret.latest += u32::from(!fresh);
                secret.revisions.insert(secret.latest, Revision { content: content.clone(), created: now });
                secret.expires = None;
                secret.expiry_said = None;
                secret.rotates = Secret::next_rotation(&secret.rotate, now);
            }
            if let Some(at) = expires {
                secret.expires = Some(*at);
                secret.expiry_said = None;
            }
            if let Some(policy) = rotate {
                secret.rotate = policy.clone();
                secret.rotates = Secret::next_rotation(policy, now);
            }
        }
        PendingSecret::Remove { id, revision } => {
            // One that was added in this very hook is not there yet for Juju, so removing it fails.
            let fresh = |other: &PendingSecret| matches!(other, PendingSecret::Add { id: added, .. } if added == id);
            let allowed = model.secrets.get(id).is_some_and(|secret| model.may_manage(unit, secret));
            if !allowed || context.secrets.iter().any(fresh) {
                return Err(denied("removing secrets"));
            }
            match revision {
                None => {
                    model.secrets.remove(id);
                }
                Some(revision) => {
                    let empty = model.secrets.get_mut(id).is_some_and(|secret| {
                        secret.revisions.remove(revision);
                        secret.revisions.is_empty()
                    });
                    if empty {
                        model.secrets.remove(id);
                    }
                }
            }
        }
        PendingSecret::Grant { id, relation, target } => {
            let fresh = |other: &PendingSecret| matches!(other, PendingSecret::Add { id: added, .. } if added == id);
            if model.losses.contains("grant") && context.secrets.iter().any(fresh) {
                return Ok(());
            }
            if let Some(secret) = model.secrets.get_mut(id) {
                secret.grants.insert(target.clone(), *relation);
            }
        }
        PendingSecret::Revoke { id, target } => {
            let allowed = model.secrets.get(id).is_some_and(|secret| model.may_manage(unit, secret));
            let uri = model.secret_uri(id);
            let Some(secret) = model.secrets.get_mut(id).filter(|_| allowed) else {
                return Err(denied(&format!(
                    "revoking secrets access: cannot change access to \"{uri}\" for \"{target}\""
                )));
            };
            secret.grants.remove(target);
        }
    }
    Ok(())
}
