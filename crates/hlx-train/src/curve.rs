//! The picture of a run, or of several beside each other: losses by step, as SVG made of `metrics.jsonl`.

mod folder;
pub mod ticks;

use std::fmt::Write;

use anyhow::{Result, bail, ensure};

use hlx_core::printable;

pub use self::folder::{draw_folder, draw_folders};
use self::ticks::{loss_ticks, step_ticks};
use crate::config::Format;
use crate::run::{EvalSplit, Metric};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 52.0;
const TRAIN_COLOUR: &str = "#2563eb";
const EVAL_COLOUR: &str = "#ea580c";
const TARGET_COLOUR: &str = "#16a34a";
/// The colours of several runs, one after another.
const RUN_COLOURS: [&str; 6] = [
    "#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2",
];

/// A point of a curve: a step and a positive loss.
type Point = (f64, f64);

/// What a run's loss is a mean over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossUnit {
    /// Predicted bytes.
    Byte,
    /// Predicted tokens.
    Token,
    /// Images.
    Image,
}

impl LossUnit {
    /// The unit of a run over data of a format.
    pub fn of(format: Format) -> Self {
        match format {
            Format::Pairs | Format::AsciiPairs | Format::Text => Self::Byte,
            Format::Shards => Self::Token,
            Format::Idx | Format::Digits | Format::Cifar10 | Format::ColouredDigits => Self::Image,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Byte => "byte",
            Self::Token => "token",
            Self::Image => "image",
        }
    }
}

/// A run in a picture of several.
#[derive(Clone, Debug)]
pub struct NamedRun {
    /// Its name in the legend.
    pub name: String,
    /// What it measured.
    pub metrics: Vec<Metric>,
    /// What its losses are means over.
    pub unit: LossUnit,
}

/// The picture's scales: steps to the right, the logarithm of the loss up.
struct Scales {
    last_step: f64,
    low: f64,
    high: f64,
}

impl Scales {
    fn of(points: &[Point], target: Option<f64>) -> Self {
        let losses = || points.iter().map(|point| point.1).chain(target);
        let lowest = losses().fold(f64::INFINITY, f64::min);
        let highest = losses().fold(0.0, f64::max);
        // An axis of one step would have two marks.
        let last_step = points.iter().map(|point| point.0).fold(2.0, f64::max);
        let (low, high) = (lowest.log10() - 0.05, highest.log10() + 0.05);
        Self {
            last_step,
            low,
            high: high.max(low + 0.1),
        }
    }

    fn x(&self, step: f64) -> f64 {
        LEFT + step / self.last_step * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, loss: f64) -> f64 {
        let share = (loss.log10() - self.low) / (self.high - self.low);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
}

/// Draws the losses of a run on a logarithmic scale, with the target as a line where there is
/// one.
///
/// # Errors
/// A run that has measured no loss yet; a target that a logarithm cannot show.
pub fn draw(
    metrics: &[Metric],
    title: &str,
    target: Option<f64>,
    unit: LossUnit,
) -> Result<String> {
    let has_logarithm = |target: f64| target > 0.0 && target.is_finite();
    if let Some(target) = target.filter(|target| !has_logarithm(*target)) {
        bail!("the target is {target}, expected more than 0 and finite");
    }
    let (train, eval) = curves(metrics);
    let all = [train.clone(), eval.clone()].concat();
    ensure!(!all.is_empty(), "the run {}", why_empty(metrics));
    let scales = Scales::of(&all, target);
    let mut svg = String::new();
    frame(&mut svg, title, &scales, &[unit])?;
    if let Some(target) = target {
        let y = scales.y(target);
        writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" \
             stroke=\"{TARGET_COLOUR}\" stroke-dasharray=\"6 4\"/>",
            WIDTH - RIGHT
        )?;
    }
    curve(&mut svg, &scales, &train, TRAIN_COLOUR, false)?;
    curve(&mut svg, &scales, &eval, EVAL_COLOUR, true)?;
    let entries = [
        (!train.is_empty()).then(|| ("training loss".to_owned(), TRAIN_COLOUR)),
        (!eval.is_empty()).then(|| ("evaluation".to_owned(), EVAL_COLOUR)),
        target.map(|target| (format!("target {target}"), TARGET_COLOUR)),
    ];
    legend(&mut svg, entries.into_iter().flatten())?;
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Draws the evaluations of runs with their names; of a run without one, its training losses. Where the runs'
/// losses are means over different units, each name has its run's.
///
/// # Errors
/// A run that has measured no loss yet, which is named.
pub fn draw_runs(runs: &[NamedRun], title: &str) -> Result<String> {
    let mut units: Vec<LossUnit> = runs.iter().map(|run| run.unit).collect();
    units.sort_unstable();
    units.dedup();
    let mut drawn = Vec::new();
    for (run, colour) in runs.iter().zip(RUN_COLOURS.iter().cycle()) {
        let (train, eval) = curves(&run.metrics);
        let points = if eval.is_empty() { train } else { eval };
        ensure!(
            !points.is_empty(),
            "{}: {}",
            run.name,
            why_empty(&run.metrics)
        );
        let name = match units.len() {
            1 => escape(&run.name),
            _ => format!("{} (per {})", escape(&run.name), run.unit.name()),
        };
        drawn.push((name, points, *colour));
    }
    let all: Vec<Point> = drawn.iter().flat_map(|run| run.1.clone()).collect();
    ensure!(!all.is_empty(), "there is no run to draw");
    let scales = Scales::of(&all, None);
    let mut svg = String::new();
    frame(&mut svg, title, &scales, &units)?;
    for (_, points, colour) in &drawn {
        curve(&mut svg, &scales, points, colour, false)?;
    }
    let entries = drawn.into_iter().map(|(name, _, colour)| (name, colour));
    legend(&mut svg, entries)?;
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// Why a run has no point in a picture.
fn why_empty(metrics: &[Metric]) -> &'static str {
    let is_loss = |metric: &Metric| !matches!(metric, Metric::Sample { .. });
    match metrics.iter().any(is_loss) {
        true => "has measured no loss that is finite and above 0",
        false => "has measured no loss yet",
    }
}

/// The training losses and the evaluation losses: of what is held out, or, in a run that holds nothing out, of what is trained
/// on. What a logarithm cannot show is left out.
fn curves(metrics: &[Metric]) -> (Vec<Point>, Vec<Point>) {
    let is_held_out = |metric: &Metric| matches!(metric, Metric::Eval { split, .. } if *split == EvalSplit::HeldOut);
    let drawn = match metrics.iter().any(is_held_out) {
        true => EvalSplit::HeldOut,
        false => EvalSplit::Train,
    };
    let (mut train, mut eval) = (Vec::new(), Vec::new());
    for metric in metrics {
        match metric {
            Metric::Train { step, loss, .. } if *loss > 0.0 && loss.is_finite() => {
                train.push((*step as f64, *loss));
            }
            Metric::Eval {
                step, split, loss, ..
            } if *split == drawn && *loss > 0.0 && loss.is_finite() => {
                eval.push((*step as f64, *loss));
            }
            _ => {}
        }
    }
    (train, eval)
}

/// The title, the axes with their marks, and what the loss is a mean over.
fn frame(svg: &mut String, title: &str, scales: &Scales, units: &[LossUnit]) -> Result<()> {
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#475569\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" fill=\"#0f172a\">{}</text>",
        escape(title)
    )?;
    for (loss, label) in loss_ticks(scales.low, scales.high) {
        let y = scales.y(loss);
        writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0
        )?;
    }
    let base = HEIGHT - BOTTOM;
    let units: Vec<&str> = units.iter().map(|unit| unit.name()).collect();
    for step in step_ticks(scales.last_step) {
        let x = scales.x(step);
        writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{base}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#94a3b8\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{step}</text>",
            base + 5.0,
            base + 19.0
        )?;
    }
    writeln!(
        svg,
        "<line x1=\"{LEFT}\" y1=\"{base}\" x2=\"{:.1}\" y2=\"{base}\" stroke=\"#94a3b8\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">step</text>\
         <text transform=\"translate(16 {:.1}) rotate(-90)\" text-anchor=\"middle\">\
         loss per {} (nats)</text>",
        WIDTH - RIGHT,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 14.0,
        (TOP + base) / 2.0,
        units.join(" or ")
    )?;
    Ok(())
}

fn curve(
    svg: &mut String,
    scales: &Scales,
    points: &[Point],
    colour: &str,
    dots: bool,
) -> Result<()> {
    if points.is_empty() {
        return Ok(());
    }
    let place = |&(step, loss): &Point| (scales.x(step), scales.y(loss));
    let path: Vec<String> = points
        .iter()
        .map(place)
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" \
         stroke-linejoin=\"round\"/>",
        path.join(" ")
    )?;
    if dots {
        for (x, y) in points.iter().map(place) {
            writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>"
            )?;
        }
    }
    Ok(())
}

fn legend(svg: &mut String, entries: impl Iterator<Item = (String, &'static str)>) -> Result<()> {
    for (row, (label, colour)) in entries.enumerate() {
        let y = TOP + 14.0 + 18.0 * row as f64;
        let x = WIDTH - RIGHT - 140.0;
        writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" \
             stroke-width=\"2\"/><text x=\"{}\" y=\"{}\">{label}</text>",
            x + 22.0,
            x + 30.0,
            y + 4.0
        )?;
    }
    Ok(())
}

/// Text as XML has it, which knows no control characters.
fn escape(text: &str) -> String {
    printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(step: u64, loss: f64) -> Metric {
        Metric::Train {
            step,
            epoch: 0.0,
            loss,
            grad_norm: 1.0,
            learning_rate: 0.1,
            ms_per_step: 1.0,
            tokens_per_second: Some(1.0),
            images_per_second: None,
            skipped: None,
            share_of_peak: None,
            router_balance: None,
            exchange: None,
            memory_bytes: None,
        }
    }

    fn eval(step: u64, split: EvalSplit) -> Metric {
        Metric::Eval {
            step,
            split,
            loss: 0.01,
            perplexity: None,
            loss_with_end: Some(0.01),
            n_bytes: Some(9),
            n_tokens: None,
            accuracy: None,
            n_images: None,
        }
    }

    #[test]
    fn a_target_without_a_logarithm_is_refused_instead_of_drawn_for_ever() {
        let metrics = [train(10, 5.5)];
        for target in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = draw(&metrics, "a", Some(target), LossUnit::Byte).expect_err("refused");
            let expected = format!("the target is {target}, expected more than 0 and finite");
            assert_eq!(error.to_string(), expected);
        }
        for target in [5e-324, f64::MAX] {
            draw(&metrics, "a\u{1b}", Some(target), LossUnit::Byte).expect("draws");
        }
    }

    #[test]
    fn every_loss_is_a_point_within_the_frame() {
        let eval = eval(20, EvalSplit::Train);
        let metrics = [train(10, 5.5), train(20, 0.5), train(30, 0.0), eval];
        let svg = draw(&metrics, "a < b", Some(0.0131), LossUnit::Byte).expect("draws");
        assert!(svg.contains("a &lt; b") && svg.contains("target 0.0131"));
        let points = svg
            .lines()
            .find(|line| line.starts_with("<polyline"))
            .expect("a curve");
        assert_eq!(points.matches(',').count(), 2);
        assert_eq!(svg.matches("<circle").count(), 1);
        for (metrics, expected) in [
            (&[][..], "the run has measured no loss yet"),
            (
                &[train(10, f64::NAN), train(20, f64::INFINITY)],
                "the run has measured no loss that is finite and above 0",
            ),
        ] {
            let error = draw(metrics, "empty", None, LossUnit::Byte).expect_err("nothing to draw");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn what_is_held_out_is_drawn_where_it_is_evaluated() {
        let [of_train, held_out] = [EvalSplit::Train, EvalSplit::HeldOut].map(|of| eval(20, of));
        let n_points = |metrics: &[Metric]| curves(metrics).1.len();
        assert_eq!(n_points(&[train(10, 5.5), of_train.clone()]), 1);
        assert_eq!(n_points(&[held_out.clone(), held_out, of_train]), 2);
    }

    fn run(name: &str, metrics: Vec<Metric>, unit: LossUnit) -> NamedRun {
        let name = name.to_owned();
        NamedRun {
            name,
            metrics,
            unit,
        }
    }

    #[test]
    fn runs_are_drawn_beside_each_other() {
        let of = |name: &str, loss| {
            let metrics = vec![train(10, loss), train(20, 0.5)];
            run(name, metrics, LossUnit::Token)
        };
        let svg = draw_runs(&[of("a<", 5.5), of("b", 4.0)], "two").expect("draws");
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a&lt;") && svg.contains(">b<"));
        assert!(svg.contains("loss per token (nats)"));
        let empty = run("new", Vec::new(), LossUnit::Token);
        let error = draw_runs(&[of("a", 5.5), empty], "").expect_err("empty");
        assert_eq!(error.to_string(), "new: has measured no loss yet");
    }

    #[test]
    fn the_loss_is_named_by_what_it_is_a_mean_over() {
        let metrics = [train(10, 5.5), train(20, 0.5)];
        for (format, label) in [
            (Format::Text, "loss per byte (nats)"),
            (Format::AsciiPairs, "loss per byte (nats)"),
            (Format::Shards, "loss per token (nats)"),
            (Format::Digits, "loss per image (nats)"),
        ] {
            let svg = draw(&metrics, "", None, LossUnit::of(format)).expect("draws");
            assert!(svg.contains(label), "{format:?}");
        }
        let runs = [("a", LossUnit::Token), ("b", LossUnit::Byte)];
        let runs = runs.map(|(name, unit)| run(name, metrics.to_vec(), unit));
        let svg = draw_runs(&runs, "two").expect("draws");
        assert!(svg.contains("loss per byte or token (nats)"));
        assert!(svg.contains(">a (per token)<") && svg.contains(">b (per byte)<"));
    }

    /// Steps and losses of runs as they are: long and short ones, ones that hardly move, and one loss alone.
    #[test]
    fn no_axis_has_fewer_than_three_marks() {
        let losses = [
            (5.5, 5.4),
            (3.0, 3.0),
            (2.05, 2.31),
            (1e-7, 0.9),
            (11.0, 0.4),
        ];
        for (first, last) in losses {
            for last_step in [1, 2, 3, 13, 25, 131, 999, 1_000_000] {
                let metrics = [train(1, first), train(last_step, last)];
                let svg = draw(&metrics, "", None, LossUnit::Token).expect("draws");
                let marks = |colour: &str| {
                    let mark = format!("stroke=\"{colour}\"/><text");
                    svg.matches(&mark).count()
                };
                for n_marks in [marks("#e2e8f0"), marks("#94a3b8")] {
                    assert!(
                        (3..=16).contains(&n_marks),
                        "{n_marks} marks of {first} to {last} over {last_step} steps"
                    );
                }
            }
        }
    }
}
