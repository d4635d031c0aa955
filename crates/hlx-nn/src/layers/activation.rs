//! Activations as modules.

use hlx_autograd::{Activation, Tensor};

use crate::{Mode, Module, Result};

/// As `torch.nn.ReLU`, `torch.nn.GELU` and the others, by the activation's name.
impl Module for Activation {
    /// Applied to each element; the shape stays.
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        Ok(x.activation(*self)?)
    }
}
