//! Modules one after the other.

use std::fmt;

use hlx_autograd::Tensor;

use crate::{Mode, Module, ParameterBuilder, Result};

/// Applies modules in order, as `torch.nn.Sequential`; their names are 0, 1 and so on.
///
/// ```
/// use hlx_autograd::{Activation, DType, Tensor};
/// use hlx_core::Device;
/// use hlx_nn::{Mode, Linear, Model, Module, Sequential};
///
/// let device = Device::open("cpu")?;
/// let net = Model::new(&device, 42, |b| {
///     Ok(Sequential::new(b)
///         .add(|b| Linear::new(b, 784, 128))
///         .add(|_| Activation::ReLU)
///         .add(|b| Linear::new(b, 128, 10)))
/// })?;
/// let logits = net.forward(&Tensor::zeros(&device, &[2, 784], DType::F32)?, &Mode::eval())?;
/// assert_eq!(logits.shape(), [2, 10]);
/// assert_eq!(net.weights().parameters()[2].name(), "2.weight");
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub struct Sequential {
    builder: ParameterBuilder,
    modules: Vec<Box<dyn Module>>,
}

impl Sequential {
    /// Starts without modules; those that are added are declared to `builder`.
    pub fn new(builder: &ParameterBuilder) -> Self {
        Self {
            builder: builder.same_scope(),
            modules: Vec::new(),
        }
    }

    /// Adds a module, which `declare` makes with the builder of its name.
    #[must_use]
    #[allow(clippy::should_implement_trait)] // Nothing is summed; the name is the field's.
    pub fn add<M: Module + 'static>(
        mut self,
        declare: impl FnOnce(&mut ParameterBuilder) -> M,
    ) -> Self {
        let module = declare(&mut self.builder.child(self.modules.len()));
        self.modules.push(Box::new(module));
        self
    }

    /// The modules.
    pub fn modules(&self) -> &[Box<dyn Module>] {
        &self.modules
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let mut x = x.clone();
        for module in &self.modules {
            x = module.forward(&x, mode)?;
        }
        Ok(x)
    }
}

impl fmt::Debug for Sequential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sequential of {} modules", self.modules.len())
    }
}
