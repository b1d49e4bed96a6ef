//! Reads how many tests passed out of the closing lines of cargo and pytest. Pure.

use std::ops::AddAssign;

/// Numbers of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 { write!(formatter, ", {} skipped", self.skipped) } else { Ok(()) }
    }
}

impl Counts {
    /// Sums the `test result:` lines of all test programs that cargo ran.
    pub(super) fn of_cargo(output: &str) -> Self {
        let mut counts = Self::default();
        for line in output.lines() {
            if let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|line| line.split_once(". ")) {
                counts.add_all(numbers.split(';'));
            }
        }
        counts
    }

    /// Reads the last line of pytest, such as `== 4 passed, 1 error in 3.21s ==`.
    pub(super) fn of_pytest(output: &str) -> Self {
        let mut counts = Self::default();
        let closing = output.lines().rev().map(|line| line.trim_matches(|sign| sign == '=' || sign == ' '));
        if let Some((numbers, _)) = closing.filter_map(|line| line.split_once(" in ")).find(|(numbers, _)| {
            numbers
                .split(", ")
                .all(|part| part.split_once(' ').is_some_and(|(number, _)| number.parse::<usize>().is_ok()))
        }) {
            counts.add_all(numbers.split(','));
        }
        counts
    }

    fn add_all<'a>(&mut self, parts: impl Iterator<Item = &'a str>) {
        for part in parts {
            let Some((number, word)) = part.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match word {
                "passed" | "xpassed" => self.passed += number,
                "failed" | "error" | "errors" => self.failed += number,
                "ignored" | "skipped" | "xfailed" => self.skipped += number,
                // measured, filtered out, deselected, warnings: nothing that was meant to run.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: usize, failed: usize, skipped: usize) -> Counts {
        Counts { passed, failed, skipped }
    }

    #[test]
    fn cargo_prints_one_line_for_each_program() {
        let output = "\
test tests::one ... ok
test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s

test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s
";
        assert_eq!(Counts::of_cargo(output), counts(15, 2, 1));
        assert_eq!(Counts::of_cargo("error: could not compile"), counts(0, 0, 0));
    }

    #[test]
    fn pytest_prints_one_line_at_the_end() {
        let check = |line: &str, expected| assert_eq!(Counts::of_pytest(&format!("noise in it\n{line}\n")), expected);
        check("=========== 5 passed in 61.20s (0:01:01) ============", counts(5, 0, 0));
        check("===== 1 failed, 2 passed, 1 skipped, 3 warnings, 2 errors in 3.10s =====", counts(2, 3, 1));
        check("4 passed, 1 deselected in 0.10s", counts(4, 0, 0));
        check("1 error in 0.10s", counts(0, 1, 0));
        check("no tests ran in 0.00s", counts(0, 0, 0));
    }

    #[test]
    fn skipped_tests_are_named_only_if_there_are_any() {
        assert_eq!(counts(3, 0, 0).to_string(), "3 passed, 0 failed");
        assert_eq!(counts(3, 1, 2).to_string(), "3 passed, 1 failed, 2 skipped");
    }
}
