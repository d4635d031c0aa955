//! The picture of a run, or of several beside each other: losses by step, as SVG made of `metrics.jsonl`.

use std::fmt::Write;

use anyhow::{Result, bail, ensure};

use hlx_core::printable;

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
/// Of several runs, in turn.
const RUN_COLOURS: [&str; 6] = [
    "#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2",
];

/// A point of a curve: a step and a positive loss.
type Point = (f64, f64);

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
        let last_step = points.iter().map(|point| point.0).fold(1.0, f64::max);
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
pub fn draw(metrics: &[Metric], title: &str, target: Option<f64>) -> Result<String> {
    let has_logarithm = |target: f64| target > 0.0 && target.is_finite();
    if let Some(target) = target.filter(|target| !has_logarithm(*target)) {
        bail!("the target is {target}, expected more than 0 and finite");
    }
    let (train, eval) = curves(metrics);
    let all = [train.clone(), eval.clone()].concat();
    ensure!(!all.is_empty(), "the run {}", why_empty(metrics));
    let scales = Scales::of(&all, target);
    let mut svg = String::new();
    frame(&mut svg, title, &scales)?;
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

/// Draws the evaluations of runs with their names; of a run without one, its training losses.
///
/// # Errors
/// A run that has measured no loss yet, which is named.
pub fn draw_runs(runs: &[(String, Vec<Metric>)], title: &str) -> Result<String> {
    let mut drawn = Vec::new();
    for ((name, metrics), colour) in runs.iter().zip(RUN_COLOURS.iter().cycle()) {
        let (train, eval) = curves(metrics);
        let points = if eval.is_empty() { train } else { eval };
        ensure!(!points.is_empty(), "{name}: {}", why_empty(metrics));
        drawn.push((name, points, *colour));
    }
    let all: Vec<Point> = drawn.iter().flat_map(|run| run.1.clone()).collect();
    ensure!(!all.is_empty(), "there is no run to draw");
    let scales = Scales::of(&all, None);
    let mut svg = String::new();
    frame(&mut svg, title, &scales)?;
    for (_, points, colour) in &drawn {
        curve(&mut svg, &scales, points, colour, false)?;
    }
    let entries = drawn
        .iter()
        .map(|(name, _, colour)| (escape(name), *colour));
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

fn frame(svg: &mut String, title: &str, scales: &Scales) -> Result<()> {
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#475569\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" fill=\"#0f172a\">{}</text>",
        escape(title)
    )?;
    for loss in loss_ticks(scales) {
        let y = scales.y(loss);
        writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#e2e8f0\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{loss}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0
        )?;
    }
    let base = HEIGHT - BOTTOM;
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
         loss a byte (nats)</text>",
        WIDTH - RIGHT,
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 14.0,
        (TOP + base) / 2.0
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

/// 1, 2 and 5 times the powers of ten within the scale.
fn loss_ticks(scales: &Scales) -> Vec<f64> {
    let (first, last) = (scales.low.floor() as i32, scales.high.ceil() as i32);
    let decades = (first..=last).flat_map(|power| {
        // The text of a decimal is read back, so that 0.02 is printed as such.
        [1, 2, 5].map(|digit| {
            format!("{digit}e{power}")
                .parse::<f64>()
                .unwrap_or(f64::NAN)
        })
    });
    decades
        .filter(|tick| (scales.low..=scales.high).contains(&tick.log10()))
        .collect()
}

/// Round steps, about six of them.
fn step_ticks(last_step: f64) -> Vec<f64> {
    let rough = (last_step / 6.0).max(1.0);
    let power = 10_f64.powf(rough.log10().floor());
    let stride = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|stride| *stride >= rough)
        .unwrap_or(rough);
    let count = (last_step / stride).floor() as u64;
    (0..=count).map(|tick| tick as f64 * stride).collect()
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
            let error = draw(&metrics, "a", Some(target)).expect_err("refused");
            let expected = format!("the target is {target}, expected more than 0 and finite");
            assert_eq!(error.to_string(), expected);
        }
        for target in [5e-324, f64::MAX] {
            draw(&metrics, "a\u{1b}", Some(target)).expect("draws");
        }
    }

    #[test]
    fn every_loss_is_a_point_within_the_frame() {
        let eval = eval(20, EvalSplit::Train);
        let metrics = [train(10, 5.5), train(20, 0.5), train(30, 0.0), eval];
        let svg = draw(&metrics, "a < b", Some(0.0131)).expect("draws");
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
            let error = draw(metrics, "empty", None).expect_err("nothing to draw");
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

    #[test]
    fn runs_are_drawn_beside_each_other() {
        let run = |name: &str, loss| (name.to_owned(), vec![train(10, loss), train(20, 0.5)]);
        let svg = draw_runs(&[run("a<", 5.5), run("b", 4.0)], "two").expect("draws");
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains("a&lt;") && svg.contains(">b<"));
        let error =
            draw_runs(&[run("a", 5.5), ("new".to_owned(), Vec::new())], "").expect_err("empty");
        assert_eq!(error.to_string(), "new: has measured no loss yet");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            step_ticks(1200.0),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0]
        );
        let scales = Scales {
            last_step: 1.0,
            low: -2.0,
            high: 0.5,
        };
        assert_eq!(
            loss_ticks(&scales),
            [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0]
        );
    }
}
