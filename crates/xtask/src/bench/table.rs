//! Measurements as a Markdown table. Knows nothing of what was measured.

use std::time::Duration;

/// One thing that was measured several times.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) goal: &'static str,
    pub(crate) samples: Vec<Duration>,
}

/// Renders median, fastest and slowest of each row.
pub(crate) fn render(rows: &[Row]) -> String {
    let mut text =
        String::from("| what | goal | median | fastest | slowest | times |\n| --- | --- | --- | --- | --- | --- |\n");
    for row in rows {
        let mut samples = row.samples.clone();
        samples.sort();
        let at = |index: usize| samples.get(index).map_or_else(|| "–".to_owned(), |sample| milliseconds(*sample));
        let (median, last) = (samples.len() / 2, samples.len().saturating_sub(1));
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            row.what,
            row.goal,
            at(median),
            at(0),
            at(last),
            samples.len()
        ));
    }
    text
}

/// Returns the sample in the middle, or nothing of none.
pub(crate) fn median(samples: &[Duration]) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn milliseconds(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    if millis < 10.0 { format!("{millis:.2} ms") } else { format!("{millis:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        let samples = [30, 10, 20].map(Duration::from_millis).to_vec();
        let text = render(&[Row { what: "x", goal: "y", samples }]);
        assert!(text.ends_with("| x | y | 20 ms | 10 ms | 30 ms | 3 |\n"), "{text}");
    }
}
