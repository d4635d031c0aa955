//! The configuration: all of it, what differs between runs, and how to run it again.

use std::collections::BTreeSet;

use crate::document::{Block, Cell, Section, Table};
use crate::facts::RunFacts;

/// What differs between several runs, key by key.
pub(super) fn differences(runs: &[RunFacts]) -> Option<Section> {
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

/// All keys of one run; of several those that they share.
pub(super) fn configuration(runs: &[RunFacts]) -> Vec<Block> {
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

pub(super) fn repetition(runs: &[RunFacts]) -> Option<Section> {
    let text = "The folder's config.toml has every default filled in. On any device the bits are the same; \
                --data names the corpus if it lies elsewhere.";
    let lines = runs.iter().map(|run| run.repeat.clone()).collect();
    Section::of(
        "To repeat it",
        vec![Block::Text(text.to_owned()), Block::Code(lines)],
    )
}
