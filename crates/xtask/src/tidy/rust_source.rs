//! Just enough understanding of Rust text for the checks: which part is code, which is a literal, which is only for tests.
//! Pure. It is no parser; what it cannot tell apart, the checks must not depend on.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A source file split into its code (comments and literals blanked, lines kept) and its text literals.
#[derive(Debug, Default)]
pub(super) struct RustSource {
    pub(super) code: String,
    pub(super) literals: Vec<String>,
}

impl RustSource {
    pub(super) fn parse(text: &str) -> Self {
        let mut source = Self::default();
        let characters: Vec<char> = text.chars().collect();
        let mut position = 0;
        while position < characters.len() {
            let rest = &characters[position..];
            let (length, literal) = token(rest, position.checked_sub(1).map(|before| characters[before]));
            match literal {
                Token::Code => source.code.extend(&rest[..length]),
                Token::Comment => source.blank(&rest[..length]),
                Token::Literal(start, end) => {
                    source.literals.push(rest[start..end].iter().collect());
                    source.blank(&rest[..length]);
                }
            }
            position += length;
        }
        source
    }

    fn blank(&mut self, characters: &[char]) {
        self.code.extend(characters.iter().map(|sign| if *sign == '\n' { '\n' } else { ' ' }));
    }

    /// Returns the code without items marked `#[cfg(test)]`.
    pub(super) fn without_tests(&self) -> String {
        const MARK: &str = "#[cfg(test)]";
        let mut code = self.code.clone();
        while let Some(start) = code.find(MARK) {
            let after = start + MARK.len();
            let end = item_end(&code[after..]).map_or(code.len(), |end| after + end);
            let blank: String = code[start..end].chars().map(|sign| if sign == '\n' { '\n' } else { ' ' }).collect();
            code.replace_range(start..end, &blank);
        }
        code
    }
}

enum Token {
    Code,
    Comment,
    /// A text literal: where its content begins and ends.
    Literal(usize, usize),
}

/// Returns the length of the next token and what it is. Code comes one character at a time.
fn token(rest: &[char], before: Option<char>) -> (usize, Token) {
    match rest {
        ['/', '/', ..] => (rest.iter().position(|sign| *sign == '\n').unwrap_or(rest.len()), Token::Comment),
        ['/', '*', ..] => (block_comment(rest), Token::Comment),
        ['"', ..] => {
            let length = quoted(rest, '"');
            (length, Token::Literal(1, length.saturating_sub(1).max(1)))
        }
        ['r', '"' | '#', ..] if !before.is_some_and(is_word) || before == Some('b') => raw_string(rest),
        // A lifetime has no closing quote where a character literal has one.
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => (quoted(rest, '\''), Token::Comment),
        _ => (1, Token::Code),
    }
}

fn is_word(sign: char) -> bool {
    sign.is_alphanumeric() || sign == '_'
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut position = 1;
    while position < rest.len() {
        match rest[position] {
            '\\' => position += 2,
            sign if sign == quote => return position + 1,
            _ => position += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[char]) -> (usize, Token) {
    let hashes = rest[1..].iter().take_while(|sign| **sign == '#').count();
    let start = 1 + hashes + 1;
    if rest.get(start - 1) != Some(&'"') {
        return (1, Token::Code);
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let content = rest[start..].windows(closing.len()).position(|window| window == closing);
    let end = content.map_or(rest.len(), |content| start + content);
    ((end + closing.len()).min(rest.len()), Token::Literal(start, end))
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_usize;
    let mut position = 0;
    while position < rest.len() {
        match &rest[position..] {
            ['/', '*', ..] => (depth, position) = (depth + 1, position + 2),
            ['*', '/', ..] => (depth, position) = (depth - 1, position + 2),
            _ => position += 1,
        }
        if depth == 0 {
            return position;
        }
    }
    rest.len()
}

/// Returns where an item ends: at its semicolon, or at the brace that closes its first one.
fn item_end(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (position, sign) in code.char_indices() {
        match sign {
            ';' if depth == 0 => return Some(position + 1),
            '{' => depth += 1,
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(position + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns every `.rs` file below a directory, sorted.
pub(super) fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(directory).with_context(|| format!("could not list {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                found.extend(files(&path)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Says whether a file is compiled for tests only: `tests.rs`, `…_tests.rs`, or anything below a directory `tests`.
pub(super) fn is_test_file(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name == "tests.rs" || name.ends_with("_tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
}

/// Reads and splits one file.
pub(super) fn read(path: &Path) -> Result<RustSource> {
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(RustSource::parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let source = RustSource::parse(
            "let a = \"std::fs \\\" x\"; // std::env\n/* std /* nested */ net */ let c = '\"'; let r = r#\"raw \" end\"#;\n",
        );
        for absent in ["std", "fs", "net", "raw"] {
            assert!(!source.code.contains(absent), "{absent} in {}", source.code);
        }
        assert_eq!(source.literals, ["std::fs \\\" x", "raw \" end"]);
        assert_eq!(source.code.lines().count(), 2);
        assert!(source.code.contains("let r = "), "{}", source.code);
    }

    #[test]
    fn a_lifetime_does_not_begin_a_literal() {
        let source = RustSource::parse("fn f<'a>(x: &'a str) -> &'a str { x } // 'tis\nconst Q: char = '\\'';");
        assert!(source.code.contains("fn f<'a>(x: &'a str) -> &'a str { x }"), "{}", source.code);
        assert!(source.code.contains("const Q: char ="), "{}", source.code);
    }

    #[test]
    fn tests_are_left_out() {
        let source = RustSource::parse(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { if x { std::fs } } }\nfn c() {}\n#[cfg(test)]\nuse d::e;\nfn f() {}",
        );
        let code = source.without_tests();
        assert!(!code.contains("std::fs") && !code.contains("d::e"), "{code}");
        assert!(code.contains("fn a()") && code.contains("fn c()") && code.contains("fn f()"), "{code}");
    }

    #[test]
    fn test_files_are_known_by_name() {
        assert!(is_test_file(Path::new("crates/a/src/tests.rs")));
        assert!(is_test_file(Path::new("crates/a/src/context_tests.rs")));
        assert!(is_test_file(Path::new("crates/a/tests/b.rs")));
        assert!(!is_test_file(Path::new("crates/xtask/src/test/mod.rs")));
    }
}
