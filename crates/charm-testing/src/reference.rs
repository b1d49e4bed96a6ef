//! Holds the statuses of a charm against the table that documents them.

use charm::Status;

/// Compares statuses with the table below `heading` of a Markdown text, and returns what differs: a status that no row
/// documents, a row that no status has, a status that is too long for a table. In a row, `<…>` stands for any text.
pub fn status_differences(markdown: &str, heading: &str, statuses: &[Status]) -> Vec<String> {
    let rows = rows(markdown, heading);
    let fits = |(word, pattern): &(String, String), status: &Status| {
        *word == status.word() && matches(&pieces(pattern), status.message())
    };
    let undocumented = statuses.iter().filter(|status| !rows.iter().any(|row| fits(row, status)));
    let undocumented = undocumented.map(|status| format!("not documented: {}: {}", status.word(), status.message()));
    let unused = rows.iter().filter(|row| !statuses.iter().any(|status| fits(row, status)));
    let unused = unused.map(|(word, pattern)| format!("no such status: {word}: {pattern}"));
    // A status cuts what does not fit into a table.
    let cut = statuses.iter().map(Status::message).filter(|text| text.ends_with('…'));
    undocumented.chain(unused).chain(cut.map(|text| format!("too long: {text}"))).collect()
}

fn rows(markdown: &str, heading: &str) -> Vec<(String, String)> {
    let section = markdown.lines().skip_while(|line| line.trim() != heading).skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let (word, text) = (cells.next()?, cells.next()?);
        let text = text
            .strip_prefix("`` ")
            .and_then(|text| text.strip_suffix(" ``"))
            .or_else(|| text.strip_prefix('`').and_then(|text| text.strip_suffix('`')))?;
        Some((word.to_owned(), text.to_owned()))
    };
    section.filter_map(row).collect()
}

/// Cuts a pattern at what stands for any text.
fn pieces(pattern: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    while let Some((piece, (_, after))) =
        rest.split_once('<').and_then(|(piece, after)| Some((piece, after.split_once('>')?)))
    {
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Says whether a text consists of the pieces in their order, with some text between each two.
fn matches(pieces: &[&str], text: &str) -> bool {
    let Some((first, others)) = pieces.split_first() else { return text.is_empty() };
    let Some(rest) = text.strip_prefix(first) else { return false };
    if others.is_empty() {
        return rest.is_empty();
    }
    // What stands for a text is not empty.
    let starts = rest.char_indices().skip(1).map(|(at, _)| at).chain(std::iter::once(rest.len()));
    !rest.is_empty() && starts.into_iter().any(|at| matches(others, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "## A\n\n| status | text |\n| --- | --- |\n| active | `up <n> days` |\n| blocked | `` run `<x>` `` |\n\n## B\n";

    #[test]
    fn a_table_that_has_all_statuses_differs_in_nothing() {
        let statuses = [Status::active("up 3 days"), Status::blocked("run `it`")];
        assert_eq!(status_differences(TABLE, "## A", &statuses), Vec::<String>::new());
    }

    #[test]
    fn a_status_without_a_row_is_told() {
        let statuses = [Status::active("up  days"), Status::active("up 3 days"), Status::blocked("run `it`")];
        assert_eq!(status_differences(TABLE, "## A", &statuses), ["not documented: active: up days"]);
    }

    #[test]
    fn a_row_without_a_status_is_told() {
        let statuses = [Status::active("up 3 days")];
        assert_eq!(status_differences(TABLE, "## A", &statuses), ["no such status: blocked: run `<x>`"]);
    }
    #[test]
    fn a_status_that_does_not_fit_into_a_table_is_told() {
        let statuses = [Status::active("up 3 days"), Status::blocked(format!("run `{}`", "x".repeat(200)))];
        let found = status_differences(TABLE, "## A", &statuses);
        assert!(found.iter().any(|found| found.starts_with("too long: run `x")), "{found:?}");
    }
}
