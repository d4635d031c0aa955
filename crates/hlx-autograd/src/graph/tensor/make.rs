//! Tensors of given values, and leaves.

use std::sync::Arc;

use hlx_core::{Buffer, Device, Element};

use super::{Tensor, check_count};
use crate::Result;
use crate::error::AutogradError;
use crate::graph::input::{GradientSource, Input};
use crate::samples::Samples;

impl Tensor {
    /// Uploads elements of any type in row-major order: `shape` gives the extents, outermost first. Subnormals
    /// become zeros of their sign.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the number of elements.
    #[doc = example!(
        "let x = Tensor::from_slice(&device, &[1.0, 2.0, 3.0, 4.0], &[2, 2])?;",
        "assert_eq!((x.shape(), x.dtype()), (&[2, 2][..], DType::F32));",
        "assert_eq!(Tensor::from_slice(&device, &[1_i32, 2], &[2])?.dtype(), DType::I32);"
    )]
    pub fn from_slice<T: Element>(
        device: &Device,
        elements: &[T],
        shape: &[usize],
    ) -> Result<Self> {
        check_count("from_slice", elements.len(), shape)?;
        Self::from_buffer(device, device.buffer_of(elements)?, shape)
    }

    /// Wraps a buffer of values; nothing is copied.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the buffer's length.
    #[doc = example!(
        "let x = Tensor::from_buffer(&device, device.buffer_of(&[1.0, 2.0])?, &[2, 1])?;",
        "assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);"
    )]
    pub fn from_buffer(device: &Device, buffer: Buffer, shape: &[usize]) -> Result<Self> {
        check_count("from_buffer", buffer.len(), shape)?;
        let input = Input::constant(buffer.len());
        Self::dense_over(device, buffer, shape, Samples::None, input)
    }

    /// Wraps a named parameter. Its gradient is written into the buffer that `gradient` gives when a
    /// backward pass first reaches the parameter, such as a window of the one flat gradient buffer of
    /// a model: who never goes backward needs none.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] if the shape's product is not the length of `values`. A backward pass
    /// fails with what `gradient` answers.
    #[doc = example!(
        "let gradient = device.alloc(2)?;",
        "let own = gradient.clone();",
        "let w = Tensor::parameter(&device, \"w\", device.buffer_of(&[1.0, 2.0])?, std::sync::Arc::new(move || Ok(own.clone())), &[2])?;",
        "w.square()?.sum()?.backward()?;",
        "assert_eq!(device.download::<f32>(&gradient)?, [2.0, 4.0]);"
    )]
    pub fn parameter(
        device: &Device,
        name: &str,
        values: Buffer,
        gradient: GradientSource,
        shape: &[usize],
    ) -> Result<Self> {
        check_count("parameter", values.len(), shape)?;
        let source = checked(gradient, values.len());
        let input = Input::leaf(name, Some(source), shape);
        Self::dense_over(device, values, shape, Samples::None, input)
    }

    /// Returns another use of this parameter, such as an embedding that is the output projection too:
    /// the same memory, and a gradient that is summed apart, into the buffer that `gradient` gives, so that
    /// its bits do not depend on how a batch is split. A pass over the whole batch adds it to the
    /// parameter's own gradient at its end, in the order in which the uses went forward; after passes over
    /// parts that is for the caller to do. Hooks of the parameter see the gradient of its first use alone.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the tensor is no parameter.
    #[doc = example!(
        "let [own, of_use] = [device.alloc(2)?, device.alloc(2)?];",
        "let (first, second) = (own.clone(), of_use.clone());",
        "let w = Tensor::parameter(&device, \"w\", device.buffer_of(&[1.0, 2.0])?, std::sync::Arc::new(move || Ok(first.clone())), &[2])?;",
        "let again = w.another_use(std::sync::Arc::new(move || Ok(second.clone())))?;",
        "w.square()?.add(again.mul(3.0)?)?.sum()?.backward()?;",
        "assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [5.0, 7.0]);"
    )]
    pub fn another_use(&self, gradient: GradientSource) -> Result<Self> {
        let Some(leaf) = self.0.input.as_leaf() else {
            return Err(AutogradError::Argument {
                op: "another_use",
                reason: format!("the tensor {} is no parameter", self.described()),
            });
        };
        let first = leaf.first_use.as_ref().unwrap_or(leaf);
        let source = checked(gradient, self.n_elements());
        Ok(self.at(Input::another_use(first, source)))
    }
}

/// A source of gradients that refuses a buffer of another length.
fn checked(gradient: GradientSource, expected: usize) -> GradientSource {
    Arc::new(move || {
        let buffer = gradient()?;
        check_count("parameter gradient", buffer.len(), &[expected])?;
        Ok(buffer)
    })
}
