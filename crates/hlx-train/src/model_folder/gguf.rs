//! Models of GGUF files and of folders in NF4, as stored and widened to f32, and models written as GGUF files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_autograd::DType;
use hlx_core::Device;
use hlx_core::files::{Output, place, read_json};
use hlx_gguf::{BlockKind, Gguf, GgufError, GgufModel, NewKinds, NewModel, NewTokenizer};
use hlx_nn::{
    CONFIG_FILE, CausalConfig, CausalLm, GGUF_FILE, MODEL_FILE, Model, gguf_of,
    hugging_face_config, hugging_face_dtype, hugging_face_tensors, import_in_blocks,
    is_hugging_face_folder, load_language_model, model_files, parse_hugging_face_config,
    write_as_stored,
};
use hlx_text::Tokenizer;

use super::stated::tokenizer_of;
use super::write::{FolderKind, NewFolder, companions, files_of, folders_of, stated_companions};
use super::{is_run, open};
use crate::calibration::Importance;
use crate::special_tokens::SpecialTokens;

/// Reads a GGUF file, and its siblings if it is one of several, and writes its model with all values in f32 as a model
/// folder of HLX, with the tokenizer of its metadata. Returns the number of parameters.
///
/// # Errors
/// A file that is damaged, or has what is not known: a type of values, an architecture, a key, a tensor, a tokenizer;
/// as [`NewFolder::at`], and the system's message.
pub fn import_gguf(from: &Path, to: &Path) -> Result<usize> {
    let read = files_of(&[from.to_owned()]);
    let new = NewFolder::at(to, FolderKind::Imported, &read)?;
    let tokenizer = companions(from)?;
    let found = load_language_model(&Device::cpu()?, from)?;
    new.write(&model_files(&found)?, &tokenizer)?;
    Ok(found.weights().n_elements())
}

/// As [`import_gguf`], with the tensors as they are stored: the folder has `config.json`, the tokenizer's files, and
/// `model.gguf`, one file with all tensors and metadata. `from` may be such a folder too. Returns the bytes of the
/// tensors.
///
/// # Errors
/// As [`import_gguf`], but not for values that are not finite.
pub fn import_blocks(from: &Path, to: &Path) -> Result<u64> {
    let (file, read) = gguf_and_files(from)?;
    let new = NewFolder::at(to, FolderKind::Imported, &read)?;
    let config = config_of(from, &file)?;
    let mut beside = match from.is_file() {
        true => companions(from)?,
        false => stated_companions(from)?,
    };
    beside.push((CONFIG_FILE, config));
    let write = |path: &Path| Ok(file.file().write_whole(path)?);
    new.write_stored(GGUF_FILE, write, &beside)?;
    Ok(file
        .file()
        .tensors()
        .map(|tensor| tensor.n_bytes() as u64)
        .sum())
}

/// Brings a folder in NF4 in as it is stored: `model.safetensors` with all tensors, its configuration and tokenizer. Returns the bytes of
/// the tensors.
///
/// # Errors
/// A folder that is no model, as [`NewFolder::at`], and the system's message.
pub fn import_nf4(from: &Path, to: &Path) -> Result<u64> {
    let new = NewFolder::at(to, FolderKind::Imported, &[from.to_owned()])?;
    // A damaged model is refused, and one that is none.
    import_in_blocks(&Device::cpu()?, from)?;
    let mut beside = stated_companions(from)?;
    let path = place(from, CONFIG_FILE);
    let config = read_json(&path).with_context(|| path.display().to_string())?;
    beside.push((CONFIG_FILE, config));
    let mut n_bytes = 0;
    let write = |path: &Path| {
        n_bytes = write_as_stored(from, path)?;
        Ok(())
    };
    new.write_stored(MODEL_FILE, write, &beside)?;
    Ok(n_bytes)
}

/// The model of a GGUF file, or of a folder with `model.gguf`, and the paths that it is read from.
fn gguf_and_files(from: &Path) -> Result<(GgufModel, Vec<PathBuf>)> {
    let path = gguf_of(from).with_context(|| format!("{}: is no GGUF file", from.display()))?;
    let model = GgufModel::new(Gguf::open(&path)?)?;
    let mut read: Vec<PathBuf> = model.file().paths().map(Path::to_owned).collect();
    read.push(from.to_owned());
    Ok((model, read))
}

/// `config.json` of a folder, or of a file's metadata.
fn config_of(from: &Path, model: &GgufModel) -> Result<Vec<u8>> {
    if from.is_file() {
        return Ok(model.config_json());
    }
    let path = place(from, CONFIG_FILE);
    read_json(&path).with_context(|| path.display().to_string())
}

/// How `hlx export` stores a model: its blocks as they are, or its floats in their own type.
fn own_kinds(from: &Path) -> Result<NewKinds> {
    let is_folder = !is_run(from)? && is_hugging_face_folder(from).is_ok_and(|is| is);
    let dtype = match is_folder {
        true => hugging_face_dtype(from)?,
        false => DType::F32,
    };
    Ok(NewKinds::Floats(match dtype {
        DType::F16 => BlockKind::F16,
        DType::BF16 => BlockKind::BF16,
        _ => BlockKind::F32,
    }))
}

/// Writes a model and its tokenizer as a GGUF file without a change of its values: a model of a GGUF file as it is stored,
/// another one in floats of the type that its matrices have. Returns the bytes of its tensors.
///
/// # Errors
/// As [`export_gguf`].
pub fn export_as_stored(from: &Path, to: &Path) -> Result<u64> {
    let stored = (!is_run(from)?).then(|| gguf_of(from)).flatten();
    if stored.is_none() {
        return export_gguf(from, to, own_kinds(from)?, None);
    }
    let (model, read) = gguf_and_files(from)?;
    check_output(from, to, &read)?;
    if from.is_dir() {
        warn_of_changes(from, &model)?;
    }
    model.file().write_whole(to)?;
    Ok(model
        .file()
        .tensors()
        .map(|tensor| tensor.n_bytes() as u64)
        .sum())
}

/// Says which files of a folder differ from the metadata of its GGUF file, and do not come along.
fn warn_of_changes(folder: &Path, model: &GgufModel) -> Result<()> {
    let mut made = model.file().tokenizer_files()?;
    made.push((CONFIG_FILE, model.config_json()));
    for (name, bytes) in made {
        let path = place(folder, name);
        if path.is_file() && hlx_core::files::read(&path)? != bytes {
            tracing::warn!(
                "{}: differs from the metadata of {GGUF_FILE}, and does not come along",
                path.display()
            );
        }
    }
    Ok(())
}

/// Fails for a file to write that is one of those that are read.
pub(super) fn check_output(from: &Path, to: &Path, read: &[PathBuf]) -> Result<()> {
    let mut inputs = files_of(&folders_of(from)?);
    inputs.extend(read.iter().cloned());
    let output = Output::at(to).and_then(|output| output.apart_from(&inputs));
    output.with_context(|| to.display().to_string())?;
    Ok(())
}

/// Writes a model and its tokenizer as a GGUF file; where there is an importance, errors count as it says. Returns the
/// bytes of its tensors.
///
/// # Errors
/// A model or a tokenizer that such files have no place for; a file that is one of those that are read; as [`open`],
/// and the system's message.
pub fn export_gguf(
    from: &Path,
    to: &Path,
    kinds: NewKinds,
    importance: Option<&Importance>,
) -> Result<u64> {
    let read = folders_of(from)?;
    check_output(from, to, &[])?;
    let model = open(&Device::cpu()?, from, None)?;
    let named = || from.display().to_string();
    ensure!(
        !model.weights().has_lora(),
        "{}: has adapters; `hlx lora --merge` writes a model without",
        named()
    );
    write_model(&model, from, &read[0], to, kinds, importance)
}

/// As [`export_gguf`], of a model in memory that was read from a path, with the tokenizer of a folder.
pub(super) fn write_model(
    model: &Model<CausalLm>,
    from: &Path,
    tokenizer: &Path,
    to: &Path,
    kinds: NewKinds,
    importance: Option<&Importance>,
) -> Result<u64> {
    let named = || from.display().to_string();
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
    if let (Some(tokenizer), specials) = tokenizer_of(tokenizer)? {
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
    let importance = |name: &str| importance.and_then(|all| all.of(name)).map(<[f32]>::to_vec);
    new.write(to, take, importance)?;
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
