//! The devices and versions that runs were computed with.

use super::{short, without_first_of_one};
use crate::document::{Block, Cell, Table};
use crate::facts::RunFacts;
use crate::text::with_commas;

pub(super) fn devices(runs: &[RunFacts]) -> Vec<Block> {
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
    without_first_of_one(runs, &mut table);
    match table.rows.is_empty() {
        true => Vec::new(),
        false => vec![Block::Table(table)],
    }
}
