//! Looks at Juju, through its hook tools.

use super::{Controller, KeySecret, RemoteData};
use crate::names;
use charm::tools::SecretAnswer;
use charm::{Databag, Event};
use slurm_interface::ControllerData;
use slurm_ops::keys::{AuthKey, KeySet};
use slurm_unit::{Error, View};

/// One cluster per application. While an old relation lingers, the new one counts.
pub(super) fn controller(view: &View) -> Result<Option<Controller>, Error> {
    let Some(relation) = view.juju.relations(&view.ctx, names::ENDPOINT_SLURMCTLD)?.pop() else { return Ok(None) };
    let remote = view.juju.remote(&view.ctx, &relation)?;
    let Some(app) = remote.app else { return Ok(None) };
    let data = match ControllerData::decode(&view.juju.relation_get_remote(&relation, &app)?) {
        Ok(None) => RemoteData::Nothing,
        Ok(Some(data)) => RemoteData::Data(data),
        Err(error) => RemoteData::Unusable(charm::log::chain(&error)),
    };
    Ok(Some(Controller { relation, app, stale: remote.stale, data }))
}

/// In `install` Juju shows no relation yet, and in `-broken` the controller may still know the one that ends.
pub(super) fn relation_expected(view: &View) -> Result<bool, Error> {
    let ends = view.ctx.event.broken_relation().is_some();
    Ok(!ends && view.juju.goal_state()?.has_relation(names::ENDPOINT_SLURMCTLD))
}

/// A controller that is to stay will answer again.
pub(super) fn controllers_stay(view: &View) -> Option<bool> {
    view.juju.goal_state().map(|goal| goal.has_staying_unit(names::ENDPOINT_SLURMCTLD)).ok()
}

/// The Python charms do not tell their version of Slurm. Asked while the relation can still be read, also in its last
/// hook; what cannot be read is taken for a controller of ours.
pub(super) fn controller_deletes(view: &View) -> bool {
    let (ctx, juju) = (&view.ctx, &view.juju);
    let relations = juju.relations(ctx, names::ENDPOINT_SLURMCTLD).unwrap_or_default();
    let Some(relation) = relations.last().or(ctx.event.broken_relation()) else { return false };
    let told = match &ctx.event {
        Event::Relation(event) if event.relation == *relation => event.remote_app.clone(),
        _ => None,
    };
    let app = told.or_else(|| juju.relation_list_app(relation).ok().flatten());
    let bag = app.and_then(|app| juju.relation_get_app(relation, &app).ok()).unwrap_or_default();
    matches!(ControllerData::decode(&bag), Ok(Some(data)) if data.slurm_version.is_none())
}

pub(super) fn published(view: &View) -> Result<Option<Databag>, Error> {
    match view.juju.relations(&view.ctx, names::ENDPOINT_SLURMCTLD)?.pop() {
        Some(relation) => Ok(view.juju.relation_get_own_app(&relation)?),
        None => Ok(None),
    }
}

/// Asked beside the relation itself, which costs no process more: a hook tool is asked once.
pub(super) fn key_secret(view: &View) -> Result<KeySecret, Error> {
    let Some(Controller { data: RemoteData::Data(data), .. }) = controller(view)? else {
        return Ok(KeySecret::Malformed);
    };
    let content = match view.juju.secret_get(data.auth_secret.as_str(), names::SECRET_LABEL)? {
        SecretAnswer::Content(content) => content,
        SecretAnswer::Unreadable(why) => return Ok(KeySecret::Unreadable(why)),
    };
    let parts = content.get(names::SECRET_KEY_ID).zip(content.get(names::SECRET_KEY));
    let offered = parts.and_then(|(id, key)| AuthKey::new(id, key).ok());
    Ok(offered.map_or(KeySecret::Malformed, |key| KeySecret::Offered(KeySet::of(key))))
}
