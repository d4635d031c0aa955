//! Folders of Hugging Face models: `config.json` and `model.safetensors`, read and written.

mod blocks;
mod classes;
mod files;
mod gguf;
mod harmless;
mod in_blocks;
mod keys;
mod layers;
mod names;
mod nf4_matrix;
mod notes;
mod object;
mod open;
mod quantised;
mod read;
mod rotary;
mod source;
mod stored;
mod tied;
mod which;
mod write;

use std::collections::BTreeMap;
use std::path::Path;

use hlx_autograd::DType;
use hlx_core::Device;
use hlx_core::files::place;

use self::open::{Tensors, config_and_tensors};
use crate::error::NnError;
use crate::{
    Architecture, CONFIG_FILE, CausalConfig, CausalLm, InferenceModel, Model, Parameter,
    ParameterBuilder, Result,
};

pub use self::gguf::{GGUF_FILE, gguf_of};
pub use self::in_blocks::{import_in_blocks, import_over};
pub use self::names::hugging_face_name;
pub(crate) use self::names::{Place, place_of};
pub use self::nf4_matrix::Nf4Matrix;
pub use self::source::{Arriving, TensorSource};
pub use self::stored::{has_blocks, is_nf4_folder, stored_sha256, write_as_stored};
pub(crate) use self::write::to_safetensors;
pub use self::write::{
    NamedTensor, export_hugging_face, hugging_face_config, hugging_face_files,
    hugging_face_tensors, is_exported_config,
};

/// Reads the shape of a model from the `config.json` of a Hugging Face folder, as `transformers` does: a key counts
/// where the class reads it, and a missing key is what the class has. Statements that are not followed, and which of
/// two is taken, are logged, a line each. Where the configuration ties the output to the embedding and the folder's
/// files have both with different values, the model is not tied.
///
/// # Errors
/// [`NnError::File`] naming an architecture that is not known, a key whose value is not, or a key
/// that is not and may change the result.
pub fn read_hugging_face_config(folder: &Path) -> Result<CausalConfig> {
    let (config, lines) = read_with_notes(folder)?;
    notes::say(folder, &lines);
    Ok(config)
}

/// The lines that reading a Hugging Face folder logs: a statement that is not followed, or two of which one is
/// taken.
///
/// # Errors
/// As [`read_hugging_face_config`].
pub fn hugging_face_notes(folder: &Path) -> Result<Vec<String>> {
    Ok(read_with_notes(folder)?.1)
}

fn read_with_notes(folder: &Path) -> Result<(CausalConfig, Vec<String>)> {
    let (config, lines, _) = open(folder)?;
    Ok((config, lines))
}

/// The configuration, the lines that are to be said of it, and the tensors.
fn open(path: &Path) -> Result<(CausalConfig, Vec<String>, Tensors)> {
    let (bytes, tensors) = config_and_tensors(path)?;
    let named = match path.is_file() {
        true => path.to_owned(),
        false => place(path, CONFIG_FILE),
    };
    let read = read::read_config(&bytes).map_err(|reason| NnError::file(&named, reason))?;
    let (mut config, mut lines) = (read.config, read.notes);
    // A folder without weights, or with broken ones, has a shape all the same; the import says what is wrong.
    if let Ok(tensors) = &tensors {
        lines.extend(tensors.notes().iter().cloned());
        if config.tied_output && tied::is_untied(&**tensors, config.architecture)? {
            config.tied_output = false;
            lines.push(tied::UNTIED.to_owned());
        }
    }
    Ok((config, lines, tensors))
}

/// As [`open`], with the lines said, and where the tensors have each parameter.
fn open_model(path: &Path) -> Result<(CausalConfig, Box<dyn TensorSource>, Vec<Place>)> {
    let (config, lines, tensors) = open(path)?;
    notes::say(path, &lines);
    let tensors = tensors?;
    let places = checked_places(path, &*tensors, &config)?;
    Ok((config, tensors, places))
}

/// Reads a model from a Hugging Face folder: `config.json`, and `model.safetensors` or the files that
/// `model.safetensors.index.json` names, of f32, f16 or bf16. Without these the weights may lie in `model.gguf`; a path
/// of a GGUF file is read with the configuration of its metadata. Blocks of quantised weights are widened.
///
/// # Errors
/// As [`read_hugging_face_config`]; [`NnError::File`] for a file that is missing, broken or cut, a tensor
/// that is missing, of another shape, unknown, or not finite; and what the device reports.
pub fn import_hugging_face(device: &Device, folder: &Path) -> Result<Model<CausalLm>> {
    let (config, tensors, places) = open_model(folder)?;
    let model = Model::zeroed(device, |b| CausalLm::new(b, &config))?;
    let parameters = model.weights().parameters();
    read_parameters(&*tensors, parameters, &places, |parameter, arriving| {
        let values = arriving.into_floats(tensors.path(), parameter.name())?;
        Ok(device.upload(&parameter.tensor()?.buffer()?, &values)?)
    })?;
    Ok(model)
}

/// Reads a model from tensors with the names and shapes of a Hugging Face folder, and the bytes of its `config.json`:
/// those of a file in another format.
///
/// # Errors
/// As [`import_hugging_face`], with the source's path, and those of the source.
pub fn import_tensors(
    device: &Device,
    config: &[u8],
    source: &dyn TensorSource,
) -> Result<Model<CausalLm>> {
    let path = source.path();
    let read = read::read_config(config).map_err(|reason| NnError::file(path, reason))?;
    notes::say(path, &read.notes);
    let places = checked_places(path, source, &read.config)?;
    let model = Model::zeroed(device, |b| CausalLm::new(b, &read.config))?;
    let parameters = model.weights().parameters();
    read_parameters(source, parameters, &places, |parameter, arriving| {
        let values = arriving.into_floats(path, parameter.name())?;
        Ok(device.upload(&parameter.tensor()?.buffer()?, &values)?)
    })?;
    Ok(model)
}

/// Reads the shape of a model from the bytes of a Hugging Face folder's `config.json`.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn parse_hugging_face_config(config: &[u8]) -> Result<CausalConfig, String> {
    Ok(read::read_config(config)?.config)
}

/// Tells the type of 16 bits in which a Hugging Face folder, or a GGUF file, stores all of its matrices; f32 where it
/// stores them in f32, in blocks, or in several types.
///
/// # Errors
/// [`NnError::File`] for a file that is missing, broken or cut.
pub fn hugging_face_dtype(folder: &Path) -> Result<DType> {
    let (_, tensors) = config_and_tensors(folder)?;
    Ok(tensors?.matrix_dtype())
}

/// As [`import_hugging_face`], for inference, with matrices held in a type: of f16 or bf16 they take half
/// the memory. Files of this type are taken as they are, others are rounded.
///
/// # Errors
/// As [`import_hugging_face`], [`NnError::Config`] for a type other than f32, f16 and bf16, and
/// [`NnError::Mismatch`] for a value that f16 does not reach.
pub fn import_hugging_face_as(
    device: &Device,
    folder: &Path,
    dtype: DType,
) -> Result<InferenceModel<CausalLm>> {
    let (config, tensors, places) = open_model(folder)?;
    let model = InferenceModel::zeroed(device, dtype, |b| CausalLm::new(b, &config))?;
    let parameters = model.parameters();
    read_parameters(&*tensors, parameters, &places, |parameter, arriving| {
        let values = arriving.into_floats(tensors.path(), parameter.name())?;
        model.load(parameter, &values)
    })?;
    Ok(model)
}

/// Where the files have each parameter of a configuration's model, in the order of declaration. The files are
/// checked before any memory is taken for the model.
fn checked_places(
    folder: &Path,
    files: &dyn TensorSource,
    config: &CausalConfig,
) -> Result<Vec<Place>> {
    let n_tensors = files.names().len();
    let n_experts = config.experts.as_ref().map_or(1, |one| one.n_experts);
    if n_tensors < config.n_layers.max(n_experts) {
        let n_layers = config.n_layers;
        let of_experts = config.experts.as_ref();
        let of_experts =
            of_experts.map_or_else(String::new, |one| format!(" and {} experts", one.n_experts));
        let reason = format!("has {n_tensors} tensors, too few for {n_layers} layers{of_experts}");
        return Err(NnError::file(folder, reason));
    }
    let mut builder = ParameterBuilder::new();
    CausalLm::new(&mut builder, config)?;
    let parameters = builder.declared_parameters();
    let prefix = prefix_of(config.architecture, files);
    let mut places: Vec<Place> = parameters
        .iter()
        .map(|parameter| place_of(Some(config.architecture), parameter.name()))
        .map(|place| Place {
            name: place
                .name
                .strip_prefix(prefix)
                .unwrap_or(&place.name)
                .to_owned(),
            ..place
        })
        .collect();
    if config.tied_output {
        tied::take_the_one_there(files, &mut places);
    }
    check(folder, files, &parameters, &places, config)?;
    Ok(places)
}

/// The target of the events that say how much of a model has been read: `done` and `total`, in elements.
pub const LOADING: &str = "hlx_nn::loading";

/// Hands out each parameter as its tensor arrives.
fn read_parameters(
    files: &dyn TensorSource,
    parameters: &[Parameter],
    places: &[Place],
    mut take: impl FnMut(&Parameter, Arriving) -> Result<()>,
) -> Result<()> {
    let total: usize = parameters.iter().map(Parameter::n_elements).sum();
    let mut done = 0;
    for (parameter, place) in parameters.iter().zip(places) {
        tracing::trace!(target: LOADING, done, total);
        done += parameter.n_elements();
        let Some(shape) = files.shape(&place.name) else {
            continue;
        };
        take(parameter, part_of(files, shape, place)?)?;
    }
    tracing::trace!(target: LOADING, done, total);
    Ok(())
}

/// What the files leave out in front of every name: some hold the inner model alone.
fn prefix_of(architecture: Architecture, files: &dyn TensorSource) -> &'static str {
    let (prefix, first) = match architecture {
        Architecture::Gpt2 => ("transformer.", "wte.weight"),
        _ => ("model.", "embed_tokens.weight"),
    };
    match files.shape(first) {
        Some(_) => prefix,
        None => "",
    }
}

/// Checks that the files have every parameter, in its shape, and nothing else.
fn check(
    folder: &Path,
    files: &dyn TensorSource,
    parameters: &[Parameter],
    places: &[Place],
    config: &CausalConfig,
) -> Result<()> {
    let mut expected = BTreeMap::new();
    for (parameter, place) in parameters.iter().zip(places) {
        let shape = stored_shape(parameter.shape(), place);
        if files.shape(&place.name).is_none() {
            return Err(NnError::file(folder, missing(&place.name)));
        }
        files.check(&place.name, &shape)?;
        expected.insert(place.name.as_str(), ());
    }
    let tied = |name: &str| config.tied_output && name == tied::HEAD;
    let unknown = |name: &&str| !expected.contains_key(name) && !is_derived(name) && !tied(name);
    match files.names().into_iter().find(unknown) {
        Some(name) => {
            let reason = format!("the tensor {name} is no part of the model");
            Err(NnError::file(folder, reason))
        }
        None => Ok(()),
    }
}

/// What is said of a tensor that no file has.
fn missing(name: &str) -> String {
    match name == tied::HEAD {
        true => format!(
            "the tensor {name} is missing, and the configuration does not tie the output to the \
             embedding (`tie_word_embeddings`)"
        ),
        false => format!("the tensor {name} is missing"),
    }
}

/// Tables that old files hold although the configuration tells them: masks and frequencies.
fn is_derived(name: &str) -> bool {
    [".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// The shape of the files' tensor that a parameter of this shape is a part of.
pub(crate) fn stored_shape(shape: &[usize], place: &Place) -> Vec<usize> {
    let mut stored = shape.to_vec();
    stored[0] *= place.part.1;
    if place.transposed {
        stored.reverse();
    }
    stored
}

/// A parameter's part of a tensor. Of a matrix that is transposed, only the values can be had.
fn part_of(files: &dyn TensorSource, shape: &[usize], place: &Place) -> Result<Arriving> {
    let arriving = match (place.transposed, shape) {
        (true, &[rows, columns]) => {
            Arriving::Floats(transposed(&files.values(&place.name)?, rows, columns))
        }
        _ => files.arriving(&place.name)?,
    };
    let (part, parts) = place.part;
    Ok(arriving.rows(part, parts))
}

/// The columns of a matrix one after the other.
pub(crate) fn transposed(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    let column = |at: usize| (0..rows).map(move |row| values[row * columns + at]);
    (0..columns).flat_map(column).collect()
}
