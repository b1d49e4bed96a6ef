//! Wraps the prose of a report, as all documents are wrapped. Tables stay as they are.

const WIDEST: usize = 120;

/// Wraps each line that is too long; what follows the first line of a list's item is indented.
pub(super) fn wrap(text: &str) -> String {
    let wrap = |line: &str| {
        if line.starts_with('|') { line.to_owned() } else { fill(line, if line.starts_with("* ") { "  " } else { "" }) }
    };
    text.lines().map(|line| wrap(line) + "\n").collect()
}

fn fill(line: &str, indent: &str) -> String {
    let mut text = String::new();
    let mut room = WIDEST;
    for word in line.split(' ') {
        let width = word.chars().count();
        if text.is_empty() {
            room = WIDEST.saturating_sub(width);
        } else if width + 1 > room {
            text.push('\n');
            text.push_str(indent);
            room = WIDEST.saturating_sub(indent.len() + width);
        } else {
            text.push(' ');
            room -= width + 1;
        }
        text.push_str(word);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_wrapped() {
        let text = "seven ch".repeat(40);
        let wrapped = wrap(&text);
        assert!(wrapped.lines().all(|line| line.chars().count() <= WIDEST), "{wrapped}");
        assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn an_item_of_a_list_is_indented() {
        let wrapped = wrap(&format!("* {}", "word ".repeat(30).trim_end()));
        assert_eq!(wrapped.lines().nth(1).map(|line| &line[..6]), Some("  word"));
    }

    #[test]
    fn a_table_stays() {
        let row = format!("| {} |\n", "word ".repeat(40));
        assert_eq!(wrap(&row), row);
    }
}
