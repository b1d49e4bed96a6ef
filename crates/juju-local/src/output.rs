//! Values as Juju prints them: `json` on one line, `yaml` as Go writes it, and `smart` for people and shell scripts.

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Smart,
    Json,
    Yaml,
}

impl Format {
    /// Chooses among `known`; the error is Juju's sentence.
    pub fn choose(name: Option<&str>, default: Format, known: &[&str]) -> Result<Format, String> {
        let Some(name) = name else { return Ok(default) };
        let format = match name {
            "json" => Format::Json,
            "yaml" => Format::Yaml,
            "smart" => Format::Smart,
            _ => default,
        };
        if known.contains(&name) {
            return Ok(format);
        }
        Err(format!("invalid value \"{name}\" for option --format: unknown format \"{name}\""))
    }
}

/// The text of a value, final newline included; nothing at all for what the format shows as nothing.
pub fn render(value: &Value, format: Format) -> String {
    match format {
        Format::Json => format!("{}\n", json(value)),
        Format::Yaml if value.is_null() => String::new(),
        Format::Yaml => yaml(value),
        Format::Smart => smart(value),
    }
}

/// Compact JSON; like Go, with `<`, `>` and `&` escaped, and whole numbers without a point.
pub fn json(value: &Value) -> String {
    let mut value = value.clone();
    shorten_numbers(&mut value);
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn shorten_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            #[expect(clippy::cast_possible_truncation, reason = "only whole numbers of modest size are cast")]
            if let Some(float) =
                number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15)
            {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_numbers),
        Value::Object(map) => map.values_mut().for_each(shorten_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// A value as Go prints it with `%v`: `map[a:1 b:x]`, `[1 2]`. Nothing at all for null.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{key}:{}", go_text(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn smart(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.is_empty() => String::new(),
        Value::String(text) => format!("{text}\n"),
        Value::Bool(true) => "True\n".to_owned(),
        Value::Bool(false) => "False\n".to_owned(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().filter_map(Value::as_str).map(|item| format!("{item}\n")).collect()
        }
        other => yaml(other),
    }
}

/// YAML in block style.
pub fn yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(&mut text, map, 0),
        Value::Array(items) if !items.is_empty() => write_list(&mut text, items, 0),
        other => {
            text.push_str(&scalar(other, 0));
            text.push('\n');
        }
    }
    text
}

fn write_map(text: &mut String, map: &serde_json::Map<String, Value>, indent: usize) {
    for (key, value) in map {
        text.push_str(&" ".repeat(indent));
        text.push_str(&plain_or_quoted(key));
        text.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                text.push('\n');
                write_map(text, inner, indent + 2);
            }
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                write_list(text, items, indent);
            }
            other => {
                text.push(' ');
                text.push_str(&scalar(other, indent + 2));
                text.push('\n');
            }
        }
    }
}

fn write_list(text: &mut String, items: &[Value], indent: usize) {
    for item in items {
        text.push_str(&" ".repeat(indent));
        text.push_str("- ");
        match item {
            Value::Object(inner) if !inner.is_empty() => {
                let mut block = String::new();
                write_map(&mut block, inner, indent + 2);
                text.push_str(block.trim_start());
            }
            other => {
                text.push_str(&scalar(other, indent + 2));
                text.push('\n');
            }
        }
    }
}

fn scalar(value: &Value, indent: usize) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => go_number(number),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
        Value::String(text) if text.trim_end_matches('\n').contains('\n') => block(text, indent),
        Value::String(text) => plain_or_quoted(text),
    }
}

/// Go writes floats of 21 digits and more with an exponent; YAML's encoder does so for every large one.
fn go_number(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() >= 1e6 => {
            let text = format!("{float:e}");
            match text.split_once('e') {
                Some((digits, exponent)) => format!("{digits}e+{exponent:0>2}"),
                None => text,
            }
        }
        _ => number.to_string(),
    }
}

fn block(text: &str, indent: usize) -> String {
    let chomp = if text.ends_with('\n') { "" } else { "-" };
    let lines: Vec<String> = text
        .trim_end_matches('\n')
        .split('\n')
        .map(|line| if line.is_empty() { String::new() } else { format!("{}{line}", " ".repeat(indent)) })
        .collect();
    format!("|{chomp}\n{}", lines.join("\n"))
}

/// Quotes what another reader would not take for the same string.
fn plain_or_quoted(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

fn is_plain(text: &str) -> bool {
    const WORDS: &[&str] = &["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~"];
    let Some(first) = text.chars().next() else { return false };
    if WORDS.contains(&text.to_ascii_lowercase().as_str()) || looks_like_a_number(text) {
        return false;
    }
    // A dash may begin a word, but not stand alone or look like a list or a document.
    let dashed = first == '-' && text.len() > 1 && !text.starts_with("- ") && !text.starts_with("--");
    let special_start = "-?:,[]{}#&*!|>'\"%@`".contains(first) && !dashed;
    !special_start
        && !text.starts_with(' ')
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && !text.chars().any(char::is_control)
}

fn looks_like_a_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['-', '+']);
    digits.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.')
        && (digits.replace('_', "").parse::<f64>().is_ok() || digits.starts_with("0x") || digits.starts_with("0o"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn smart_is_for_shell_scripts() {
        assert_eq!(render(&json!("text"), Format::Smart), "text\n");
        assert_eq!(render(&json!(""), Format::Smart), "");
        assert_eq!(render(&json!(null), Format::Smart), "");
        assert_eq!(render(&json!(false), Format::Smart), "False\n");
        assert_eq!(render(&json!(["a", "b"]), Format::Smart), "a\nb\n");
        assert_eq!(render(&json!([]), Format::Smart), "");
        assert_eq!(render(&json!({}), Format::Smart), "{}\n");
        assert_eq!(render(&json!(3), Format::Smart), "3\n");
    }

    #[test]
    fn yaml_quotes_what_would_change_its_type() {
        let value =
            json!({"a": "1", "b": "two", "c": "y", "d": true, "e": "", "f": {"g": ["x", 2]}, "h": 300000000000.0});
        let expected = "a: \"1\"\nb: two\nc: \"y\"\nd: true\ne: \"\"\nf:\n  g:\n  - x\n  - 2\nh: 3e+11\n";
        assert_eq!(render(&value, Format::Yaml), expected);
    }

    #[test]
    fn yaml_writes_lines_as_a_block() {
        assert_eq!(render(&json!({"k": "one\ntwo\n"}), Format::Yaml), "k: |\n  one\n  two\n");
    }

    #[test]
    fn json_has_no_point_in_whole_numbers() {
        assert_eq!(json(&json!({"a": [3e11, 1.5, 2]})), "{\"a\":[300000000000,1.5,2]}");
    }

    #[test]
    fn go_prints_maps_and_lists_in_brackets() {
        assert_eq!(go_text(&json!({"b": [1, "two"], "a": {"c": true}})), "map[a:map[c:true] b:[1 two]]");
    }

    #[test]
    fn an_unknown_format_is_refused_in_jujus_words() {
        assert_eq!(
            Format::choose(Some("smart"), Format::Yaml, &["json", "yaml"]).unwrap_err(),
            "invalid value \"smart\" for option --format: unknown format \"smart\""
        );
    }
}
