//! The evaluations of one run or of several.

use std::collections::{BTreeMap, BTreeSet};

use hlx_train::run::{EvalSplit, Metric};

use super::{evenly, percent};
use crate::document::{Block, Cell, Section, Table};
use crate::facts::RunFacts;
use crate::text::{number, with_commas};

/// Evaluations in a table at most.
const MOST_EVALUATIONS: usize = 24;

pub(super) fn evaluations(runs: &[RunFacts]) -> Option<Section> {
    let mut table = match runs {
        [run] => of_one(run),
        runs => of_several(runs),
    };
    let n = table.rows.len();
    let chosen = evenly(n, MOST_EVALUATIONS).into_iter();
    table.rows = chosen.map(|place| table.rows[place].clone()).collect();
    without_empty(&mut table);
    let mut blocks = Vec::new();
    if runs.len() > 1 && n > 0 {
        blocks.push(Block::Text(
            "Losses over what is held out, or over the training corpus of a run that holds \
             nothing out."
                .to_owned(),
        ));
    }
    if n > MOST_EVALUATIONS {
        let n = with_commas(n as u64);
        blocks.push(Block::Text(format!(
            "{MOST_EVALUATIONS} of {n} steps, evenly chosen."
        )));
    }
    blocks.extend((n > 0).then_some(Block::Table(table)));
    Section::of("Evaluations", blocks)
}

/// Every evaluation of a run.
fn of_one(run: &RunFacts) -> Table {
    let mut table = Table::new(["step", "samples", "loss", "perplexity", "accuracy", "over"]);
    for metric in &run.evaluations {
        let Metric::Eval {
            step,
            split,
            loss,
            perplexity,
            accuracy,
            n_bytes,
            n_tokens,
            n_images,
            ..
        } = metric
        else {
            continue;
        };
        let over = [
            (n_bytes, "bytes"),
            (n_tokens, "tokens"),
            (n_images, "images"),
        ];
        let over = over
            .iter()
            .find_map(|(n, unit)| Some(format!("{} {unit}", with_commas((**n)?))));
        let optional = |value: Option<String>| Cell::number(value.unwrap_or_default());
        table.rows.push(vec![
            Cell::number(with_commas(*step)),
            Cell::text(match split {
                EvalSplit::Train => "training corpus",
                EvalSplit::HeldOut => "held out",
            }),
            Cell::number(number(*loss)),
            optional(perplexity.map(number)),
            optional(accuracy.map(percent)),
            optional(over),
        ]);
    }
    table
}

/// The losses of several runs, a row for each step that one was evaluated at.
fn of_several(runs: &[RunFacts]) -> Table {
    let losses: Vec<BTreeMap<u64, f64>> = runs
        .iter()
        .map(|run| run.evaluated().into_iter().collect())
        .collect();
    let steps: BTreeSet<u64> = losses
        .iter()
        .flat_map(|losses| losses.keys().copied())
        .collect();
    let mut table = Table::new(["step"]);
    table.head.extend(runs.iter().map(|run| run.name.clone()));
    table.rows = steps
        .into_iter()
        .map(|step| {
            let cells = losses
                .iter()
                .map(|losses| losses.get(&step).copied().map_or_else(String::new, number));
            let step = Cell::number(with_commas(step));
            std::iter::once(step)
                .chain(cells.map(Cell::number))
                .collect()
        })
        .collect();
    table
}

/// Takes out the columns that have nothing in any row.
fn without_empty(table: &mut Table) {
    for column in (0..table.head.len()).rev() {
        if table.rows.iter().all(|row| row[column].words().is_empty()) {
            table.head.remove(column);
            table.rows.iter_mut().for_each(|row| _ = row.remove(column));
        }
    }
}
