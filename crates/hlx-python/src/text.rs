//! Tokenizers, chat templates, and token shards of texts.

mod chat;
mod ids;
pub mod prepare;
pub mod shards;
pub mod stream;
pub mod tokenizer;
pub mod training;
mod work;
