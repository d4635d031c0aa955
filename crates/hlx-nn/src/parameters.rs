//! Parameters: declared by layers, stored flat, all values in one buffer and all gradients in a
//! second of the same layout.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread;

use half::{bf16, f16};
use hlx_autograd::Tensor;
use hlx_core::digest::TensorHasher;
use hlx_core::{Buffer, Context, align_words};
use hlx_kernels::tree_digest::TensorSpan;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::Result;
use crate::error::NnError;
use crate::init::Init;

/// A handle to a parameter, held by the layer that uses it. Clones are the same parameter.
#[derive(Clone, Debug)]
pub struct Parameter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    shape: Vec<usize>,
    init: Init,
    tensor: OnceLock<Tensor>,
}

impl Parameter {
    /// The name, such as `blocks.0.attention.qkv.weight`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// The number of elements.
    pub fn n_elements(&self) -> usize {
        self.0.shape.iter().product()
    }

    /// Returns the values as a leaf of the tape.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`] before [`ParameterBuilder::build`].
    pub fn tensor(&self) -> Result<&Tensor> {
        self.0.tensor.get().ok_or_else(|| NnError::NotBuilt {
            name: self.0.name.clone(),
        })
    }
}

/// Collects the parameters that layers declare; [`ParameterBuilder::build`] gives them memory.
#[derive(Debug, Default)]
pub struct ParameterBuilder {
    parameters: Vec<Parameter>,
}

impl ParameterBuilder {
    /// Starts without parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares a parameter; its index, which keys its initial values, is the number of
    /// parameters declared before.
    pub fn add(&mut self, name: impl Into<String>, shape: &[usize], init: Init) -> Parameter {
        let (name, shape) = (name.into(), shape.to_vec());
        let parameter = Parameter(Arc::new(Inner {
            name,
            shape,
            init,
            tensor: OnceLock::new(),
        }));
        self.parameters.push(parameter.clone());
        parameter
    }

    /// Allocates all parameters and draws their initial values.
    ///
    /// # Errors
    /// [`NnError::DuplicateParameter`], and what the device reports.
    pub fn build(self, ctx: &Context, seed: u64) -> Result<ParameterStore> {
        let store = self.build_zeroed(ctx)?;
        let drawn = store.parameters.iter().enumerate();
        let drawn = drawn.filter(|(_, parameter)| parameter.0.init != Init::Zeros);
        thread::scope(|scope| {
            // One parameter is uploaded while the next is drawn.
            let (sender, receiver) = sync_channel(1);
            scope.spawn(move || {
                for (parameter_idx, parameter) in drawn {
                    let n = parameter.n_elements();
                    let values = parameter.0.init.draw(seed, parameter_idx, n);
                    if sender.send((parameter, values)).is_err() {
                        return; // An upload has failed.
                    }
                }
            });
            for (parameter, values) in receiver {
                ctx.upload_f32(parameter.tensor()?.buffer(), &values)?;
            }
            Ok(())
        })
        .map(|()| store)
    }

    /// Allocates all parameters as zeros, for values that come from a file.
    ///
    /// # Errors
    /// As [`ParameterBuilder::build`].
    pub fn build_zeroed(self, ctx: &Context) -> Result<ParameterStore> {
        let mut names = HashSet::new();
        let mut offsets = Vec::with_capacity(self.parameters.len());
        let mut words = 0;
        for parameter in &self.parameters {
            if !names.insert(parameter.name()) || parameter.0.tensor.get().is_some() {
                return Err(NnError::DuplicateParameter {
                    name: parameter.name().to_owned(),
                });
            }
            offsets.push(words);
            words += align_words(parameter.n_elements());
        }
        let (values, gradients) = (zeros(ctx, words)?, zeros(ctx, words)?);
        for (parameter, &offset) in self.parameters.iter().zip(&offsets) {
            let n = parameter.n_elements();
            let (value, gradient) = (values.slice(offset, n)?, gradients.slice(offset, n)?);
            let tensor =
                Tensor::parameter(ctx, parameter.name(), value, gradient, parameter.shape())?;
            // The check above found the cell empty, and this builder is its only writer.
            let _ = parameter.0.tensor.set(tensor);
        }
        let parameters = self.parameters;
        tracing::debug!("{} parameters in {words} words", parameters.len());
        Ok(ParameterStore {
            ctx: ctx.clone(),
            values,
            gradients,
            parameters,
            offsets,
        })
    }
}

/// All parameters of a model: one buffer of values, one of gradients, one layout.
///
/// Each parameter starts at a multiple of 64 words, in the order of declaration; the words
/// between are zero in both buffers and stay so.
#[derive(Debug)]
pub struct ParameterStore {
    ctx: Context,
    values: Buffer,
    gradients: Buffer,
    parameters: Vec<Parameter>,
    offsets: Vec<usize>,
}

impl ParameterStore {
    /// The device's context.
    pub fn context(&self) -> &Context {
        &self.ctx
    }

    /// All values, padding included.
    pub fn values(&self) -> &Buffer {
        &self.values
    }

    /// All gradients, in the layout of the values.
    pub fn gradients(&self) -> &Buffer {
        &self.gradients
    }

    /// The parameters in the order of declaration.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The parameter of a name.
    pub fn get(&self, name: &str) -> Option<&Parameter> {
        self.parameters
            .iter()
            .find(|parameter| parameter.name() == name)
    }

    /// The number of parameters' elements, without padding.
    pub fn n_elements(&self) -> usize {
        self.parameters.iter().map(Parameter::n_elements).sum()
    }

    /// The words of a flat buffer: the elements and the padding between them.
    pub fn n_words(&self) -> usize {
        self.values.len()
    }

    /// Where each parameter lies in a flat buffer of this layout, in the order of declaration,
    /// with a prefix for the names.
    pub fn spans(&self, prefix: &str) -> Vec<TensorSpan> {
        let span = |(parameter, &offset): (&Parameter, &usize)| TensorSpan {
            name: format!("{prefix}{}", parameter.name()),
            shape: parameter.shape().to_vec(),
            offset,
        };
        self.parameters
            .iter()
            .zip(&self.offsets)
            .map(span)
            .collect()
    }

    /// Makes a buffer of zeros in the layout of the values, such as an optimizer's moments.
    ///
    /// # Errors
    /// What the device reports.
    pub fn zeros_like(&self) -> Result<Buffer> {
        zeros(&self.ctx, self.n_words())
    }

    /// Discards all gradients: the next backward pass overwrites them.
    ///
    /// # Errors
    /// [`NnError::NotBuilt`], which a store from a builder never gives.
    pub fn zero_grad(&self) -> Result<()> {
        for parameter in &self.parameters {
            parameter.tensor()?.zero_grad();
        }
        Ok(())
    }

    /// Checks that a backward pass has reached every parameter.
    ///
    /// # Errors
    /// [`NnError::MissingGradient`] for the first that none has.
    pub fn check_gradients(&self) -> Result<()> {
        for parameter in &self.parameters {
            if parameter.tensor()?.grad().is_none() {
                return Err(NnError::MissingGradient {
                    name: parameter.name().to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Downloads a flat buffer of this layout and cuts it into one vector a parameter, in the
    /// order of declaration.
    ///
    /// # Errors
    /// What the device reports.
    pub fn download(&self, flat: &Buffer) -> Result<Vec<Vec<f32>>> {
        let words = self.ctx.download_f32(flat)?;
        let cut = |(parameter, &offset): (&Parameter, &usize)| {
            words[offset..offset + parameter.n_elements()].to_vec()
        };
        Ok(self.parameters.iter().zip(&self.offsets).map(cut).collect())
    }

    /// Uploads one vector a parameter, in the order of declaration, into a flat buffer of this
    /// layout.
    ///
    /// # Errors
    /// [`NnError::Mismatch`] if a length is wrong, and what the device reports.
    pub fn upload(&self, flat: &Buffer, values: &[Vec<f32>]) -> Result<()> {
        if values.len() != self.parameters.len() {
            let reason = format!(
                "{} tensors, expected {}",
                values.len(),
                self.parameters.len()
            );
            return Err(NnError::mismatch("upload", reason));
        }
        for ((parameter, &offset), values) in self.parameters.iter().zip(&self.offsets).zip(values)
        {
            let n = parameter.n_elements();
            if values.len() != n {
                let (name, found) = (parameter.name(), values.len());
                let reason = format!("{name} has {found} elements, expected {n}");
                return Err(NnError::mismatch("upload", reason));
            }
            self.ctx.upload_f32(&flat.slice(offset, n)?, values)?;
        }
        Ok(())
    }

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

fn zeros(ctx: &Context, words: usize) -> Result<Buffer> {
    let buffer = ctx.alloc(words)?;
    ctx.fill(&buffer, 0)?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> ParameterStore {
        let ctx = hlx_core::testing::cpu().expect("the CPU device opens");
        let mut builder = ParameterBuilder::new();
        builder.add("b.weight", &[5, 13], Init::Normal { std: 0.5 });
        builder.add("a.bias", &[3], Init::Zeros);
        builder.add("a.gain", &[70], Init::Ones);
        builder.build(&ctx, 9).expect("builds")
    }

    #[test]
    fn parameters_start_at_multiples_of_64_words_with_zeros_between() -> Result<()> {
        let store = store();
        assert_eq!(store.offsets, [0, 128, 192]);
        assert_eq!((store.n_words(), store.n_elements()), (320, 138));
        let words = store.ctx.download_f32(store.values())?;
        assert!(
            words[65..192]
                .iter()
                .chain(&words[262..])
                .all(|word| word.to_bits() == 0)
        );
        assert!(words[..65].iter().all(|word| *word != 0.0));
        assert!(words[192..262].iter().all(|word| *word == 1.0));
        Ok(())
    }

    #[test]
    fn a_store_returns_from_safetensors_with_its_digest() -> Result<()> {
        let (first, second) = (store(), store());
        let digest = first.digest()?;
        assert_eq!(second.digest()?, digest);
        second.ctx.fill(second.values(), 0)?;
        assert_ne!(second.digest()?, digest);
        second.load_safetensors(&first.to_safetensors()?)?;
        assert_eq!(second.digest()?, digest);
        Ok(())
    }

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

    #[test]
    fn a_name_declared_twice_is_refused() {
        let ctx = hlx_core::testing::cpu().expect("the CPU device opens");
        let mut builder = ParameterBuilder::new();
        builder.add("w", &[2], Init::Zeros);
        builder.add("w", &[3], Init::Zeros);
        let error = builder.build(&ctx, 0).expect_err("two of one name");
        assert_eq!(error.to_string(), "parameter w is declared twice");
    }
}
