//! Parameters as safetensors files, and their digests.

use std::collections::BTreeMap;

use half::{bf16, f16};
use hlx_core::Buffer;
use hlx_core::digest::TensorHasher;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::{Parameter, ParameterStore};
use crate::Result;
use crate::error::NnError;

impl ParameterStore {
    /// Downloads all values once, for their digest and their file.
    ///
    /// # Errors
    /// What the device reports.
    pub fn snapshot(&self) -> Result<ParameterSnapshot<'_>> {
        let (store, values) = (self, self.download(&self.values)?);
        Ok(ParameterSnapshot { store, values })
    }

    /// Returns the SHA-256 over all values: names, shapes and bits in the order of the names.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<String> {
        Ok(self.snapshot()?.digest())
    }

    /// Returns the SHA-256 over flat buffers of this layout, each with a prefix for its names,
    /// in the order of the full names.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest_of(&self, buffers: &[(&str, &Buffer)]) -> Result<String> {
        let mut named = BTreeMap::new();
        for (prefix, buffer) in buffers {
            for (parameter, values) in self.parameters.iter().zip(self.download(buffer)?) {
                named.insert(
                    format!("{prefix}{}", parameter.name()),
                    (parameter.shape(), values),
                );
            }
        }
        let mut hasher = TensorHasher::new();
        for (name, (shape, values)) in &named {
            hasher.add(name, shape, values);
        }
        Ok(hasher.finish())
    }

    /// Writes all values as a safetensors file in memory.
    ///
    /// # Errors
    /// What the device or the format reports.
    pub fn to_safetensors(&self) -> Result<Vec<u8>> {
        self.snapshot()?.to_safetensors()
    }

    /// Replaces all values by those of a safetensors file in memory; nothing is written unless
    /// every tensor fits. f16 and bf16 become f32 exactly.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] for bytes that are no safetensors file, a missing, extra or
    /// mis-shaped tensor, or one that is neither f32, f16 nor bf16.
    pub fn load_safetensors(&self, bytes: &[u8]) -> Result<()> {
        let file = SafeTensors::deserialize(bytes).map_err(|e| format_error(&e))?;
        let unknown = |name: &&str| self.get(name).is_none();
        if let Some(extra) = file.names().into_iter().filter(unknown).min() {
            return Err(NnError::mismatch(
                "model",
                format!("{extra} is no parameter of it"),
            ));
        }
        let mut values = Vec::with_capacity(self.parameters.len());
        for parameter in &self.parameters {
            values.push(read_tensor(&file, parameter)?);
        }
        self.upload(&self.values, &values)
    }
}

/// All values of a store as they were when they were downloaded.
#[derive(Debug)]
pub struct ParameterSnapshot<'a> {
    store: &'a ParameterStore,
    /// One vector a parameter, in the order of declaration.
    values: Vec<Vec<f32>>,
}

impl ParameterSnapshot<'_> {
    /// Returns the SHA-256 over all values, as [`ParameterStore::digest`].
    pub fn digest(&self) -> String {
        let parameters = self.store.parameters.iter().zip(&self.values);
        let named: BTreeMap<&str, _> = parameters
            .map(|(parameter, values)| (parameter.name(), (parameter.shape(), values)))
            .collect();
        let mut hasher = TensorHasher::new();
        for (name, (shape, values)) in &named {
            hasher.add(name, shape, values);
        }
        hasher.finish()
    }

    /// Writes the values as a safetensors file in memory.
    ///
    /// # Errors
    /// What the format reports.
    pub fn to_safetensors(&self) -> Result<Vec<u8>> {
        let to_bytes = |values: &Vec<f32>| values.iter().map(|value| value.to_le_bytes()).collect();
        let bytes: Vec<Vec<[u8; 4]>> = self.values.iter().map(to_bytes).collect();
        let mut views = Vec::with_capacity(bytes.len());
        for (parameter, bytes) in self.store.parameters.iter().zip(&bytes) {
            let view =
                TensorView::new(Dtype::F32, parameter.shape().to_vec(), bytes.as_flattened());
            views.push((parameter.name(), view.map_err(|e| format_error(&e))?));
        }
        safetensors::serialize(views, None).map_err(|e| format_error(&e))
    }
}

fn read_tensor(file: &SafeTensors<'_>, parameter: &Parameter) -> Result<Vec<f32>> {
    let (name, expected) = (parameter.name(), parameter.shape());
    let Ok(view) = file.tensor(name) else {
        return Err(NnError::mismatch("model", format!("{name} is missing")));
    };
    if view.shape() != expected {
        let reason = format!("{name} has shape {:?}, expected {expected:?}", view.shape());
        return Err(NnError::mismatch("model", reason));
    }
    let words = view.data().as_chunks::<4>().0.iter();
    let halves = view.data().as_chunks::<2>().0.iter();
    match view.dtype() {
        Dtype::F32 => Ok(words.map(|&bytes| f32::from_le_bytes(bytes)).collect()),
        Dtype::F16 => Ok(halves.map(|&b| f16::from_le_bytes(b).to_f32()).collect()),
        Dtype::BF16 => Ok(halves.map(|&b| bf16::from_le_bytes(b).to_f32()).collect()),
        other => {
            let reason = format!("{name} holds {other:?}, expected F32, F16 or BF16");
            Err(NnError::mismatch("model", reason))
        }
    }
}

fn format_error(error: &safetensors::SafeTensorError) -> NnError {
    NnError::mismatch("safetensors", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::Init;
    use crate::parameters::ParameterBuilder;

    #[test]
    fn half_precision_files_are_read_exactly() -> Result<()> {
        let ctx = hlx_core::testing::cpu()?;
        let mut builder = ParameterBuilder::new();
        builder.add("w", &[3], Init::Zeros);
        let store = builder.build(&ctx, 0)?;
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
            store.load_safetensors(&file)?;
            let read = ctx.download_u32(&store.values().slice(0, 3)?)?;
            assert_eq!(
                read,
                [1.5_f32.to_bits(), 0x8000_0000, f32::to_bits(last)],
                "{dtype:?}"
            );
        }
        Ok(())
    }
}
