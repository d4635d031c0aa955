//! What runs wrote for their prompts, over time.

use hlx_train::run::Metric;

use super::evenly;
use crate::document::{Block, Samples};
use crate::facts::RunFacts;
use crate::text::with_commas;

/// Texts beside each other at most.
const MOST_TEXTS: usize = 6;

pub(super) fn samples(runs: &[RunFacts]) -> Vec<Block> {
    let mut prompts: Vec<&str> = Vec::new();
    for metric in runs.iter().flat_map(|run| &run.samples) {
        if let Metric::Sample { prompt, .. } = metric
            && !prompts.contains(&prompt.as_str())
        {
            prompts.push(prompt);
        }
    }
    let most = match runs.len() {
        1 => MOST_TEXTS,
        _ => MOST_TEXTS / 2,
    };
    let of_prompt = prompts.into_iter().map(|wanted| {
        let rows = runs
            .iter()
            .map(|run| texts(run, wanted, most, runs.len() > 1));
        Block::Samples(Samples {
            prompt: wanted.to_owned(),
            rows: rows.filter(|texts| !texts.is_empty()).collect(),
        })
    });
    of_prompt.collect()
}

/// What a run wrote for a prompt, evenly over time.
fn texts(run: &RunFacts, wanted: &str, most: usize, is_named: bool) -> Vec<(String, String)> {
    let of_prompt = run.samples.iter().filter_map(|metric| match metric {
        Metric::Sample { step, prompt, text } if prompt == wanted => Some((*step, text)),
        _ => None,
    });
    let all: Vec<(u64, &String)> = of_prompt.collect();
    let chosen = evenly(all.len(), most).into_iter().map(|place| {
        let (step, text) = all[place];
        let step = format!("step {}", with_commas(step));
        let heading = match is_named {
            true => format!("{}, {step}", run.name),
            false => step,
        };
        (heading, text.clone())
    });
    chosen.collect()
}
