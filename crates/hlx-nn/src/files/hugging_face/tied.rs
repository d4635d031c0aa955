//! A tied output: one matrix for embedding and output, or a file that has two.

use super::names::Place;
use super::source::TensorSource;
use crate::{Architecture, Result};

/// The output's matrix in every family's files.
pub(super) const HEAD: &str = "lm_head.weight";

/// What is said of a model whose configuration ties what its files hold apart.
pub(super) const UNTIED: &str = "`tie_word_embeddings` is true, and the files have an `lm_head.weight` with other values than the \
     embedding; both are kept, as transformers does, and the model is not tied";

/// The names that the embedding has in files, with the inner model's prefix and without.
const TABLES: [&str; 4] = [
    "model.embed_tokens.weight",
    "embed_tokens.weight",
    "transformer.wte.weight",
    "wte.weight",
];

/// Whether the files have an embedding and an output with different values.
pub(super) fn is_untied(files: &dyn TensorSource, architecture: Architecture) -> Result<bool> {
    let names = match architecture {
        Architecture::Gpt2 => &TABLES[2..],
        _ => &TABLES[..2],
    };
    let table = names
        .iter()
        .find_map(|&name| Some((name, files.shape(name)?)));
    let (Some((name, table)), Some(head)) = (table, files.shape(HEAD)) else {
        return Ok(false);
    };
    // Other shapes are the check's to name.
    Ok(table == head && !files.equal(name, HEAD)?)
}

/// Where the files have the output and no embedding, it is the matrix of both.
pub(super) fn take_the_one_there(files: &dyn TensorSource, places: &mut [Place]) {
    for place in places {
        let is_table = TABLES.contains(&place.name.as_str());
        if is_table && files.shape(&place.name).is_none() && files.shape(HEAD).is_some() {
            HEAD.clone_into(&mut place.name);
        }
    }
}
