//! `secret-*`: who may read and write which secret, in the words of Juju.

use super::super::state::Secret;
use super::{Answer, Arguments, Inner, misused, refused};
use charm::tools::Call;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

impl Inner {
    pub(super) fn secret(&mut self, tool: &str, call: &Call<'_>, arguments: &Arguments) -> Answer {
        match tool {
            "secret-add" => self.secret_add(call, arguments),
            "secret-get" => self.secret_get(arguments),
            "secret-info-get" => self.secret_info_get(arguments),
            "secret-ids" => {
                let app = self.unit.app();
                let own = self.draft.secrets.iter().filter(|(_, secret)| secret.owner == app && self.leads());
                Ok(json!(own.map(|(id, _)| id.clone()).collect::<Vec<_>>()).to_string())
            }
            _ => self.secret_change(tool, call, arguments),
        }
    }

    fn secret_add(&mut self, call: &Call<'_>, arguments: &Arguments) -> Answer {
        if !self.leads() {
            return refused("this unit is not the leader");
        }
        let content = content(call)?;
        let (owner, label) = (self.unit.app(), arguments.option("--label").unwrap_or_default().to_owned());
        if self.draft.secrets.values().any(|secret| secret.owner == owner && secret.label == label) {
            return refused(format!("secret with label \"{label}\" already exists"));
        }
        let id = self.draft.new_secret_id();
        let secret =
            Secret { owner, label, revisions: vec![content], removed: BTreeSet::new(), grants: BTreeSet::new() };
        self.draft.secrets.insert(id.clone(), secret);
        self.added.insert(id.clone());
        Ok(format!("secret://{}/{id}\n", super::super::MODEL_UUID))
    }

    fn secret_get(&mut self, arguments: &Arguments) -> Answer {
        let app = self.unit.app();
        let label = arguments.option("--label").unwrap_or_default();
        let found = match arguments.words.first() {
            Some(uri) => self.draft.secrets.get_key_value(bare(uri)),
            None => self.draft.secrets.iter().find(|(_, secret)| secret.owner == app && secret.label == label),
        };
        let Some((id, secret)) = found else { return refused("getting latest secret revision: secret not found") };
        let granted = secret
            .grants
            .iter()
            .any(|number| self.draft.relations.get(number).is_some_and(|relation| relation.has(&app)));
        if (secret.owner != app && !granted) || self.draft.secrets_denied {
            return refused(format!("\"{}\" is not allowed to read this secret", self.unit));
        }
        // A secret is never without a key: one that is has lost its content.
        match secret.revisions.last().filter(|content| !content.is_empty()) {
            Some(content) => {
                let (id, revision, text) = (id.clone(), secret.revisions.len(), json!(content).to_string());
                if !arguments.flag("--peek") {
                    self.own().read.insert(id, (revision, label.to_owned()));
                }
                Ok(text)
            }
            None => {
                let revision = secret.revisions.len();
                refused(format!("secret value ref for \"secret\" revision {revision} not found"))
            }
        }
    }

    fn secret_info_get(&self, arguments: &Arguments) -> Answer {
        let app = self.unit.app();
        let label = arguments.option("--label").unwrap_or_default();
        let found = self.draft.secrets.iter().find(|(_, secret)| secret.owner == app && secret.label == label);
        let Some((id, secret)) = found.filter(|_| self.leads()) else {
            return refused(format!("secret \"{label}\" not found"));
        };
        let access = secret.grants.iter().filter_map(|number| self.draft.relations.get(number)).map(|relation| {
            let ends: Vec<String> = relation.ends.iter().map(|(app, endpoint)| format!("{app}.{endpoint}")).collect();
            json!({
                "target": format!("application-{}", relation.remote(&app)),
                "scope": format!("relation-{}", ends.join("#")),
                "role": "view",
            })
        });
        let info = json!({
            "revision": secret.revisions.len(),
            "label": label,
            "owner": "application",
            "rotation": "never",
            "access": access.collect::<Vec<_>>(),
        });
        Ok(json!({ id.as_str(): info }).to_string())
    }

    fn secret_change(&mut self, tool: &str, call: &Call<'_>, arguments: &Arguments) -> Answer {
        let (app, leads) = (self.unit.app(), self.leads());
        let id = bare(arguments.word()).to_owned();
        let relation = match arguments.option("-r") {
            Some(_) => Some(self.relation(arguments)?.0),
            None => None,
        };
        let Some(secret) = self.draft.secrets.get_mut(&id).filter(|secret| secret.owner == app && leads) else {
            return refused(format!("secret \"{id}\" not found"));
        };
        match (tool, relation) {
            // A grant that is committed together with its secret is lost, silently.
            ("secret-grant", Some(_)) if self.added.contains(&id) => {}
            ("secret-grant", Some(number)) => drop(secret.grants.insert(number)),
            ("secret-revoke", Some(number)) => drop(secret.grants.remove(&number)),
            ("secret-set", _) => {
                let content = content(call)?;
                if secret.revisions.last() != Some(&content) {
                    secret.revisions.push(content);
                }
            }
            ("secret-remove", _) if arguments.option("--revision").is_none() => drop(self.draft.secrets.remove(&id)),
            ("secret-remove", _) => {
                let revision = arguments.option("--revision").and_then(|text| text.parse::<usize>().ok());
                secret.removed.extend(revision);
            }
            _ => return misused("missing relation or application or unit"),
        }
        Ok(String::new())
    }
}

fn bare(uri: &str) -> &str {
    uri.rsplit(['/', ':']).next().unwrap_or(uri)
}

/// Reads the files that the arguments name. Content in an argument would be seen by everybody on the machine.
fn content(call: &Call<'_>) -> Result<BTreeMap<String, String>, (i32, String)> {
    let mut content = BTreeMap::new();
    for argument in call.arguments.iter().filter(|argument| argument.contains('=')) {
        let Some((key, path)) = argument.split_once("#file=") else {
            return misused("a test does not take the content of a secret as an argument");
        };
        let Ok(value) = std::fs::read_to_string(path) else { return refused(format!("open {path}: no such file")) };
        content.insert(key.to_owned(), value);
    }
    if content.is_empty() { misused("missing secret value or filename") } else { Ok(content) }
}
