//! How a tensor's elements are read: by kernels, and by the host.

use hlx_core::{ALIGNMENT_WORDS, Buffer, Element};
use hlx_kernels::Operand;
use hlx_kernels::elementwise::copy_strided;

use crate::graph::backward::watch;
use crate::graph::tape::note;
use crate::{Result, Tensor};

impl Tensor {
    /// The elements in row-major order: the tensor's own memory if they lie so, else a copy.
    ///
    /// # Errors
    /// What the device reports.
    #[doc = example!(x: "assert_eq!(device.download::<f32>(&x.transpose(0, 1)?.buffer()?)?[1], 4.0);")]
    pub fn buffer(&self) -> Result<Buffer> {
        self.0.storage.try_memory()?;
        let Operand {
            buffer: storage,
            layout,
        } = self.operand();
        let unit = ALIGNMENT_WORDS * self.dtype().per_word();
        if layout.is_contiguous() && layout.offset().is_multiple_of(unit) {
            let (offset, len) = (layout.offset(), self.n_elements());
            return Ok(storage.slice(offset, len)?);
        }
        let out = self.device().alloc_typed(self.dtype(), self.n_elements())?;
        copy_strided(self.device(), self.operand(), &out)?;
        Ok(out)
    }

    /// The memory and the elements' places in it, for kernels that take strides.
    #[doc = example!(x: "assert_eq!(x.select(0, 1)?.operand().layout.offset(), 3);")]
    pub fn operand(&self) -> Operand<'_> {
        watch::reads(self);
        note(self);
        Operand {
            buffer: self.0.storage.memory(),
            layout: &self.0.layout,
        }
    }

    /// Downloads the elements in row-major order, as values of the tensor's type; waits for the device.
    ///
    /// # Errors
    /// [`DType`](crate::AutogradError::DType) for another type, and what the device reports.
    #[doc = example!(
        x: "assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);",
        "assert_eq!(x.to_dtype(DType::I8)?.to_vec::<i8>()?, [1, 2, 3, 4, 5, 6]);"
    )]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.to_vec_of("to_vec")
    }

    /// Downloads the one element of a tensor, as `torch.Tensor.item`; waits for the device.
    ///
    /// # Errors
    /// [`Shape`](crate::AutogradError::Shape) for more or fewer elements, [`DType`](crate::AutogradError::DType) for another type.
    #[doc = example!(x: "assert_eq!(x.sum()?.item::<f32>()?, 21.0);")]
    pub fn item<T: Element>(&self) -> Result<T> {
        match self.to_vec_of("item")?.as_slice() {
            &[element] => Ok(element),
            _ => Err(self.shape_error("item", "the tensor", "one element")),
        }
    }

    fn to_vec_of<T: Element>(&self, op: &'static str) -> Result<Vec<T>> {
        self.expect_type(op, "the tensor", T::DTYPE)?;
        if self.n_elements() == 0 {
            return Ok(Vec::new());
        }
        Ok(self.device().download(&self.buffer()?)?)
    }
}
