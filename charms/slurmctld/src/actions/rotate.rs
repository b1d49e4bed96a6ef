//! Keys that are replaced: what an operator asks for is written down here. The plan does the rest, in this dispatch and
//! in later ones.

use super::{Act, ActionFailure, ActionResults, names};
use crate::condition::Condition;
use crate::rotation::{Phase, Rotation};
use charm::text::shown;
use serde::Deserialize;
use slurm_ops::keys::{self, AuthKey, KeySet};
use slurm_unit::note::{self, Noted};

/// How long a unit has to load a key before it can be left out without naming it.
const GRACE: u64 = 60;

#[derive(Debug, Deserialize)]
struct RotateAuthKey {
    #[serde(default)]
    force: bool,
    #[serde(default)]
    units: String,
    #[serde(default)]
    cancel: bool,
}

pub(super) fn auth_key(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: RotateAuthKey = act.tools.action_get()?;
    require_leader(act, "Only the leader unit can rotate the auth key.")?;
    if request.cancel && request.force {
        return Err(ActionFailure::refused("give either `force` or `cancel`, not both"));
    }
    if !request.force && !request.units.trim().is_empty() {
        let text = "parameter `units` names units that are left out, which takes force=true";
        return Err(ActionFailure::refused(text));
    }
    let (keys, noted) = (file(act)?, noted(act)?);
    match () {
        () if request.cancel => cancel(act, &keys, noted),
        () if request.force => force(act, &keys, noted, &request.units),
        () => begin(act, &keys, noted),
    }
}

/// Adds a key to the file. Where a rotation is under way it goes on, also one that was cancelled.
fn begin(act: &Act<'_>, keys: &KeySet, noted: Option<Rotation>) -> Result<ActionResults, ActionFailure> {
    if Phase::of(keys) == Phase::Alone {
        let new = AuthKey::generate().map_err(ActionFailure::broken)?;
        let both = keys.clone().with(new);
        // A note of the rotation before stays: who was left out in it is waited for again.
        if let Some(noted) = noted {
            write(act, &Rotation { skipped: Default::default(), cancelled: false, ..noted })?;
        }
        keys::ensure_auth_keys(&act.hands.host, &both, names::SLURM_USER).map_err(ActionFailure::broken)?;
        return answer(act, "begun");
    }
    if let Some(noted) = noted.filter(|noted| noted.cancelled) {
        write(act, &Rotation { cancelled: false, ..noted })?;
    }
    answer(act, "in progress")
}

fn cancel(act: &Act<'_>, keys: &KeySet, noted: Option<Rotation>) -> Result<ActionResults, ActionFailure> {
    if Phase::of(keys) == Phase::Alone {
        return Err(ActionFailure::refused("no rotation can be cancelled: there is one key, and it is in use"));
    }
    write(act, &Rotation { cancelled: true, ..noted.unwrap_or_default() })?;
    answer(act, "cancelled")
}

/// Leaves units out that will not come back.
fn force(act: &Act<'_>, keys: &KeySet, noted: Option<Rotation>, units: &str) -> Result<ActionResults, ActionFailure> {
    let Some(noted) = noted.filter(|noted| noted.auth || Phase::of(keys) != Phase::Alone) else {
        return Err(ActionFailure::refused("no key is being rotated, so there is nobody to be left out"));
    };
    let waits = waited_for(act)?;
    let named: Vec<String> =
        units.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if let Some(stranger) = named.iter().find(|name| !waits.contains(name)) {
        let waits = if waits.is_empty() { "nobody".to_owned() } else { waits.join(", ") };
        let text = format!("parameter `units`: `{}` is not waited for; waited for: {waits}", shown(stranger));
        return Err(ActionFailure::refused(text));
    }
    let age = act.view.host.now().saturating_sub(noted.since);
    if named.is_empty() && age < GRACE {
        let text = format!(
            "{} had {age} seconds to load the key: wait for a minute, or name whom to leave out with `units`",
            waits.join(", ")
        );
        return Err(ActionFailure::refused(text));
    }
    let skipped = if named.is_empty() { waits } else { named };
    // What has come about in the rounds since it was read counts.
    let Some(mut noted) = self::noted(act)? else { return answer(act, "done") };
    noted.skipped.extend(skipped.iter().cloned());
    write(act, &noted)?;
    tracing::warn!("the operator leaves {} out of the rotation", skipped.join(", "));
    Ok(answer(act, "in progress")?.with("left-out", skipped.join(", ")))
}

pub(super) fn jwt_key(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    require_leader(act, "Only the leader unit can rotate the JWT key.")?;
    file(act)?;
    write(act, &Rotation { new_token_key: true, ..noted(act)?.unwrap_or_default() })?;
    act.settle().map_err(ActionFailure::broken)?;
    let done = noted(act)?.is_none_or(|noted| !noted.new_token_key);
    let state = if done { "replaced" } else { "waits, see the status of this unit" };
    Ok(ActionResults::default().with("token-key", state).with("tokens", "those handed out before are void"))
}

/// Brings the rotation as far as it can be brought now, and tells how far that is.
fn answer(act: &Act<'_>, rotation: &str) -> Result<ActionResults, ActionFailure> {
    let waits = waited_for(act)?;
    let keys = file(act)?;
    let results = ActionResults::default().with("rotation", rotation).with("phase", Phase::of(&keys).to_string());
    let results = results.with("new-key-id", keys.newest().id());
    Ok(if waits.is_empty() { results } else { results.with("waits-for", waits.join(", ")) })
}

/// Runs the rounds, and returns whom the rotation waits for after them.
fn waited_for(act: &Act<'_>) -> Result<Vec<String>, ActionFailure> {
    let settled = act.settle().map_err(ActionFailure::broken)?;
    let units = settled.conditions.into_iter().find_map(|condition| match condition {
        Condition::Rotating { units, .. } => Some(units),
        _ => None,
    });
    Ok(units.unwrap_or_default())
}

fn require_leader(act: &Act<'_>, refusal: &str) -> Result<(), ActionFailure> {
    if act.view.juju.is_leader()? { Ok(()) } else { Err(ActionFailure::refused(refusal)) }
}

fn file(act: &Act<'_>) -> Result<KeySet, ActionFailure> {
    let keys = keys::read_auth_keys(&act.view.host).map_err(ActionFailure::broken)?;
    keys.ok_or_else(|| ActionFailure::refused("there is no cluster yet: see the status of this unit"))
}

fn noted(act: &Act<'_>) -> Result<Option<Rotation>, ActionFailure> {
    match note::read::<Rotation>(&act.view.host).map_err(ActionFailure::broken)? {
        Noted::Absent => Ok(None),
        Noted::Known(rotation) => Ok(Some(rotation)),
        Noted::Unreadable { why } => Err(ActionFailure::refused(format!("repair or delete the note {why}"))),
    }
}

fn write(act: &Act<'_>, rotation: &Rotation) -> Result<(), ActionFailure> {
    note::write(&act.hands.host, rotation).map_err(ActionFailure::broken)
}
