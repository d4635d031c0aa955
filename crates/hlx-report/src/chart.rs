//! Curves over the steps of a run, as SVG within a page: its style gives the colours.

use std::fmt::Write;

use hlx_core::printable;
use hlx_train::curve::ticks::{linear_ticks, step_ticks};
use serde_json::json;

use crate::text::{short, with_commas};
use crate::thin::{Point, Thinned, means, thin};

/// Colours of the page's style, which several runs take one after another.
pub const N_COLOURS: usize = 8;

/// Marks of a curve at most: more would hide its line, which has dashes instead.
pub const MOST_MARKS: usize = 60;
/// Parts of the steps whose means a thinned curve has a line through.
const N_MEANS: usize = 100;

/// A curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What it shows, for the legend.
    pub name: String,
    /// Its colour's number.
    pub colour: usize,
    /// Whether each point has a mark.
    pub is_marked: bool,
    /// Steps, which rise, and values.
    pub points: Vec<Point>,
}

impl Curve {
    /// Whether dashes tell it from others, as it has too many points for marks.
    pub fn has_dashes(&self) -> bool {
        self.is_marked && self.points.len() > MOST_MARKS
    }
}

/// How much of a page's width a chart takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// All of it.
    Whole,
    /// A half.
    Half,
    /// A third.
    Third,
}

/// Curves of one quantity.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What is drawn.
    pub title: String,
    /// The values' unit.
    pub unit: String,
    /// Whether the values' scale is logarithmic; a curve whose values are close to each other is not.
    pub is_logarithmic: bool,
    /// How much of a page's width it takes.
    pub size: Size,
    /// The curves.
    pub curves: Vec<Curve>,
    /// A value with a line across.
    pub target: Option<f64>,
}

/// The places of a picture's parts, in its own units.
#[derive(Clone, Copy)]
struct Frame {
    width: f64,
    height: f64,
    left: f64,
}

const TOP: f64 = 12.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 34.0;
const WIDE: Frame = Frame {
    width: 860.0,
    height: 340.0,
    left: 52.0,
};
const HALF: Frame = Frame {
    width: 480.0,
    height: 230.0,
    left: 46.0,
};
const SMALL: Frame = Frame {
    width: 330.0,
    height: 200.0,
    left: 44.0,
};

/// The scales of a picture.
struct Scales {
    frame: Frame,
    last_step: f64,
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

impl Chart {
    /// Whether a value can be drawn.
    fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.is_logarithmic || value > 0.0)
    }

    /// Whether there is anything to draw.
    pub fn is_empty(&self) -> bool {
        let mut points = self.curves.iter().flat_map(|curve| &curve.points);
        !points.any(|point| self.shows(point.1))
    }

    /// Whether each curve has one value all along.
    pub fn is_constant(&self) -> bool {
        let mut curves = self.curves.iter();
        curves.all(|curve| curve.points.windows(2).all(|pair| pair[0].1 == pair[1].1))
    }

    /// The picture: one for every width, or two of which the page's style shows one.
    pub fn svg(&self) -> String {
        match self.size {
            Size::Third => self.drawn(SMALL, "any"),
            _ => self.drawn(self.frame(), "wide") + &self.drawn(SMALL, "narrow"),
        }
    }

    /// How the curves were thinned, and what could not be drawn; empty where every point is there.
    pub fn caption(&self) -> String {
        let (frame, last) = (self.frame(), self.last_step());
        let thinned = self
            .curves
            .iter()
            .map(|curve| self.thinned(curve, frame, last));
        let thinned: Vec<Thinned> = thinned.collect();
        let most = thinned.iter().filter(|one| one.columns.is_some());
        let most = most.max_by_key(|one| one.n_points);
        let n_left_out: usize = thinned.iter().map(|one| one.n_left_out).sum();
        let mut parts = Vec::new();
        if let Some(Thinned {
            n_points,
            columns: Some(columns),
            ..
        }) = most
        {
            parts.push(format!(
                "{} points in {columns} pixel columns: the band has each one's first, least, greatest and last point, the line \
                 the means of {N_MEANS} equal parts.",
                with_commas(*n_points as u64)
            ));
        }
        if n_left_out > 0 {
            let why = match self.is_logarithmic {
                true => "not finite, or not above 0",
                false => "not finite",
            };
            let n = with_commas(n_left_out as u64);
            parts.push(format!("Left out as gaps: {n} points that are {why}."));
        }
        parts.join(" ")
    }

    fn frame(&self) -> Frame {
        match self.size {
            Size::Whole => WIDE,
            Size::Half => HALF,
            Size::Third => SMALL,
        }
    }

    fn last_step(&self) -> f64 {
        let points = self.curves.iter().flat_map(|curve| curve.points.last());
        // An axis of one step would have two marks.
        points.map(|point| point.0).fold(2.0, f64::max)
    }

    fn thinned(&self, curve: &Curve, frame: Frame, last_step: f64) -> Thinned {
        let columns = (frame.width - frame.left - RIGHT) as usize;
        let points = &curve.points;
        thin(points, columns, (0.0, last_step), |value| self.shows(value))
    }

    fn scales(&self, frame: Frame) -> Scales {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let values = points
            .map(|point| point.1)
            .filter(|value| self.shows(*value));
        let values = values.chain(self.target.filter(|target| self.shows(*target)));
        let (least, greatest) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| {
            (a.min(value), b.max(value))
        });
        let is_logarithmic = self.is_logarithmic && greatest > 2.0 * least;
        let (low, high) = match is_logarithmic {
            true => (least.log10(), greatest.log10()),
            false => (least, greatest),
        };
        // Values that are all equal lie in the middle.
        let margin = match high > low {
            true => 0.05 * (high - low),
            false => (0.05 * high.abs()).max(1e-9),
        };
        let low = match !is_logarithmic && low >= 0.0 {
            true => (low - margin).max(0.0),
            false => low - margin,
        };
        Scales {
            frame,
            last_step: self.last_step(),
            low,
            high: high + margin,
            is_logarithmic,
        }
    }

    fn drawn(&self, frame: Frame, class: &str) -> String {
        let scales = self.scales(frame);
        let Frame { width, height, .. } = frame;
        let (title, unit) = (escape(&self.title), escape(&self.unit));
        let mut svg = format!(
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\" \
             data-area=\"{} {}\" data-last=\"{}\" data-unit=\"{unit}\">\n",
            frame.left,
            width - RIGHT,
            scales.last_step
        );
        self.axes(&mut svg, &scales);
        if let Some(target) = self.target.filter(|target| self.shows(*target)) {
            let (y, right) = (scales.y(target), width - RIGHT);
            let left = frame.left;
            let _ = writeln!(
                svg,
                "<line class=\"target\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>"
            );
        }
        // A band would hide the evaluations of another run.
        for is_marked in [false, true] {
            let curves = self
                .curves
                .iter()
                .filter(|curve| curve.is_marked == is_marked);
            curves.for_each(|curve| self.curve(&mut svg, &scales, curve));
        }
        let base = height - BOTTOM;
        let _ = writeln!(
            svg,
            "<line class=\"pointed\" x1=\"0\" y1=\"{TOP}\" x2=\"0\" y2=\"{base}\"/>\n</svg>"
        );
        svg
    }

    fn axes(&self, svg: &mut String, scales: &Scales) {
        let Frame {
            width,
            height,
            left,
        } = scales.frame;
        let (base, right) = (height - BOTTOM, width - RIGHT);
        let values = match scales.is_logarithmic {
            true => log_ticks(scales.low, scales.high, (height / 32.0) as usize),
            false => {
                let ticks = linear_ticks(scales.low, scales.high).into_iter();
                ticks.map(|tick| (tick, short(tick))).collect()
            }
        };
        for (value, label) in values {
            let y = scales.y(value);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                left - 6.0,
                y + 4.0
            );
        }
        let steps = step_ticks(scales.last_step);
        // Long numbers of a small picture would touch.
        let every = if width < 500.0 && steps.len() > 5 {
            2
        } else {
            1
        };
        for step in steps.into_iter().step_by(every) {
            let x = scales.x(step);
            let _ = writeln!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{base}\" x2=\"{x:.1}\" y2=\"{}\"/>\
                 <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                base + 4.0,
                base + 16.0,
                short(step)
            );
        }
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{left}\" y1=\"{base}\" x2=\"{right}\" y2=\"{base}\"/>\
             <text x=\"{right}\" y=\"{}\" text-anchor=\"end\">step</text>",
            height - 5.0
        );
    }

    fn curve(&self, svg: &mut String, scales: &Scales, curve: &Curve) {
        let thinned = self.thinned(curve, scales.frame, scales.last_step);
        let (mut path, mut values) = (String::new(), Vec::new());
        for piece in &thinned.pieces {
            for (place, &(step, value)) in piece.iter().enumerate() {
                let letter = if place == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{letter}{:.1} {:.1}", scales.x(step), scales.y(value));
                values.push(json!(step));
                values.push(json!(rounded(value)));
            }
            if let ([(step, value)], false) = (&piece[..], curve.is_marked) {
                // A line of one point would not be seen.
                let _ = write!(
                    path,
                    "L{:.1} {:.1}",
                    scales.x(*step) + 0.1,
                    scales.y(*value)
                );
            }
        }
        let name = escape(&curve.name);
        let colour = curve.colour % N_COLOURS;
        let values = serde_json::Value::Array(values);
        let mut class = if curve.is_marked { " eval" } else { "" }.to_owned();
        let is_band = thinned.columns.is_some() && !curve.is_marked;
        class += if is_band { " band" } else { "" };
        class += if curve.has_dashes() { " dashes" } else { "" };
        let _ = writeln!(
            svg,
            "<path class=\"curve c{colour}{class}\" d=\"{path}\" data-name=\"{name}\" data-points=\"{values}\"/>"
        );
        if is_band {
            let steps = (0.0, scales.last_step);
            let means = means(&curve.points, N_MEANS, steps, |value| self.shows(value));
            let means = means.iter().enumerate().map(|(place, &(step, value))| {
                let letter = if place == 0 { 'M' } else { 'L' };
                format!("{letter}{:.1} {:.1}", scales.x(step), scales.y(value))
            });
            let means = means.collect::<String>();
            let _ = writeln!(svg, "<path class=\"mean c{colour}\" d=\"{means}\"/>");
        }
        if curve.is_marked && !curve.has_dashes() {
            for &(step, value) in thinned.pieces.iter().flatten() {
                let (x, y) = (scales.x(step), scales.y(value));
                let _ = writeln!(
                    svg,
                    "<circle class=\"mark c{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"
                );
            }
        }
    }
}

impl Scales {
    fn x(&self, step: f64) -> f64 {
        let Frame { width, left, .. } = self.frame;
        left + step / self.last_step * (width - left - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let value = if self.is_logarithmic {
            value.log10()
        } else {
            value
        };
        let share = (value - self.low) / (self.high - self.low);
        let height = self.frame.height;
        height - BOTTOM - share * (height - TOP - BOTTOM)
    }
}

/// Round values between two powers of ten: as many digits of each power as there is room for.
fn log_ticks(low: f64, high: f64, most: usize) -> Vec<(f64, String)> {
    const DIGITS: [&[f64]; 5] = [
        &[1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        &[1.0, 2.0, 5.0],
        &[1.0, 3.0],
        &[1.0],
    ];
    let powers = || low.floor() as i32..=high.ceil() as i32;
    let of = |digits: &[f64], every: usize| {
        let powers = powers().step_by(every);
        let ticks =
            powers.flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
        let ticks = ticks.filter(|tick| (low..=high).contains(&tick.log10()));
        ticks.map(|tick| (tick, short(tick))).collect::<Vec<_>>()
    };
    let sets = DIGITS.iter().map(|digits| of(digits, 1));
    let fitting = sets.into_iter().find(|ticks| ticks.len() <= most);
    fitting.unwrap_or_else(|| of(&[1.0], powers().count().div_ceil(most)))
}

/// A value with seven significant digits: what a reader who points at the curve sees.
fn rounded(value: f64) -> f64 {
    format!("{value:.6e}").parse().unwrap_or(value)
}

/// Text as HTML and XML have it, attributes too; they know no control characters.
pub fn escape(text: &str) -> String {
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, n: u32, is_marked: bool) -> Curve {
        let value = |step: u32| 2.0 + f64::from(step * 7919 % 13) / 13.0;
        Curve {
            name: name.to_owned(),
            colour: 0,
            is_marked,
            points: (1..=n).map(|step| (f64::from(step), value(step))).collect(),
        }
    }

    fn chart(n: u32) -> Chart {
        Chart {
            title: "Loss".to_owned(),
            unit: String::new(),
            is_logarithmic: true,
            size: Size::Third,
            curves: vec![curve("evaluated", 9, true), curve("trained", n, false)],
            target: None,
        }
    }

    #[test]
    fn a_long_curve_is_a_band_with_its_means_below_the_evaluations() {
        let long = chart(10_000);
        let svg = long.svg();
        assert!(svg.contains("class=\"curve c0 band\""), "{svg}");
        let means = svg.split("class=\"mean c0\" d=\"").nth(1).expect("a line");
        let means = means.split('"').next().expect("a path");
        assert_eq!(means.matches(['M', 'L']).count(), N_MEANS);
        let at = |words: &str| svg.find(words).expect("is drawn");
        assert!(at("class=\"mean c0\"") < at("class=\"curve c0 eval\""));
        assert!(
            long.caption()
                .starts_with("10,000 points in 272 pixel columns: the band has"),
            "{}",
            long.caption()
        );
        let mut many = chart(100);
        many.curves[0].points = curve("evaluated", 61, true).points;
        let svg = many.svg();
        assert!(
            svg.contains("eval dashes") && !svg.contains("<circle"),
            "{svg}"
        );
        let short = chart(100);
        let svg = short.svg();
        assert!(!svg.contains("band") && !svg.contains("mean"), "{svg}");
        assert_eq!(short.caption(), "");
    }
}
