//! Points and lines over a logarithmic height, as SVG.

use std::fmt::Write;

use crate::plot::escape;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 92.0;
const BOTTOM: f64 = 48.0;
const COLOURS: [&str; 8] = [
    "#2563eb", "#60a5fa", "#93c5fd", "#ea580c", "#16a34a", "#86efac", "#fdba74", "#94a3b8",
];

/// How a curve's points are drawn.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Line,
    Dashes,
    Dots,
}

/// One curve.
pub struct Series {
    name: String,
    colour: &'static str,
    form: Form,
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// Points joined by a line; `colour` is one of eight.
    pub fn line(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            colour: COLOURS[colour % COLOURS.len()],
            form: Form::Line,
            points,
        }
    }

    /// A dashed line without points, which the legend leaves out.
    pub fn dashes(colour: usize, points: Vec<(f64, f64)>) -> Self {
        let form = Form::Dashes;
        Self {
            form,
            ..Self::line("", colour, points)
        }
    }

    /// Points alone.
    pub fn dots(name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        let form = Form::Dots;
        Self {
            form,
            ..Self::line(name, colour, points)
        }
    }
}

/// A picture: curves, the axes' names, and whether the width is logarithmic too.
pub struct Chart {
    pub title: String,
    pub x: &'static str,
    pub y: &'static str,
    pub log_x: bool,
    pub series: Vec<Series>,
}

/// The values at a picture's edges.
struct Scales {
    x: [f64; 2],
    y: [f64; 2],
    log_x: bool,
}

impl Scales {
    fn of(chart: &Chart) -> Self {
        let points = || chart.series.iter().flat_map(|series| &series.points);
        let extremes = |values: &mut dyn Iterator<Item = f64>| {
            values.fold([f64::INFINITY, 0.0_f64], |[low, high], v| {
                [low.min(v), high.max(v)]
            })
        };
        let x = extremes(&mut points().map(|point| point.0));
        let y = extremes(&mut points().map(|point| point.1).filter(|&y| y > 0.0));
        Self {
            x,
            y: [y[0] / 1.3, y[1] * 1.3],
            log_x: chart.log_x,
        }
    }

    fn x(&self, value: f64) -> f64 {
        let map = |v: f64| if self.log_x { v.max(1e-9).log2() } else { v };
        let [low, high] = self.x.map(map);
        LEFT + (map(value) - low) / (high - low).max(1e-9) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let [low, high] = self.y.map(f64::log10);
        let share = (value.max(1e-9).log10() - low) / (high - low).max(1e-9);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    /// 1, 2 and 5 of every power of ten in sight.
    fn y_ticks(&self) -> Vec<f64> {
        let powers = self.y[0].log10().floor() as i32..=self.y[1].log10().ceil() as i32;
        let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)));
        all.filter(|tick| (self.y[0]..=self.y[1]).contains(tick))
            .collect()
    }

    fn x_ticks(&self) -> Vec<f64> {
        let [low, high] = self.x;
        if self.log_x {
            let powers = (0..40).map(|power| 2_f64.powi(power));
            return powers.filter(|tick| (low..=high).contains(tick)).collect();
        }
        (0..=5)
            .map(|fifth| (low + (high - low) * f64::from(fifth) / 5.0).round())
            .collect()
    }
}

impl Chart {
    /// Draws the picture.
    pub fn draw(&self) -> String {
        let scales = Scales::of(self);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#475569\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
             <text x=\"16\" y=\"24\" font-size=\"15\" fill=\"#0f172a\">{}</text>\n",
            escape(&self.title)
        );
        self.axes(&mut svg, &scales);
        for series in &self.series {
            curve(&mut svg, &scales, series);
        }
        let named = self.series.iter().filter(|series| !series.name.is_empty());
        for (place, series) in named.enumerate() {
            let (x, y) = (
                16.0 + 245.0 * (place % 3) as f64,
                40.0 + 17.0 * (place / 3) as f64,
            );
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{}\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                series.colour,
                x + 18.0,
                y + 10.0,
                escape(&series.name)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn axes(&self, svg: &mut String, scales: &Scales) {
        for tick in scales.y_ticks() {
            let y = scales.y(tick);
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#e2e8f0\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0
            );
        }
        let base = HEIGHT - BOTTOM;
        for tick in scales.x_ticks() {
            let x = scales.x(tick);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
                base + 18.0
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text x=\"16\" y=\"{:.1}\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 10.0,
            self.x,
            TOP - 9.0,
            self.y
        );
    }
}

fn curve(svg: &mut String, scales: &Scales, series: &Series) {
    let points = series.points.iter();
    let places: Vec<(f64, f64)> = points.map(|&(x, y)| (scales.x(x), scales.y(y))).collect();
    if series.form != Form::Dots {
        let path: Vec<String> = places
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let stroke = match series.form {
            Form::Dashes => "stroke-width=\"1.2\" stroke-dasharray=\"5 4\"",
            _ => "stroke-width=\"1.8\"",
        };
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" {stroke}/>",
            path.join(" "),
            series.colour
        );
    }
    let radius = match series.form {
        Form::Line => 3.0,
        Form::Dots => 1.2,
        Form::Dashes => return,
    };
    for (x, y) in places {
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{}\"/>",
            series.colour
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_lie_within_the_frame() {
        let chart = Chart {
            title: "a < b".to_owned(),
            x: "batch",
            y: "ms",
            log_x: true,
            series: vec![Series::line("one", 0, vec![(1.0, 0.5), (128.0, 30.0)])],
        };
        let scales = Scales::of(&chart);
        assert_eq!((scales.x(1.0), scales.x(128.0)), (LEFT, WIDTH - RIGHT));
        assert!(scales.y(30.0) > TOP && scales.y(0.5) < HEIGHT - BOTTOM);
        let svg = chart.draw();
        assert!(
            svg.contains("a &lt; b") && svg.contains(">128</text>") && svg.ends_with("</svg>\n")
        );
    }
}
