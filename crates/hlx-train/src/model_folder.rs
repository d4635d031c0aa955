//! Language models outside of runs: folders of HLX and of Hugging Face, brought in and written out.

mod adapter;
mod gguf;
mod merged;
mod stated;
mod write;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use hlx_autograd::{BackwardPlan, DType, IGNORE_INDEX, Tensor, no_grad};
use hlx_core::files::place;
use hlx_core::{Arithmetic, Device};
use hlx_nn::{
    CausalInput, CausalLm, CausalModel, InferenceModel, LoraConfig, Mode, Model, ParameterBuilder,
    has_blocks, hugging_face_dtype, hugging_face_tensors, import_in_blocks, import_over,
    is_hugging_face_folder, load_language_model, load_language_model_as, peft_unties_output,
    read_language_model_config, read_peft_config,
};

pub use self::gguf::{export_as_stored, export_gguf, import_blocks, import_gguf, import_nf4};
pub use self::merged::{merge_to_gguf, merged};
pub use self::write::{
    Beside, CHAT_TEMPLATE_FILE, FolderKind, NewFolder, PROCESSOR_TEMPLATE_FILE, bring_companions,
    companions, export, files_of, folders_of, import, save, stated_companions,
    warn_of_more_templates,
};
pub use crate::companions::NamedFile;
use crate::opening::{Opened, Opening, is_model};
use crate::run::{DIGESTS_FILE, RunFolder};
use crate::trained::Trained;

/// As [`open`], for inference: in 16 bits where the opening or the folder says so, and in blocks where the files have them,
/// in the `integer` arithmetic unless another one is given.
///
/// # Errors
/// As [`open`] and [`open_adapted`]; a run without a moving average, or what is not a run, where one is wanted; a
/// weight that the type does not reach.
pub fn open_as(device: &Device, path: &Path, opening: Opening<'_>) -> Result<Opened> {
    if is_run(path)? {
        return Trained::open_as(device, path, opening).map(|(model, _)| model);
    }
    ensure_model(path)?;
    ensure!(
        !opening.average,
        "{}: is no run, and has no moving average",
        path.display()
    );
    // Blocks are multiplied as they lie, also under an adapter, unless their values are wanted in a type.
    let keeps_blocks = opening.dtype.is_none() && has_blocks(path)?;
    let own = if keeps_blocks {
        Arithmetic::Integer
    } else {
        Arithmetic::default()
    };
    let device = &device.in_arithmetic(opening.arithmetic.unwrap_or(own))?;
    if let Some(adapter) = opening.adapter {
        if keeps_blocks {
            let (model, _) = open_adapted_in_blocks(device, path, adapter)?;
            return Ok(Opened::Whole(Arc::new(model)));
        }
        return open_adapted_as(device, path, adapter, opening.dtype.unwrap_or(DType::F32));
    }
    if keeps_blocks && device.arithmetic() == Arithmetic::Integer {
        return Ok(Opened::Half(Arc::new(import_in_blocks(device, path)?)));
    }
    let dtype = match opening.dtype {
        Some(dtype) => dtype,
        None if is_hugging_face_folder(path)? => hugging_face_dtype(path)?,
        None => DType::F32,
    };
    Ok(match dtype {
        DType::F32 => Opened::Whole(Arc::new(load_language_model(device, path)?)),
        _ => Opened::Half(Arc::new(load_language_model_as(device, path, dtype)?)),
    })
}

/// Whether a path is that of a run or of one of its checkpoints.
///
/// # Errors
/// A checkpoint that cannot be read: it is not a model's folder either, whose weights nothing proves.
pub fn is_run(path: &Path) -> Result<bool> {
    match RunFolder::open_checkpoint(path) {
        Ok(_) => Ok(true),
        Err(error) if path.join(DIGESTS_FILE).is_file() => Err(error),
        Err(_) => Ok(false),
    }
}

/// Fails for a folder that holds an adapter and no model.
///
/// # Errors
/// One line with the folder.
pub fn check_no_adapter(path: &Path) -> Result<()> {
    ensure!(
        is_model(path) || !place(path, hlx_nn::PEFT_CONFIG_FILE).is_file(),
        "{}: holds an adapter; give its model's folder, and this one as the adapter",
        path.display()
    );
    Ok(())
}

fn ensure_model(path: &Path) -> Result<()> {
    check_no_adapter(path)?;
    ensure!(
        is_model(path) || !path.is_file(),
        "{}: is no GGUF file",
        path.display()
    );
    ensure!(
        is_model(path),
        "{}: holds neither a run nor a model's config.json",
        path.display()
    );
    Ok(())
}

/// Reads the language model of a run, of one of its checkpoints, of a folder that [`import`] wrote, or of
/// a Hugging Face folder; in the arithmetic of the run, or `portable`, unless one is given.
///
/// # Errors
/// A path that is none of these, a damaged file, a device without the memory.
pub fn open(
    device: &Device,
    path: &Path,
    arithmetic: Option<Arithmetic>,
) -> Result<Model<CausalLm>> {
    if is_run(path)? {
        let opening = Opening {
            arithmetic,
            ..Opening::default()
        };
        return Ok(Trained::open_in(device, path, opening)?.model);
    }
    ensure_model(path)?;
    let device = &device.in_arithmetic(arithmetic.unwrap_or_default())?;
    Ok(load_language_model(device, path)?)
}

/// Reads a model folder with an adapter of the library PEFT, and returns the adapter's numbers too.
///
/// # Errors
/// As [`load_language_model`], a run, an adapter of another model, and a key of `adapter_config.json` that
/// changes the result in a way that is not known.
pub fn open_adapted(
    device: &Device,
    folder: &Path,
    adapter: &Path,
) -> Result<(Model<CausalLm>, LoraConfig)> {
    ensure!(
        !is_run(folder)?,
        "{}: is a run, expected a model's folder",
        folder.display()
    );
    ensure_model(folder)?;
    let mut base = load_language_model(&Device::cpu()?, folder)?;
    let mut config = base.config().clone();
    ensure!(
        config.family().is_some(),
        "{}: is HLX's own transformer, expected an architecture",
        folder.display()
    );
    let (numbers, tensors) = adapter::read(adapter)?;
    let named = || adapter.display().to_string();
    if peft_unties_output(&numbers, &tensors, &config).with_context(named)? {
        base = adapter::untied(&base, &mut config)?;
    }
    let lora = read_peft_config(&numbers, &config).with_context(named)?;
    let model = Model::zeroed(device, |b| {
        b.with_lora(lora.clone());
        CausalLm::new(b, base.config())
    })?;
    let weights = model.weights();
    weights.load_base_safetensors(&base.weights().to_safetensors()?)?;
    let loaded = weights.load_lora(&tensors, &lora, config.family());
    loaded.with_context(named)?;
    Ok((model, lora))
}

/// As [`open_adapted`], with the matrices of the model in blocks where the files have them so, as the frozen base of the adapter.
///
/// # Errors
/// As [`open_adapted`].
pub fn open_adapted_in_blocks(
    device: &Device,
    path: &Path,
    adapter: &Path,
) -> Result<(Model<CausalLm>, LoraConfig)> {
    let mut config = read_language_model_config(path)?;
    let (numbers, tensors) = adapter::read(adapter)?;
    let named = || adapter.display().to_string();
    if peft_unties_output(&numbers, &tensors, &config).with_context(named)? {
        config.tied_output = false;
    }
    let lora = read_peft_config(&numbers, &config).with_context(named)?;
    let model = import_over(device, path, 0, |b| {
        b.with_lora(lora.clone());
        CausalLm::new(b, &config)
    })?;
    let loaded = model.weights().load_lora(&tensors, &lora, config.family());
    loaded.with_context(named)?;
    Ok((model, lora))
}

/// As [`open_adapted`], with the matrices held in a type.
fn open_adapted_as(device: &Device, folder: &Path, adapter: &Path, dtype: DType) -> Result<Opened> {
    if dtype == DType::F32 {
        let (model, _) = open_adapted(device, folder, adapter)?;
        return Ok(Opened::Whole(Arc::new(model)));
    }
    let (model, lora) = open_adapted(&Device::cpu()?, folder, adapter)?;
    let sizes = model.config();
    let declare = |b: &mut ParameterBuilder| {
        b.with_lora(lora);
        CausalLm::new(b, sizes)
    };
    let rounded = InferenceModel::rounded(device, dtype, model.weights(), declare)?;
    Ok(Opened::Half(Arc::new(rounded)))
}

/// Returns ids \[B, T\] as u32, each below the vocabulary.
///
/// # Errors
/// Another shape, elements that are not whole numbers, an id outside of the vocabulary.
pub fn checked_ids(model: &impl CausalModel, ids: &Tensor) -> Result<Tensor> {
    let vocabulary = model.vocabulary();
    let words = whole_numbers(ids, "ids")?;
    let words = words.into_iter().enumerate().map(|(at, id)| {
        let id = u32::try_from(id)
            .ok()
            .filter(|&id| (id as usize) < vocabulary);
        id.with_context(|| format!("ids: number {at} is outside of the vocabulary of {vocabulary}"))
    });
    let words = words.collect::<Result<Vec<u32>>>()?;
    Ok(Tensor::from_slice::<u32>(ids.device(), &words, ids.shape())?.with_samples(0)?)
}

/// Returns targets \[B, T\]; a negative one counts nothing, as -100 in PyTorch.
fn checked_targets(model: &impl CausalModel, targets: &Tensor) -> Result<(Tensor, usize)> {
    let vocabulary = model.vocabulary();
    let words = whole_numbers(targets, "targets")?;
    let words = words.into_iter().enumerate().map(|(at, id)| match id {
        ..0 => Ok(IGNORE_INDEX),
        id if (id as usize) < vocabulary => Ok(id as u32),
        id => bail!("targets: number {at} is {id}, and the vocabulary has {vocabulary}"),
    });
    let words = words.collect::<Result<Vec<u32>>>()?;
    let counted = words.iter().filter(|&&id| id != IGNORE_INDEX).count();
    ensure!(counted > 0, "targets: none counts");
    let targets = Tensor::from_slice::<u32>(targets.device(), &words, targets.shape())?;
    Ok((targets, counted))
}

fn whole_numbers(ids: &Tensor, name: &str) -> Result<Vec<i64>> {
    ensure!(
        ids.rank() == 2 && !ids.dtype().is_float(),
        "{name}: shape {:?} of {}, expected whole numbers of [batch, time]",
        ids.shape(),
        ids.dtype()
    );
    Ok(match ids.dtype() {
        DType::U32 => ids.to_vec::<u32>()?.into_iter().map(i64::from).collect(),
        _ => {
            let wide = ids.to_dtype(DType::I32)?.to_vec::<i32>()?;
            wide.into_iter().map(i64::from).collect()
        }
    })
}

/// Computes the logits of ids, \[B, T, V\].
///
/// # Errors
/// As [`checked_ids`], more positions than the model has, and what the device reports.
pub fn logits(model: &CausalLm, ids: &Tensor) -> Result<Tensor> {
    let ids = checked_ids(model, ids)?;
    Ok(no_grad(|| {
        model.logits(&CausalInput::new(&ids), &Mode::eval())
    })?)
}

/// What [`gradients`] computes.
pub struct Gradients {
    /// \[B, T, V\].
    pub logits: Tensor,
    /// The mean cross-entropy over the targets that count.
    pub loss: f32,
    /// Its gradient by every parameter, under the names of the model's family: of HLX's own transformer
    /// under HLX's.
    pub by_name: BTreeMap<String, Tensor>,
}

/// Computes the logits of ids, the loss against targets, and every gradient, without dropout.
///
/// # Errors
/// As [`logits`], and targets of another shape or outside of the vocabulary.
pub fn gradients(model: &Model<CausalLm>, ids: &Tensor, targets: &Tensor) -> Result<Gradients> {
    let ids = checked_ids(model.module(), ids)?;
    let (targets, counted) = checked_targets(model.module(), targets)?;
    ensure!(
        targets.shape() == ids.shape(),
        "targets: shape {:?}, expected that of the ids, {:?}",
        targets.shape(),
        ids.shape()
    );
    let weights = model.weights();
    let device = weights.device();
    let scale = Tensor::from_slice(device, &[1.0 / counted as f32], &[1])?;
    let logits = model.logits(&CausalInput::new(&ids), &Mode::eval())?;
    let loss = logits.cross_entropy_scaled(&targets, &scale, 0.0)?;
    loss.backward_with(&BackwardPlan::default())?;
    let flat = weights.gradients()?;
    let by_name = hugging_face_tensors(weights, flat, model.config().family())?;
    let by_name = by_name.into_iter().map(|(name, shape, values)| {
        let tensor = Tensor::from_slice(device, &values, &shape)?;
        Ok((name, tensor))
    });
    Ok(Gradients {
        loss: loss.item()?,
        by_name: by_name.collect::<Result<_>>()?,
        logits,
    })
}
