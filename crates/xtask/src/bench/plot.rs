//! Charts as SVG: curves with both axes logarithmic, and bars. Knows nothing of what was measured.

use std::fmt::Write as _;

/// One curve: its name, and points with both coordinates above zero.
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Told apart by people who do not see red and green as different, too.
const COLOURS: &[&str] = &["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

/// Draws curves over powers of ten. `unit` labels a power of ten of the vertical axis.
pub(super) fn render(title: &str, across: &str, curves: &[Curve], unit: impl Fn(f64) -> String) -> String {
    let all = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    let (first, last) = decades(all().map(|(x, _)| x));
    let (low, high) = decades(all().map(|(_, y)| y));
    let place_x = |x: f64| LEFT + (x.log10() - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let place_y = |y: f64| HEIGHT - BOTTOM - (y.log10() - low) / (high - low) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}</text>\n"
    );
    let mut line = |text: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(svg, "{text}");
    };
    for power in powers(first, last) {
        let x = place_x(power);
        line(format_args!("<path d=\"M{x:.1} {TOP}V{:.1}\" stroke=\"#dddddd\"/>", HEIGHT - BOTTOM));
        line(format_args!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{power}</text>",
            HEIGHT - BOTTOM + 18.0
        ));
    }
    for power in powers(low, high) {
        let y = place_y(power);
        line(format_args!("<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"#dddddd\"/>", WIDTH - RIGHT));
        line(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            unit(power)
        ));
    }
    line(format_args!("<text x=\"{LEFT}\" y=\"{:.1}\">{across}</text>", HEIGHT - 8.0));
    let mut labels: Vec<(f64, f64)> = Vec::new();
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let Some((end_x, end_y)) = curve.points.last().map(|(x, y)| (place_x(*x), place_y(*y))) else { continue };
        let path: Vec<String> =
            curve.points.iter().map(|(x, y)| format!("{:.1} {:.1}", place_x(*x), place_y(*y))).collect();
        line(format_args!("<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", path.join("L")));
        for (x, y) in &curve.points {
            line(format_args!(
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                place_x(*x),
                place_y(*y)
            ));
        }
        let label = free_place(&labels, (end_x + 8.0, end_y + 4.0));
        labels.push(label);
        line(format_args!("<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{}</text>", label.0, label.1, curve.name));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Moves a label down until it lies on none of those that are there.
fn free_place(taken: &[(f64, f64)], (x, mut y): (f64, f64)) -> (f64, f64) {
    const LINE: f64 = 14.0;
    const LONGEST: f64 = 110.0;
    while taken.iter().any(|(other_x, other_y)| (other_x - x).abs() < LONGEST && (other_y - y).abs() < LINE) {
        y += LINE;
    }
    (x, y)
}

/// Draws one horizontal bar for each value, all beginning at nothing.
pub(super) fn bars(title: &str, values: &[(String, f64)], unit: impl Fn(f64) -> String) -> String {
    const ROW: f64 = 36.0;
    const NAMES: f64 = 220.0;
    let longest = values.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = String::new();
    let mut y = TOP;
    for ((name, value), colour) in values.iter().zip(COLOURS.iter().cycle()) {
        let length = value / longest * (WIDTH - NAMES - 100.0);
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\n\
             <rect x=\"{NAMES}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"22\" fill=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            y + 15.0,
            NAMES + length + 8.0,
            y + 15.0,
            unit(*value)
        );
        y += ROW;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{y:.0}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"8\" y=\"20\" \
         font-size=\"14\">{title}</text>\n{svg}</svg>\n"
    )
}

/// Returns the exponents of the powers of ten around some values.
fn decades(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)));
    let (low, high) = (low.min(high).log10().floor(), high.log10().ceil());
    (low, if high > low { high } else { low + 1.0 })
}

fn powers(low: f64, high: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(low), |exponent| Some(exponent + 1.0))
        .take_while(move |exponent| *exponent <= high)
        .map(|exponent| 10f64.powf(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_between_the_axes() {
        let curve = Curve { name: "ours".to_owned(), points: vec![(10.0, 0.5), (10_000.0, 300.0)] };
        let svg = render("time", "partitions", &[curve], |power| format!("{power} ms"));
        assert!(svg.contains("<circle cx=\"80.0\"") && svg.contains("<circle cx=\"490.0\""), "{svg}");
        assert!(svg.contains(">0.1 ms<") && svg.contains(">1000 ms<"), "{svg}");
        assert!(svg.ends_with("</svg>\n"));
    }

    #[test]
    fn labels_do_not_lie_on_each_other() {
        assert_eq!(free_place(&[], (10.0, 50.0)), (10.0, 50.0));
        assert_eq!(free_place(&[(10.0, 50.0), (12.0, 64.0)], (11.0, 51.0)), (11.0, 79.0));
        assert_eq!(free_place(&[(300.0, 50.0)], (10.0, 50.0)), (10.0, 50.0));
    }

    #[test]
    fn the_largest_value_has_the_longest_bar() {
        let svg = bars("time", &[("a".to_owned(), 1.0), ("b".to_owned(), 4.0)], |value| format!("{value} ms"));
        assert!(svg.contains("width=\"80.0\"") && svg.contains("width=\"320.0\"") && svg.contains(">4 ms<"), "{svg}");
    }

    #[test]
    fn one_value_still_has_an_axis() {
        assert_eq!(decades([1.0].into_iter()), (0.0, 1.0));
        assert_eq!(decades([5.0, 50.0].into_iter()), (0.0, 2.0));
    }
}
