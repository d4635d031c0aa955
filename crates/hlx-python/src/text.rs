//! Tokenizers, chat templates, and token shards of texts.
