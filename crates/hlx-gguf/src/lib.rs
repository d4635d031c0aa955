//! GGUF files: read and written, with their blocks of quantised weights.
//!
//! [`Gguf`] reads a model's files: metadata, and tensors one at a time, as stored bytes or widened to f32 ([`widen`]).
//! A [`Block`] is what an exact product over integers needs of a block. [`GgufModel`] shows a file's model in the form
//! of a Hugging Face folder, and [`NewModel`] makes a file of that form. [`quantise`] makes blocks of values, [`Recipe`]
//! says which, and [`write_gguf`] writes files. `docs/quantised.md` has the formats.
//!
//! This crate knows no device and no model of HLX. It reads files of strangers and never panics on them.

mod blocks;
mod cursor;
mod error;
mod gguf;
mod header;
mod kind;
mod metadata;
mod model;
mod parts;
mod quantise;
mod recipe;
mod tokenizer;
mod value;
mod whole;
mod writer;

pub use blocks::{Block, MOST_GROUPS, MOST_VALUES, narrow, widen};
pub use error::GgufError;
pub use gguf::{Gguf, TensorInfo};
pub use kind::BlockKind;
pub use metadata::Metadata;
pub use model::{GgufModel, NewKinds, NewModel, StoredMatrix, StoredPlace};
pub use quantise::quantise;
pub use recipe::{Recipe, RecipeModel};
pub use tokenizer::{NewTokenizer, TokenizerFile};
pub use value::{Array, Value};
pub use writer::{NewTensor, to_gguf, write_gguf};

/// The result of an operation on GGUF files.
pub type Result<T, E = GgufError> = std::result::Result<T, E>;
