//! The cases along an axis of `[rows, cols]`: reductions, running sums, order, and indices.
//! `inner` is the last axis, `outer` the first.

use anyhow::{Result, bail};
use hlx_core::{Buffer, DType, Device};
use hlx_kernels::indexing::{gather, index_add, index_select, scatter_add};
use hlx_kernels::reduce_axes::{Reduction, reduce};
use hlx_kernels::scan::cumsum;
use hlx_kernels::sort::{sort, topk};
use hlx_kernels::{Layout, Operand};

use crate::maker::{Launches, Maker};

/// The largest elements of a line that `topk` returns.
const TOP: usize = 64;

/// Prepares a case of the family.
///
/// # Errors
/// A device without the memory; an operation that does not exist.
pub fn axes(device: &Device, op: &str, [rows, cols]: [usize; 2]) -> Result<Launches> {
    let axis = match op.rsplit_once('_') {
        Some((_, "outer")) => 0,
        _ => 1,
    };
    let (name, n) = (op.trim_end_matches("_inner"), rows * cols);
    let case = Along {
        device: device.clone(),
        axis,
        x: Maker(device).values(n)?,
        layout: Layout::contiguous(&[rows, cols])?,
    };
    match name.trim_end_matches("_outer") {
        "sum" => case.reduction(Reduction::Sum),
        "amax" => case.reduction(Reduction::Max),
        "argmax" => case.reduction(Reduction::ArgMax),
        "cumsum" => {
            let out = Maker(device).empty(n)?;
            Ok(Box::new(move || {
                cumsum(&case.device, case.operand(), case.axis, &out)
            }))
        }
        "sort" => {
            let places = device.alloc_typed(DType::U32, n)?;
            let values = Maker(device).empty(n)?;
            Ok(Box::new(move || {
                let (x, axis) = (case.operand(), case.axis);
                sort(&case.device, x, axis, false, &values, &places)
            }))
        }
        "topk" => {
            let places = device.alloc_typed(DType::U32, rows * TOP)?;
            let values = Maker(device).empty(rows * TOP)?;
            Ok(Box::new(move || {
                let (x, axis) = (case.operand(), case.axis);
                topk(&case.device, x, TOP, axis, true, &values, &places)
            }))
        }
        indexed => case.indexed(indexed, [rows, cols]),
    }
}

/// An operand, and the axis that an operation goes along.
struct Along {
    device: Device,
    axis: usize,
    x: Buffer,
    layout: Layout,
}

impl Along {
    fn operand(&self) -> Operand<'_> {
        Operand {
            buffer: &self.x,
            layout: &self.layout,
        }
    }

    fn reduction(self, reduction: Reduction) -> Result<Launches> {
        let n = self.layout.shape()[1 - self.axis];
        let dtype = reduction.output_dtype(DType::F32);
        let out = self.device.alloc_typed(dtype, n)?;
        Ok(Box::new(move || {
            let axes = [self.axis];
            reduce(&self.device, reduction, self.operand(), &axes, &out)
        }))
    }

    /// `gather` and `scatter_add` have an index per element, the others one per row.
    fn indexed(self, op: &str, [rows, cols]: [usize; 2]) -> Result<Launches> {
        let make = Maker(&self.device);
        let shape = [rows, cols];
        let (index, index_layout) = match op {
            "gather" | "scatter_add" => (make.ids(rows * cols, cols)?, self.layout.clone()),
            "index_select" | "index_add" => (make.ids(rows, rows)?, Layout::contiguous(&[rows])?),
            _ => bail!("no operation `{op}` along an axis"),
        };
        let (op, out) = (op.to_owned(), make.empty(rows * cols)?);
        Ok(Box::new(move || {
            let (device, x) = (&self.device, self.operand());
            let index = Operand {
                buffer: &index,
                layout: &index_layout,
            };
            match op.as_str() {
                "gather" => gather(device, x, 1, index, &out, None),
                "scatter_add" => scatter_add(device, &out, &shape, 1, index, x, None),
                "index_select" => index_select(device, x, 0, index, &out, None),
                _ => index_add(device, &out, &shape, 0, index, x, None),
            }
        }))
    }
}
