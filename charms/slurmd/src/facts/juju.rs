//! Looks at Juju, through its hook tools.

use super::{Controller, Facts, KeySecret, RemoteData};
use crate::names;
use charm::Databag;
use charm::tools::SecretAnswer;
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

pub(super) fn published(view: &View, known: &Facts) -> Result<Option<Databag>, Error> {
    match known.controller() {
        Ok(Some(controller)) => Ok(view.juju.relation_get_own_app(&controller.relation)?),
        _ => Ok(None),
    }
}

pub(super) fn key_secret(view: &View, known: &Facts) -> Result<KeySecret, Error> {
    let Ok(Some(Controller { data: RemoteData::Data(data), .. })) = known.controller() else {
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
