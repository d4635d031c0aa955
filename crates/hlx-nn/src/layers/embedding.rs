//! A table of rows, looked up by id.

use hlx_autograd::Tensor;

use crate::{Init, Parameter, ParameterBuilder, Result};

/// Looks up a row for each id, as `torch.nn.Embedding`.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// \[rows, C\].
    pub weight: Parameter,
}

impl Embedding {
    /// Declares `NAME.weight`, normal with the given deviation.
    pub fn new(
        builder: &mut ParameterBuilder,
        name: &str,
        rows: usize,
        width: usize,
        std: f32,
    ) -> Self {
        let init = Init::Normal { std };
        Self {
            weight: builder.add(format!("{name}.weight"), &[rows, width], init),
        }
    }

    /// Looks up: the ids \[..\] to \[.., C\]. An id must be below the number of rows.
    ///
    /// # Errors
    /// Values in place of ids.
    pub fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        Ok(ids.embedding(self.weight.tensor()?)?)
    }
}
