//! Applications that are no part of a cluster and see to something beside it: an agent for metrics, an OCI runtime, a
//! mail integrator. What they say, and what it makes of the configuration.

use crate::mail::{self, MailProgram, PrivateText};
use crate::metrics::Origin;
use crate::names;
use charm::runtime::each;
use charm::tools::{Remote, SecretAnswer};
use charm::{AppName, Databag, RelationId};
use slurm_interface::{MailPassword, MailRelay, OciRuntime, Password};
use slurm_unit::{Error, View};

/// The first line of an oci.conf that the charm wrote.
const OCI_HEADER: &str = "# Written by the slurmctld charm, endpoint oci-runtime.\n";

/// Who is there beside the cluster, and what sends mail on this machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extras {
    pub agent: Option<Agent>,
    /// The one related first comes first.
    pub runtimes: Vec<Runtime>,
    pub mail: Option<Mail>,
    pub program: MailProgram,
}

/// The relation to an agent for metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub relation: RelationId,
    /// None: Juju did not say what the model is called.
    pub origin: Option<Origin>,
    /// What this unit has published there.
    pub published: Databag,
}

/// A related OCI runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    pub app: AppName,
    pub stale: bool,
    pub said: Said<OciRuntime>,
}

/// A related mail integrator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    pub app: AppName,
    pub stale: bool,
    pub said: Said<(MailRelay, PasswordAnswer)>,
}

/// What an application has said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said<T> {
    Nothing,
    This(T),
    /// Something that cannot be used, and why.
    Unusable(String),
}

/// The password for a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordAnswer {
    NotNeeded,
    Known(Password),
    /// Its secret cannot be read yet.
    Awaited,
}

/// What is to become of something in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish<T> {
    /// It stays as it is: nobody was asked, or nobody has said anything that can be used.
    Kept,
    /// Ours is taken away.
    Nothing,
    This(T),
}

impl Extras {
    /// Looks at all of them. The goal state is asked anyway, and tells of all endpoints at once that nobody is there.
    pub fn look(view: &View) -> Result<Self, Error> {
        let goal = view.juju.goal_state().ok();
        let related = |endpoint: &str| -> Result<Vec<RelationId>, Error> {
            if goal.as_ref().is_some_and(|goal| !goal.has_relation(endpoint)) {
                return Ok(Vec::new());
            }
            Ok(view.juju.relations(&view.ctx, endpoint)?)
        };
        let agent = related(names::ENDPOINT_AGENT)?.into_iter().next();
        let agent = agent.map(|relation| look_at_agent(view, relation)).transpose()?;
        let runtimes = each(related(names::ENDPOINT_RUNTIME)?, |relation| look_at_runtime(view, &relation));
        let runtimes = runtimes.into_iter().filter_map(Result::transpose).collect::<Result<Vec<_>, Error>>()?;
        let mail = match related(names::ENDPOINT_MAIL)?.into_iter().next() {
            Some(relation) => look_at_mail(view, &relation)?,
            None => None,
        };
        let program = MailProgram::look(&view.host, mail.is_some())?;
        Ok(Self { agent, runtimes, mail, program })
    }

    /// Returns the oci.conf that the runtime wants.
    pub fn oci_conf(&self) -> Wish<String> {
        match self.runtimes.first().map(|runtime| &runtime.said) {
            None => Wish::Nothing,
            Some(Said::This(runtime)) => Wish::This(format!("{OCI_HEADER}{}", runtime.conf())),
            Some(Said::Nothing | Said::Unusable(_)) => Wish::Kept,
        }
    }

    /// Returns whether slurmctld is to send mail, and the domain of addresses without one. Not before this machine can.
    pub fn mail(&self) -> Wish<Option<&str>> {
        match &self.mail {
            None => Wish::Nothing,
            Some(Mail { said: Said::This((relay, _)), .. }) if self.program.installed && self.program.is_ours() => {
                Wish::This(relay.domain.as_deref())
            }
            Some(_) => Wish::Kept,
        }
    }

    /// Returns the file that the mail program should have, once all of it is known.
    pub fn mail_conf(&self) -> Option<PrivateText> {
        match &self.mail.as_ref()?.said {
            Said::This((relay, PasswordAnswer::NotNeeded)) => Some(mail::conf(relay, None)),
            Said::This((relay, PasswordAnswer::Known(password))) => Some(mail::conf(relay, Some(password))),
            Said::This((_, PasswordAnswer::Awaited)) | Said::Nothing | Said::Unusable(_) => None,
        }
    }
}

/// Says whether an oci.conf is one that the charm wrote.
pub fn is_our_oci_conf(text: &str) -> bool {
    text.starts_with(OCI_HEADER)
}

fn look_at_agent(view: &View, relation: RelationId) -> Result<Agent, Error> {
    let published = view.juju.relation_get_unit(&relation, &view.ctx.unit)?;
    let origin = view.ctx.model_name.clone().map(|model| Origin {
        model,
        model_uuid: view.ctx.model_uuid.clone(),
        application: view.ctx.unit.app().to_string(),
    });
    Ok(Agent { relation, origin, published })
}

/// Returns who is at the other end, whether no hook may tell of a change there, and what was published.
fn look_at_remote(view: &View, relation: &RelationId) -> Result<Option<(AppName, bool, Databag)>, Error> {
    let Some(Remote { app, stale }) = view.juju.remote(&view.ctx, relation)? else { return Ok(None) };
    let bag = view.juju.relation_get_app(relation, &app)?;
    Ok(Some((app, stale, bag)))
}

fn look_at_runtime(view: &View, relation: &RelationId) -> Result<Option<Runtime>, Error> {
    let Some((app, stale, bag)) = look_at_remote(view, relation)? else { return Ok(None) };
    let said = match OciRuntime::decode(&bag) {
        Ok(None) => Said::Nothing,
        Ok(Some(runtime)) => Said::This(runtime),
        Err(error) => Said::Unusable(error.to_string()),
    };
    Ok(Some(Runtime { app, stale, said }))
}

fn look_at_mail(view: &View, relation: &RelationId) -> Result<Option<Mail>, Error> {
    let Some((app, stale, bag)) = look_at_remote(view, relation)? else { return Ok(None) };
    let said = match MailRelay::decode(&bag) {
        Ok(None) => Said::Nothing,
        Ok(Some(relay)) => password(view, relay)?,
        Err(error) => Said::Unusable(error.to_string()),
    };
    Ok(Some(Mail { app, stale, said }))
}

fn password(view: &View, relay: MailRelay) -> Result<Said<(MailRelay, PasswordAnswer)>, Error> {
    let answer = match relay.login.as_ref().map(|login| &login.password) {
        None => PasswordAnswer::NotNeeded,
        Some(MailPassword::Given(password)) => PasswordAnswer::Known(password.clone()),
        Some(MailPassword::InSecret(uri)) => match view.juju.secret_get(uri.as_str(), names::MAIL_SECRET)? {
            SecretAnswer::Unreadable(_) => PasswordAnswer::Awaited,
            SecretAnswer::Content(content) => match content.get(MailRelay::SECRET_KEY).map(Password::new) {
                Some(Some(password)) => PasswordAnswer::Known(password),
                Some(None) => return Ok(Said::Unusable("the password in its secret is not a text in one line".into())),
                None => return Ok(Said::Unusable("its secret has no password".into())),
            },
        },
    };
    Ok(Said::This((relay, answer)))
}
