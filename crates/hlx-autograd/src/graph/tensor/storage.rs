//! What holds a tensor's elements: memory, or a weight in blocks whose values are computed where something reads them.

use std::sync::{Arc, OnceLock};

use hlx_core::{Buffer, DType, Device};
use hlx_kernels::product::blocks::{BlockRows, block_values};

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
        let values = block_values(&self.device, &self.rows)?;
        Ok(self.values.get_or_init(|| values))
    }
}

impl Tensor {
    /// Wraps a weight \[n, k\] in blocks. In the `integer` arithmetic linear maps multiply by the blocks as they lie
    /// ([`hlx_kernels::product::blocks`] has the definition), and embeddings look rows up in them. Everything else reads their
    /// values in f32, which take memory from the first time on. They do not change, and have no gradient.
    ///
    /// # Errors
    /// For sizes that no memory holds.
    pub fn from_blocks(device: &Device, rows: BlockRows) -> Result<Self> {
        let (shape, n) = (rows.sizes, rows.sizes[0] * rows.sizes[1]);
        let blocks = InBlocks {
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

    /// Whether the elements are those of blocks, which do not change.
    #[doc = example!(x: "assert!(!x.is_of_blocks());")]
    pub fn is_of_blocks(&self) -> bool {
        self.0.storage.changing().is_none()
    }
}
