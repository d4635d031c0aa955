//! How far a run has come, read from its folder without its model: whether it trains now, has ended, or can go on.

use anyhow::Result;

use super::{Chain, EvalSplit, Metric, Monitor, RunFolder, RunLock, read_metrics};
use crate::config::Config;

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The step of the newest checkpoint.
    pub saved_step: Option<u64>,
    /// Who trains it right now.
    pub holder: Option<String>,
    /// Whether it has come to its end: its steps or epochs are done, its target is reached, or it has stopped early.
    pub has_ended: bool,
}

impl RunFolder {
    /// Reads how far the run has come. A process may be training it meanwhile.
    ///
    /// # Errors
    /// Damaged files, named; the system's message.
    pub fn standing(&self) -> Result<Standing> {
        let saved_step = self.listed_checkpoints()?.pop().map(|(step, _)| step);
        Ok(Standing {
            saved_step,
            holder: RunLock::is_held(self.path()).then(|| self.holder().trim().to_owned()),
            has_ended: match saved_step {
                Some(step) => self.has_ended_at(step)?,
                None => false,
            },
        })
    }

    /// Whether the checkpoint of a step is the run's last.
    fn has_ended_at(&self, step: u64) -> Result<bool> {
        let config = self.config()?;
        let train = &config.train;
        if train.max_steps.is_some_and(|max_steps| step >= max_steps) {
            return Ok(true);
        }
        if let (Some(epochs), true) = (train.epochs, self.chain_path().exists()) {
            let chain = Chain::read_until(&self.chain_path(), step)?;
            let epoch = chain.at(step).map(|proved| proved.record.epoch);
            if epoch.is_some_and(|epoch| epoch >= epochs) {
                return Ok(true);
            }
        }
        let (target, patience) = (train.target_loss, train.patience);
        if (target.is_none() && patience.is_none()) || !self.metrics_path().exists() {
            return Ok(false);
        }
        Ok(has_stopped(
            &read_metrics(&self.metrics_path())?,
            &config,
            step,
        ))
    }
}

/// Whether the target was reached, or patience has ended, in the evaluations up to a step.
fn has_stopped(metrics: &[Metric], config: &Config, step: u64) -> bool {
    let train = &config.train;
    let mut monitor = Monitor::default();
    for metric in metrics.iter().filter(|metric| metric.step() <= step) {
        let Metric::Eval {
            step, split, loss, ..
        } = metric
        else {
            continue;
        };
        match split {
            EvalSplit::Train if train.target_loss.is_some_and(|target| *loss <= target) => {
                return true;
            }
            // The evaluation at the end is none of those that patience counts.
            EvalSplit::HeldOut if train.eval_every > 0 && step.is_multiple_of(train.eval_every) => {
                monitor.evaluation(*step, *loss, train.min_delta.unwrap_or(0.0));
            }
            _ => {}
        }
    }
    train
        .patience
        .is_some_and(|patience| monitor.since_best >= patience)
}
