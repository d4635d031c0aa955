//! Parameters: declared by layers, stored flat, all values in one buffer and all gradients in a
//! second of the same layout.

mod files;
mod store;

use std::collections::HashSet;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock};
use std::thread;

use hlx_autograd::Tensor;
use hlx_core::{Context, align_words};

pub use self::store::ParameterStore;
use self::store::zeros;
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
                ctx.upload_f32(&parameter.tensor()?.buffer()?, &values)?;
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
    fn a_name_declared_twice_is_refused() {
        let ctx = hlx_core::testing::cpu().expect("the CPU device opens");
        let mut builder = ParameterBuilder::new();
        builder.add("w", &[2], Init::Zeros);
        builder.add("w", &[3], Init::Zeros);
        let error = builder.build(&ctx, 0).expect_err("two of one name");
        assert_eq!(error.to_string(), "parameter w is declared twice");
    }
}
