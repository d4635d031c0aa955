//! Which stretch of a run is recomputed: where it begins, and what is compared on the way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use super::VerifyOptions;
use crate::run::{Chain, Checkpoint, Link, RunFolder};

/// A stretch of a run.
pub(super) struct Stretch {
    /// The steps done in the state that it begins with.
    pub from: u64,
    /// The step of its last record.
    pub to: u64,
    /// The checkpoint that it begins with; `None` for the initial parameters.
    pub base: Option<PathBuf>,
    /// The checkpoints behind the base, by step.
    pub checkpoints: BTreeMap<u64, PathBuf>,
}

impl Stretch {
    /// Finds the newest checkpoint before the part that is asked for, and proves the files of
    /// the checkpoints on the way.
    ///
    /// # Errors
    /// A step that the chain does not reach; a damaged checkpoint, or one whose record the chain
    /// lacks.
    pub fn choose(folder: &RunFolder, chain: &Chain, options: &VerifyOptions) -> Result<Self> {
        let name = chain.path().display();
        let steps = |link: Option<&Link>| link.map_or(0, |link| link.record.step);
        let (first, last) = (steps(chain.links().first()), steps(chain.links().last()));
        let (from, to) = (options.from.unwrap_or(first), options.to.unwrap_or(last));
        for (option, step) in [("--from", from), ("--to", to)] {
            ensure!(
                (first..=last).contains(&step),
                "{option} {step}: {name} goes from step {first} to {last}"
            );
        }
        ensure!(from <= to, "--from {from} is behind --to {to}");
        let reached = chain.links().iter().find(|link| link.record.step >= to);
        let to = steps(reached);
        let mut checkpoints: BTreeMap<u64, PathBuf> =
            folder.listed_checkpoints()?.into_iter().collect();
        if let Some((step, path)) = checkpoints.iter().find(|(step, _)| **step > last) {
            bail!(
                "{name}: ends at step {last}, but there is {} of step {step}: records are missing",
                path.display()
            );
        }
        let starts = options.from.is_none() && first == 0;
        let base = checkpoints
            .range(..=from)
            .rev()
            .find(|(step, _)| **step < to.max(1) && !starts && **step >= first);
        let base = base.map(|(step, path)| (*step, path.clone()));
        ensure!(
            base.is_some() || first == 0,
            "{name}: begins at step {first}, and no checkpoint is there to begin with"
        );
        let (from, base) = base.unzip();
        let from = from.unwrap_or(0);
        let first_used = from + u64::from(base.is_none());
        checkpoints.retain(|step, _| (first_used..=to).contains(step));
        for (step, path) in &checkpoints {
            check_link(chain, *step, path)?;
        }
        if base.is_some() {
            checkpoints.remove(&from);
        }
        Ok(Self {
            from,
            to,
            base,
            checkpoints,
        })
    }

    /// The records to compare: those behind the base, or all from the initial parameters on.
    pub fn links<'a>(&'a self, chain: &'a Chain) -> impl Iterator<Item = &'a Link> {
        let within = |link: &&Link| {
            let step = link.record.step;
            step <= self.to && (step > self.from || self.base.is_none())
        };
        chain.links().iter().filter(within)
    }
}

/// Proves a checkpoint's files, and that it names the chain's record of its step.
fn check_link(chain: &Chain, step: u64, path: &Path) -> Result<()> {
    let stated = Checkpoint::open(path)?.digests;
    let place = || format!("{}", path.display());
    ensure!(
        stated.step == step,
        "{}: its digests.json is of step {}",
        place(),
        stated.step
    );
    let link = chain.at(step);
    let link = link.with_context(|| {
        format!(
            "{}: {} has no record of its step",
            place(),
            chain.path().display()
        )
    })?;
    ensure!(
        stated.record.is_empty() || stated.record == link.digest,
        "{}: names {} as its record, the chain has {}",
        place(),
        stated.record,
        link.digest
    );
    Ok(())
}
