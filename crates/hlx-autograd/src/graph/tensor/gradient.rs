//! A tensor's gradient, and what the tape knows of it.

use super::Tensor;
use crate::Result;
use crate::error::AutogradError;
use crate::graph::input::{Input, Leaf};
use crate::samples::Samples;

impl Tensor {
    /// Whether a backward pass through this tensor collects or passes on a gradient.
    #[doc = example!(x: "assert!(!x.requires_grad() && x.with_gradient().exp()?.requires_grad());")]
    pub fn requires_grad(&self) -> bool {
        self.0.input.requires_grad()
    }

    /// The name of the operation that put this tensor on the tape; `None` for leaves and for tensors that
    /// require no gradient. PyTorch's `grad_fn`.
    #[doc = example!(
        x: "assert_eq!(x.with_gradient().exp()?.grad_fn(), Some(\"exp\"));",
        "assert_eq!(x.exp()?.grad_fn(), None);"
    )]
    pub fn grad_fn(&self) -> Option<&'static str> {
        self.0.input.node().map(|node| node.op)
    }

    /// The gradient that backward passes have left in this leaf since [`Tensor::zero_grad`];
    /// `None` before, and for tensors that are no leaves.
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "assert!(x.grad().is_none());",
        "x.sum()?.backward()?;",
        "assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [1.0; 6]);"
    )]
    pub fn grad(&self) -> Option<Tensor> {
        let slot = self.leaf()?.slot();
        if let Some(gradient) = &slot.tensor {
            return Some(gradient.clone());
        }
        let buffer = slot.buffer.as_ref().filter(|_| slot.filled)?;
        let input = Input::constant(buffer.len());
        let (device, shape) = (self.device(), self.shape());
        Self::dense_over(device, buffer.clone(), shape, Samples::None, input).ok()
    }

    /// Whether [`Tensor::grad`] gives a gradient.
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "x.sum()?.backward()?;",
        "assert!(x.has_grad());"
    )]
    pub fn has_grad(&self) -> bool {
        self.leaf().is_some_and(|leaf| {
            let slot = leaf.slot();
            slot.tensor.is_some() || (slot.filled && slot.buffer.is_some())
        })
    }

    /// Gives this leaf a gradient, to which the next backward pass adds; the memory is shared if its elements
    /// are in row-major order.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the tensor is no leaf that requires a gradient, and as
    /// [`Tensor::backward_from`] for a gradient of another shape, type or device.
    #[doc = example!(
        x: "let w = x.with_gradient();",
        "w.set_grad(&x)?;",
        "w.sum()?.backward()?;",
        "assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);"
    )]
    pub fn set_grad(&self, gradient: &Tensor) -> Result<()> {
        const OP: &str = "set_grad";
        let Some(leaf) = self.leaf() else {
            return Err(AutogradError::Argument {
                op: OP,
                reason: format!(
                    "the tensor {} is no leaf that requires a gradient",
                    self.described()
                ),
            });
        };
        self.same_device(OP, [("the gradient", Some(gradient))])?;
        gradient.expect_type(OP, "the gradient", self.dtype())?;
        if gradient.shape() != self.shape() {
            let expected = format!("{:?}", self.shape());
            return Err(gradient.shape_error(OP, "the gradient", expected));
        }
        let values = gradient.buffer()?;
        let mut slot = leaf.slot();
        slot.fetch()?;
        match slot.buffer.clone().filter(|_| slot.external) {
            Some(own) => self.device().copy(&values, &own)?,
            None => {
                slot.buffer = Some(values);
                slot.tensor = gradient.requires_grad().then(|| gradient.clone());
            }
        }
        slot.filled = true;
        Ok(())
    }

    /// Discards this leaf's gradient: the next backward pass overwrites it. Nothing is written to
    /// the device.
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "x.sum()?.backward()?;",
        "x.zero_grad();",
        "assert!(x.grad().is_none());"
    )]
    pub fn zero_grad(&self) {
        if let Some(leaf) = self.leaf() {
            let mut slot = leaf.slot();
            slot.filled = false;
            slot.tensor = None;
            if !slot.external {
                slot.buffer = None;
            }
        }
    }

    pub(crate) fn leaf(&self) -> Option<&Leaf> {
        self.0.input.as_leaf().map(|leaf| &**leaf)
    }
}
