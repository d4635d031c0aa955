//! Text for language models: tokenizers, token shards, and the batches to train on.
//!
//! A [`Tokenizer`] is bytes, characters, or any `tokenizer.json`; [`BpeTrainer`] trains one.
//! [`prepare`] makes [`TokenShards`] of text, JSON lines and chats; a [`ChatTemplate`] lays messages
//! out. [`TokenShards`] are tokens on disk, mapped: made by [`prepare`] or a [`ShardWriter`], or nanoGPT's and llm.c's
//! files. [`Windows`], [`PaddedDocuments`] and [`PackedDocuments`] make batches of them. A batch is a
//! function of the tokens, the seed and the number of its first sample: a cursor is one number.
//!
//! ```
//! use hlx_text::{Document, TokenSamples, TokenShards, Windows};
//!
//! let documents = [Document::new((0..100).collect()), Document::new((0..50).collect())];
//! let shards = TokenShards::from_documents(100, &documents)?;
//! let windows = Windows::new(shards.clone(), 0..shards.len(), 16, 7)?;
//! let (rows, step) = (8, 3);
//! let batch = windows.batch(step * rows as u64, rows)?;
//! assert_eq!((batch.rows, batch.time, batch.ids.len()), (8, 16, 128));
//! # Ok::<(), hlx_text::TextError>(())
//! ```

mod batch;
mod chat;
mod error;
mod guard;
mod jinja;
mod preparation;
mod prepare;
mod shards;
mod tokenizer;

pub use batch::{PackedDocuments, PaddedDocuments, TokenBatch, TokenSamples, Windows};
pub use chat::{ChatInput, ChatTemplate, ChatValue, Message};
pub use error::TextError;
pub use preparation::{DocumentCounts, PREPARATION_FILE, Preparation};
pub use prepare::{
    Companion, HEAD, PrepareOptions, PrepareProgress, ScanOptions, SourceFormat,
    characters_of_files, count_words, no_text, prepare,
};
pub use shards::{Document, ShardOptions, ShardWriter, TokenRange, TokenShards, TokenSplit};
pub use tokenizer::{
    BpeTrainer, ChatTemplates, DecodeStream, SPECIAL_TOKENS_MAP_FILE, SpecialTokens,
    TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, Tokenizer, TokenizerFiles, WordCounts,
};

/// The result of an operation on text.
pub type Result<T, E = TextError> = std::result::Result<T, E>;
