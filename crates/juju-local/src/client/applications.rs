//! Applications one by one: shown, exposed, trusted, constrained; and what juju-local has none of: offers, resources.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::connect::Client;
use super::{DONE, Outcome, Refusal, parse, table};
use crate::constraints;
use crate::flags::{Flag, Parsed, switch, value};
use crate::output::{Format, render};
use crate::wire::Request;

const MODEL: Flag = value(&["m", "model"]);
const SHOWN: &[Flag] = &[MODEL, value(&["format"]), value(&["o", "output"])];

fn only_application(parsed: &Parsed) -> Result<String, Refusal> {
    parsed.at_most(1).map_err(Refusal::usage)?;
    parsed.arguments.first().cloned().ok_or_else(|| Refusal::usage("no application name specified"))
}

pub fn show(arguments: &[String]) -> Outcome {
    let parsed = parse(SHOWN, arguments)?;
    if parsed.arguments.is_empty() {
        return Err(Refusal::usage("an application name must be supplied"));
    }
    let format =
        Format::choose(parsed.get("format"), Format::Yaml, &["json", "yaml", "smart"]).map_err(Refusal::usage)?;
    let mut client = Client::for_command(&parsed)?;
    let mut shown = Map::new();
    for application in &parsed.arguments {
        let request = Request::ShowApplication { application: application.clone() };
        let answer = client.ask(&request).map_err(Refusal::with_empty_document)?;
        shown.extend(answer.as_object().cloned().unwrap_or_default());
    }
    print!("{}", render(&Value::Object(shown), format));
    DONE
}

fn set_exposed(arguments: &[String], exposed: bool) -> Outcome {
    let parsed = parse(&[MODEL, value(&["endpoints"]), value(&["to-spaces"]), value(&["to-cidrs"])], arguments)?;
    for option in ["endpoints", "to-spaces", "to-cidrs"] {
        if parsed.get(option).is_some() {
            return Err(Refusal::usage(format!(
                "juju-local has no firewall: an application is exposed as a whole, without --{option}"
            )));
        }
    }
    let application = only_application(&parsed)?;
    Client::for_command(&parsed)?.ask(&Request::Expose { application, exposed })?;
    DONE
}

pub fn expose(arguments: &[String]) -> Outcome {
    set_exposed(arguments, true)
}

pub fn unexpose(arguments: &[String]) -> Outcome {
    set_exposed(arguments, false)
}

pub fn trust(arguments: &[String]) -> Outcome {
    let parsed = parse(&[MODEL, switch(&["remove"]), value(&["scope"])], arguments)?;
    let application = only_application(&parsed)?;
    Client::for_command(&parsed)?.ask(&Request::Trust { application, trusted: !parsed.has("remove") })?;
    DONE
}

/// Shows the constraints of an application, or of the model.
fn print_constraints(parsed: &Parsed, application: Option<String>) -> Outcome {
    let known = &["json", "yaml", "constraints"];
    let format = Format::choose(parsed.get("format"), Format::Smart, known).map_err(Refusal::usage)?;
    let answer = Client::for_command(parsed)?.ask(&Request::Constraints { application })?;
    let given: BTreeMap<String, String> =
        serde_json::from_value(answer).map_err(|error| Refusal::failed(error.to_string()))?;
    match format {
        Format::Smart => println!("{}", constraints::text(&given)),
        format => print!("{}", render(&constraints::document(&given), format)),
    }
    DONE
}

pub fn constraints_of(arguments: &[String]) -> Outcome {
    let parsed = parse(SHOWN, arguments)?;
    let application = only_application(&parsed)?;
    print_constraints(&parsed, Some(application))
}

pub fn constraints_of_model(arguments: &[String]) -> Outcome {
    let parsed = parse(SHOWN, arguments)?;
    parsed.at_most(0).map_err(Refusal::usage)?;
    print_constraints(&parsed, None)
}

pub fn set_constraints(arguments: &[String]) -> Outcome {
    let parsed = parse(&[MODEL], arguments)?;
    let Some((application, words)) = parsed.arguments.split_first() else {
        return Err(Refusal::usage("no application name specified"));
    };
    let constraints = constraints::parse(words).map_err(Refusal::failed)?;
    let request = Request::SetConstraints { application: Some(application.clone()), constraints };
    Client::for_command(&parsed)?.ask(&request)?;
    DONE
}

pub fn set_model_constraints(arguments: &[String]) -> Outcome {
    let parsed = parse(&[MODEL], arguments)?;
    let constraints = constraints::parse(&parsed.arguments).map_err(Refusal::failed)?;
    Client::for_command(&parsed)?.ask(&Request::SetConstraints { application: None, constraints })?;
    DONE
}

/// There are none, and there is one way to say so in each format.
pub fn offers(arguments: &[String]) -> Outcome {
    let parsed = parse(SHOWN, arguments)?;
    let format = Format::choose(parsed.get("format"), Format::Smart, &["json", "yaml", "tabular", "summary"])
        .map_err(Refusal::usage)?;
    Client::for_command(&parsed)?;
    match format {
        Format::Smart => {
            print!(
                "{}",
                table::render(&["Offer", "User", "Relation id", "Status", "Endpoint", "Interface", "Role"], &[], &[])
            );
        }
        format => print!("{}", render(&json!({}), format)),
    }
    DONE
}

pub fn resources(arguments: &[String]) -> Outcome {
    let parsed = parse(&[MODEL, value(&["format"]), value(&["o", "output"]), switch(&["details"])], arguments)?;
    let Some(application) = parsed.arguments.first().cloned() else {
        return Err(Refusal::usage("missing application name"));
    };
    Format::choose(parsed.get("format"), Format::Smart, &["json", "yaml", "tabular"]).map_err(Refusal::usage)?;
    Client::for_command(&parsed)?.ask(&Request::ShowApplication { application })?;
    eprintln!("No resources to display.");
    DONE
}
