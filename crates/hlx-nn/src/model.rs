//! A module together with its weights.

use std::ops::Deref;

use hlx_autograd::DType;
use hlx_core::Device;
use hlx_kernels::product::blocks::{BlockFormat, BlockRows};

use crate::{Parameter, ParameterBuilder, Result, Weights};

/// A module whose parameters and buffers have been allocated. It can be used as the module itself.
#[derive(Debug)]
pub struct Model<M> {
    module: M,
    weights: Weights,
}

impl<M> Model<M> {
    /// Declares a module and draws its initial weights from the seed.
    ///
    /// # Errors
    /// What `declare` answers, [`NnError::DuplicateParameter`](crate::NnError::DuplicateParameter), and
    /// what the device reports.
    pub fn new(
        device: &Device,
        seed: u64,
        declare: impl FnOnce(&mut ParameterBuilder) -> Result<M>,
    ) -> Result<Self> {
        let mut builder = ParameterBuilder::new();
        let module = declare(&mut builder)?;
        let weights = builder.build(device, seed)?;
        Ok(Self { module, weights })
    }

    /// Declares a module whose parameters are zeros, for weights that come from a file.
    ///
    /// # Errors
    /// As [`Model::new`].
    pub fn zeroed(
        device: &Device,
        declare: impl FnOnce(&mut ParameterBuilder) -> Result<M>,
    ) -> Result<Self> {
        let mut builder = ParameterBuilder::new();
        let module = declare(&mut builder)?;
        let weights = builder.build_zeroed(device)?;
        Ok(Self { module, weights })
    }

    /// Declares a module whose adapters are trained over a frozen base, which lies apart from its weights: see
    /// [`ParameterBuilder::build_over`].
    ///
    /// # Errors
    /// As [`Model::new`], and as [`ParameterBuilder::build_over`].
    pub fn over_base(
        device: &Device,
        seed: u64,
        dtype: DType,
        declare: impl FnOnce(&mut ParameterBuilder) -> Result<M>,
        blocks: impl FnMut(&Parameter) -> Result<Option<BlockRows>>,
    ) -> Result<Self> {
        let mut builder = ParameterBuilder::new();
        let module = declare(&mut builder)?;
        let weights = builder.build_over(device, seed, dtype, blocks)?;
        Ok(Self { module, weights })
    }

    /// As [`Model::over_base`], over a base in blocks that is drawn from the seed: see [`ParameterBuilder::build_over_drawn`].
    ///
    /// # Errors
    /// As [`Model::over_base`].
    pub fn over_drawn_base(
        device: &Device,
        seed: u64,
        format: &'static BlockFormat,
        declare: impl FnOnce(&mut ParameterBuilder) -> Result<M>,
    ) -> Result<Self> {
        let mut builder = ParameterBuilder::new();
        let module = declare(&mut builder)?;
        let weights = builder.build_over_drawn(device, seed, format)?;
        Ok(Self { module, weights })
    }

    /// Moves the model to another device: see [`Weights::to`].
    ///
    /// # Errors
    /// What either device reports.
    pub fn to(&mut self, device: &Device) -> Result<()> {
        self.weights.to(device)
    }

    /// The same weights under another module, such as one that holds this one.
    pub fn map<N>(self, wrap: impl FnOnce(M) -> N) -> Model<N> {
        Model {
            module: wrap(self.module),
            weights: self.weights,
        }
    }

    /// The parameters and buffers.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The module.
    pub fn module(&self) -> &M {
        &self.module
    }
}

impl<M> Deref for Model<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.module
    }
}
