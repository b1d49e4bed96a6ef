//! Settings of a model (`juju model-config`): the keys Juju 4.0 has, their defaults, and what is refused.

use serde_json::{Value, json};

/// Key and default of every setting that the agent version does not decide.
pub fn all() -> Vec<(&'static str, Value)> {
    let empty = [
        "agent-metadata-url",
        "apt-ftp-proxy",
        "apt-http-proxy",
        "apt-https-proxy",
        "apt-mirror",
        "apt-no-proxy",
        "backup-dir",
        "cloudinit-userdata",
        "container-image-metadata-url",
        "container-inherit-properties",
        "container-networking-method",
        "default-base",
        "default-space",
        "egress-subnets",
        "ftp-proxy",
        "http-proxy",
        "https-proxy",
        "image-metadata-url",
        "juju-ftp-proxy",
        "juju-http-proxy",
        "juju-https-proxy",
        "snap-http-proxy",
        "snap-https-proxy",
        "snap-store-assertions",
        "snap-store-proxy",
        "snap-store-proxy-url",
    ];
    let mut settings: Vec<(&'static str, Value)> = empty.into_iter().map(|key| (key, json!(""))).collect();
    settings.extend([
        ("agent-stream", json!("released")),
        ("automatically-retry-hooks", json!(true)),
        ("charmhub-url", json!("https://api.charmhub.io")),
        ("container-image-metadata-defaults-disabled", json!(false)),
        ("container-image-stream", json!("released")),
        ("development", json!(false)),
        ("disable-network-management", json!(false)),
        ("disable-telemetry", json!(false)),
        ("enable-os-refresh-update", json!(false)),
        ("enable-os-upgrade", json!(false)),
        ("firewall-mode", json!("instance")),
        ("image-metadata-defaults-disabled", json!(false)),
        ("image-stream", json!("released")),
        ("juju-no-proxy", json!("127.0.0.1,localhost,::1")),
        ("logging-config", json!("<root>=INFO")),
        ("lxd-snap-channel", json!("5.0/stable")),
        ("max-action-results-age", json!("336h")),
        ("max-action-results-size", json!("5G")),
        ("mode", json!("requires-prompts")),
        ("net-bond-reconfigure-delay", json!(17)),
        ("no-proxy", json!("127.0.0.1,localhost,::1")),
        ("num-container-provision-workers", json!(4)),
        ("num-provision-workers", json!(16)),
        ("proxy-ssh", json!(false)),
        ("resource-tags", json!({})),
        ("saas-ingress-allow", json!("0.0.0.0/0,::/0")),
        ("ssh-allow", json!("0.0.0.0/0,::/0")),
        ("ssl-hostname-verification", json!(true)),
        ("test-mode", json!(false)),
        ("transmit-vendor-metrics", json!(true)),
        ("update-status-hook-interval", json!("5m")),
    ]);
    settings.sort_by_key(|(key, _)| *key);
    settings
}

pub fn default(key: &str) -> Option<Value> {
    all().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// Turns the text of a command line into a value of the setting's type; the error is Juju's sentence.
pub fn parse(key: &str, text: &str) -> Result<Value, String> {
    const PREFIX: &str = "making updated model configuration: building new model config with removed attributes: ";
    if key == "agent-version" {
        return Err("\"agent-version\" must be set via \"upgrade-model\"".to_owned());
    }
    match default(key) {
        Some(Value::Bool(_)) => match text {
            "true" | "True" => Ok(json!(true)),
            "false" | "False" => Ok(json!(false)),
            _ => Err(format!("{PREFIX}{key}: expected bool, got string(\"{text}\")")),
        },
        Some(Value::Number(_)) => text
            .parse::<i64>()
            .map(Value::from)
            .map_err(|_| format!("{PREFIX}{key}: expected number, got string(\"{text}\")")),
        _ if key == "update-status-hook-interval" && duration(text).is_none() => Err(format!(
            "{PREFIX}invalid update status hook interval in model configuration: time: invalid duration \"{text}\""
        )),
        _ => Ok(json!(text)),
    }
}

/// Milliseconds of a Go duration such as `1m30s`, `2.5s` or `300ms`.
pub fn duration(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut total = 0.0;
    if rest == "0" {
        return Some(0);
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit = rest[digits..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
        total += number
            * match &rest[digits..unit] {
                "ms" => 1.0,
                "s" => 1000.0,
                "m" => 60_000.0,
                "h" => 3_600_000.0,
                _ => return None,
            };
        rest = &rest[unit..];
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a sum of products of non-negative numbers"
    )]
    (!text.is_empty()).then_some(total as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        assert_eq!(duration("1m30s"), Some(90_000));
        assert_eq!(duration("2.5s"), Some(2_500));
        assert_eq!(duration("60.0s"), Some(60_000));
        assert_eq!(duration("300ms"), Some(300));
        for text in ["", "x", "5", "5x", "s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_bad_value_is_refused_in_jujus_words() {
        assert!(
            parse("automatically-retry-hooks", "maybe").unwrap_err().ends_with("expected bool, got string(\"maybe\")")
        );
        assert!(parse("update-status-hook-interval", "x").unwrap_err().ends_with("time: invalid duration \"x\""));
    }
}
