//! The chains of digests, what verification found, and the digests.

use hlx_core::FINITE_SINCE;
use hlx_train::verify::Verdict;

use super::{short, verdict_step, without_first_of_one};
use crate::document::{Block, Cell, Section, Table};
use crate::facts::RunFacts;
use crate::text::{spoken, with_commas};

pub(super) fn chains(runs: &[RunFacts]) -> Vec<Block> {
    let mut table = Table::new(["run", "links", "steps", "head", "read"]);
    let mut verdicts = Table::new([
        "run",
        "when",
        "device",
        "steps",
        "records",
        "checkpoints",
        "verdict",
    ]);
    for run in runs {
        match &run.chain {
            Some(chain) => table.rows.push(vec![
                Cell::text(&run.name),
                Cell::number(with_commas(chain.links)),
                Cell::number(format!(
                    "{} to {}",
                    with_commas(chain.first_step),
                    with_commas(chain.head_step)
                )),
                Cell::code(&chain.head),
                Cell::Verdict(
                    match (chain.is_torn, chain.specification) {
                        (true, _) => {
                            "whole up to a last line that is cut short, or being written".to_owned()
                        }
                        (false, Some(old)) if old < FINITE_SINCE => {
                            format!("whole, of specification {old}")
                        }
                        (false, _) => "whole: every digest and every link".to_owned(),
                    },
                    true,
                ),
            ]),
            None => table.rows.push(vec![
                Cell::text(&run.name),
                Cell::number(""),
                Cell::number(""),
                Cell::code(""),
                Cell::Verdict("no chain that can be read".to_owned(), false),
            ]),
        }
        for verdict in &run.verdicts {
            let words = match verdict.equal {
                true => format!("equal up to record {}", short(&verdict.digest)),
                false => difference(verdict),
            };
            verdicts.rows.push(vec![
                Cell::text(&run.name),
                Cell::text(spoken(&verdict.time)),
                Cell::text(format!("{}, HLX {}", verdict.device, verdict.hlx)),
                Cell::number(format!(
                    "{} to {}",
                    with_commas(verdict.from),
                    with_commas(verdict.to)
                )),
                Cell::number(with_commas(verdict.records)),
                Cell::number(with_commas(verdict.checkpoints)),
                Cell::Verdict(words, verdict.equal),
            ]);
        }
    }
    without_first_of_one(runs, &mut table);
    without_first_of_one(runs, &mut verdicts);
    let explained = "A record of the chain has the digests of all parameters and of the optimizer's state after a \
                     step, and the loss and gradient norm of every step before it. hlx verify computes the steps \
                     again and compares; what it has found is noted in the run's folder.";
    let mut blocks = vec![Block::Text(explained.to_owned()), Block::Table(table)];
    match verdicts.rows.is_empty() {
        true => blocks.push(Block::Text(
            "No verification is noted. `hlx verify RUN` computes the run again.".replace('`', ""),
        )),
        false => blocks.push(Block::Table(verdicts)),
    }
    blocks
}

fn difference(verdict: &Verdict) -> String {
    let tensor = verdict
        .difference
        .as_ref()
        .and_then(|it| it.tensor.as_ref());
    let tensor = tensor.map_or_else(String::new, |tensor| format!(", tensor {}", tensor.name));
    format!(
        "differs at step {}{tensor}",
        with_commas(verdict_step(verdict))
    )
}

pub(super) fn digests(runs: &[RunFacts]) -> Option<Section> {
    let mut table = Table::new(["run", "step", "what", "SHA-256"]);
    for run in runs {
        let mut add = |step: String, what: &str, digest: &str| {
            if !digest.is_empty() {
                table.rows.push(vec![
                    Cell::text(&run.name),
                    Cell::number(step),
                    Cell::text(what),
                    Cell::code(digest),
                ]);
            }
        };
        if let Some(listing) = &run.checkpoint {
            let step = with_commas(listing.step);
            add(step.clone(), "parameters", &listing.parameters);
            add(step.clone(), "optimizer", &listing.optimizer);
            add(step, "record of the chain", &listing.record);
        }
        if let Some(manifest) = &run.manifest {
            add(String::new(), "corpus", &manifest.data);
            add(String::new(), "configuration", &manifest.config);
        }
    }
    without_first_of_one(runs, &mut table);
    let is_empty = table.rows.is_empty();
    Section::of(
        "Digests",
        if is_empty {
            Vec::new()
        } else {
            vec![Block::Table(table)]
        },
    )
}
