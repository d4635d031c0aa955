//! The curves of a report.

use hlx_train::run::{EvalSplit, Metric};

use crate::chart::{Chart, Curve, Size};
use crate::facts::RunFacts;
use crate::thin::Point;

/// Charts in the order of a report: losses, which are wide, then the others.
pub(crate) fn charts(runs: &[RunFacts]) -> (Vec<Chart>, Vec<Chart>) {
    let losses = losses(runs);
    let of = |title: &str, unit: &str, is_logarithmic, value: fn(&Metric) -> Option<f64>| {
        let mut chart = Chart {
            title: title.to_owned(),
            unit: unit.to_owned(),
            is_logarithmic,
            size: Size::Third,
            curves: Vec::new(),
            target: None,
        };
        for (place, run) in runs.iter().enumerate() {
            let points = points(run, value);
            chart.curves.extend((!points.is_empty()).then(|| Curve {
                name: run.name.clone(),
                colour: colour(runs, place),
                is_marked: false,
                points,
            }));
        }
        chart
    };
    let mut others = vec![
        of("Learning rate", "", false, |metric| match metric {
            Metric::Train { learning_rate, .. } => Some(f64::from(*learning_rate)),
            _ => None,
        }),
        of(
            "Gradient norm, before clipping",
            "",
            true,
            |metric| match metric {
                Metric::Train { grad_norm, .. } => Some(f64::from(*grad_norm)),
                _ => None,
            },
        ),
        of("Speed", "inputs per second", false, |metric| match metric {
            Metric::Train {
                tokens_per_second,
                images_per_second,
                ..
            } => tokens_per_second.or(*images_per_second),
            _ => None,
        }),
        of(
            "Memory held on the device",
            "MiB",
            false,
            |metric| match metric {
                Metric::Train { memory_bytes, .. } => {
                    memory_bytes.map(|n| n as f64 / f64::from(1 << 20))
                }
                _ => None,
            },
        ),
        of("Balance of the router", "", false, |metric| match metric {
            Metric::Train { router_balance, .. } => router_balance.map(f64::from),
            _ => None,
        }),
        of("Held-out accuracy", "", false, |metric| match metric {
            Metric::Eval {
                split: EvalSplit::HeldOut,
                accuracy,
                ..
            } => *accuracy,
            _ => None,
        }),
    ];
    for chart in &mut others {
        // Evaluations are few.
        if chart.title == "Held-out accuracy" {
            chart
                .curves
                .iter_mut()
                .for_each(|curve| curve.is_marked = true);
        }
        if chart.title == "Speed" {
            chart.title = speed_title(runs);
        }
    }
    // The key figures have a number that never changes.
    others.retain(|chart| !(chart.title.starts_with("Memory") && chart.is_constant()));
    let drawn = |charts: Vec<Chart>| {
        charts
            .into_iter()
            .filter(|chart| !chart.is_empty())
            .collect()
    };
    let mut others: Vec<Chart> = drawn(others);
    // Two rows of two, rather than one picture alone in a row.
    if matches!(others.len(), 2 | 4) {
        others.iter_mut().for_each(|chart| chart.size = Size::Half);
    }
    (drawn(vec![losses]), others)
}

/// A run's colour; that of evaluations is another where there is one run alone.
fn colour(runs: &[RunFacts], place: usize) -> usize {
    match runs.len() {
        1 => 0,
        _ => place,
    }
}

/// The training and held-out losses of all runs.
fn losses(runs: &[RunFacts]) -> Chart {
    let mut curves = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        let training = points(run, |metric| match metric {
            Metric::Train { loss, .. } => Some(*loss),
            _ => None,
        });
        let evaluated: Vec<Point> = run
            .evaluated()
            .into_iter()
            .map(|(step, loss)| (step as f64, loss))
            .collect();
        let (of_training, of_evaluation, colour_of_evaluation) = match runs.len() {
            1 => (
                "training loss".to_owned(),
                evaluation_name(run).to_owned(),
                1,
            ),
            _ => (
                format!("{}, training", run.name),
                format!("{}, {}", run.name, evaluation_name(run)),
                place,
            ),
        };
        let curve = |name, colour, is_marked, points: Vec<Point>| {
            (!points.is_empty()).then_some(Curve {
                name,
                colour,
                is_marked,
                points,
            })
        };
        curves.extend(curve(of_training, colour(runs, place), false, training));
        curves.extend(curve(of_evaluation, colour_of_evaluation, true, evaluated));
    }
    let mut units: Vec<&str> = runs.iter().map(|run| run.unit).collect();
    units.dedup();
    let target = match runs {
        [run] => run.config.get("train.target_loss"),
        _ => None,
    };
    Chart {
        title: format!("Loss per {}", units.join(" or ")),
        unit: "nats".to_owned(),
        is_logarithmic: true,
        size: Size::Whole,
        curves,
        target: target.and_then(|target| target.parse().ok()),
    }
}

/// What a run's evaluations go over.
pub(crate) fn evaluation_name(run: &RunFacts) -> &'static str {
    let is_held_out = |metric: &Metric| {
        matches!(
            metric,
            Metric::Eval {
                split: EvalSplit::HeldOut,
                ..
            }
        )
    };
    match run.evaluations.iter().any(is_held_out) {
        true => "held-out loss",
        false => "loss over the training corpus",
    }
}

fn speed_title(runs: &[RunFacts]) -> String {
    let mut units: Vec<String> = runs.iter().map(|run| format!("{}s", run.unit)).collect();
    units.sort_unstable();
    units.dedup();
    format!("Speed, {} per second", units.join(" or "))
}

/// The points of a quantity that lines of the log have.
fn points(run: &RunFacts, value: impl Fn(&Metric) -> Option<f64>) -> Vec<Point> {
    let lines = run.metrics.iter();
    let points = lines.filter_map(|metric| Some((metric.step() as f64, value(metric)?)));
    points.collect()
}
