//! Tokenizers, chat templates, and token shards of texts.

pub mod tokenizer;
