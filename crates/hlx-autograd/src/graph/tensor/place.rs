//! The same memory in other tensors: other places in it, other samples, another place on the tape.

use std::sync::{Arc, OnceLock};

use hlx_core::{Buffer, DType, Device, last_moment};
use hlx_kernels::Layout;

use super::storage::Storage;
use super::{Inner, Tensor};
use crate::Result;
use crate::graph::input::Input;
use crate::samples::Samples;

impl Tensor {
    /// The same memory at another place of the tape.
    pub(crate) fn at(&self, input: Input) -> Self {
        self.with_layout(self.0.layout.clone(), self.0.samples, input)
    }

    /// Other places in the same memory, at a place of the tape that tells how the values came about.
    pub(crate) fn with_layout(&self, layout: Layout, samples: Samples, input: Input) -> Self {
        Self(Arc::new(Inner {
            device: self.0.device.clone(),
            storage: self.0.storage.clone(),
            layout,
            samples,
            of_leaf: self.0.of_leaf || input.as_leaf().is_some(),
            input,
            born: self.0.born,
            placed: last_moment(),
            again: OnceLock::new(),
        }))
    }

    /// The same memory as elements of another type of the same width, without a gradient.
    pub(crate) fn retyped(&self, dtype: DType) -> Result<Self> {
        let memory = self.0.storage.try_memory()?;
        let storage = memory.view_as(dtype, memory.len())?;
        Ok(Self(Arc::new(Inner {
            device: self.0.device.clone(),
            storage: Storage::Memory(storage),
            layout: self.0.layout.clone(),
            input: Input::constant(self.n_elements()),
            placed: last_moment(),
            again: OnceLock::new(),
            ..*self.0
        })))
    }

    /// The same values of the same history, with the samples of a batch elsewhere.
    fn with_samples_at(&self, samples: Samples) -> Self {
        Self(Arc::new(Inner {
            device: self.0.device.clone(),
            storage: self.0.storage.clone(),
            layout: self.0.layout.clone(),
            samples,
            input: self.0.input.clone(),
            again: OnceLock::new(),
            ..*self.0
        }))
    }

    /// The same memory, whose values have just been changed by an operation at this place of the tape.
    pub(crate) fn changed_by(&self, input: Input, samples: Samples) -> Self {
        Self(Arc::new(Inner {
            device: self.0.device.clone(),
            storage: self.0.storage.clone(),
            layout: self.0.layout.clone(),
            samples,
            input,
            born: last_moment(),
            placed: last_moment(),
            of_leaf: self.0.of_leaf,
            again: OnceLock::new(),
        }))
    }

    /// The same values as made now: a gradient that a hook has given is none that was saved.
    pub(crate) fn as_new(&self) -> Self {
        self.changed_by(self.input(), self.samples())
    }

    /// States that the samples of a batch lie along a dimension, one index each. The batch of a
    /// training pass needs it where the pass sums by shards ([`BackwardPlan`](crate::BackwardPlan));
    /// operations carry it on.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) if the tensor has no such dimension.
    #[doc = example!(
        x: "assert_eq!(x.with_samples(0)?.samples(), Samples::Along { axis: 0, each: 1 });"
    )]
    pub fn with_samples(&self, axis: usize) -> Result<Self> {
        if axis >= self.rank() {
            let expected = format!("one with a dimension {axis}");
            return Err(self.shape_error("with_samples", "the tensor", expected));
        }
        Ok(self.with_samples_at(Samples::along(axis)))
    }

    /// A buffer's elements in row-major order.
    pub(crate) fn dense_over(
        device: &Device,
        buffer: Buffer,
        shape: &[usize],
        samples: Samples,
        input: Input,
    ) -> Result<Self> {
        Self::dense_in(device, Storage::Memory(buffer), shape, samples, input)
    }

    /// All elements of a storage in row-major order.
    pub(super) fn dense_in(
        device: &Device,
        storage: Storage,
        shape: &[usize],
        samples: Samples,
        input: Input,
    ) -> Result<Self> {
        Ok(Self(Arc::new(Inner {
            device: device.clone(),
            storage,
            layout: Layout::contiguous(shape)?,
            samples,
            of_leaf: input.as_leaf().is_some(),
            input,
            born: last_moment(),
            placed: last_moment(),
            again: OnceLock::new(),
        })))
    }

    /// The tensor with its samples where an operation has moved them.
    #[doc = example!(x: "assert_eq!(x.with_samples_of(Samples::Lost).samples(), Samples::Lost);")]
    pub fn with_samples_of(self, samples: Samples) -> Self {
        if samples == self.samples() {
            return self;
        }
        self.with_samples_at(samples)
    }
}
