//! What holds a tensor's elements: memory, or a weight in blocks whose values are computed where something reads them.

use std::sync::{Arc, OnceLock};

use hlx_core::{Arithmetic, Buffer, DType, Device};
use hlx_kernels::product::blocks::{BlockRows, block_rows};
use hlx_kernels::product::{Matrices, Operand, Role};

use crate::graph::input::Input;
use crate::samples::Samples;
use crate::{Result, Tensor};

/// What the places of a tensor's layout count in; views share it.
#[derive(Clone)]
pub(super) enum Storage {
    Memory(Buffer),
    Blocks(Arc<InBlocks>),
}

/// A weight in blocks, and its values once something has read them.
pub(super) struct InBlocks {
    rows: BlockRows,
    /// The numbers of all rows: what the values are looked up by, also while a graph is recorded.
    ids: Buffer,
    values: OnceLock<Buffer>,
    device: Device,
}

impl Storage {
    /// The memory. Of blocks that have no values yet, and for which there is no memory, that of their words, which is
    /// too short for the layout: kernels refuse it.
    pub fn memory(&self) -> &Buffer {
        match self {
            Self::Memory(buffer) => buffer,
            Self::Blocks(blocks) => match blocks.values() {
                Ok(values) => values,
                Err(_) => &blocks.rows.words,
            },
        }
    }

    pub fn dtype(&self) -> DType {
        match self {
            Self::Memory(buffer) => buffer.dtype(),
            Self::Blocks(_) => DType::F32,
        }
    }

    /// The memory, unless the values are those of blocks, which nothing changes.
    pub fn changing(&self) -> Option<&Buffer> {
        match self {
            Self::Memory(buffer) => Some(buffer),
            Self::Blocks(_) => None,
        }
    }

    /// The memory, or why there is none for the values of blocks.
    pub fn try_memory(&self) -> Result<&Buffer> {
        match self {
            Self::Memory(buffer) => Ok(buffer),
            Self::Blocks(blocks) => blocks.values(),
        }
    }
}

impl InBlocks {
    fn values(&self) -> Result<&Buffer> {
        if let Some(values) = self.values.get() {
            return Ok(values);
        }
        let values = self.widened()?;
        Ok(self.values.get_or_init(|| values))
    }

    /// Computes the values into new memory.
    fn widened(&self) -> Result<Buffer> {
        let y = self.device.alloc_shape(&self.rows.sizes)?;
        block_rows(&self.device, &self.ids, &self.rows, &y)?;
        Ok(y)
    }

    /// The operand of a product: the blocks as they lie where it reads them, else one of their values, whose memory is free
    /// again behind the product.
    fn operand(&self, of: Matrices) -> Result<Operand> {
        let [n, k] = self.rows.sizes;
        let is_integer = self.device.product_arithmetic() == Arithmetic::Integer;
        if is_integer && of == Matrices::rows(1, n, k) {
            return Ok(Operand::Blocks(self.rows.clone()));
        }
        let values = match self.values.get() {
            Some(values) => values.clone(),
            None => self.widened()?,
        };
        Ok(Operand::new(&self.device, Role::Weight, &values, of)?)
    }
}

impl Tensor {
    /// Wraps a weight \[n, k\] in blocks. In the `integer` arithmetic linear maps multiply by the blocks as they lie
    /// ([`hlx_kernels::product::blocks`] has the definition), and embeddings look rows up in them. The gradient of a map's
    /// input, and maps in `portable`, read their values in f32, which are computed for each product and not held. Everything
    /// else reads values that take memory from the first time on. They do not change, and have no gradient.
    ///
    /// # Errors
    /// For sizes that no memory holds, and while a graph is recorded.
    pub fn from_blocks(device: &Device, rows: BlockRows) -> Result<Self> {
        let (shape, n) = (rows.sizes, rows.sizes[0] * rows.sizes[1]);
        let ids: Vec<u32> = (0..rows.sizes[0] as u32).collect();
        let blocks = InBlocks {
            ids: device.buffer_of(&ids)?,
            rows,
            values: OnceLock::new(),
            device: device.clone(),
        };
        let storage = Storage::Blocks(Arc::new(blocks));
        Self::dense_in(device, storage, &shape, Samples::None, Input::constant(n))
    }

    /// The weight in blocks whose elements these are, all and in order.
    pub(crate) fn in_blocks(&self) -> Option<&BlockRows> {
        match &self.0.storage {
            Storage::Blocks(blocks) if self.shape() == blocks.rows.sizes => {
                let is_whole = self.layout().is_contiguous() && self.layout().offset() == 0;
                is_whole.then_some(&blocks.rows)
            }
            _ => None,
        }
    }

    /// The operand of a weight in blocks, whose elements these all are; none of other tensors.
    pub(super) fn operand_of_blocks(&self, of: Matrices) -> Result<Option<Operand>> {
        match &self.0.storage {
            Storage::Blocks(blocks) if self.in_blocks().is_some() => blocks.operand(of).map(Some),
            _ => Ok(None),
        }
    }

    /// The values in f32: of a weight in blocks in new memory, which is not held with the blocks.
    ///
    /// # Errors
    /// As [`Tensor::to_dtype`].
    #[doc = example!(x: "assert_eq!(x.values_apart()?.dtype(), DType::F32);")]
    pub fn values_apart(&self) -> Result<Self> {
        match &self.0.storage {
            Storage::Blocks(blocks) if self.in_blocks().is_some() => {
                Self::from_buffer(self.device(), blocks.widened()?, self.shape())
            }
            _ => self.to_dtype(DType::F32),
        }
    }

    /// Whether the elements are those of blocks, which do not change.
    #[doc = example!(x: "assert!(!x.is_of_blocks());")]
    pub fn is_of_blocks(&self) -> bool {
        self.0.storage.changing().is_none()
    }
}
