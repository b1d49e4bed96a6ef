//! Tables for people: columns of text, two blanks apart, as Juju's.

/// Columns named in `right` are flush right. The last column is not padded.
pub fn render(header: &[&str], rows: &[Vec<String>], right: &[usize]) -> String {
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            let longest = rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max().unwrap_or(0);
            longest.max(header[column].len())
        })
        .collect();
    let mut text = String::new();
    let head: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths.get(column).copied().unwrap_or(0).saturating_sub(width(cell)));
            if right.contains(&column) {
                line.push_str(&format!("{padding}{cell}  "));
            } else {
                line.push_str(&format!("{cell}{padding}  "));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Characters on the screen: colour takes no room.
fn width(cell: &str) -> usize {
    let mut count = 0;
    let mut inside = false;
    for letter in cell.chars() {
        match (inside, letter) {
            (false, '\u{1b}') => inside = true,
            (true, 'm') => inside = false,
            (false, _) => count += 1,
            (true, _) => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_two_blanks_apart() {
        let rows = vec![vec!["compute".to_owned(), "2".to_owned(), "x".to_owned()]];
        assert_eq!(render(&["App", "Scale", "Message"], &rows, &[1]), "App      Scale  Message\ncompute      2  x\n");
    }

    #[test]
    fn colour_takes_no_room() {
        assert_eq!(width("\u{1b}[32mok\u{1b}[0m"), 2);
    }
}
