//! `hlx perplexity`: the perplexity of a text by windows that overlap.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::files;
use hlx_train::generate::TextModel;
use hlx_train::perplexity::{perplexity, usual_length};
use hlx_train::run::RunFolder;

use crate::print::say;
use crate::weights::ModelArguments;

#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArguments,
    /// The file of the text.
    #[arg(long, visible_alias = "text", value_name = "FILE")]
    data: PathBuf,
    /// Tokens of a window, which are bytes of a model over bytes; the model's positions, at most 2,048, if
    /// left out.
    #[arg(long, value_name = "N")]
    length: Option<usize>,
    /// Tokens from a window to the next; half of the length if left out. Fewer give more context to each
    /// token, and take longer.
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let file = || arguments.data.display().to_string();
    let text = read_text(&arguments.data)?;
    let model = arguments.model.text_model(&arguments.model.device()?)?;
    let (tokens, what) = tokens_of(&model, &text).with_context(file)?;
    let length = arguments
        .length
        .unwrap_or_else(|| usual_length(&model.model));
    let stride = arguments.stride.unwrap_or((length / 2).max(1));
    let n_bytes = (!model.is_of_bytes()).then_some(text.len() as u64);
    let found = perplexity(&model.model, &tokens, n_bytes, length, stride).with_context(file)?;
    if arguments.json {
        let run = RunFolder::open_checkpoint(&arguments.model.path).ok();
        let line = serde_json::json!({
            "kind": "perplexity", "step": run.map(|(_, checkpoint)| checkpoint.digests.step),
            "length": length, "stride": stride, "perplexity": found,
        });
        say!("{line}")?;
        return Ok(());
    }
    let n = found.n_tokens.unwrap_or(found.n_bytes);
    say!("perplexity {:.4} over {n} {what}", found.perplexity)?;
    say!(
        "loss       {:.5}, {:.5} bits a byte",
        found.loss,
        found.bits_per_byte
    )?;
    say!("windows    of {length} {what}, {stride} apart")?;
    Ok(())
}

/// The bytes of a text, without a mark of their order.
pub fn read_text(path: &Path) -> Result<Vec<u8>> {
    let file = || path.display().to_string();
    let mut text = files::read(path).with_context(file)?;
    if text.starts_with(files::BYTE_ORDER_MARK) {
        text.drain(..files::BYTE_ORDER_MARK.len());
    }
    ensure!(!text.is_empty(), "{}: is empty", file());
    Ok(text)
}

/// The tokens of a text, and what they are called.
pub fn tokens_of(model: &TextModel, text: &[u8]) -> Result<(Vec<u32>, &'static str)> {
    if model.is_of_bytes() {
        return Ok((text.iter().map(|&byte| u32::from(byte)).collect(), "bytes"));
    }
    let text = std::str::from_utf8(text).context("is not UTF-8")?;
    Ok((model.encode_text(text)?, "tokens"))
}
