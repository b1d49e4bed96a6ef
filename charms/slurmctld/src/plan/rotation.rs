//! A key that is being replaced: who is waited for, and what comes next. Only the leader moves on.

use crate::condition::Condition;
use crate::config::Situation;
use crate::controllers::{Controllers, Serving};
use crate::facts::{Ask, Attempts, Facts};
use crate::keys::{Key, LoadedKeys};
use crate::place::Place;
use crate::rotation::{Phase, Rotation};
use crate::step::Step;
use charm::tools::SecretAnswer;
use slurm_conf::HostName;
use slurm_ops::keys::KeySet;
use slurm_unit::key_secret;
use slurm_unit::note::Noted;

/// Says whether a key is being replaced: there is more than one, or a note.
pub(super) fn is_under_way(facts: &Facts) -> Result<bool, Ask> {
    let several = facts.keys()?.auth.as_ref().is_some_and(|keys| keys.keys().len() > 1);
    Ok(several || *facts.rotation()? != Noted::Absent)
}

/// Returns the keys that the slurmctld which serves has to load, and its host. None: it has them.
pub(super) fn to_load(
    situation: &Situation<'_>,
    controllers: &Controllers,
    facts: &Facts,
) -> Result<Option<(HostName, LoadedKeys)>, Ask> {
    if !is_under_way(facts)? || matches!(facts.rotation()?, Noted::Unreadable { .. }) {
        return Ok(None);
    }
    let Some(host) = serving(situation, controllers) else { return Ok(None) };
    let keys = facts.keys()?.loaded();
    let loaded = facts.rotation()?.known().and_then(|note| note.loaded_on(host.as_str()));
    Ok((loaded != Some(&keys)).then(|| (host.clone(), keys)))
}

/// Returns the host whose slurmctld serves.
fn serving<'f>(situation: &'f Situation<'_>, controllers: &'f Controllers) -> Option<&'f HostName> {
    if situation.place != Place::Store || controllers.listed.len() == 1 {
        return Some(&situation.host.name);
    }
    match &controllers.serving {
        Serving::Host(host) => Some(host),
        Serving::Nobody | Serving::Unknown => None,
    }
}

/// Before anything else about keys: the note, and a key of tokens that is to be replaced.
pub(super) fn begin(facts: &Facts, conditions: &mut Vec<Condition>) -> Result<Vec<Step>, Ask> {
    if !is_under_way(facts)? {
        return Ok(Vec::new());
    }
    let Some(keys) = &facts.keys()?.auth else { return Ok(Vec::new()) };
    let noted = match facts.rotation()? {
        Noted::Unreadable { why } => {
            conditions.push(Condition::RotationUnreadable(why.clone()));
            return Ok(Vec::new());
        }
        noted => noted.known(),
    };
    let about = Rotation::about(noted, keys, *facts.now()?);
    if about.new_token_key {
        // Made before it is noted: a dispatch that is killed in between makes one more.
        return Ok(vec![Step::MakeKey(Key::Jwt), Step::NoteRotation(Rotation { new_token_key: false, ..about })]);
    }
    Ok(if noted == Some(&about) { Vec::new() } else { vec![Step::NoteRotation(about)] })
}

/// Returns the note to be written before a secret gets another content, if there is need for one.
pub(super) fn before_refill(facts: &Facts, revision: u64) -> Result<Option<Step>, Ask> {
    let (Some(note), SecretAnswer::Content(content)) = (facts.rotation()?.known(), facts.auth_content()?) else {
        return Ok(None);
    };
    let signs = content.get(key_secret::KEY_ID).unwrap_or_default();
    let tracked = note.clone().with_tracked(revision, signs);
    Ok((tracked != *note).then_some(Step::NoteRotation(tracked)))
}

/// A revision that nobody tracks any more is removed, so that the old key is nowhere.
pub(super) fn obsolete(facts: &Facts, attempts: &Attempts) -> Result<Vec<Step>, Ask> {
    let Some((label, revision)) = &facts.call()?.obsolete else { return Ok(Vec::new()) };
    let Some(key) = [Key::Auth, Key::Jwt].into_iter().find(|key| key.label() == label) else { return Ok(Vec::new()) };
    let info = if key == Key::Auth { facts.auth_info()? } else { facts.jwt_info()? };
    let Some(info) = info.as_ref().filter(|info| info.revision != *revision) else { return Ok(Vec::new()) };
    let drop = Step::DropRevision(key, info.id.clone(), *revision);
    if attempts.made(|made| *made == drop) {
        return Ok(Vec::new());
    }
    let mut steps = Vec::new();
    if let (Key::Auth, Some(note)) = (key, facts.rotation()?.known()) {
        let released = note.clone().without_tracked(*revision);
        if released != *note {
            steps.push(Step::NoteRotation(released));
        }
    }
    steps.push(drop);
    Ok(steps)
}

/// Moves on to the next phase, or says who is waited for.
pub(super) fn advance(
    situation: &Situation<'_>,
    controllers: &Controllers,
    facts: &Facts,
    attempts: &Attempts,
    conditions: &mut Vec<Condition>,
) -> Result<Vec<Step>, Ask> {
    let (Some(keys), Some(note)) = (&facts.keys()?.auth, facts.rotation()?.known()) else { return Ok(Vec::new()) };
    let phase = Phase::of(keys);
    let wait = |conditions: &mut Vec<Condition>, units: Vec<String>| {
        conditions.push(Condition::Rotating { phase, cancelled: note.cancelled, units });
        Ok(Vec::new())
    };
    let mut missing = controllers_without(situation, controllers, facts, keys)?;
    // What was written in this dispatch nobody has read yet.
    let told = matches!(facts.auth_content()?, SecretAnswer::Content(found) if *found == key_secret::of_keys(keys));
    let written = attempts.made(|step| matches!(step, Step::RefillSecret(Key::Auth, ..) | Step::AddSecret(..)));
    if !told || written {
        return wait(conditions, missing);
    }
    if !note.auth {
        return if missing.is_empty() { Ok(vec![Step::ForgetRotation]) } else { wait(conditions, missing) };
    }
    // Nodes whose relation has ended keep the key that they have, and their jobs.
    missing.extend(situation.applications.leaving().map(ToString::to_string));
    let found = facts.acknowledgements()?;
    let (have, without): (Vec<_>, Vec<_>) = found.said.iter().partition(|(_, ids)| match ids {
        // Whoever keeps no key is never in the way.
        Some(ids) => ids.is_empty() || *ids == keys.ids(),
        None => false,
    });
    let next = note.next(keys);
    let retires = next.as_ref().is_some_and(|next| next.keys().len() == 1);
    let tracked = retires && note.is_tracked(keys);
    let in_the_way = |ids: &Option<Vec<String>>| ids.is_some() || tracked;
    missing.extend(without.iter().filter(|(_, ids)| in_the_way(ids)).map(|(unit, _)| unit.to_string()));
    missing.extend(found.unasked.iter().map(ToString::to_string));
    missing.retain(|name| !note.skipped.contains(name));
    if missing.is_empty() {
        return Ok(vec![match next {
            Some(next) => Step::WriteKeys(next),
            None => Step::ForgetRotation,
        }]);
    }
    let noted = note.clone().with_acknowledged(have.iter().map(|(unit, _)| unit));
    if noted != *note {
        return Ok(vec![Step::NoteRotation(noted)]);
    }
    wait(conditions, missing)
}

/// Returns the controllers whose slurmctld does not have the keys.
fn controllers_without(
    situation: &Situation<'_>,
    controllers: &Controllers,
    facts: &Facts,
    keys: &KeySet,
) -> Result<Vec<String>, Ask> {
    let serving = serving(situation, controllers);
    let note = facts.rotation()?.known();
    let loaded = |host: &HostName| -> Result<bool, Ask> {
        let all = facts.keys()?.loaded();
        Ok(note.and_then(|note| note.loaded_on(host.as_str())) == Some(&all))
    };
    if situation.place != Place::Store || controllers.listed.len() == 1 {
        let own = &situation.host.name;
        return Ok(if loaded(own)? { Vec::new() } else { vec![facts.call()?.unit.to_string()] });
    }
    let members = facts.members()?.as_deref().unwrap_or_default();
    let mut missing = Vec::new();
    for host in &controllers.listed {
        let unit = members.iter().find(|member| member.host.as_ref() == Some(host));
        let has = match serving == Some(host) {
            true => loaded(host)?,
            false => unit.is_some_and(|unit| unit.left || unit.keys == Some(keys.ids())),
        };
        if !has {
            missing.push(unit.map_or_else(|| host.to_string(), |unit| unit.unit.to_string()));
        }
    }
    Ok(missing)
}
