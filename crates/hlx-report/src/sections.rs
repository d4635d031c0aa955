//! The sections of a report, made of the facts of its runs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hlx_core::FINITE_SINCE;
use hlx_train::run::{EvalSplit, Metric};
use hlx_train::train::written;

use crate::document::{Block, Cell, Samples, Section, Table};
use crate::facts::RunFacts;
use crate::figures::charts;
use crate::text::{duration, number, with_commas};

/// Evaluations in a table at most.
const MOST_EVALUATIONS: usize = 24;
/// Texts beside each other at most.
const MOST_TEXTS: usize = 6;
/// Digits of a digest beside others; the section of digests has all of them.
const SHORT_DIGEST: usize = 16;

/// All sections.
pub(crate) fn sections(runs: &[RunFacts]) -> Vec<Section> {
    let (losses, others) = charts(runs);
    let with_charts = |charts: Vec<_>| match charts.is_empty() {
        true => Vec::new(),
        false => vec![Block::Charts(charts)],
    };
    let sections = [
        (runs.len() > 1).then(|| summary(runs)).flatten(),
        Section::of("Losses", with_charts(losses)),
        Section::of("Rates, norms and speed", with_charts(others)),
        evaluations(runs),
        Section::of("Samples over time", samples(runs)),
        differences(runs),
        Section::of("Device and versions", devices(runs)),
        Section::of("Chain and verification", chains(runs)),
        digests(runs),
        Section::of("Configuration", configuration(runs)),
        repetition(runs),
    ];
    sections.into_iter().flatten().collect()
}

/// What a reader looks for first.
pub(crate) fn key_figures(run: &RunFacts) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        figures.extend(value.map(|value| (name.to_owned(), value)));
    };
    add("steps", Some(steps(run)));
    add("training loss", run.last_loss().map(number));
    let name = crate::figures::evaluation_name(run);
    let best = run.best();
    add(
        name,
        run.evaluated().last().map(|(step, loss)| match best {
            Some((best, lowest)) if best != *step => {
                format!(
                    "{} (lowest {} at step {})",
                    number(*loss),
                    number(lowest),
                    with_commas(best)
                )
            }
            _ => number(*loss),
        }),
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

fn verdict_step(verdict: &hlx_train::verify::Verdict) -> u64 {
    verdict.difference.as_ref().map_or(verdict.to, |it| it.step)
}

/// The key figures of several runs, a column each.
fn summary(runs: &[RunFacts]) -> Option<Section> {
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

/// At most `most` places of `n`, the first and the last among them, evenly apart.
fn evenly(n: usize, most: usize) -> Vec<usize> {
    match n {
        0 => Vec::new(),
        n if n <= most => (0..n).collect(),
        n => (0..most)
            .map(|place| place * (n - 1) / (most - 1))
            .collect(),
    }
}

fn evaluations(runs: &[RunFacts]) -> Option<Section> {
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

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
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

fn samples(runs: &[RunFacts]) -> Vec<Block> {
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

/// What differs between several runs, key by key.
fn differences(runs: &[RunFacts]) -> Option<Section> {
    if runs.len() < 2 {
        return None;
    }
    let keys: BTreeSet<&String> = runs.iter().flat_map(|run| run.config.keys()).collect();
    let mut table = Table::new(["key"]);
    table.head.extend(runs.iter().map(|run| run.name.clone()));
    table.head.push("decides bits".to_owned());
    for key in keys {
        let values: Vec<Option<&String>> = runs.iter().map(|run| run.config.get(key)).collect();
        if values.windows(2).all(|pair| pair[0] == pair[1]) {
            continue;
        }
        let decides = runs.iter().any(|run| run.identity.contains_key(key));
        let mut row = vec![Cell::code(key)];
        row.extend(values.iter().map(|value| match value {
            Some(value) => Cell::code(*value),
            None => Cell::text("not set"),
        }));
        row.push(Cell::text(if decides { "yes" } else { "no" }));
        table.rows.push(row);
    }
    let blocks = match table.rows.is_empty() {
        true => vec![Block::Text(
            "The configurations are equal, key by key.".to_owned(),
        )],
        false => vec![Block::Table(table)],
    };
    Section::of("What differs", blocks)
}

fn devices(runs: &[RunFacts]) -> Vec<Block> {
    let mut table = Table::new([
        "run",
        "from step",
        "device",
        "driver",
        "arithmetic",
        "HLX",
        "specification",
        "shaders",
    ]);
    for run in runs {
        let Some(manifest) = &run.manifest else {
            continue;
        };
        for stretch in &manifest.stretches {
            let places = match stretch.ranks.is_empty() {
                true => vec![(stretch.device.clone(), &stretch.selector, &stretch.driver)],
                false => {
                    let ranks = stretch.ranks.iter().enumerate();
                    let named = |(rank, place): (usize, &hlx_train::run::RankPlace)| {
                        format!("rank {rank} on {}: {}", place.host, place.device)
                    };
                    ranks
                        .map(|at| (named(at), &at.1.selector, &at.1.driver))
                        .collect()
                }
            };
            for (device, selector, driver) in places {
                table.rows.push(vec![
                    Cell::text(&run.name),
                    Cell::number(with_commas(stretch.from_step)),
                    Cell::text(format!("{device} [{selector}]")),
                    Cell::text(driver),
                    Cell::text(&manifest.arithmetic),
                    Cell::text(&stretch.hlx),
                    Cell::number(stretch.specification.to_string()),
                    Cell::code(short(&stretch.shaders)),
                ]);
            }
        }
    }
    if runs.len() == 1 {
        table.head.remove(0);
        table.rows.iter_mut().for_each(|row| _ = row.remove(0));
    }
    match table.rows.is_empty() {
        true => Vec::new(),
        false => vec![Block::Table(table)],
    }
}

/// The first digits of a digest.
fn short(digest: &str) -> String {
    digest.chars().take(SHORT_DIGEST).collect()
}

fn chains(runs: &[RunFacts]) -> Vec<Block> {
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
                Cell::text(&verdict.time),
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
    if runs.len() == 1 {
        for table in [&mut table, &mut verdicts] {
            table.head.remove(0);
            table.rows.iter_mut().for_each(|row| _ = row.remove(0));
        }
    }
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

fn difference(verdict: &hlx_train::verify::Verdict) -> String {
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

fn digests(runs: &[RunFacts]) -> Option<Section> {
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
    if runs.len() == 1 {
        table.head.remove(0);
        table.rows.iter_mut().for_each(|row| _ = row.remove(0));
    }
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

/// All keys of one run; of several those that they share.
fn configuration(runs: &[RunFacts]) -> Vec<Block> {
    let Some((first, rest)) = runs.split_first() else {
        return Vec::new();
    };
    let shared = |(key, value): &(&String, &String)| {
        rest.iter().all(|run| run.config.get(*key) == Some(*value))
    };
    let pairs = first.config.iter().filter(shared);
    let pairs = pairs.map(|(key, value)| (key.clone(), value.clone()));
    let mut blocks = Vec::new();
    if !rest.is_empty() {
        blocks.push(Block::Text("What the runs have in common.".to_owned()));
    }
    blocks.push(Block::Pairs(pairs.collect()));
    blocks
}

fn repetition(runs: &[RunFacts]) -> Option<Section> {
    let text = "The folder's config.toml has every default filled in. On any device the bits are the same; \
                --data names the corpus if it lies elsewhere.";
    let lines = runs.iter().map(|run| run.repeat.clone()).collect();
    Section::of(
        "To repeat it",
        vec![Block::Text(text.to_owned()), Block::Code(lines)],
    )
}
