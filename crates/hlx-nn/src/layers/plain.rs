//! Modules without parameters: shapes, and functions of an element or of a dimension.

use hlx_autograd::Tensor;

use crate::{Mode, Module, Result};

/// Merges dimensions, those of a sample by default, as `torch.nn.Flatten`.
#[derive(Clone, Copy, Debug)]
pub struct Flatten {
    /// The first of the dimensions.
    pub start_dim: isize,
    /// The last.
    pub end_dim: isize,
}

impl Flatten {
    /// All dimensions but the first, which counts samples.
    pub fn new() -> Self {
        Self {
            start_dim: 1,
            end_dim: -1,
        }
    }
}

impl Default for Flatten {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns its input, as `torch.nn.Identity`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity;

/// Computes x, and x times a slope from zero down, as `torch.nn.LeakyReLU`.
#[derive(Clone, Copy, Debug)]
pub struct LeakyReLU {
    /// The slope from zero down; PyTorch's default is 0.01.
    pub negative_slope: f32,
}

impl Default for LeakyReLU {
    fn default() -> Self {
        Self {
            negative_slope: 0.01,
        }
    }
}

/// Computes x, and alpha (exp(x) - 1) from zero down, as `torch.nn.ELU`.
#[derive(Clone, Copy, Debug)]
pub struct ELU {
    /// The limit far below zero, negated; PyTorch's default is 1.
    pub alpha: f32,
}

impl Default for ELU {
    fn default() -> Self {
        Self { alpha: 1.0 }
    }
}

/// Computes x clamp(x + 3, 0, 6) / 6, as `torch.nn.Hardswish`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hardswish;

/// Computes x tanh(softplus(x)), as `torch.nn.Mish`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mish;

/// Computes exp(x) over its sum along a dimension, as `torch.nn.Softmax`.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// The dimension.
    pub dim: isize,
}

/// Computes x - log(sum exp(x)) along a dimension, as `torch.nn.LogSoftmax`.
#[derive(Clone, Copy, Debug)]
pub struct LogSoftmax {
    /// The dimension.
    pub dim: isize,
}

macro_rules! modules {
    ($($name:ident |$module:ident, $x:ident| $result:expr;)+) => {
        $(
            impl Module for $name {
                fn forward(&self, $x: &Tensor, _mode: &Mode) -> Result<Tensor> {
                    let $module = self;
                    Ok($result)
                }
            }
        )+
    };
}
modules! {
    Flatten |module, x| x.flatten(module.start_dim, module.end_dim)?;
    Identity |_module, x| x.clone();
    LeakyReLU |module, x| x.leaky_relu(module.negative_slope)?;
    ELU |module, x| x.elu(module.alpha)?;
    Hardswish |_module, x| x.hardswish()?;
    Mish |_module, x| x.mish()?;
    Softmax |module, x| x.softmax_dim(module.dim)?;
    LogSoftmax |module, x| x.log_softmax(module.dim)?;
}
