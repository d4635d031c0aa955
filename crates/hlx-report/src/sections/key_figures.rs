//! What a reader looks for first: of one run, and of several side by side.

use std::time::Duration;

use hlx_train::run::{EvalSplit, Metric};
use hlx_train::train::written;

use super::{percent, verdict_step};
use crate::document::{Block, Cell, Section, Table};
use crate::facts::RunFacts;
use crate::figures::evaluation_name;
use crate::text::{duration, number, with_commas};

/// What a reader looks for first.
pub(crate) fn key_figures(run: &RunFacts) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        figures.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("steps", Some(steps(run)));
    add("training loss", run.last_loss().map(number));
    let (name, evaluated) = (evaluation_name(run), run.evaluated());
    add(name, evaluated.last().map(|(_, loss)| number(*loss)));
    let best = run.best().filter(|_| evaluated.len() > 1);
    add(
        &format!("lowest {name}"),
        best.map(|(step, loss)| format!("{}, step {}", number(loss), with_commas(step))),
    );
    add("accuracy", accuracy(run).map(percent));
    add("speed", speed(run));
    add(
        "time in steps",
        Duration::try_from_secs_f64(run.seconds)
            .ok()
            .filter(|time| !time.is_zero())
            .map(duration),
    );
    add("parameters", run.n_parameters.map(with_commas));
    add("memory", memory(run).map(written));
    add("verified", Some(verified(run)));
    figures
}

fn steps(run: &RunFacts) -> String {
    let done = with_commas(run.step);
    match run.planned_steps {
        Some(planned) => format!("{done} of {}", with_commas(planned)),
        None => done,
    }
}

fn accuracy(run: &RunFacts) -> Option<f64> {
    run.evaluations
        .iter()
        .rev()
        .find_map(|metric| match metric {
            Metric::Eval {
                split: EvalSplit::HeldOut,
                accuracy,
                ..
            } => *accuracy,
            _ => None,
        })
}

/// The inputs a second over all steps but the first line's, in which pipelines are made.
fn speed(run: &RunFacts) -> Option<String> {
    let of = |metric: &Metric| match metric {
        Metric::Train {
            tokens_per_second,
            images_per_second,
            ..
        } => tokens_per_second.or(*images_per_second),
        _ => None,
    };
    let mut speeds: Vec<f64> = run
        .metrics
        .iter()
        .filter_map(of)
        .filter(|speed| speed.is_finite())
        .collect();
    speeds.sort_unstable_by(f64::total_cmp);
    let median = speeds.get(speeds.len() / 2)?;
    Some(format!(
        "{} {}s/s",
        with_commas(median.round() as u64),
        run.unit
    ))
}

fn memory(run: &RunFacts) -> Option<u64> {
    let of = |metric: &Metric| match metric {
        Metric::Train { memory_bytes, .. } => *memory_bytes,
        _ => None,
    };
    run.metrics.iter().filter_map(of).max()
}

/// The newest verdict in a few words.
fn verified(run: &RunFacts) -> String {
    match run.verdicts.last() {
        None => "not noted yet".to_owned(),
        Some(verdict) if !verdict.equal => format!("differs, at step {}", verdict_step(verdict)),
        Some(verdict) if verdict.from == 0 => format!("equal to step {}", verdict.to),
        Some(verdict) => format!("equal, {} to {}", verdict.from, verdict.to),
    }
}

/// The key figures of several runs, a column each.
pub(super) fn summary(runs: &[RunFacts]) -> Option<Section> {
    let figures: Vec<Vec<(String, String)>> = runs.iter().map(key_figures).collect();
    let mut names: Vec<String> = Vec::new();
    for (name, _) in figures.iter().flatten() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    let value = |figures: &[(String, String)], wanted: &String| {
        let found = figures.iter().find(|(name, _)| name == wanted);
        found.map_or("–".to_owned(), |(_, value)| value.clone())
    };
    let mut table = Table::new([""]);
    table.head.extend(runs.iter().map(|run| run.name.clone()));
    let row = |name: &str, values: Vec<String>| {
        let values = values.into_iter().map(Cell::number);
        std::iter::once(Cell::text(name))
            .chain(values)
            .collect::<Vec<_>>()
    };
    let states = runs.iter().map(|run| run.state.name().to_owned());
    table.rows.push(row("state", states.collect()));
    for name in &names {
        let values = figures.iter().map(|figures| value(figures, name));
        table.rows.push(row(name, values.collect()));
    }
    Section::of("The runs", vec![Block::Table(table)])
}
