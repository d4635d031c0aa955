//! Prepared tokens as rows in order: what a language model is evaluated on.

use std::sync::OnceLock;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_autograd::IGNORE_INDEX;
use hlx_nn::{CausalLm, CausalModel};
use hlx_text::{
    PackedDocuments, PaddedDocuments, TokenBatch, TokenRange, TokenSamples, TokenSplit, Windows,
};

use super::tokens_ahead::RowLayout;
use super::{Labels, Tokens};
use crate::config::RowKind;
use crate::evaluate::{Evaluation, SampleLoss, mean_over_tokens};
use crate::generate::TokenRecord;
use crate::rows::row_losses;

/// Padded rows are rounded up to a multiple of this, so that few shapes are recorded. No bit depends on it.
pub(super) const TIME_MULTIPLE: usize = 8;

/// The rows of prepared tokens in order: first those of the part that is trained on, then those of the part
/// that is held out.
pub struct PreparedRows {
    /// The tokens, and the tokenizer that made them.
    pub data: Tokens,
    kind: RowKind,
    length: usize,
    eval_fraction: f64,
    pub(super) split: TokenSplit,
    /// The rows of each part; `None` of a part with nothing to predict.
    in_order: [Option<Box<dyn TokenSamples>>; 2],
    /// Counted once: it takes a pass over the masks.
    labels: OnceLock<[Option<Labels>; 2]>,
}

impl PreparedRows {
    /// Cuts tokens into rows of at most `length` predicted tokens; `eval_fraction` of them, from 0 to below 1,
    /// are the part that is held out.
    ///
    /// # Errors
    /// Shards that are damaged, or a fraction out of range.
    pub fn new(data: Tokens, kind: RowKind, length: usize, eval_fraction: f64) -> Result<Self> {
        let split = data.shards.split(eval_fraction)?;
        let mut rows = Self {
            data,
            kind,
            length,
            eval_fraction,
            labels: OnceLock::new(),
            split,
            in_order: [None, None],
        };
        rows.in_order = [
            rows.of_part(&rows.split.train)?,
            rows.of_part(&rows.split.eval)?,
        ];
        Ok(rows)
    }

    /// The rows of a part, if it has any.
    fn of_part(&self, part: &TokenRange) -> Result<Option<Box<dyn TokenSamples>>> {
        let TokenRange { tokens, documents } = part.clone();
        let (shards, time) = (self.data.shards.clone(), self.length);
        let is_empty = match self.kind {
            RowKind::Windows | RowKind::SeparateWindows => tokens.end - tokens.start < 2,
            RowKind::Packed | RowKind::Padded => documents.is_empty(),
        };
        if is_empty {
            return Ok(None);
        }
        Ok(Some(match self.kind {
            RowKind::Windows => Box::new(Windows::in_order(shards, tokens, time)?),
            RowKind::SeparateWindows => {
                Box::new(Windows::in_order(shards, tokens, time)?.with_separate_documents())
            }
            RowKind::Packed => Box::new(PackedDocuments::in_order(shards, documents, time)?),
            RowKind::Padded => {
                let rows = PaddedDocuments::in_order(shards, documents, time)?;
                Box::new(rows.with_time_multiple(TIME_MULTIPLE))
            }
        }))
    }

    /// What becomes of a batch for a model of a vocabulary, rows that may end in padding with their lengths or without.
    pub(super) fn layout(&self, vocabulary: usize, has_lengths: bool) -> RowLayout {
        RowLayout {
            shards: self.data.shards.clone(),
            kind: self.kind,
            vocabulary,
            has_lengths,
        }
    }

    /// What a row is.
    pub fn kind(&self) -> RowKind {
        self.kind
    }

    /// The predicted tokens of a row.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The rows of each part.
    pub fn counts(&self) -> [usize; 2] {
        let count = |rows: &Option<Box<dyn TokenSamples>>| {
            let rows = rows.as_ref().and_then(|rows| rows.per_epoch());
            rows.unwrap_or(0) as usize
        };
        [count(&self.in_order[0]), count(&self.in_order[1])]
    }

    /// The rows that begin with number `first`, of one part.
    fn batch(&self, first: usize, rows: usize) -> Result<TokenBatch> {
        let n_train = self.counts()[0];
        let (part, first) = match first < n_train {
            true => (0, first),
            false => (1, first - n_train),
        };
        let samples = self.in_order[part].as_ref();
        let samples = samples.context("the data hold nothing to predict")?;
        Ok(samples.batch(first as u64, rows)?)
    }

    /// The labels of the part that is trained on, and of the part that is held out; `None` of one without rows.
    ///
    /// # Errors
    /// Shards that are damaged.
    pub fn labels(&self) -> Result<[Option<Labels>; 2]> {
        let of = |at: usize, part: &TokenRange| match self.in_order[at] {
            Some(_) => Labels::of(&self.data.shards, part, self.kind, self.length).map(Some),
            None => Ok(None),
        };
        if let Some(labels) = self.labels.get() {
            return Ok(*labels);
        }
        let labels = [of(0, &self.split.train)?, of(1, &self.split.eval)?];
        Ok(*self.labels.get_or_init(|| labels))
    }

    /// Checks that there is something to train on, and that what is held out has a loss.
    ///
    /// # Errors
    /// A part whose rows have no label.
    pub(super) fn check_labels(&self) -> Result<()> {
        for (labels, part) in self.labels()?.into_iter().zip(self.parts()) {
            let Some(labels) = labels.filter(|labels| !labels.has_any) else {
                continue;
            };
            let n = self.length;
            match labels.n_lost {
                0 => {
                    bail!(
                        "data.path: {part} has no token that is trained on: there is no loss over 0 tokens"
                    )
                }
                lost => bail!(
                    "data.length: {part} has no label left: its {lost} records with answers are cut to {n} tokens (data.length) before \
                     the answers begin"
                ),
            }
        }
        Ok(())
    }

    /// What a cut of the records takes away, a line for each part.
    ///
    /// # Errors
    /// Shards that are damaged.
    pub fn warnings(&self) -> Result<Vec<String>> {
        let labels = self.labels()?.into_iter().zip(self.parts());
        let lines = labels.filter_map(|(labels, part)| labels?.warning(part, self.length));
        let mut lines: Vec<String> = lines.collect();
        if self.eval_fraction > 0.0 && self.in_order[1].is_none() {
            let n = self.data.shards.n_documents();
            lines.push(format!(
                "data.eval_fraction is {}, and no row is held out: the data have {n} documents",
                self.eval_fraction
            ));
        }
        Ok(lines)
    }

    /// The parts of the data, in words.
    fn parts(&self) -> [&'static str; 2] {
        match self.in_order[1] {
            Some(_) => ["what is trained on", "what is held out"],
            None => ["the data", "what is held out"],
        }
    }

    /// Computes the mean loss over the rows of these numbers, `batch_size` at a time.
    ///
    /// # Errors
    /// As [`PreparedRows::sample_losses`]; rows of which nothing counts.
    pub fn evaluate(
        &self,
        model: &CausalLm,
        samples: &[usize],
        batch_size: usize,
    ) -> Result<Evaluation> {
        let losses = self.sample_losses(model, samples, batch_size)?;
        mean_over_tokens(&losses).counted()
    }

    /// Computes the losses of the rows of these numbers, `batch_size` at a time. A row's loss does not
    /// depend on the batch that it is in.
    ///
    /// # Errors
    /// A token that the model does not have, shards that are damaged, and what the device reports.
    pub fn sample_losses(
        &self,
        model: &CausalLm,
        samples: &[usize],
        batch_size: usize,
    ) -> Result<Vec<SampleLoss>> {
        let mut found = Vec::with_capacity(samples.len());
        let (n_train, mut rest) = (self.counts()[0], samples);
        let layout = self.layout(model.vocabulary(), false);
        while let Some(&first) = rest.first() {
            // Rows that follow each other, in one part.
            let mut rows = 1;
            while rows < batch_size.min(rest.len())
                && rest[rows] == first + rows
                && rest[rows] != n_train
            {
                rows += 1;
            }
            rest = &rest[rows..];
            let rows = layout.rows(self.batch(first, rows)?)?;
            let losses = row_losses(model, &rows)?;
            let time = rows.shape[1];
            for (losses, targets) in losses.chunks(time).zip(rows.targets.chunks(time)) {
                let counted = losses.iter().zip(targets);
                let counted = counted.filter(|(_, target)| **target != IGNORE_INDEX);
                found.push(SampleLoss {
                    n: counted.clone().count() as u64,
                    sum: counted.map(|(&loss, _)| f64::from(loss)).sum(),
                    ..SampleLoss::default()
                });
            }
        }
        Ok(found)
    }

    /// The documents of the part that is held out, or of all, as records: the answer is what is trained
    /// on at a document's end, after what is not.
    ///
    /// # Errors
    /// A document that is trained on as a whole, or not at its end.
    pub fn records(&self, held_out: bool) -> Result<Vec<TokenRecord>> {
        let documents = match held_out {
            true => self.split.eval.documents.clone(),
            false => 0..self.data.shards.n_documents(),
        };
        let shards = &self.data.shards;
        let record = |number| {
            let range = shards.document(number)?;
            let trained = shards.trained(range.clone())?;
            let n_given = trained.iter().rposition(|is_trained| !is_trained);
            let n_given = n_given.map_or(0, |last| last + 1);
            ensure!(
                (1..trained.len()).contains(&n_given),
                "document {number} is no record of input and output"
            );
            let mut prompt = shards.read(range)?;
            let answer = prompt.split_off(n_given);
            Ok(TokenRecord { prompt, answer })
        };
        documents.map(record).collect()
    }
}
