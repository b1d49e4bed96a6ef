//! Environment files below `/etc/default`, of which a unit of systemd takes one variable: the options of a daemon.
//! Pure.
//!
//! systemd splits the variable into words and honours quotes. Every other line of the file is somebody else's.

/// Returns the file with this value of a variable. Every other line stays as it is.
pub(crate) fn with(present: &str, variable: &str, value: &str) -> String {
    let line = format!("{variable}={value}");
    let place = present.lines().position(|line| sets(line, variable));
    let kept = present.lines().enumerate().filter(|(at, other)| Some(*at) == place || !sets(other, variable));
    let kept = kept.map(|(at, other)| if Some(at) == place { &*line } else { other });
    let new = place.is_none().then_some(&*line);
    kept.chain(new).map(|line| format!("{line}\n")).collect()
}

/// Returns the file without a variable. Every other line stays as it is.
pub(crate) fn without(present: &str, variable: &str) -> String {
    present.lines().filter(|line| !sets(line, variable)).map(|line| format!("{line}\n")).collect()
}

/// Returns the words of a variable as systemd splits them. `None`: it is not set, or a quote is not closed.
pub(crate) fn words(text: &str, variable: &str) -> Option<Vec<String>> {
    let line = text.lines().rev().find(|line| sets(line, variable))?;
    split(unquoted(line.trim().strip_prefix(variable)?.strip_prefix('=')?))
}

fn sets(line: &str, variable: &str) -> bool {
    line.trim_start().strip_prefix(variable).is_some_and(|rest| rest.starts_with('='))
}

/// An administrator may have put the whole value in quotes. Quotes around a part of it belong to the words.
fn unquoted(value: &str) -> &str {
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote).filter(|rest| !rest.contains(quote));
    inside('\'').or_else(|| inside('"')).unwrap_or(value)
}

fn split(value: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in value.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_ascii_whitespace() => words.extend(word.take()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}
