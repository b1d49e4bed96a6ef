//! Looks at Juju, through its hook tools.

use charm::{Databag, Event};
use slurm_interface::ControllerData;
use slurm_unit::follower::ENDPOINT;
use slurm_unit::{Error, View};

/// A controller that is to stay will answer again.
pub(super) fn controllers_stay(view: &View) -> Option<bool> {
    view.juju.goal_state().map(|goal| goal.has_staying_unit(ENDPOINT)).ok()
}

/// The Python charms do not tell their version of Slurm. Asked while the relation can still be read, also in its last
/// hook; what cannot be read is taken for a controller of ours.
pub(super) fn controller_deletes(view: &View) -> bool {
    let (ctx, juju) = (&view.ctx, &view.juju);
    let relations = juju.relations(ctx, ENDPOINT).unwrap_or_default();
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
    match view.juju.relations(&view.ctx, ENDPOINT)?.pop() {
        Some(relation) => Ok(view.juju.relation_get_own_app(&relation)?),
        None => Ok(None),
    }
}
