//! A model by its digests.

use std::path::Path;

use anyhow::{Context as _, Result};
use hlx_autograd::{DType, Tensor};
use hlx_core::digest::sha256_of_file;
use hlx_core::files;
use hlx_gguf::Gguf;
use hlx_kernels::tree_digest::{DigestKind, ListDigest, TensorRoot, tree_digest};
use hlx_nn::{Parameter, gguf_of};
use hlx_receipt::{ModelDigests, NamedFile, Sha256, canonical};

use crate::generate::TextModel;
use crate::model_folder::is_run;
use crate::opening::Opened;
use crate::run::RunFolder;

/// Files of a model's folder that its numbers are read from.
const FILES: [&str; 3] = ["adapter_config.json", "config.json", "hlx.json"];
/// What stands for a GGUF file: the digest of its tensors ([`Gguf::tensors_sha256`]).
pub(super) const TENSORS: &str = "gguf/tensors";
/// The type of matrices in blocks.
pub(super) const BLOCKS: &str = "blocks";
/// How the names of files of weights end.
const WEIGHTS: &str = ".safetensors";

/// The files that the numbers of a model come from, and of an adapter under `adapter/`, with their digests, sorted by
/// name. Those of a run are the files of the checkpoint that is read. A GGUF file is there as its tensors
/// ([`Gguf::tensors_sha256`]), whatever its name and however they are packed.
///
/// # Errors
/// What the system says, and a checkpoint that is damaged.
pub fn files_of_model(path: &Path, adapter: Option<&Path>) -> Result<Vec<NamedFile>> {
    let mut all = match is_run(path)? {
        true => {
            let (_, checkpoint) = RunFolder::open_checkpoint(path)?;
            let stated = checkpoint.digests.files.iter();
            let stated = stated.map(|(name, digest)| {
                let sha256 = digest.parse().map_err(anyhow::Error::msg);
                let name = name.clone();
                Ok(NamedFile {
                    sha256: sha256.with_context(|| name.clone())?,
                    name,
                })
            });
            stated.collect::<Result<Vec<_>>>()?
        }
        false => files_of_source(path)?,
    };
    if let Some(adapter) = adapter {
        all.extend(files_in(adapter, "adapter/")?);
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The files of a model's folder; of a GGUF file its tensors as they are stored, which say what its file's bytes do not.
fn files_of_source(path: &Path) -> Result<Vec<NamedFile>> {
    let mut all = match path.is_file() {
        true => Vec::new(),
        false => files_in(path, "")?,
    };
    if let Some(file) = gguf_of(path) {
        let digest = Gguf::open(&file)?.tensors_sha256()?;
        all.push(NamedFile {
            name: TENSORS.to_owned(),
            sha256: digest.parse().map_err(anyhow::Error::msg)?,
        });
    }
    Ok(all)
}

fn files_in(folder: &Path, prefix: &str) -> Result<Vec<NamedFile>> {
    let mut all = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let entry = entry.with_context(|| folder.display().to_string())?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if files::is_temporary(&entry.path())
            || !(name.ends_with(WEIGHTS) || FILES.contains(&&*name))
        {
            continue;
        }
        let path = entry.path();
        let digest = sha256_of_file(&path).with_context(|| path.display().to_string())?;
        all.push(NamedFile {
            name: format!("{prefix}{name}"),
            sha256: digest.parse().map_err(anyhow::Error::msg)?,
        });
    }
    Ok(all)
}

/// The digests of a model as it is held in memory, with those of its files, and of the chat template in use.
///
/// The digest of the weights is [`ListDigest`] over all parameters in the order of declaration, each widened to f32:
/// of a run that is held in f32 it is `parameters` in the run's chain.
///
/// # Errors
/// What the device reports.
pub fn digests_of(
    text: &TextModel,
    files: Vec<NamedFile>,
    template: Option<&str>,
) -> Result<ModelDigests> {
    let config = canonical(text.model.config())?;
    let tokenizer = text.tokenizer.digest();
    Ok(ModelDigests {
        weights_sha256: list_digest(&text.model)?
            .root
            .to_string()
            .parse()
            .map_err(anyhow::Error::msg)?,
        config_sha256: Sha256::of(&config),
        dtype: dtype_of(&text.model).to_owned(),
        files,
        tokenizer_sha256: tokenizer.parse().map_err(anyhow::Error::msg)?,
        chat_template_sha256: template.map(|template| Sha256::of(template.as_bytes())),
    })
}

/// The digest of a model's weights as receipts have it, in hexadecimal digits ([`digests_of`]).
///
/// # Errors
/// What the device reports.
pub fn weights_digest(model: &Opened) -> Result<String> {
    Ok(list_digest(model)?.root.to_string())
}

/// The digest over all parameters, and buffers behind them, in the order of declaration, each widened to f32.
pub(super) fn list_digest(model: &Opened) -> Result<ListDigest> {
    let mut roots = Vec::new();
    for parameter in parameters_of(model) {
        roots.push(root(parameter.name(), &parameter.tensor()?)?);
    }
    if let Opened::Whole(model) = model {
        for buffer in model.weights().buffers() {
            roots.push(root(buffer.name(), &buffer.tensor()?)?);
        }
    }
    Ok(ListDigest::new(roots))
}

/// All parameters in the order of declaration, also those of a base that lies apart.
fn parameters_of(model: &Opened) -> Vec<&Parameter> {
    match model {
        Opened::Whole(model) => model.weights().parameters_and_base(),
        Opened::Half(model) => model.parameters().iter().collect(),
    }
}

fn root(name: &str, tensor: &Tensor) -> Result<TensorRoot> {
    let wide = match (tensor.is_of_blocks(), tensor.shape()) {
        // Looked up row by row: values that a weight in blocks is read for stay in memory.
        (true, &[rows, _]) => {
            let ids: Vec<u32> = (0..rows as u32).collect();
            Tensor::from_slice::<u32>(tensor.device(), &ids, &[rows])?.embedding(tensor)?
        }
        _ => tensor.detach().to_dtype(DType::F32)?.contiguous()?,
    };
    Ok(TensorRoot {
        name: name.to_owned(),
        shape: tensor.shape().to_vec(),
        root: tree_digest(wide.device(), &wide.buffer()?, DigestKind::F32)?,
    })
}

/// The type that the matrices are held in; `blocks` where some are in those of a GGUF file.
fn dtype_of(model: &Opened) -> &'static str {
    let parameters = parameters_of(model).into_iter();
    let tensors: Vec<Tensor> = parameters.filter_map(|one| one.tensor().ok()).collect();
    if tensors.iter().any(Tensor::is_of_blocks) {
        return BLOCKS;
    }
    let types = tensors.iter();
    let half = types
        .map(|tensor| tensor.dtype())
        .find(|&dtype| dtype != DType::F32);
    match half {
        Some(DType::F16) => "f16",
        Some(DType::BF16) => "bf16",
        _ => "f32",
    }
}
