//! Which stretch of a run is recomputed: where it begins, and what is compared on the way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use super::VerifyOptions;
use crate::run::{Chain, Checkpoint, ProvedRecord, RunFolder, check_specification};

/// A stretch of a run.
pub(super) struct Stretch {
    /// The steps done in the state that it begins with.
    pub from: u64,
    /// The step of its last record.
    pub to: u64,
    /// The checkpoint that it begins with; `None` for the initial parameters.
    pub base: Option<PathBuf>,
    /// The checkpoints after the base, by step.
    pub checkpoints: BTreeMap<u64, PathBuf>,
}

impl Stretch {
    /// Finds the newest checkpoint before the requested part, and proves the files of
    /// the checkpoints on the way.
    ///
    /// # Errors
    /// A step that the chain does not reach; a damaged checkpoint, or one whose record the chain
    /// lacks.
    pub fn choose(folder: &RunFolder, chain: &Chain, options: &VerifyOptions) -> Result<Self> {
        let (first, last) = ends(chain);
        let (from, to) = asked_for(chain, options)?;
        let listed: BTreeMap<u64, PathBuf> = folder.listed_checkpoints()?.into_iter().collect();
        if let Some((step, path)) = listed.range(last + 1..).next() {
            bail!(
                "{}: ends at step {last}, but there is {} of step {step}: records are missing",
                chain.path().display(),
                path.display()
            );
        }
        // The initial parameters need no checkpoint.
        let starts = options.from.is_none() && first == 0;
        let mut before = listed.range(first..=from).rev();
        let base = before.find(|(step, _)| !starts && **step < to);
        ensure!(
            base.is_some() || first == 0,
            "{}: begins at step {first}, and no checkpoint is there to begin with",
            chain.path().display()
        );
        let from = base.map_or(0, |(step, _)| *step);
        for (step, path) in listed.range(from..=to) {
            check_recorded(chain, *step, path)?;
        }
        let behind = listed
            .range(from + 1..)
            .take_while(|(step, _)| **step <= to);
        Ok(Self {
            from,
            to,
            base: base.map(|(_, path)| path.clone()),
            checkpoints: behind.map(|(step, path)| (*step, path.clone())).collect(),
        })
    }

    /// The records to compare: those after the base, or all from the initial parameters on.
    pub fn records<'a>(&'a self, chain: &'a Chain) -> impl Iterator<Item = &'a ProvedRecord> {
        let within = |proved: &&ProvedRecord| {
            let step = proved.record.step;
            step <= self.to && (step > self.from || self.base.is_none())
        };
        chain.records().iter().filter(within)
    }
}

/// The steps of a chain's first and last record.
fn ends(chain: &Chain) -> (u64, u64) {
    let step = |proved: Option<&ProvedRecord>| proved.map_or(0, |proved| proved.record.step);
    (step(chain.records().first()), step(chain.records().last()))
}

/// The first and the last step of the requested part, the latter moved on to the next record.
fn asked_for(chain: &Chain, options: &VerifyOptions) -> Result<(u64, u64)> {
    let (first, last) = ends(chain);
    let (from, to) = (options.from.unwrap_or(first), options.to.unwrap_or(last));
    for (option, step) in [("--from", from), ("--to", to)] {
        ensure!(
            (first..=last).contains(&step),
            "{option} {step}: {} goes from step {first} to {last}",
            chain.path().display()
        );
    }
    ensure!(from <= to, "--from {from} is behind --to {to}");
    let reached = chain
        .records()
        .iter()
        .find(|proved| proved.record.step >= to);
    Ok((from, reached.map_or(last, |proved| proved.record.step)))
}

/// Proves a checkpoint's files, and that it names the chain's record of its step.
pub(super) fn check_recorded(chain: &Chain, step: u64, path: &Path) -> Result<()> {
    let stated = Checkpoint::open(path)?.digests;
    check_specification(path, stated.specification)?;
    let place = || format!("{}", path.display());
    ensure!(
        stated.step == step,
        "{}: its digests.json is of step {}",
        place(),
        stated.step
    );
    let proved = chain.at(step);
    let proved = proved.with_context(|| {
        format!(
            "{}: {} has no record of its step",
            place(),
            chain.path().display()
        )
    })?;
    ensure!(
        stated.record.is_empty() || stated.record == proved.digest,
        "{}: names {} as its record, the chain has {}",
        place(),
        stated.record,
        proved.digest
    );
    Ok(())
}
