//! A language model over token shards.

use anyhow::{Context as _, Result, ensure};
use hlx_nn::{CausalLm, CausalModel, Model};
use hlx_text::{
    PackedDocuments, PaddedDocuments, Preparation, TokenRange, TokenSamples, TokenShards,
    Tokenizer, Windows,
};

use super::prepared::TIME_MULTIPLE;
use super::tokens_ahead::TokensAhead;
use super::{PreparedRows, SampleText, Samples, Tokens};
use crate::config::{Config, RowKind, SampleSection};
use crate::data::{Batches, Split};
use crate::evaluate::{Evaluation, SampleLoss, mean_over_tokens};
use crate::generate::{TokenGeneration, each_text, encode_prompt, tell_texts};
use crate::rows::{Batch, BatchSizes};
use crate::special_tokens::SpecialTokens;

/// A language model that predicts the next token of prepared data.
///
/// Samples are numbered over the rows in order: first those of the part that is trained on, then those of
/// the part that is held out. Training draws its rows itself (see [`Samples::batches`]).
pub struct TokenTask {
    /// The model.
    pub model: Model<CausalLm>,
    /// The rows that it is evaluated on.
    pub rows: PreparedRows,
    seed: u64,
    /// Whether the balance loss of experts is trained on.
    is_balanced: bool,
    /// Threads that make the rows of training.
    workers: usize,
    /// The tokens that end a sample.
    ends: Vec<u32>,
    /// The rows of training, without end; `None` where nothing is trained on.
    ahead: Option<TokensAhead>,
}

impl TokenTask {
    /// Puts a task together.
    ///
    /// # Errors
    /// Data without a tokenizer for the configuration's samples.
    pub fn new(model: Model<CausalLm>, data: Tokens, config: &Config) -> Result<Self> {
        ensure!(
            data.tokenizer.is_some() || config.sample.prompts.is_empty(),
            "sample.prompts: the data have no tokenizer beside them"
        );
        let (kind, length) = (config.data.rows(), config.row_length());
        let begins_with = config.begins_with();
        let ends = match &data.tokenizer {
            Some(tokenizer) if !config.sample.prompts.is_empty() => {
                SpecialTokens::of_run(begins_with, tokenizer)?.ends
            }
            _ => Vec::new(),
        };
        Ok(Self {
            model,
            rows: PreparedRows::new(data, kind, length, config.data.eval_fraction)?,
            seed: config.seed,
            is_balanced: config.train.router_balance.is_some(),
            workers: config.data.workers(),
            ends,
            ahead: None,
        })
    }

    fn ahead(&self) -> Result<&TokensAhead> {
        let ahead = self.ahead.as_ref();
        ahead.context("the data hold nothing to train on")
    }

    /// The number of an epoch's batch over all epochs.
    fn number_of(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> u64 {
        let (size, first) = (sizes.batch_size, samples.first().copied().unwrap_or(0));
        let per_epoch = self.rows.counts()[0].div_ceil(size) as u64;
        epoch * per_epoch + (first / size) as u64
    }

    /// Prepares what batches are drawn from.
    ///
    /// # Errors
    /// Data with nothing to train on.
    pub(super) fn prepare_training(&mut self) -> Result<()> {
        self.rows.check_labels()?;
        let TokenRange { tokens, documents } = self.rows.split.train.clone();
        let shards = self.rows.data.shards.clone();
        let (time, seed) = (self.rows.length(), self.seed);
        let windows = || Windows::new(shards.clone(), tokens, time, seed);
        let drawn: Box<dyn TokenSamples> = match self.rows.kind() {
            RowKind::Windows => Box::new(windows()?),
            RowKind::SeparateWindows => Box::new(windows()?.with_separate_documents()),
            RowKind::Packed => Box::new(PackedDocuments::new(shards, documents, time, seed)?),
            RowKind::Padded => {
                let rows = PaddedDocuments::new(shards, documents, time, seed)?;
                Box::new(rows.with_time_multiple(TIME_MULTIPLE))
            }
        };
        let layout = self.rows.layout(self.model.vocabulary(), self.is_balanced);
        self.ahead = Some(TokensAhead::new(drawn, layout, self.workers));
        Ok(())
    }

    /// As [`LanguageTask::texts`](super::LanguageTask::texts).
    pub(super) fn texts(&self, section: &SampleSection, seed: u64) -> Vec<SampleText> {
        let Some(tokenizer) = &self.rows.data.tokenizer else {
            return vec![
                Err("the data have no tokenizer beside them".to_owned());
                section.prompts.len()
            ];
        };
        let model = self.model.module();
        let prompts = section.prompts.iter();
        let preparation = self.rows.data.preparation.clone();
        let preparation = preparation.unwrap_or_else(|| Preparation::of(tokenizer));
        let prompts =
            prompts.map(|prompt| encode_prompt(model, tokenizer, &preparation, prompt, false));
        let sampling = section.sampling(seed);
        let options = TokenGeneration::new(section.max_tokens(), sampling, self.ends.clone());
        each_text(prompts.collect(), |prompts, tell| {
            tell_texts(model, tokenizer, prompts, &options, &[], tell)
        })
    }
}

impl Samples for TokenTask {
    fn digest(&self) -> &str {
        &self.rows.data.digest
    }

    fn n_samples(&self) -> usize {
        self.rows.counts().iter().sum()
    }

    /// The end of the data is held out, as the configuration says that the task was made with.
    fn split(&self, _fraction: f64, _seed: u64) -> Split {
        let [n_train, n_eval] = self.rows.counts();
        Split {
            train: (0..n_train).collect(),
            eval: (n_train..n_train + n_eval).collect(),
        }
    }

    /// An epoch has as many rows as the part has in order, rounded up to whole batches.
    fn batches(&self, train: &[usize], batch_size: usize, _seed: u64) -> Batches {
        Batches::drawn(train.len(), batch_size)
    }

    /// Rows of an epoch follow those of the epoch before: the number of the first is the cursor.
    fn batch(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch> {
        self.ahead()?
            .batch(self.number_of(samples, epoch, sizes), sizes)
    }

    fn batch_apart(&self, samples: &[usize], epoch: u64, sizes: BatchSizes) -> Result<Batch> {
        self.ahead()?
            .batch_apart(self.number_of(samples, epoch, sizes), sizes)
    }

    fn sample_losses(&self, samples: &[usize], batch_size: usize) -> Result<Vec<SampleLoss>> {
        self.rows.sample_losses(&self.model, samples, batch_size)
    }

    fn mean(&self, losses: &[SampleLoss]) -> Evaluation {
        mean_over_tokens(losses)
    }
}

impl Tokens {
    /// Opens a folder of shards with the tokenizer in it, or a single file of tokens.
    ///
    /// # Errors
    /// One line with the file: shards that are damaged, a tokenizer that did not make them.
    pub fn open(path: &std::path::Path) -> Result<Self> {
        Self::open_with(path, None)
    }

    /// As [`Tokens::open`], with the digest of the tokens where another process has computed it.
    ///
    /// # Errors
    /// As [`Tokens::open`].
    pub fn open_with(path: &std::path::Path, digest: Option<String>) -> Result<Self> {
        let mut shards = TokenShards::open(path)?;
        if let Some(digest) = digest {
            shards = shards.with_digest(digest);
        }
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
        let digest = shards.digest()?.to_owned();
        let preparation = match path.is_dir() {
            true => Preparation::read(path)?,
            false => None,
        };
        Ok(Self {
            shards,
            tokenizer,
            preparation,
            digest,
        })
    }

    /// The number of different tokens, and whether they are those of a tokenizer: the words of other
    /// programs' files only have room for that many.
    pub fn vocabulary(&self) -> (usize, bool) {
        let is_known = self.shards.tokenizer_digest().is_some();
        (self.shards.vocabulary_size(), is_known)
    }
}
