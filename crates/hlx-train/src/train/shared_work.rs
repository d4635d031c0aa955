//! What ranks share beside the batches: the samples of an evaluation, and the prompts of a run.
//!
//! Each rank computes some of them, and gets what the others have made. A sample's losses and a prompt's
//! text depend on nothing but the model and the seed, so that who computes them changes nothing.

use std::ops::Range;

use anyhow::{Result, ensure};

use super::Engine;
use crate::config::SampleSection;
use crate::evaluate::{Evaluation, SampleLoss};
use crate::ranks::Group;
use crate::task::SampleText;

/// The neighbouring items that a rank has of `n`; the ranks' numbers of items differ by at most one.
fn share(n: usize, rank: usize, n_ranks: usize) -> Range<usize> {
    let cut = |rank: usize| rank * (n / n_ranks) + rank.min(n % n_ranks);
    cut(rank)..cut(rank + 1)
}

impl Engine {
    /// Evaluates samples, on the moving average of the parameters where the configuration says so; all
    /// ranks call it. Each computes the losses of neighbouring samples, and all add those of all samples
    /// in order.
    ///
    /// # Errors
    /// What the device reports, and a rank that is lost.
    pub fn evaluate(&self, samples: &[usize]) -> Result<Evaluation> {
        let (exchange, batch_size) = (self.exchange(), self.config.micro_batch_size());
        let (rank, n_ranks) = (exchange.rank(), exchange.n_ranks());
        let mine = &samples[share(samples.len(), rank, n_ranks)];
        let losses = self.with_evaluated_weights(|| self.task.sample_losses(mine, batch_size))?;
        if n_ranks == 1 {
            return self.task.mean(&losses).counted();
        }
        let all = exchange.gather_words(&SampleLoss::to_words(&losses))?;
        let all: Vec<SampleLoss> = all
            .iter()
            .flat_map(|one| SampleLoss::from_words(one))
            .collect();
        let (found, expected) = (all.len(), samples.len());
        ensure!(
            found == expected,
            "evaluate: the ranks gave the losses of {found} samples, expected {expected}"
        );
        self.task.mean(&all).counted()
    }

    /// What the model writes for the configured prompts, in their order; all ranks call it. Of R ranks,
    /// rank r writes the texts of the prompts r, r + R, and so on. A text that cannot be made is its reason.
    ///
    /// # Errors
    /// What the device reports of the weights, and a rank that is lost.
    pub fn samples(&self, group: &Group) -> Result<Vec<SampleText>> {
        let (section, n_ranks) = (&self.config.sample, group.n_ranks());
        let mine = section.prompts.iter().skip(group.rank());
        let mine = SampleSection {
            prompts: mine.step_by(n_ranks).cloned().collect(),
            ..section.clone()
        };
        let texts = self.with_evaluated_weights(|| match mine.prompts.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(self.task.texts(&mine, self.config.seed)),
        })?;
        let all = group.gather(&serde_json::to_vec(&texts)?)?;
        let all = all.iter().map(|texts| Ok(serde_json::from_slice(texts)?));
        let all = all.collect::<Result<Vec<Vec<SampleText>>>>()?;
        let text = |number: usize| all[number % n_ranks].get(number / n_ranks).cloned();
        // A task that writes no text has none for any prompt.
        Ok((0..section.prompts.len()).map_while(text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_neighbours_and_hold_each_item_once() {
        for n in [0, 1, 3, 4, 5, 17] {
            for n_ranks in [1, 2, 3, 4, 8] {
                let shares: Vec<_> = (0..n_ranks).map(|rank| share(n, rank, n_ranks)).collect();
                assert!(shares.iter().cloned().flatten().eq(0..n), "{n} {n_ranks}");
                let sizes = || shares.iter().map(Range::len);
                assert!(sizes().max() <= sizes().min().map(|least| least + 1));
            }
        }
    }
}
