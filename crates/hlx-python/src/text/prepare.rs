//! Files of texts to token shards.

use std::path::PathBuf;

use hlx_text::{
    Companion, PrepareOptions, PrepareProgress, SPECIAL_TOKENS_MAP_FILE, SourceFormat,
    TOKENIZER_CONFIG_FILE, prepare,
};
use hlx_train::model_folder::{CHAT_TEMPLATE_FILE, PROCESSOR_TEMPLATE_FILE};
use pyo3::prelude::*;

use super::shards::PyShards;
use super::tokenizer::PyTokenizer;
use super::work::work;
use crate::error::value_error;
use crate::warnings::warned;

/// What goes beside the shards of the files that lay beside a tokenizer.
const COMPANIONS: [&str; 4] = [
    TOKENIZER_CONFIG_FILE,
    SPECIAL_TOKENS_MAP_FILE,
    PROCESSOR_TEMPLATE_FILE,
    CHAT_TEMPLATE_FILE,
];

/// A format of files by its name.
///
/// # Errors
/// Another name.
pub fn format_of(operation: &str, name: Option<&str>) -> PyResult<Option<SourceFormat>> {
    Ok(Some(match name {
        None => return Ok(None),
        Some("text") => SourceFormat::Text,
        Some("jsonl") => SourceFormat::Jsonl,
        Some("tokens") => SourceFormat::Tokens,
        Some(other) => {
            return Err(value_error(format!(
                "{operation}: format is {other:?}, expected \"text\", \"jsonl\" or \"tokens\""
            )));
        }
    }))
}

fn companions(tokenizer: &PyTokenizer, template: Option<&str>) -> Vec<Companion> {
    let files = tokenizer.tokenizer.files();
    let files = files.into_iter().flat_map(|files| files.files());
    let is_replaced = |name: &str| template.is_some() && name == CHAT_TEMPLATE_FILE;
    let beside = files.filter(|(name, _)| COMPANIONS.contains(name) && !is_replaced(name));
    let given = template.map(|text| (CHAT_TEMPLATE_FILE, text.as_bytes()));
    let all = beside.chain(given).map(|(name, bytes)| Companion {
        name: name.to_owned(),
        bytes: bytes.to_vec(),
    });
    all.collect()
}

/// Tokenises files into a folder of shards.
#[pyfunction]
#[pyo3(signature = (
    inputs, out, tokenizer, *, format, separator, pair_separator, chat_template, date, begin, end, shard_tokens, threads,
    progress
))]
#[expect(
    clippy::too_many_arguments,
    reason = "the package's Python names all but the first three"
)]
pub fn prepare_texts(
    py: Python<'_>,
    inputs: Vec<PathBuf>,
    out: PathBuf,
    tokenizer: &PyTokenizer,
    format: Option<&str>,
    separator: Option<String>,
    pair_separator: Option<String>,
    chat_template: Option<String>,
    date: Option<String>,
    begin: Option<bool>,
    end: bool,
    shard_tokens: Option<u64>,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyShards> {
    let mut options = PrepareOptions::new(inputs, out.clone());
    options.format = format_of("prepare", format)?;
    options.companions = companions(tokenizer, chat_template.as_deref());
    options.separator = separator;
    options.pair_separator = pair_separator;
    options.template = chat_template;
    options.date = date;
    options.begin = begin;
    options.end = end;
    options.shard_tokens = shard_tokens.unwrap_or(options.shard_tokens);
    options.threads = threads.unwrap_or(options.threads);
    let tell = |reached: PrepareProgress| match progress {
        Some(function) => {
            let told = (reached.done, reached.n_bytes, reached.n_tokens);
            function.call1(told).map(drop)
        }
        None => Ok(()),
    };
    let tokenizer = &tokenizer.tokenizer;
    let shards = warned(py, || {
        work(py, tell, |teller| {
            prepare(&options, tokenizer, |reached| teller.tell(*reached))
        })
    })?;
    shards.map(PyShards::new)
}
