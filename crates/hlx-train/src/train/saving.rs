//! Checkpoints, and what a run ends with.

use std::time::Instant;

use anyhow::Result;
use hlx_core::SPECIFICATION;

use super::{NotFinite, Observer, Outcome, Trainer};
use crate::config::{Format, lora_to_bytes};
use crate::evaluate::Evaluation;
use crate::run::{
    BASE_FILE, Checkpoint, Digests, EvalSplit, LORA_FILE, MONITOR_FILE, Retention, SCHEDULE_FILE,
    place, schedule_state_bytes,
};
use crate::task::StatedBase;

/// Files of a checkpoint, by their names.
pub(super) type Files = Vec<(&'static str, Vec<u8>)>;

impl Trainer {
    /// Saves a checkpoint of the step just done, unless there is one.
    pub(super) fn interrupt(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        if self.newest.1 == Some(self.progress.step) {
            self.start_downloads(false, false)?;
            self.receive(true, observer)?;
        } else {
            self.save_now(observer)?;
        }
        let outcome = self.outcome(None, None)?;
        Ok(Outcome {
            interrupted: true,
            ..outcome
        })
    }

    pub(super) fn finish(&mut self, observer: &mut dyn Observer) -> Result<Outcome> {
        let save = self.newest.1 != Some(self.progress.step);
        self.start_downloads(false, save)?;
        self.receive(true, observer)?;
        // A large corpus is not read once more unless its loss was requested.
        let is_large = matches!(
            self.engine.config.data.format,
            Format::Text | Format::Shards
        );
        let wanted = !is_large || self.engine.config.train.target_loss.is_some();
        let train = match wanted {
            true => Some(self.evaluate(EvalSplit::Train, observer)?),
            false => None,
        };
        let held_out = if self.engine.split.eval.is_empty() {
            None
        } else {
            Some(self.evaluate(EvalSplit::HeldOut, observer)?)
        };
        if let (Some(target), Some(train)) = (self.engine.config.train.target_loss, train) {
            self.progress.reached_target |= train.reaches(target);
        }
        if save {
            self.save(observer)?;
        }
        let not_finite = self.end_of(train.as_ref(), held_out.as_ref())?;
        let outcome = self.outcome(train, held_out)?;
        Ok(Outcome {
            not_finite,
            ..outcome
        })
    }

    /// What a run has come to that has ended for what is not finite, and saved nothing of it.
    pub(super) fn ended_by(&self, not_finite: NotFinite) -> Result<Outcome> {
        let outcome = self.outcome(None, None)?;
        Ok(Outcome {
            not_finite: Some(not_finite),
            ..outcome
        })
    }

    fn outcome(&self, train: Option<Evaluation>, held_out: Option<Evaluation>) -> Result<Outcome> {
        let newest = self.folder.newest_path()?;
        let digests = newest
            .map(|newest| Checkpoint::stated(&newest))
            .transpose()?;
        Ok(Outcome {
            step: self.progress.step,
            epochs: self.epochs(),
            reached_target: self.progress.reached_target,
            stopped_early: self.stops_early(),
            skipped: self.monitor.skipped,
            first_non_finite: self.watch.first_step(),
            not_finite: None,
            interrupted: false,
            train,
            last_loss: self.last_loss,
            held_out,
            digests: digests.unwrap_or_default(),
        })
    }

    pub(super) fn epochs(&self) -> f64 {
        let within = self.progress.batch_idx as f64 / self.engine.batches.per_epoch() as f64;
        self.progress.epoch as f64 + within
    }

    /// Saves a checkpoint at a step that is none of those where one is due.
    pub(super) fn save_now(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.start_downloads(false, true)?;
        self.receive(true, observer)?;
        self.save(observer)
    }

    /// Writes a checkpoint and removes those that need not stay.
    pub(super) fn save(&mut self, observer: &mut dyn Observer) -> Result<()> {
        let paused = Instant::now();
        let parent = self.folder.checkpoints();
        let saved = self.write_checkpoint(&parent)?;
        self.newest = (saved, Some(self.progress.step));
        if self.group.is_first() {
            let newest = self.engine.config.train.keep;
            Retention { newest }.apply(&parent)?;
            observer.checkpoint(self.progress.step, &parent);
        }
        self.logged += paused.elapsed();
        Ok(())
    }

    /// All files of a checkpoint but the state's, and what its listing states; the state's digest is taken last. The
    /// text says which parameter is not finite, and is empty where all are.
    pub(super) fn contents(
        &mut self,
        optimizer: impl FnOnce() -> Result<String>,
    ) -> Result<(Digests, Files, String)> {
        // One download serves the digest, which hashes the words in the order of the names and so
        // is not the tree that the device computes for the chain, and the file.
        let (parameters, model) = {
            let snapshot = self.engine.weights().snapshot()?;
            (snapshot.digest(), snapshot.to_safetensors()?)
        };
        let spoilt = hlx_nn::check_finite(&model).err();
        let spoilt = spoilt.map_or_else(String::new, |error| error.to_string());
        let digests = Digests {
            step: self.progress.step,
            specification: SPECIFICATION,
            parameters,
            optimizer: optimizer()?,
            config: self.engine.config.identity_digest()?,
            data: self.engine.task.digest().to_owned(),
            loss: self
                .progress
                .ranking_loss
                .or(self.progress.epoch_loss.mean()),
            non_finite: self.watch.take_since_save() || !spoilt.is_empty(),
            previous: self.newest.0.clone(),
            record: match &self.files {
                Some(files) => files.last_record(),
                None => String::new(),
            },
            place: place::of(self.engine.device.arithmetic(), &self.engine.device),
            files: Default::default(),
            seal: String::new(),
        };
        let sizes = self.engine.task.sizes().to_bytes()?;
        let mut files = vec![(hlx_nn::MODEL_FILE, model), (hlx_nn::CONFIG_FILE, sizes)];
        if let Some(state) = self.engine.schedule_state() {
            files.push((SCHEDULE_FILE, schedule_state_bytes(state)?));
        }
        if let Some(lora) = self.engine.config.lora() {
            files.push((LORA_FILE, lora_to_bytes(&lora)?));
        }
        if let Some(base) = StatedBase::of(&self.engine.config)? {
            files.push((BASE_FILE, base.to_bytes()?));
        }
        if self.engine.config.train.is_watched() {
            files.push((MONITOR_FILE, self.monitor.to_bytes()?));
        }
        // A checkpoint names a record of the chain, which must not be lost.
        if let Some(files) = &mut self.files {
            files.flush()?;
        }
        Ok((digests, files, spoilt))
    }
}
