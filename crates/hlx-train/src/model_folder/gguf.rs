//! Models of GGUF files, widened to f32, and models written as such files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::Device;
use hlx_core::files::Output;
use hlx_gguf::{Gguf, GgufError, GgufModel, NewKinds, NewModel, NewTokenizer, StoredPlace};
use hlx_nn::{
    CausalConfig, NnError, TensorSource, hugging_face_config, hugging_face_tensors, import_tensors,
    model_files, parse_hugging_face_config,
};
use hlx_text::Tokenizer;

use super::open;
use super::stated::tokenizer_of;
use super::write::{FolderKind, NewFolder, files_of, folders_of};
use crate::special_tokens::SpecialTokens;

/// Tensors of a file in f32.
struct Widened<'a>(&'a GgufModel);

impl TensorSource for Widened<'_> {
    fn path(&self) -> &Path {
        self.0.file().path()
    }

    fn names(&self) -> Vec<&str> {
        self.0.places().map(|(name, _)| name).collect()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.0
            .place(name)
            .map(|place: &StoredPlace| &place.shape[..])
    }

    fn values(&self, name: &str) -> Result<Vec<f32>, NnError> {
        let fail = |reason: String| NnError::File {
            path: self.path().display().to_string(),
            reason,
        };
        let values = self.0.values(name);
        let values = values.map_err(|error| fail(error.to_string()))?;
        let n = values.iter().filter(|value| !value.is_finite()).count();
        match n {
            0 => Ok(values),
            1 => Err(fail(format!("{name} holds 1 NaN or infinite value"))),
            n => Err(fail(format!("{name} holds {n} NaN or infinite values"))),
        }
    }
}

/// Reads a GGUF file, and its siblings if it is one of several, and writes its model with all values in f32 as a model
/// folder of HLX, with the tokenizer of its metadata. Returns the number of parameters.
///
/// # Errors
/// A file that is damaged, or has what is not known: a type of values, an architecture, a key, a tensor, a tokenizer;
/// as [`NewFolder::at`], and the system's message.
pub fn import_gguf(from: &Path, to: &Path) -> Result<usize> {
    let model = GgufModel::new(Gguf::open(from)?)?;
    let read: Vec<PathBuf> = model.file().paths().map(Path::to_owned).collect();
    let new = NewFolder::at(to, FolderKind::Imported, &read)?;
    let tokenizer = model.file().tokenizer_files()?;
    let found = import_tensors(&Device::cpu()?, &model.config_json(), &Widened(&model))?;
    new.write(&model_files(&found)?, &tokenizer)?;
    Ok(found.weights().n_elements())
}

/// Writes a model and its tokenizer as a GGUF file. Returns the bytes of its tensors.
///
/// # Errors
/// A model or a tokenizer that such files have no place for; a file that is one of those that are read; as [`open`],
/// and the system's message.
pub fn export_gguf(from: &Path, to: &Path, kinds: NewKinds) -> Result<u64> {
    let read = folders_of(from)?;
    let output = Output::at(to).and_then(|output| output.apart_from(&files_of(&read)));
    output.with_context(|| to.display().to_string())?;
    let model = open(&Device::cpu()?, from, None)?;
    let named = || from.display().to_string();
    ensure!(
        !model.weights().has_lora(),
        "{}: has adapters; `hlx lora --merge` writes a model without",
        named()
    );
    let config = model.config();
    let json = hugging_face_config(config)?;
    let weights = model.weights();
    let tensors = hugging_face_tensors(weights, weights.values(), config.family())?;
    let shapes: Vec<(String, Vec<usize>)> = tensors
        .iter()
        .map(|(name, shape, _)| (name.clone(), shape.clone()))
        .collect();
    let mut new = NewModel::of(&json, &shapes, kinds).with_context(named)?;
    check_described(config, &new).with_context(named)?;
    if let (Some(tokenizer), specials) = tokenizer_of(&read[0])? {
        add_tokenizer(&mut new, &tokenizer, &specials, config.vocabulary).with_context(named)?;
    }
    let values = tensors.into_iter().map(|(name, _, values)| (name, values));
    let mut values: BTreeMap<String, Vec<f32>> = values.collect();
    let take = |name: &str| {
        let found = values.remove(name);
        found.ok_or_else(|| GgufError::Argument {
            op: "export_gguf",
            reason: format!("{name} is missing"),
        })
    };
    new.write(to, take, |_| None)?;
    let bytes = new.tensors().iter().filter_map(|tensor| {
        let columns = tensor.shape.last()?;
        let rows: usize = tensor.shape.iter().rev().skip(1).product();
        Some(tensor.kind.bytes_of(*columns)? as u64 * rows as u64)
    });
    Ok(bytes.sum())
}

/// Fails for a model that a reader of the file would take for another one.
fn check_described(config: &CausalConfig, new: &NewModel) -> Result<()> {
    let read = parse_hugging_face_config(&new.config_as_read()?).map_err(anyhow::Error::msg)?;
    // What only training knows, and names of parameters, are not in the file.
    let experts = read.experts.map(|experts| hlx_nn::ExpertsConfig {
        balance_coefficient: config
            .experts
            .as_ref()
            .map_or(0.0, |own| own.balance_coefficient),
        ..experts
    });
    let read = CausalConfig {
        dropout: config.dropout,
        attention_dropout: config.attention_dropout,
        layout: config.layout,
        experts,
        ..read
    };
    ensure!(
        read == *config,
        "the model has what a GGUF file of its architecture cannot state"
    );
    Ok(())
}

/// Adds the tokenizer and its special tokens.
fn add_tokenizer(
    new: &mut NewModel,
    tokenizer: &Tokenizer,
    specials: &SpecialTokens,
    vocabulary: usize,
) -> Result<()> {
    let json = tokenizer.to_tokenizer_json();
    let own = tokenizer.specials();
    // The tokenizer's own end, if answers end there.
    let ends_there = own.eos.filter(|eos| specials.ends.contains(eos));
    let eos = ends_there.or_else(|| specials.ends.first().copied());
    let mut others = specials
        .ends
        .iter()
        .copied()
        .filter(|&end| Some(end) != eos);
    let begins = tokenizer.text_begin();
    let bos = specials.bos.or(own.bos).or_else(|| begins.first().copied());
    let ends = tokenizer.text_end();
    let stated =
        |around: &[u32], token: Option<u32>| around.is_empty() || around == token.as_slice();
    ensure!(
        stated(begins, bos) && stated(ends, eos),
        "the tokenizer puts {begins:?} and {ends:?} around a text, and a GGUF file can state {bos:?} and {eos:?}"
    );
    let described = NewTokenizer {
        json: json.as_bytes(),
        vocabulary,
        bos,
        eos,
        eot: others.next(),
        pad: specials.pad.or(own.pad),
        adds_bos: !begins.is_empty(),
        adds_eos: !ends.is_empty(),
        chat_template: tokenizer.chat_template(),
    };
    described.add_to(new.metadata_mut())?;
    Ok(())
}
