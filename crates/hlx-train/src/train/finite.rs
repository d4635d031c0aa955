//! Losses and parameters that are NaN or infinite: when a run says so, and when it ends for them.
//!
//! The decision is made from the losses, which have the same bits on every device and rank, where they are downloaded
//! anyway, and from the parameters of a checkpoint, which are on the host to be written.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_core::{Device, Half};

use super::{StepLoss, Trainer};
use crate::config::Config;
use crate::evaluate::Evaluation;
use crate::ranks::Group;
use crate::run::{Checkpoint, EvalSplit, newest_with_finite_parameters, place};

/// Why a run has not become what it was to be: its loss or its parameters are NaN or infinite, or its steps
/// were skipped for that. All ranks have it after the same step; one prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFinite {
    /// One line that says it, and what to do.
    pub line: String,
    /// Whether the run was trained to its end and saved nevertheless.
    pub at_end: bool,
}

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for NotFinite {}

impl NotFinite {
    /// The error that ends a run, or does not let it begin.
    fn ends(line: String) -> anyhow::Error {
        let at_end = false;
        Self { line, at_end }.into()
    }
}

/// What a trainer has seen of its losses.
#[derive(Default)]
pub(super) struct FiniteWatch {
    /// Steps whose losses have arrived.
    n_received: u64,
    /// The first step whose loss is not finite, and the loss.
    first: Option<(u64, f32)>,
    /// Whether a loss since the last checkpoint is not finite.
    since_save: bool,
    /// Whether it was said that the run continues nevertheless.
    has_warned: bool,
    /// Whether it was said that all steps were skipped.
    has_warned_of_skips: bool,
    /// The first step whose batch has nothing to predict, and whether it was said.
    first_unlabelled: Option<u64>,
    has_warned_of_labels: bool,
}

impl FiniteWatch {
    /// That of a run that continues after a step.
    pub fn after(step: u64) -> Self {
        Self {
            n_received: step,
            ..Self::default()
        }
    }

    /// Takes in the loss of the next step; a skipped step has left the model as it was.
    pub fn step(&mut self, step: &StepLoss) {
        self.n_received += 1;
        if step.n_targets == 0 {
            self.first_unlabelled.get_or_insert(self.n_received);
        }
        if !step.skipped && !step.loss.is_finite() {
            self.since_save = true;
            self.first.get_or_insert((self.n_received, step.loss));
        }
    }

    /// Whether a loss since the last checkpoint is not finite; begins anew.
    pub fn take_since_save(&mut self) -> bool {
        std::mem::take(&mut self.since_save)
    }

    /// The first step whose loss is not finite.
    pub fn first_step(&self) -> Option<u64> {
        self.first.map(|(step, _)| step)
    }
}

impl Trainer {
    /// Whether the run is to end for a loss that has arrived.
    pub(super) fn ends_for_its_loss(&self) -> bool {
        self.watch.first.is_some() && !self.engine.config.train.allow_non_finite
    }

    /// Ends the run for a loss that is not finite, or says once that it continues.
    pub(super) fn check_losses(&mut self) -> Result<()> {
        match self.watch.first {
            Some((step, loss)) => self.end_for(&format!("the loss of step {step} is {loss}")),
            None => Ok(()),
        }
    }

    /// Ends the run for parameters of a checkpoint that are not finite, or says once that it continues.
    pub(super) fn check_parameters(&mut self, reason: &str) -> Result<()> {
        if reason.is_empty() {
            return Ok(());
        }
        let step = self.progress.step;
        self.end_for(&format!(
            "the parameters after step {step} are not finite: {reason}"
        ))
    }

    /// Ends the run with an error, unless it is allowed to continue, which is said once.
    fn end_for(&mut self, what: &str) -> Result<()> {
        if !self.engine.config.train.allow_non_finite {
            let of_f16 = of_f16(&self.engine.config);
            let line = self.line(&format!("{what}{of_f16}; the run has ended here"))?;
            return Err(NotFinite::ends(line));
        }
        if !std::mem::replace(&mut self.watch.has_warned, true) {
            self.warn(&format!(
                "{what}; the run goes on, as train.allow_non_finite allows it"
            ));
        }
        Ok(())
    }

    /// Says that a held-out loss is not finite in the course of a run.
    pub(super) fn warn_of_evaluation(&self, found: &Evaluation) {
        if let Some(what) = self.what_of_evaluation(Some(found), EvalSplit::HeldOut) {
            self.warn(&what);
        }
    }

    fn what_of_evaluation(&self, found: Option<&Evaluation>, split: EvalSplit) -> Option<String> {
        let loss = found
            .map(|found| found.loss)
            .filter(|loss| !loss.is_finite())?;
        let samples = match split {
            EvalSplit::Train => "the training corpus",
            EvalSplit::HeldOut => "what is held out",
        };
        let step = self.progress.step;
        Some(format!(
            "the loss over {samples} after step {step} is {loss}"
        ))
    }

    /// Why a run that was trained to its end has come to nothing: its evaluations are not finite, or all of its steps
    /// were skipped.
    pub(super) fn end_of(
        &self,
        train: Option<&Evaluation>,
        held_out: Option<&Evaluation>,
    ) -> Result<Option<NotFinite>> {
        let n_steps = self.progress.step;
        let all_skipped = n_steps > 0 && self.monitor.skipped == n_steps;
        let skips = all_skipped.then(|| {
            format!("all {n_steps} steps were skipped, as the loss or the gradient's norm was NaN or infinite")
        });
        let evaluated = || {
            self.what_of_evaluation(train, EvalSplit::Train)
                .or_else(|| self.what_of_evaluation(held_out, EvalSplit::HeldOut))
        };
        let what = skips.or_else(evaluated);
        let Some(what) = what.filter(|_| !self.engine.config.train.allow_non_finite) else {
            return Ok(None);
        };
        let (line, at_end) = (self.line(&what)?, true);
        Ok(Some(NotFinite { line, at_end }))
    }

    /// Fails once too many steps in a row were skipped: the model is that of the newest checkpoint, or of
    /// a later step that was good.
    pub(super) fn check_skips(&self) -> Result<()> {
        let in_row = self.monitor.skipped_in_row;
        if in_row < self.engine.config.train.max_skips() {
            return Ok(());
        }
        let newest = match self.newest.1 {
            Some(step) => format!("of step {step}"),
            None => "not written yet".to_owned(),
        };
        Err(NotFinite::ends(format!(
            "{}: the loss or the gradient's norm was NaN or infinite in {in_row} steps in a row, which \
             were skipped{of_f16}; the newest checkpoint is {newest}",
            self.folder.path().display(),
            of_f16 = of_f16(&self.engine.config)
        )))
    }

    /// Says once that a run has skipped all of its steps up to a log line.
    pub(super) fn warn_of_skips(&mut self, step: u64) {
        let is_stuck = step > 0 && self.monitor.skipped == step;
        if is_stuck && !std::mem::replace(&mut self.watch.has_warned_of_skips, true) {
            self.warn(&format!(
                "all {step} steps so far were skipped, as the loss or the gradient's norm was NaN or infinite: the \
                 model has not changed; after {} skipped steps in a row the run ends",
                self.engine.config.train.max_skips()
            ));
        }
    }

    /// Says once that a batch had nothing to predict: its loss counts in no mean.
    pub(super) fn warn_of_labels(&mut self) {
        let Some(step) = self.watch.first_unlabelled else {
            return;
        };
        if !std::mem::replace(&mut self.watch.has_warned_of_labels, true) {
            self.warn(&format!(
                "no token of the batch of step {step} is trained on: it has no loss and no gradient; this is said once"
            ));
        }
    }

    /// Warns by one of the ranks, in the name of the run.
    fn warn(&self, what: &str) {
        if self.group.is_first() {
            tracing::warn!("{}: {what}", self.folder.path().display());
        }
    }

    /// What has happened to the run, and what to do; the rank that prints it reads the checkpoints for that.
    fn line(&self, what: &str) -> Result<String> {
        let advice = match self.group.is_first() {
            true => advice(&self.folder.checkpoints(), &self.engine.config)?,
            false => String::new(),
        };
        let run = self.folder.path().display();
        Ok(format!("{run}: {what}. {advice}"))
    }
}

/// Refuses to continue from a checkpoint whose parameters are not finite, unless that is allowed; all ranks call it.
///
/// # Errors
/// [`NotFinite`]; a checkpoint without a model.
pub(super) fn check_start(group: &Group, config: &Config, checkpoint: &Checkpoint) -> Result<()> {
    let Err(error) = hlx_nn::check_finite(checkpoint.file(hlx_nn::MODEL_FILE)?) else {
        return Ok(());
    };
    let path = checkpoint.path();
    let what = format!("{}: {error}", path.display());
    if config.train.allow_non_finite {
        if group.is_first() {
            tracing::warn!("{what}; the run goes on from it, as train.allow_non_finite allows it");
        }
        return Ok(());
    }
    let parent = path.parent().context("a checkpoint lies in a folder")?;
    let advice = match group.is_first() {
        true => advice(parent, config)?,
        false => String::new(),
    };
    let line = format!("{what}; the run does not go on from it. {advice}");
    Err(NotFinite::ends(line))
}

/// Refuses to go on from a checkpoint that was computed where the bits are others, unless that is allowed; all ranks call it.
///
/// # Errors
/// [`Refused`](crate::ranks::Refused) with one line.
pub(super) fn check_place(
    group: &Group,
    device: &Device,
    config: &Config,
    checkpoint: &Checkpoint,
) -> Result<()> {
    let there = checkpoint.digests.place.as_ref();
    let Some(what) = place::differs(config.arithmetic, there, device) else {
        return Ok(());
    };
    let what = format!("{}: was {what}", checkpoint.path().display());
    ensure!(
        config.train.allow_other_device,
        "{what}; train.allow_other_device = true lets the run go on here, which its chain and run.json say"
    );
    if group.is_first() {
        tracing::warn!("{what}; the run goes on here, as train.allow_other_device allows it");
    }
    Ok(())
}

/// What there is to say of f16, whose range is small.
fn of_f16(config: &Config) -> &'static str {
    match config.arithmetic.half() {
        Some(Half::F16) => {
            " (f16 ends at 65,504: arithmetic = \"fast\" computes in bf16, which has the range of f32)"
        }
        _ => "",
    }
}

/// What to do about a run that is no longer finite. Its steps are functions of its configuration, so that going
/// on in the same way comes to the same end.
fn advice(checkpoints: &Path, config: &Config) -> Result<String> {
    let goes_on = "train.allow_non_finite = true lets a run go on";
    Ok(match newest_with_finite_parameters(checkpoints)? {
        None => format!(
            "It has no finite checkpoint: begin another run, such as with a smaller train.learning_rate; {goes_on}"
        ),
        Some((step, path)) => {
            let path = path.display();
            // Adapters are drawn anew by a run that begins from a checkpoint.
            let from = match config.lora {
                Some(_) => String::new(),
                None => format!("from it (--set train.init_from={path}) "),
            };
            format!(
                "The newest finite checkpoint is {path}, of step {step}: begin another run {from}with other settings, \
                 such as a smaller train.learning_rate; {goes_on}"
            )
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_loss_that_is_not_finite_stays_and_a_skipped_one_is_none() {
        let step = |loss, skipped| StepLoss {
            loss,
            n_targets: 1,
            grad_norm: 1.0,
            balance: None,
            skipped,
        };
        for not_finite in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut watch = FiniteWatch::after(4);
            watch.step(&step(1.0, false));
            watch.step(&step(not_finite, true));
            assert_eq!((watch.first_step(), watch.take_since_save()), (None, false));
            watch.step(&step(not_finite, false));
            watch.step(&step(not_finite, false));
            assert_eq!(watch.first_step(), Some(7), "{not_finite}");
            assert!(watch.take_since_save() && !watch.take_since_save());
        }
    }
}
