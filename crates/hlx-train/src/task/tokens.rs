//! A language model over token shards.

use anyhow::{Context as _, Result, ensure};
use hlx_autograd::{IGNORE_INDEX, Tensor};
use hlx_nn::{CausalModel, ForwardContext, LanguageModel, Model, Module, Weights};
use hlx_text::{
    PackedDocuments, PaddedDocuments, Part, TokenBatch, TokenSamples, TokenShards, TokenSplit,
    Tokenizer, Windows,
};

use super::language::flops_per_token;
use super::tokens_ahead::{RowLayout, TokensAhead};
use super::{Batch, BatchSizes, RowTensors, Sizes, Task, Tokens};
use crate::config::{Config, RowKind, SampleSection};
use crate::data::{Batches, Split};
use crate::evaluate::{Evaluation, row_losses};
use crate::generate::{TokenGeneration, TokenRecord, write_texts};

/// Padded rows are rounded up to a multiple of this, so that few shapes are recorded. No bit depends on it.
const TIME_MULTIPLE: usize = 8;

/// A language model that predicts the next token of prepared data.
///
/// Samples are numbered over the rows in order: first those of the part that is trained on, then those of
/// the part that is held out. Training draws its rows itself (see [`Task::batches`]).
pub struct TokenTask {
    /// The model.
    pub model: Model<LanguageModel>,
    /// The tokens, and the tokenizer that made them.
    pub data: Tokens,
    kind: RowKind,
    length: usize,
    seed: u64,
    split: TokenSplit,
    /// Threads that make the rows of training.
    workers: usize,
    /// The rows of training, without end; `None` where nothing is trained on.
    ahead: Option<TokensAhead>,
    /// The rows of each part in order; `None` of a part with nothing to predict.
    in_order: [Option<Box<dyn TokenSamples>>; 2],
}

impl TokenTask {
    /// Puts a task together.
    ///
    /// # Errors
    /// Data without a tokenizer for the configuration's samples.
    pub fn new(model: Model<LanguageModel>, data: Tokens, config: &Config) -> Result<Self> {
        let (kind, length) = (config.data.rows(), config.row_length());
        let split = data.shards.split(config.data.eval_fraction)?;
        ensure!(
            data.tokenizer.is_some() || config.sample.prompts.is_empty(),
            "sample.prompts: the data have no tokenizer beside them"
        );
        let mut task = Self {
            model,
            kind,
            length,
            seed: config.seed,
            workers: config.data.workers(),
            ahead: None,
            in_order: [None, None],
            data,
            split,
        };
        task.in_order = [
            task.rows_in_order(&task.split.train)?,
            task.rows_in_order(&task.split.eval)?,
        ];
        Ok(task)
    }

    /// The documents of the part that is held out, or of all, as records: the answer is what is trained
    /// on at a document's end, behind what is not.
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

    /// The rows of a part in order, if it has any.
    fn rows_in_order(&self, part: &Part) -> Result<Option<Box<dyn TokenSamples>>> {
        let Part { tokens, documents } = part.clone();
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

    fn layout(&self) -> RowLayout {
        RowLayout {
            shards: self.data.shards.clone(),
            kind: self.kind,
            vocabulary: self.model.vocabulary(),
        }
    }

    /// The rows in order of each part.
    fn counts(&self) -> [usize; 2] {
        let count = |rows: &Option<Box<dyn TokenSamples>>| {
            let rows = rows.as_ref().and_then(|rows| rows.per_epoch());
            rows.unwrap_or(0) as usize
        };
        [count(&self.in_order[0]), count(&self.in_order[1])]
    }

    /// The rows in order that begin with sample `first`, of one part.
    fn in_order(&self, first: usize, rows: usize) -> Result<TokenBatch> {
        let n_train = self.counts()[0];
        let (part, first) = match first < n_train {
            true => (0, first),
            false => (1, first - n_train),
        };
        let samples = self.in_order[part].as_ref();
        let samples = samples.context("the data hold nothing to predict")?;
        Ok(samples.batch(first as u64, rows)?)
    }
}

impl Task for TokenTask {
    fn weights(&self) -> &Weights {
        self.model.weights()
    }

    fn module(&self) -> &dyn Module {
        self.model.module()
    }

    fn sizes(&self) -> Sizes {
        Sizes::Language(self.model.config())
    }

    fn digest(&self) -> &str {
        self.data.shards.digest()
    }

    fn n_samples(&self) -> usize {
        self.counts().iter().sum()
    }

    /// The end of the data is held out, as the configuration says that the task was made with.
    fn split(&self, _fraction: f64, _seed: u64) -> Split {
        let [n_train, n_eval] = self.counts();
        Split {
            train: (0..n_train).collect(),
            eval: (n_train..n_train + n_eval).collect(),
        }
    }

    /// An epoch has as many rows as the part has in order, rounded up to whole batches.
    fn batches(&self, train: &[usize], batch_size: usize, _seed: u64) -> Batches {
        Batches::drawn(train.len(), batch_size)
    }

    fn prepare_training(&mut self) -> Result<()> {
        let Part { tokens, documents } = self.split.train.clone();
        let (shards, time, seed) = (self.data.shards.clone(), self.length, self.seed);
        let windows = || Windows::new(shards.clone(), tokens, time, seed);
        let drawn: Box<dyn TokenSamples> = match self.kind {
            RowKind::Windows => Box::new(windows()?),
            RowKind::SeparateWindows => Box::new(windows()?.with_separate_documents()),
            RowKind::Packed => Box::new(PackedDocuments::new(shards, documents, time, seed)?),
            RowKind::Padded => {
                let rows = PaddedDocuments::new(shards, documents, time, seed)?;
                Box::new(rows.with_time_multiple(TIME_MULTIPLE))
            }
        };
        self.ahead = Some(TokensAhead::new(drawn, self.layout(), self.workers));
        Ok(())
    }

    /// Rows of an epoch follow those of the epoch before: the number of the first is the cursor.
    fn batch(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch> {
        let ahead = self.ahead.as_ref();
        let ahead = ahead.context("the data hold nothing to train on")?;
        let (size, first) = (sizes.batch_size, samples.first().copied().unwrap_or(0));
        let per_epoch = self.counts()[0].div_ceil(size) as u64;
        ahead.batch(epoch * per_epoch + (first / size) as u64, sizes)
    }

    fn forward(&self, rows: &RowTensors, context: &ForwardContext) -> hlx_nn::Result<Tensor> {
        rows.logits_of(self.model.module(), context)
    }

    fn forward_with_balance(
        &self,
        rows: &RowTensors,
        context: &ForwardContext,
    ) -> hlx_nn::Result<(Tensor, Option<Tensor>)> {
        self.model.logits_and_balance(&rows.input(), context)
    }

    /// A row's loss does not depend on the batch that it is in, and the rows' sums are added in the
    /// order of `samples`.
    fn evaluate(&self, samples: &[usize], batch_size: usize) -> Result<Evaluation> {
        let (mut sum, mut n_tokens) = (0.0, 0);
        let (n_train, mut rest) = (self.counts()[0], samples);
        let layout = self.layout();
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
            let rows = layout.rows(self.in_order(first, rows)?)?;
            let losses = row_losses(&self.model, &rows)?;
            let time = rows.shape[1];
            for (losses, targets) in losses.chunks(time).zip(rows.targets.chunks(time)) {
                let counted = losses.iter().zip(targets);
                let counted = counted.filter(|(_, target)| **target != IGNORE_INDEX);
                n_tokens += counted.clone().count() as u64;
                sum += counted.map(|(&loss, _)| f64::from(loss)).sum::<f64>();
            }
        }
        let loss = sum / n_tokens.max(1) as f64;
        Ok(Evaluation::of_tokens(loss, n_tokens, samples.len() as u64))
    }

    fn n_classes(&self) -> usize {
        self.model.vocabulary()
    }

    fn flops_per_input(&self) -> Option<f64> {
        Some(flops_per_token(&self.model, self.length))
    }

    fn is_language(&self) -> bool {
        true
    }

    fn samples(&self, section: &SampleSection, seed: u64) -> Result<Vec<String>> {
        let tokenizer = self.data.tokenizer.as_ref();
        let tokenizer = tokenizer.context("the data have no tokenizer beside them")?;
        let prompts = section.prompts.iter();
        let prompts = prompts.map(|prompt| tokenizer.encode_with_specials(prompt));
        let prompts = prompts.collect::<Result<Vec<_>, _>>()?;
        let ends = tokenizer.specials().eos.into_iter().collect();
        let options = TokenGeneration::new(section.max_tokens(), section.sampling(seed), ends);
        let parts = (self.model.module(), tokenizer);
        write_texts(parts, &prompts, &options, &[], &mut |_, _| {})
    }

    fn as_tokens(&self) -> Option<&TokenTask> {
        Some(self)
    }
}

impl Tokens {
    /// Opens a folder of shards with the tokenizer in it, or a single file of tokens.
    ///
    /// # Errors
    /// One line with the file: shards that are damaged, a tokenizer that did not make them.
    pub fn open(path: &std::path::Path) -> Result<Self> {
        let shards = TokenShards::open(path)?;
        let file = path.join(hlx_text::TOKENIZER_FILE);
        let tokenizer = match file.is_file() {
            true => Some(Tokenizer::open(&file)?),
            false => None,
        };
        if let (Some(tokenizer), Some(stated)) = (&tokenizer, shards.tokenizer_digest()) {
            ensure!(
                tokenizer.digest() == stated,
                "{}: is not the tokenizer that made the tokens: its SHA-256 is {}, the index says {stated}",
                file.display(),
                tokenizer.digest()
            );
        }
        Ok(Self { shards, tokenizer })
    }

    /// The number of different tokens, and whether they are those of a tokenizer: the words of other
    /// programs' files only have room for so many.
    pub fn vocabulary(&self) -> (usize, bool) {
        let is_known = self.shards.tokenizer_digest().is_some();
        (self.shards.vocabulary_size(), is_known)
    }
}
