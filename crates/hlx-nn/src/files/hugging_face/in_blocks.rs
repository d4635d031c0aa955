//! Models whose matrices stay in the blocks of a GGUF file or in NF4: for inference, and as the frozen base of adapters.

use std::collections::HashMap;
use std::path::Path;

use hlx_core::Device;
use hlx_kernels::product::blocks::BlockRows;

use super::names::Place;
use super::source::TensorSource;
use super::{LOADING, blocks, open_model, part_of, read_parameters, stored_shape, tied};
use crate::error::NnError;
use crate::layers::lora::is_of_adapter;
use crate::parameters::load_values;
use crate::{CausalConfig, CausalLm, InferenceModel, Model, Parameter, ParameterBuilder, Result};

/// As [`import_hugging_face`](super::import_hugging_face), for inference, with matrices in blocks where a GGUF file or a folder has them
/// so ([`hlx_autograd::Tensor::from_blocks`]). Other matrices are in f32, or in the 16 bits that a folder in NF4 stores them in.
///
/// # Errors
/// As [`import_hugging_face`](super::import_hugging_face).
pub fn import_in_blocks(device: &Device, path: &Path) -> Result<InferenceModel<CausalLm>> {
    let source = Source::open(path)?;
    let declare = |b: &mut ParameterBuilder| CausalLm::new(b, &source.config);
    let mut done = 0;
    let blocks = |parameter: &Parameter| source.blocks(device, parameter, &mut done);
    let dtype = source.tensors.dtype_beside_blocks();
    let model = InferenceModel::with_blocks(device, dtype, declare, blocks)?;
    source.load_others(device, model.parameters())?;
    Ok(model)
}

/// Reads a model as the frozen base of adapters, whose parameters alone are its weights: matrices in blocks where the files have
/// them so, others in the type that it stores all of them in, everything else in f32. The adapters have their initial values for
/// a seed. The model is that of `declare`, whose base must have the parameters of the files.
///
/// # Errors
/// As [`import_hugging_face`](super::import_hugging_face), and as [`ParameterBuilder::build_over`]; [`NnError::Mismatch`] for a
/// parameter that the files have not.
pub fn import_over(
    device: &Device,
    path: &Path,
    seed: u64,
    declare: impl FnOnce(&mut ParameterBuilder) -> Result<CausalLm>,
) -> Result<Model<CausalLm>> {
    let source = Source::open(path)?;
    let mut done = 0;
    let blocks = |parameter: &Parameter| source.blocks(device, parameter, &mut done);
    let dtype = source.tensors.dtype_beside_blocks();
    // The shape is that of the configuration, which may differ from the files' in what no parameter shows, such as dropout.
    let model = Model::over_base(device, seed, dtype, declare, blocks)?;
    if let Some(base) = model.weights().base() {
        let trained = model.weights().parameters();
        let trained = trained.iter().filter(|one| !is_of_adapter(one.name()));
        let all: Vec<Parameter> = base.parameters().iter().chain(trained).cloned().collect();
        source.check(&all)?;
        if device.has_memory() {
            source.load_others(device, &all)?;
            model.weights().begin_magnitudes()?;
        }
    }
    Ok(model)
}

/// The name of the embedding in models whose output may be tied to it.
const EMBEDDING: &str = "model.embed_tokens.weight";

/// The tensors of a path, and where they have each parameter.
struct Source {
    config: CausalConfig,
    tensors: Box<dyn TensorSource>,
    places: HashMap<String, Place>,
    /// The number of all elements.
    total: usize,
}

impl Source {
    fn open(path: &Path) -> Result<Self> {
        let (config, tensors, places) = open_model(path)?;
        let mut builder = ParameterBuilder::new();
        CausalLm::new(&mut builder, &config)?;
        let declared = builder.declared_parameters();
        let names = declared.iter().map(|one| one.name().to_owned());
        Ok(Self {
            total: declared.iter().map(Parameter::n_elements).sum(),
            places: names.zip(places).collect(),
            config,
            tensors,
        })
    }

    /// Where the tensors have a parameter. The output of a model that they tie to the embedding is the embedding, if the model
    /// has it as a matrix of its own, as under an adapter.
    fn place(&self, name: &str) -> Option<&Place> {
        let found = self.places.get(name);
        found.or_else(|| (name == tied::HEAD).then(|| self.places.get(EMBEDDING))?)
    }

    /// The blocks of a matrix, if the tensors have some; `done` counts the elements read so far.
    fn blocks(
        &self,
        device: &Device,
        parameter: &Parameter,
        done: &mut usize,
    ) -> Result<Option<BlockRows>> {
        let Some(place) = self.place(parameter.name()) else {
            return Ok(None);
        };
        tracing::trace!(target: LOADING, done = *done, total = self.total);
        *done += parameter.n_elements();
        if place.transposed || !self.tensors.in_blocks(&place.name) {
            return Ok(None);
        }
        let shape = self.tensors.shape(&place.name).unwrap_or_default();
        let arriving = part_of(&*self.tensors, shape, place)?;
        blocks::packed(device, self.tensors.path(), &place.name, &arriving)
    }

    /// Fails unless the tensors have these parameters, in their shapes, and no others.
    fn check(&self, parameters: &[Parameter]) -> Result<()> {
        let path = self.tensors.path();
        for parameter in parameters {
            let (name, shape) = (parameter.name(), parameter.shape());
            let Some(place) = self.place(name) else {
                let reason = format!("the model has {name}, which these weights have not");
                return Err(NnError::file(path, reason));
            };
            self.tensors
                .check(&place.name, &stored_shape(shape, place))?;
        }
        if let Some(name) = self
            .places
            .keys()
            .filter(|name| !parameters.iter().any(|one| one.name() == *name))
            .min()
        {
            let reason = format!("these weights have {name}, which the model has not");
            return Err(NnError::file(path, reason));
        }
        Ok(())
    }

    /// Reads the parameters that the tensors have and that are in no blocks.
    fn load_others(&self, device: &Device, parameters: &[Parameter]) -> Result<()> {
        tracing::trace!(target: LOADING, done = self.total, total = self.total);
        let others = parameters.iter().filter_map(|parameter| {
            let place = self.place(parameter.name())?;
            let tensor = parameter.tensor().ok()?;
            (!tensor.is_of_blocks()).then(|| (parameter.clone(), place.clone()))
        });
        let (parameters, places): (Vec<_>, Vec<_>) = others.unzip();
        read_parameters(
            &*self.tensors,
            &parameters,
            &places,
            |parameter, arriving| {
                let values = arriving.into_floats(self.tensors.path(), parameter.name())?;
                load_values(device, parameter, &values)
            },
        )
    }
}
