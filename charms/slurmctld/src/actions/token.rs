//! Tokens of users: what a client of Slurm, or of its REST interface, shows instead of the key of the cluster. A token
//! is handed out as a Juju secret, and is in no answer, no log and no argument of a process.

use super::{Act, ActionFailure, ActionResults, names, require_daemon};
use crate::facts::machine;
use charm::tools::SecretContent;
use serde::Deserialize;
use slurm_ops::scontrol::{self, UserName};

#[derive(Debug, Deserialize)]
struct Request {
    user: String,
    lifespan: u64,
}

pub(super) fn token(act: &Act<'_>) -> Result<ActionResults, ActionFailure> {
    let request: Request = act.tools.action_get()?;
    let (view, app) = (&act.view, act.view.ctx.unit.app());
    if !view.juju.is_leader()? {
        let text = format!("only the leader hands out tokens: `juju run {app}/leader {} …`", names::ACTION_TOKEN);
        return Err(ActionFailure::refused(text));
    }
    let user: UserName = request.user.parse().map_err(|_| {
        let user = charm::text::shown(&request.user);
        ActionFailure::refused(format!("user `{user}`: expected the name of a user, at most 32 characters"))
    })?;
    let most = view.juju.config_get()?.integer(names::OPTION_TOKEN_LIFESPAN).and_then(|most| u64::try_from(most).ok());
    let most = most.unwrap_or_default();
    if request.lifespan > most {
        let text = format!(
            "lifespan {}: the option {} allows at most {most} seconds",
            request.lifespan,
            names::OPTION_TOKEN_LIFESPAN
        );
        return Err(ActionFailure::refused(text));
    }
    require_daemon(act)?;
    if !machine::host(view).map_err(ActionFailure::broken)?.plugins.contains(names::TOKEN_PLUGIN) {
        let text = format!("Slurm on this machine lacks {}, so it takes no tokens", names::TOKEN_PLUGIN);
        return Err(ActionFailure::refused(text));
    }
    let made = scontrol::token(&act.hands.host, &user, request.lifespan);
    let made = made.map_err(|error| ActionFailure::refused(format!("slurmctld makes no token: {error}")))?;
    let content = SecretContent::default().with(names::SECRET_TOKEN, made.expose());
    // One secret for each user: the next token is its next revision.
    let label = format!("{}{user}", names::TOKEN_SECRET);
    let id = match view.juju.secret_info_get(&label)? {
        Some(info) => {
            act.hands.juju.secret_set(&info.id, &content);
            info.id
        }
        None => act.hands.juju.secret_add(&label, &format!("token of user {user} for Slurm"), &content)?,
    };
    let results = ActionResults::default().with("user", user.as_str()).with("secret", id.as_str());
    let read = format!("juju show-secret --reveal {}", id.as_str());
    Ok(results.with("lifespan", request.lifespan.to_string()).with("read", read))
}
