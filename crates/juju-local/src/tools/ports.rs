//! Ports a unit opens and closes.

use serde_json::json;

use super::{Answer, Definition, Refusal, Scene, failed, usage};
use crate::flags::{Parsed, switch, value};
use crate::model::OpenPort;

pub fn definition(tool: &str) -> Option<Definition> {
    Some(match tool {
        "open-port" => Definition::new(const { &[value(&["endpoints"]), value(&["format"])] }, open_port),
        "close-port" => Definition::new(const { &[value(&["endpoints"]), value(&["format"])] }, close_port),
        "opened-ports" => Definition::new(
            const { &[value(&["format"]), value(&["o", "output"]), switch(&["endpoints"])] },
            opened_ports,
        ),
        _ => return None,
    })
}

/// `80`, `80/udp`, `8000-8002`, `icmp`.
fn parse_range(parsed: &Parsed) -> Result<(String, u16, u16), Refusal> {
    let Some(text) = parsed.arguments.first() else { return usage("no port or range specified") };
    parsed.at_most(1)?;
    if text == "icmp" {
        return Ok(("icmp".to_owned(), 0, 0));
    }
    let (range, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    if !["tcp", "udp", "icmp"].contains(&protocol) {
        return usage(format!("invalid protocol \"{protocol}\", expected \"tcp\", \"udp\", or \"icmp\""));
    }
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| match text.parse::<i64>() {
        Ok(number) => Ok(number),
        Err(_) => usage(format!("invalid port \"{text}\": strconv.Atoi: parsing \"{text}\": invalid syntax")),
    };
    let (from, to) = (number(from)?, number(to)?);
    if from > to {
        return usage(format!("invalid port range {from}-{to}/{protocol}"));
    }
    match (u16::try_from(from), u16::try_from(to)) {
        (Ok(from), Ok(to)) => Ok((protocol.to_owned(), from, to)),
        _ => usage(format!("port range bounds must be between 0 and 65535, got {from}-{to}")),
    }
}

fn endpoints(parsed: &Parsed) -> Vec<String> {
    match parsed.get("endpoints") {
        Some(list) => list.split(',').map(str::trim).map(str::to_owned).collect(),
        None => vec![String::new()],
    }
}

fn open_port(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let (protocol, from, to) = parse_range(parsed)?;
    let mut ports = scene.context.open_ports(scene.model);
    for endpoint in endpoints(parsed) {
        let wanted = OpenPort { protocol: protocol.clone(), from, to, endpoint };
        if ports.contains(&wanted) {
            continue;
        }
        let clash = ports.iter().find(|open| {
            open.protocol == protocol && open.from <= to && from <= open.to && (open.from, open.to) != (from, to)
        });
        if let Some(open) = clash {
            let unit = &scene.context.unit;
            return failed(format!(
                "cannot open {} (unit \"{unit}\"): port range conflicts with {} (unit \"{unit}\") requested earlier",
                wanted.label(),
                open.label()
            ));
        }
        ports.push(wanted);
    }
    scene.context.ports = Some(ports);
    Ok(Answer::Nothing)
}

fn close_port(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    let (protocol, from, to) = parse_range(parsed)?;
    let mut ports = scene.context.open_ports(scene.model);
    let named = endpoints(parsed);
    ports.retain(|open| {
        !(open.protocol == protocol && (open.from, open.to) == (from, to) && named.contains(&open.endpoint))
    });
    scene.context.ports = Some(ports);
    Ok(Answer::Nothing)
}

fn opened_ports(scene: &mut Scene<'_>, parsed: &Parsed) -> Result<Answer, Refusal> {
    parsed.at_most(0)?;
    let ports = sorted(scene.context.open_ports(scene.model));
    let show = |port: &OpenPort| match (parsed.has("endpoints"), port.endpoint.as_str()) {
        (false, _) => port.label(),
        (true, "") => format!("{} (*)", port.label()),
        (true, endpoint) => format!("{} ({endpoint})", port.label()),
    };
    let mut labels: Vec<String> = ports.iter().map(show).collect();
    labels.dedup();
    Ok(Answer::Value(json!(labels)))
}

/// By protocol, then by number: the order in which Juju lists ports.
pub fn sorted(mut ports: Vec<OpenPort>) -> Vec<OpenPort> {
    ports.sort_by(|a, b| (&a.protocol, a.from, a.to, &a.endpoint).cmp(&(&b.protocol, b.from, b.to, &b.endpoint)));
    ports
}
