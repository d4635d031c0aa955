//! Parameters and buffers as safetensors files, and their digests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use half::{bf16, f16};
use hlx_autograd::{DType, Tensor};
use hlx_core::Buffer;
use hlx_core::bytes::{f32_from_little_endian, little_endian};
use hlx_core::digest::TensorHasher;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::{ModelBuffer, Parameter, Weights};
use crate::Result;
use crate::error::NnError;

impl Weights {
    /// Returns every parameter and saved buffer by its name, as `torch.nn.Module.state_dict`: tensors
    /// over the model's own memory, in the order of declaration, parameters first.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`], which weights from a builder never give.
    pub fn state_dict(&self) -> Result<Vec<(String, Tensor)>> {
        let parameters = self.parameters().iter();
        let parameters = parameters.map(|one| Ok((one.name().to_owned(), one.tensor()?.detach())));
        let buffers = self.buffers().iter();
        let buffers = buffers.map(|one| Ok((one.name().to_owned(), one.tensor()?)));
        parameters.chain(buffers).collect()
    }

    /// Downloads all values and buffers once, for their digest and their file.
    ///
    /// # Errors
    /// What the device reports.
    pub fn snapshot(&self) -> Result<WeightsSnapshot<'_>> {
        Ok(WeightsSnapshot {
            weights: self,
            values: self.device().download::<f32>(self.values())?,
            buffers: self.download_buffers()?,
        })
    }

    /// Returns the SHA-256 over all values and buffers: names, shapes and bits in the order of the
    /// names.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<String> {
        Ok(self.snapshot()?.digest())
    }

    /// Returns the SHA-256 over flat buffers in the layout of the values, each with a prefix for its
    /// names, in the order of the full names.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest_of(&self, buffers: &[(&str, &Buffer)]) -> Result<String> {
        let mut named = BTreeMap::new();
        for (prefix, buffer) in buffers {
            for (parameter, values) in self.parameters().iter().zip(self.download(buffer)?) {
                let name = format!("{prefix}{}", parameter.name());
                named.insert(name, (parameter.shape(), Cow::Owned(values)));
            }
        }
        Ok(hash(&named))
    }

    /// Writes all values and buffers as a safetensors file in memory.
    ///
    /// # Errors
    /// What the device or the format reports.
    pub fn to_safetensors(&self) -> Result<Vec<u8>> {
        self.snapshot()?.to_safetensors()
    }

    /// Replaces all values and buffers by those of a safetensors file in memory, such as a
    /// `state_dict` saved by PyTorch; nothing is written unless every tensor fits. f16 and bf16 become
    /// f32 exactly, 64-bit counts u32.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] for bytes that are no safetensors file, a missing, extra or mis-shaped
    /// tensor, or one of another type; a count below 0 or above 2^32 - 1.
    pub fn load_safetensors(&self, bytes: &[u8]) -> Result<()> {
        self.load_some(bytes, |_| true)
    }

    /// Reads the parameters whose names are wanted, and the buffers.
    pub(crate) fn load_some(&self, bytes: &[u8], wanted: impl Fn(&str) -> bool) -> Result<()> {
        let file = SafeTensors::deserialize(bytes).map_err(|e| format_error(&e))?;
        let is_buffer = |name: &str| self.buffers().iter().any(|one| one.name() == name);
        let unknown = |name: &&str| self.get(name).is_none() && !is_buffer(name);
        if let Some(extra) = file.names().into_iter().filter(unknown).min() {
            let reason = format!("{extra} is no parameter of it");
            return Err(NnError::mismatch("model", reason));
        }
        let chosen = self.parameters().iter().filter(|one| wanted(one.name()));
        let values = chosen.map(|one| Ok((one, read_values(&file, one)?)));
        let values = values.collect::<Result<Vec<_>>>()?;
        let buffers = self.buffers().iter().map(|one| read_buffer(&file, one));
        let buffers = buffers.collect::<Result<Vec<_>>>()?;
        for (parameter, values) in &values {
            let place = parameter.tensor()?.detach().buffer()?;
            self.device().upload(&place, values)?;
        }
        for (buffer, words) in self.buffers().iter().zip(&buffers) {
            let place = buffer.tensor()?.buffer()?;
            self.device().upload_words(&place, words)?;
        }
        Ok(())
    }
}

/// All values and buffers of a model as they were when they were downloaded.
#[derive(Debug)]
pub struct WeightsSnapshot<'a> {
    weights: &'a Weights,
    /// Those of all parameters, in the layout of [`Weights::values`].
    values: Vec<f32>,
    /// The words of each saved buffer.
    buffers: Vec<Vec<u32>>,
}

impl<'a> WeightsSnapshot<'a> {
    /// Returns the SHA-256 over all values and buffers, as [`Weights::digest`].
    pub fn digest(&self) -> String {
        let parameters = self.parameters().map(|(one, values)| {
            let values = Cow::Borrowed(values);
            (one.name().to_owned(), (one.shape(), values))
        });
        let buffers = self.weights.buffers().iter().zip(&self.buffers);
        let buffers = buffers.map(|(one, words)| {
            let values = Cow::Owned(as_values(words));
            (one.name().to_owned(), (one.shape(), values))
        });
        hash(&parameters.chain(buffers).collect())
    }

    /// Every parameter and saved buffer with its name and its words as f32: those of a count have a
    /// count's bits.
    pub fn into_named(self) -> impl Iterator<Item = (String, Vec<f32>)> + use<'a> {
        let parameters = self.parameters();
        let parameters = parameters.map(|(one, values)| (one.name().to_owned(), values.to_vec()));
        let buffers = self.weights.buffers().iter().zip(&self.buffers);
        let buffers = buffers.map(|(one, words)| (one.name().to_owned(), as_values(words)));
        parameters.chain(buffers).collect::<Vec<_>>().into_iter()
    }

    /// Each parameter and its values.
    fn parameters(&self) -> impl Iterator<Item = (&Parameter, &[f32])> {
        let parameters = self.weights.parameters().iter();
        parameters.zip(self.weights.cut(&self.values))
    }

    /// Writes the values and buffers as a safetensors file in memory.
    ///
    /// # Errors
    /// What the format reports.
    pub fn to_safetensors(&self) -> Result<Vec<u8>> {
        let mut tensors = Vec::new();
        for (parameter, values) in self.parameters() {
            let bytes = little_endian(values);
            tensors.push((parameter.name(), parameter.shape(), Dtype::F32, bytes));
        }
        for (buffer, words) in self.weights.buffers().iter().zip(&self.buffers) {
            let (dtype, bytes) = match buffer.dtype() {
                DType::F32 => (Dtype::F32, little_endian(words)),
                _ => {
                    let counts = words.iter().map(|&count| i64::from(count));
                    (Dtype::I64, counts.flat_map(i64::to_le_bytes).collect())
                }
            };
            tensors.push((buffer.name(), buffer.shape(), dtype, bytes));
        }
        let mut views = Vec::with_capacity(tensors.len());
        for (name, shape, dtype, bytes) in &tensors {
            let view = TensorView::new(*dtype, shape.to_vec(), bytes);
            views.push((*name, view.map_err(|e| format_error(&e))?));
        }
        safetensors::serialize(views, None).map_err(|e| format_error(&e))
    }
}

fn as_values(words: &[u32]) -> Vec<f32> {
    words.iter().map(|&word| f32::from_bits(word)).collect()
}

/// Hashes named tensors in the order of their names.
fn hash(named: &BTreeMap<String, (&[usize], Cow<'_, [f32]>)>) -> String {
    let mut hasher = TensorHasher::new();
    for (name, (shape, values)) in named {
        hasher.add(name, shape, values);
    }
    hasher.finish()
}

/// The tensor of a name and shape.
fn find<'a>(file: &'a SafeTensors<'_>, name: &str, shape: &[usize]) -> Result<TensorView<'a>> {
    let Ok(view) = file.tensor(name) else {
        return Err(NnError::mismatch("model", format!("{name} is missing")));
    };
    if view.shape() != shape {
        let reason = format!("{name} has shape {:?}, expected {shape:?}", view.shape());
        return Err(NnError::mismatch("model", reason));
    }
    Ok(view)
}

fn read_values(file: &SafeTensors<'_>, parameter: &Parameter) -> Result<Vec<f32>> {
    let view = find(file, parameter.name(), parameter.shape())?;
    as_f32(parameter.name(), &view)
}

/// A buffer's words.
fn read_buffer(file: &SafeTensors<'_>, buffer: &ModelBuffer) -> Result<Vec<u32>> {
    let name = buffer.name();
    let view = find(file, name, buffer.shape())?;
    if buffer.dtype() == DType::F32 {
        let values = as_f32(name, &view)?;
        return Ok(values.into_iter().map(f32::to_bits).collect());
    }
    let eights = view.data().as_chunks::<8>().0.iter();
    let fours = view.data().as_chunks::<4>().0.iter();
    let counts: Vec<i64> = match view.dtype() {
        Dtype::I64 => eights.map(|&bytes| i64::from_le_bytes(bytes)).collect(),
        Dtype::I32 => fours.map(|&b| i64::from(i32::from_le_bytes(b))).collect(),
        Dtype::U32 => fours.map(|&b| i64::from(u32::from_le_bytes(b))).collect(),
        other => {
            let reason = format!("{name} holds {other:?}, expected I64, I32 or U32");
            return Err(NnError::mismatch("model", reason));
        }
    };
    let to_u32 = |count: i64| {
        let reason = || format!("{name} is {count}, expected 0 to 4294967295");
        u32::try_from(count).map_err(|_| NnError::mismatch("model", reason()))
    };
    counts.into_iter().map(to_u32).collect()
}

pub(crate) fn as_f32(name: &str, view: &TensorView<'_>) -> Result<Vec<f32>> {
    let halves = view.data().as_chunks::<2>().0.iter();
    match view.dtype() {
        Dtype::F32 => Ok(f32_from_little_endian(view.data())),
        Dtype::F16 => Ok(halves.map(|&b| f16::from_le_bytes(b).to_f32()).collect()),
        Dtype::BF16 => Ok(halves.map(|&b| bf16::from_le_bytes(b).to_f32()).collect()),
        other => {
            let reason = format!("{name} holds {other:?}, expected F32, F16 or BF16");
            Err(NnError::mismatch("model", reason))
        }
    }
}

pub(crate) fn format_error(error: &safetensors::SafeTensorError) -> NnError {
    NnError::mismatch("safetensors", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::Init;
    use crate::parameters::ParameterBuilder;

    #[test]
    fn half_precision_files_are_read_exactly() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let mut builder = ParameterBuilder::new();
        builder.parameter("w", &[3], Init::Zeros);
        let weights = builder.build(&device, 0)?;
        let values = [1.5_f32, -0.0, 65_504.0]; // f16 holds all three; bf16 rounds the last.
        let as_f16: Vec<u8> = values
            .iter()
            .flat_map(|&v| f16::from_f32(v).to_le_bytes())
            .collect();
        let as_bf16: Vec<u8> = values
            .iter()
            .flat_map(|&v| bf16::from_f32(v).to_le_bytes())
            .collect();
        for (dtype, bytes, last) in [
            (Dtype::F16, as_f16, 65_504.0),
            (Dtype::BF16, as_bf16, 65_536.0),
        ] {
            let view = TensorView::new(dtype, vec![3], &bytes).map_err(|e| format_error(&e))?;
            let file = safetensors::serialize([("w", view)], None).map_err(|e| format_error(&e))?;
            weights.load_safetensors(&file)?;
            let read = device.download_words(&weights.values().slice(0, 3)?)?;
            assert_eq!(
                read,
                [1.5_f32.to_bits(), 0x8000_0000, f32::to_bits(last)],
                "{dtype:?}"
            );
        }
        Ok(())
    }
}
