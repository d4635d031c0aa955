//! What all layers and models have in common.

use hlx_autograd::Tensor;

use crate::{Mode, Result};

/// A layer, or a model made of layers, as `torch.nn.Module`.
///
/// A module is a plain struct of its layers; it is declared to a
/// [`ParameterBuilder`](crate::ParameterBuilder), whose names its parameters have, and computes once
/// that is built ([`Model`](crate::Model) does both). Whether a pass trains or evaluates is said by its
/// [`Mode`], not by the module: one model serves both, and several threads.
///
/// ```
/// use hlx_autograd::{DType, Tensor};
/// use hlx_core::Device;
/// use hlx_nn::{Dropout, Mode, Linear, Model, Module, ParameterBuilder, Result};
///
/// struct Net {
///     fc1: Linear,
///     dropout: Dropout,
///     fc2: Linear,
/// }
///
/// impl Net {
///     fn new(b: &mut ParameterBuilder) -> Self {
///         Self {
///             fc1: Linear::new(&mut b.child("fc1"), 784, 128),
///             dropout: Dropout::new(b, 0.5),
///             fc2: Linear::new(&mut b.child("fc2"), 128, 10),
///         }
///     }
/// }
///
/// impl Module for Net {
///     fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
///         let x = self.fc1.forward(x, mode)?.relu()?;
///         self.fc2.forward(&self.dropout.forward(&x, mode)?, mode)
///     }
/// }
///
/// let device = Device::open("cpu")?;
/// let net = Model::new(&device, 42, |b| Ok(Net::new(b)))?;
/// let x = Tensor::zeros(&device, &[32, 784], DType::F32)?;
/// let logits = net.forward(&x, &Mode::eval())?;
/// assert_eq!(logits.shape(), [32, 10]);
/// assert_eq!(net.weights().parameters()[3].name(), "fc2.bias");
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub trait Module: Send + Sync {
    /// Applies the module.
    ///
    /// # Errors
    /// An input that does not fit, and what the device reports.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor>;
}

impl<M: Module + ?Sized> Module for Box<M> {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        (**self).forward(x, mode)
    }
}
