//! Every `juju` command: its names, its arguments, what it is for, and the function that does it. `juju help` is made
//! from this table, so that it cannot promise what is not there.

use super::{Outcome, applications, config, deploy, history, log, machines, models, remove, run, secrets, ssh, status};
use super::{storage, tasks};

pub struct Command {
    /// The first is shown, the others are understood.
    pub names: &'static [&'static str],
    pub arguments: &'static str,
    pub purpose: &'static str,
    pub run: fn(&[String]) -> Outcome,
}

const fn command(
    names: &'static [&'static str],
    arguments: &'static str,
    purpose: &'static str,
    run: fn(&[String]) -> Outcome,
) -> Command {
    Command { names, arguments, purpose, run }
}

pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.names.contains(&name))
}

/// In alphabetical order.
pub const COMMANDS: &[Command] = &[
    command(
        &["actions", "list-actions"],
        "<application> [--schema] [--format json|yaml]",
        "Lists the actions of an application",
        tasks::actions,
    ),
    command(&["add-machine"], "[-n N] [--base B]", "Makes machines that stay when their last unit goes", machines::add),
    command(
        &["add-model"],
        "<model> [--no-switch] [--config key=value]…",
        "Makes a model and starts its daemon",
        models::add,
    ),
    command(
        &["add-secret"],
        "<name> [key[#base64|#file]=value]… [--file F] [--info text]",
        "Makes a secret of the model",
        secrets::add,
    ),
    command(&["add-ssh-key"], "<key>…", "Keeps public keys; ssh here needs none", machines::add_keys),
    command(&["add-unit"], "<application> [-n N] [--to machine,…]", "Adds units to an application", deploy::add_unit),
    command(&["cancel-task"], "<id>… [--format json|yaml]", "Ends tasks that wait or run", tasks::cancel),
    command(
        &["config"],
        "<application> [key | key=value…] [--reset key,…] [--file F] [--format json|yaml]",
        "Shows or changes options",
        config::application,
    ),
    command(
        &["constraints"],
        "<application> [--format json|yaml]",
        "Shows the constraints of an application",
        applications::constraints_of,
    ),
    command(&["controllers", "list-controllers"], "[--format json|yaml]", "Shows the only one", models::controllers),
    command(
        &["debug-log"],
        "[-n N] [--replay] [--limit N] [--tail|--no-tail] [-i entity] [-x entity] [--include-module M] \
         [--exclude-module M] [-l level] [--date] [--ms] [--color] [--format json]",
        "Shows the log of the model",
        log::main,
    ),
    command(
        &["deploy"],
        "<charm file> [application] [-n N] [--to machine,…] [--config key=value|file]… [--base B] [--constraints C] \
         [--trust]",
        "Deploys a charm",
        deploy::deploy,
    ),
    command(
        &["destroy-model"],
        "<model> [--no-prompt] [--force] [--timeout D]",
        "Removes a model with all its machines: in order, or at once by force",
        models::destroy,
    ),
    command(
        &["exec"],
        "(--unit U | --machine M | --application A | --all) [--wait D] [--format json|yaml] -- <command>",
        "Runs a command as root in a unit's context, or in a machine",
        run::exec,
    ),
    command(&["expose"], "<application>", "Marks an application as exposed", applications::expose),
    command(
        &["grant-secret"],
        "<secret> <application>[,<application>…]",
        "Lets applications read a secret of the model",
        secrets::grant,
    ),
    command(
        &["integrate", "relate"],
        "<application>[:endpoint] <application>[:endpoint]",
        "Relates two applications",
        deploy::integrate,
    ),
    command(&["machines", "list-machines"], "[--format json|yaml]", "Lists the machines", machines::list),
    command(
        &["model-config"],
        "[key | key=value…] [--reset key,…] [--format json|yaml]",
        "Shows or changes settings of the model",
        config::model,
    ),
    command(
        &["model-constraints"],
        "[--format json|yaml]",
        "Shows the constraints of the model",
        applications::constraints_of_model,
    ),
    command(&["models", "list-models"], "[--format json|yaml]", "Lists the models", models::list),
    command(&["offers", "list-offers"], "[--format json|yaml]", "Lists offers: there are none", applications::offers),
    command(&["operations", "list-operations"], "[--format json|yaml]", "Lists what was run", tasks::operations),
    command(
        &["refresh"],
        "<application> --path <charm file> [--config key=value]…",
        "Replaces the charm of an application",
        remove::refresh,
    ),
    command(
        &["remove-application"],
        "<application>… [--no-prompt] [--force]",
        "Removes applications",
        remove::applications,
    ),
    command(&["remove-machine"], "<machine>… [--no-prompt] [--force]", "Removes machines", remove::machines),
    command(
        &["remove-relation"],
        "<application>[:endpoint] <application>[:endpoint] | <id> [--force]",
        "Ends the relation of two applications",
        remove::relation,
    ),
    command(&["remove-secret"], "<secret> [--revision N]", "Removes a secret of the model", secrets::remove),
    command(&["remove-ssh-key"], "<comment>…", "Forgets public keys", machines::remove_keys),
    command(&["remove-unit"], "<unit>… [--no-prompt] [--force]", "Removes units", remove::units),
    command(
        &["resolved", "resolve"],
        "<unit>… | --all [--no-retry]",
        "Runs a failed hook again, or counts it as done",
        deploy::resolved,
    ),
    command(
        &["resources", "list-resources", "charm-resources"],
        "<application>",
        "Lists resources: there are none",
        applications::resources,
    ),
    command(&["revoke-secret"], "<secret> <application>[,<application>…]", "Takes a grant back", secrets::revoke),
    command(
        &["run"],
        "<unit>… <action> [key=value]… [--wait D] [--background] [--params F] [--string-args] [--format json|yaml]",
        "Runs an action",
        run::run,
    ),
    command(&["scp"], "[-r] [unit:]<path> [unit:]<path>", "Copies files to and from a machine", ssh::scp),
    command(
        &["secrets", "list-secrets"],
        "[--owner tag] [--revisions] [--format json|yaml]",
        "Lists the secrets of the model and of its charms",
        secrets::list,
    ),
    command(
        &["set-constraints"],
        "<application> <name=value>…",
        "Changes the constraints of an application",
        applications::set_constraints,
    ),
    command(
        &["set-model-constraints"],
        "<name=value>…",
        "Changes the constraints of the model",
        applications::set_model_constraints,
    ),
    command(&["show-application"], "<application>… [--format json|yaml]", "Shows an application", applications::show),
    command(&["show-machine"], "[machine]… [--format json|yaml]", "Shows machines", machines::show),
    command(&["show-model"], "[model] [--format json|yaml]", "Shows a model", models::show),
    command(&["show-operation"], "<id> [--format json|yaml]", "Shows an operation", tasks::show_operation),
    command(
        &["show-secret"],
        "<secret> [--reveal] [--revisions] [--revision N] [--format json|yaml]",
        "Shows a secret",
        secrets::show,
    ),
    command(
        &["show-status-log"],
        "<unit|machine|application> [--type T] [-n N | --days N | --from-date D] [--format json|yaml]",
        "Shows what something was before",
        history::main,
    ),
    command(&["show-storage"], "<storage>… [--format json|yaml]", "Shows storage", storage::show),
    command(&["show-task"], "<id> [--format json|yaml]", "Shows a task", tasks::show_task),
    command(&["show-unit"], "<unit>… [--format json|yaml]", "Shows a unit and its databags", deploy::show_unit),
    command(&["spaces", "list-spaces"], "[--format json|yaml]", "Shows the only space", machines::spaces),
    command(&["ssh"], "[user@]<unit|machine> [command…]", "Runs a shell or a command in a machine", ssh::ssh),
    command(&["ssh-keys", "list-ssh-keys"], "[--full]", "Lists public keys", machines::keys),
    command(
        &["status"],
        "[selector…] [--format json|yaml|tabular|line] [--watch D] [--relations] [--color|--no-color]",
        "Shows the model",
        status::main,
    ),
    command(&["storage", "list-storage"], "[--format json|yaml]", "Lists storage", storage::list),
    command(&["switch"], "[model]", "Chooses the current model", models::switch_to),
    command(
        &["trust"],
        "<application> [--remove]",
        "Gives an application access to credentials, or takes it back",
        applications::trust,
    ),
    command(&["unexpose"], "<application>", "Takes back that an application is exposed", applications::unexpose),
    command(
        &["update-secret"],
        "<secret> [key[#base64|#file]=value]… [--file F] [--name N] [--info text] [--auto-prune]",
        "Changes a secret of the model",
        secrets::update,
    ),
    command(&["version"], "[--format json] [--all]", "Shows the version of Juju that is imitated", models::version),
    command(&["whoami"], "[--format json|yaml]", "Shows controller, model and user", models::whoami),
];

#[cfg(test)]
mod tests {
    use super::super::absent::missing_for;
    use super::*;

    #[test]
    fn a_name_is_one_command() {
        let mut seen = std::collections::BTreeSet::new();
        for name in COMMANDS.iter().flat_map(|command| command.names) {
            assert!(seen.insert(*name), "{name} is there twice");
            assert!(missing_for(name).is_none(), "{name} is there and said to be missing");
        }
    }

    #[test]
    fn commands_are_in_order() {
        let first: Vec<&str> = COMMANDS.iter().map(|command| command.names[0]).collect();
        assert!(first.is_sorted(), "{first:?}");
    }

    #[test]
    fn every_command_of_jubilant_is_answered() {
        for name in [
            "add-cloud",
            "add-credential",
            "add-machine",
            "add-model",
            "add-secret",
            "add-ssh-key",
            "add-unit",
            "bootstrap",
            "config",
            "consume",
            "debug-log",
            "deploy",
            "destroy-model",
            "exec",
            "grant-secret",
            "integrate",
            "model-config",
            "model-constraints",
            "offer",
            "refresh",
            "remove-application",
            "remove-relation",
            "remove-secret",
            "remove-ssh-key",
            "remove-unit",
            "run",
            "scp",
            "secrets",
            "set-model-constraints",
            "show-model",
            "show-secret",
            "show-unit",
            "ssh",
            "status",
            "trust",
            "update-cloud",
            "update-secret",
            "version",
        ] {
            assert!(find(name).is_some() || missing_for(name).is_some(), "{name}");
        }
    }
}
