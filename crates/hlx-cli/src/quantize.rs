//! `hlx quantize`: a model as a GGUF file, with weights of 4 to 8 bits or as floats of 16, and what that costs.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hlx_core::{Arithmetic, Device};
use hlx_gguf::{BlockKind, Gguf, NewKinds, Recipe};
use hlx_train::calibration::{Importance, usual_length};
use hlx_train::generate::TextModel;
use hlx_train::model_folder;
use hlx_train::opening::Opening;
use hlx_train::quality::{Quality, compare};

use crate::DeviceArgument;
use crate::output::output;
use crate::perplexity::{read_text, tokens_of};
use crate::print::say;

#[derive(clap::Args)]
pub struct Arguments {
    /// The run folder, one of its checkpoints, an imported model's or a Hugging Face folder, or a GGUF file.
    model: PathBuf,
    /// How matrices are stored.
    #[arg(long, value_name = "KIND", value_parser = kinds)]
    to: NewKinds,
    /// The file to write.
    #[arg(long, value_name = "FILE.gguf")]
    out: PathBuf,
    /// A file of text like that which the model will see. Errors of weights count as much as their columns do on it.
    #[arg(long, value_name = "FILE")]
    calibrate: Option<PathBuf>,
    /// A file of text to compare the new model with the old one on, another one than that of --calibrate.
    #[arg(long, value_name = "FILE")]
    measure: Option<PathBuf>,
    /// Tokens of a window of these texts; the model's positions, at most 512, if left out.
    #[arg(long, value_name = "N")]
    length: Option<usize>,
    /// The arithmetic of the new model's products in the comparison, portable, integer, fast or fast_f16; the usual one of such a file if
    /// left out.
    #[arg(long, value_name = "NAME", requires = "measure")]
    arithmetic: Option<Arithmetic>,
    #[command(flatten)]
    device: DeviceArgument,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The names of the kinds: recipes of blocks, and floats.
pub(crate) fn kinds(name: &str) -> Result<NewKinds, String> {
    let floats = [BlockKind::F32, BlockKind::F16, BlockKind::BF16];
    let floats = floats.map(|kind| (kind.name().to_lowercase(), NewKinds::Floats(kind)));
    let recipes = Recipe::ALL.map(|recipe| (recipe.name().to_owned(), NewKinds::Recipe(recipe)));
    let all: Vec<(String, NewKinds)> = recipes.into_iter().chain(floats).collect();
    if let Some((_, kinds)) = all.iter().find(|(known, _)| known == name) {
        return Ok(*kinds);
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| &name[..]).collect();
    Err(format!("expected one of {}", names.join(", ")))
}

/// What is printed.
struct Report {
    /// The bytes of the new file's tensors.
    bytes: u64,
    bits_per_weight: f64,
    /// The bytes of the whole file.
    file_bytes: u64,
    /// The comparison, if there is one.
    quality: Option<Quality>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    // What is wrong with a text is said before the work.
    let texts = [&arguments.calibrate, &arguments.measure];
    let read: Vec<PathBuf> = texts.into_iter().flatten().cloned().collect();
    output(&arguments.out, &read)?;
    let [calibration, measured] = texts.map(|path| path.as_deref().map(read_text).transpose());
    let (calibration, measured) = (calibration?, measured?);
    let needs_model = calibration.is_some() || measured.is_some();
    let device = needs_model.then(|| arguments.device.open()).transpose()?;
    let model = device.as_ref().map(|device| arguments.open(device));
    let model = model.transpose()?;
    let importance = match (&model, &calibration, &arguments.calibrate) {
        (Some(model), Some(text), Some(path)) => Some(arguments.importance(model, text, path)?),
        _ => None,
    };
    let (from, out) = (&arguments.model, &arguments.out);
    let bytes = model_folder::export_gguf(from, out, arguments.to, importance.as_ref())?;
    let quality = match (&model, &measured, &arguments.measure) {
        (Some(model), Some(text), Some(path)) => Some(arguments.quality(model, text, path)?),
        _ => None,
    };
    let file = Gguf::open(out)?;
    let n: usize = file.tensors().map(|one| one.rows() * one.columns()).sum();
    let named = || out.display().to_string();
    let report = Report {
        bytes,
        bits_per_weight: bytes as f64 * 8.0 / n as f64,
        file_bytes: std::fs::metadata(out).with_context(named)?.len(),
        quality,
    };
    if arguments.json {
        let line = serde_json::json!({
            "kind": "quantize", "bytes": report.bytes, "bits_per_weight": report.bits_per_weight,
            "file_bytes": report.file_bytes, "quality": report.quality,
        });
        return say!("{line}");
    }
    say!("{bytes} bytes of weights in {}", named())?;
    match report.quality {
        Some(quality) => report.print(&quality),
        None => Ok(()),
    }
}

impl Report {
    fn print(&self, quality: &Quality) -> Result<()> {
        let (loss, divergence) = (quality.loss_difference, quality.divergence);
        say!("bits per weight  {:.3}", self.bits_per_weight)?;
        say!(
            "perplexity       {:.4}, before {:.4}",
            quality.perplexity,
            quality.reference_perplexity
        )?;
        say!(
            "loss             {:+.3e} ± {:.1e} nats a token",
            loss.mean,
            loss.error
        )?;
        say!(
            "divergence       {:.3e} ± {:.1e} nats a token",
            divergence.mean,
            divergence.error
        )?;
        say!("same first token {:.2} %", 100.0 * quality.same_top)?;
        say!(
            "windows          {} of {} tokens",
            quality.windows,
            quality.length
        )
    }
}

impl Arguments {
    /// The model before, in the arithmetic in which importance is the same everywhere.
    fn open(&self, device: &Device) -> Result<TextModel> {
        let opening = Opening {
            arithmetic: Some(Arithmetic::Portable),
            ..Opening::default()
        };
        TextModel::open(device, &self.model, opening)
    }

    fn length(&self, model: &TextModel) -> usize {
        self.length.unwrap_or_else(|| usual_length(&model.model))
    }

    fn importance(&self, model: &TextModel, text: &[u8], path: &Path) -> Result<Importance> {
        let named = || path.display().to_string();
        let (tokens, _) = tokens_of(model, text).with_context(named)?;
        Importance::measure(&model.model, &tokens, self.length(model)).with_context(named)
    }

    fn quality(&self, model: &TextModel, text: &[u8], path: &Path) -> Result<Quality> {
        let named = || path.display().to_string();
        let opening = Opening {
            arithmetic: self.arithmetic,
            ..Opening::default()
        };
        let new = model_folder::open_as(&model.model.device()?, &self.out, opening)?;
        let (tokens, _) = tokens_of(model, text).with_context(named)?;
        compare(&model.model, &new, &tokens, self.length(model)).with_context(named)
    }
}
