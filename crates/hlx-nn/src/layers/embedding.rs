//! A table of rows, looked up by id.

use hlx_autograd::{DType, Tensor};

use crate::{Init, Mode, Module, Parameter, ParameterBuilder, Result};

/// Looks up a row for each id, as `torch.nn.Embedding`.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// \[rows, C\].
    pub weight: Parameter,
}

impl Embedding {
    /// Declares `weight`, normal with deviation 1, as PyTorch does.
    pub fn new(builder: &mut ParameterBuilder, rows: usize, width: usize) -> Self {
        Self::with_init(builder, rows, width, Init::Normal { std: 1.0 })
    }

    /// As [`Embedding::new`], with initial values of one's own.
    pub fn with_init(
        builder: &mut ParameterBuilder,
        rows: usize,
        width: usize,
        init: Init,
    ) -> Self {
        Self {
            weight: builder.parameter("weight", &[rows, width], init),
        }
    }
}

impl Module for Embedding {
    /// The ids \[..\] to \[.., C\] in f32. An id must be below the number of rows.
    fn forward(&self, ids: &Tensor, _mode: &Mode) -> Result<Tensor> {
        Ok(ids
            .embedding(&self.weight.tensor()?)?
            .to_dtype(DType::F32)?)
    }
}
