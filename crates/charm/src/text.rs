//! Text from outside, made fit for a status, a log line or an answer: one line, printable, of a length.

/// How much of a value an error repeats.
pub const VALUE: usize = 60;

/// Returns a text as one line of at most `limit` characters. Blanks and control characters between words become one
/// blank.
pub fn one_line(text: &str, limit: usize) -> String {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    cut(&line.split_whitespace().collect::<Vec<_>>().join(" "), limit)
}

/// Returns a value as an error repeats it: control characters are shown, and what is long is cut.
pub fn shown(value: &str) -> String {
    let plain = |letter: char| {
        if letter.is_control() { letter.escape_debug().to_string() } else { letter.to_string() }
    };
    cut(&value.chars().take(VALUE + 1).map(plain).collect::<String>(), VALUE)
}

/// Names the first few of several things, and says that there are more.
pub fn some<T: ToString>(items: &[T]) -> String {
    const SHOWN: usize = 3;
    let shown = items.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join(",");
    if items.len() > SHOWN { format!("{shown},…") } else { shown }
}

/// Returns rows as a table: columns as wide as they need to be, heads in capitals.
pub fn table<H: AsRef<str>, R: AsRef<[String]>>(heads: &[H], rows: &[R]) -> String {
    let heads: Vec<String> = heads.iter().map(|head| head.as_ref().to_uppercase()).collect();
    let all: Vec<&[String]> = std::iter::once(heads.as_slice()).chain(rows.iter().map(AsRef::as_ref)).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |row: &&[String]| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        cells.join("  ").trim_end().to_owned()
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_text_cannot_break_the_line() {
        assert_eq!(one_line("a\nb\u{1b}[31m  c", 80), "a b [31m c");
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("abcd", 4), "abcd");
    }

    #[test]
    fn a_value_shows_what_would_break_the_line() {
        assert_eq!(shown("a\nb"), "a\\nb");
        assert_eq!(shown(&"x".repeat(500)).chars().count(), VALUE);
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let rows = [["0", "c1"], ["1", "c10000"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&["rank", "host"], &rows), "RANK  HOST\n0     c1\n1     c10000");
    }

    #[test]
    fn some_of_many_are_named() {
        assert_eq!(some(&[7]), "7");
        assert_eq!(some(&[7, 8, 9, 10]), "7,8,9,…");
    }
}
