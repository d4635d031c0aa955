//! Indexing by tensors of indices along an axis: `gather`, `index_select`, `scatter`, `scatter_add`
//! and `index_add`.
//!
//! **Indices** are u32 or i32. One that is negative or not below the axis' extent is out of range:
//! the element reads as 0 (or is skipped where it would be written), and if the launcher has a flag
//! buffer, its one u32 word becomes the smaller of itself and the row-major number of that index in
//! the index tensor. A caller fills the word with [`NO_BAD_INDEX`] before, and reads it when it
//! synchronises: another value is the first bad index. The minimum is of integers, so no order
//! shows, and one flag may serve any number of launches.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Binding, Buffer, DType, Device};

use crate::error::{KernelError, Result, check_typed};
use crate::kernel::{Kernel, PushConstants};
use crate::layout::{Layout, Operand, Walk};
use crate::map::GROUP_THREADS;
use crate::terms::{check_axis, check_fits, check_operand, part};

mod add_lines;
mod cpu;
mod scatter;
#[cfg(test)]
mod tests;

pub use scatter::{index_add, scatter, scatter_add};

shader!(gather_shader, indexing::gather);

/// What a flag word holds while no index was out of range.
pub const NO_BAD_INDEX: u32 = u32::MAX;

/// Writes `out[i] = x[i with index[i] in the place of axis]`, contiguous, of the index's shape and
/// x's type. The index has x's rank and along other axes at most x's extents. PyTorch:
/// `torch.gather`.
///
/// # Errors
/// [`KernelError::Argument`] for an axis that does not exist, an index of another rank, of larger
/// extents or of another type than u32 or i32, an `out` of another type, a flag that is not one u32,
/// or a tensor beyond 32-bit places on a GPU; [`KernelError::Length`] for an `out` of another length;
/// or the device's error. Indices out of range are no error here: see the module.
pub fn gather(
    device: &Device,
    x: Operand<'_>,
    axis: usize,
    index: Operand<'_>,
    out: &Buffer,
    flag: Option<&Buffer>,
) -> Result<()> {
    gather_named(device, "gather", x, axis, index, out, flag)
}

/// Writes the slices of `x` at the indices `[m]` along `axis`: out is contiguous, of x's shape with
/// `m` along the axis, and of x's type. PyTorch: `torch.index_select`.
///
/// # Errors
/// As [`gather`]; the index has one dimension.
pub fn index_select(
    device: &Device,
    x: Operand<'_>,
    axis: usize,
    index: Operand<'_>,
    out: &Buffer,
    flag: Option<&Buffer>,
) -> Result<()> {
    const NAME: &str = "index_select";
    check_axis(NAME, axis, x.layout.shape())?;
    let layout = along_axis(NAME, x.layout.shape(), axis, index.layout)?;
    let index = Operand::new(index.buffer, &layout);
    gather_named(device, NAME, x, axis, index, out, flag)
}

/// An index `[m]` repeated over a shape whose axis has extent `m` instead of its own.
fn along_axis(name: &'static str, shape: &[usize], axis: usize, index: &Layout) -> Result<Layout> {
    let argument = KernelError::argument(name);
    check_line(name, index)?;
    let mut wide = index.clone();
    for _ in axis + 1..shape.len() {
        wide = wide.unsqueeze(wide.rank()).map_err(argument)?;
    }
    let mut expanded = shape.to_vec();
    expanded[axis] = index.shape()[0];
    wide.expand(&expanded).map_err(argument)
}

/// The elements that indices choose among, one for each index.
#[derive(Clone, Debug)]
struct Picks {
    /// Dimensions of the operand without the axis, and of the index.
    walk: Walk<2>,
    count: usize,
    /// Extent and stride of the axis.
    n: usize,
    axis_stride: isize,
}

impl Picks {
    /// The picks of an index of valid extents; `starts` are the elements before either part.
    fn of(x: &Layout, axis: usize, index: &Layout, starts: [usize; 2]) -> Result<Self, String> {
        let mut line = x.clone();
        for (other, &extent) in index.shape().iter().enumerate() {
            if other != axis {
                line = line.slice(other, (0, extent, 1))?;
            }
        }
        let line = line.select(axis, 0)?.unsqueeze(axis)?;
        let mut walk = Walk::over([&line.expand(index.shape())?, index]);
        for (offset, start) in walk.offsets.iter_mut().zip(starts) {
            *offset -= start;
        }
        Ok(Self {
            walk,
            count: index.n_elements(),
            n: x.shape()[axis],
            axis_stride: x.strides()[axis],
        })
    }

    /// How the shader takes four words at a time: 0 not at all, 1 by a vector of indices, 2 by one
    /// index, from a vector of x.
    fn quads(&self) -> u32 {
        let Some(inner) = self.walk.shape.len().checked_sub(1) else {
            return 0;
        };
        if !self.walk.shape[inner].is_multiple_of(4) {
            return 0;
        }
        // Whether every line begins at a whole vector.
        let aligned = |k: usize| {
            let strides = &self.walk.strides[k][..inner];
            self.walk.offsets[k].is_multiple_of(4) && strides.iter().all(|stride| stride % 4 == 0)
        };
        let [x_step, index_step] = self.walk.steps();
        match (x_step, index_step) {
            (_, 1) if aligned(1) => 1,
            (1, 0) if aligned(0) && self.axis_stride % 4 == 0 => 2,
            _ => 0,
        }
    }

    fn push(&self) -> PushConstants {
        let (extents, [x_strides, index_strides]) = self.walk.words();
        push!(gather_shader =>
            count: self.count, n: self.n, axis_stride: self.axis_stride as u32,
            x_first: self.walk.offsets[0], index_first: self.walk.offsets[1],
            n_dims: self.walk.shape.len(), extents, x_strides, index_strides
        )
    }
}

fn gather_named(
    device: &Device,
    name: &'static str,
    x: Operand<'_>,
    axis: usize,
    index: Operand<'_>,
    out: &Buffer,
    flag: Option<&Buffer>,
) -> Result<()> {
    let dtype = x.buffer.dtype();
    check_index(name, x.layout.shape(), axis, index, flag)?;
    check_operand(name, "x", x)?;
    check_typed(name, "out", out, dtype, index.layout.n_elements())?;
    if out.is_empty() {
        return Ok(());
    }
    if x.layout.shape()[axis] == 0 {
        // Every index is out of range, the first one first.
        device.fill(out, 0)?;
        return flag.map_or(Ok(()), |flag| Ok(device.fill(flag, 0)?));
    }
    let ((x_part, x_start), (index_part, index_start)) = (part(x)?, part(index)?);
    let buffers = [("x", &x_part), ("index", &index_part), ("out", out)];
    for (argument, buffer) in buffers {
        check_fits(name, argument, device, buffer)?;
    }
    let starts = [x_start, index_start];
    let picks =
        Picks::of(x.layout, axis, index.layout, starts).map_err(KernelError::argument(name))?;
    let flagged = flag.is_some();
    let quads = match dtype.size() {
        4 => picks.quads(),
        _ => 0,
    };
    let vector = if quads == 0 { 1 } else { 4 };
    let bits = 8 * dtype.size() as u32;
    let kernel = Kernel::new(name, &gather_shader::SHADER)
        .constants(constants!(0: bits, flagged, quads))
        .reads([&x_part, &index_part])
        .writes_if(flag.map(Binding::ReadWrite))
        .writes([out]);
    let (push, groups) = (picks.push(), out.words().div_ceil(vector * GROUP_THREADS));
    kernel.launch(device, push, groups, move |[x, index], [flag, out]| {
        let index = cast_slice(index);
        let bad = match dtype.size() {
            4 => cpu::gather::<u32>(&picks, cast_slice(x), index, cast_slice_mut(out)),
            2 => cpu::gather::<u16>(&picks, cast_slice(x), index, cast_slice_mut(out)),
            _ => cpu::gather::<u8>(&picks, cast_slice(x), index, cast_slice_mut(out)),
        };
        lower(flagged.then_some(flag), bad);
    })
}
fn check_line(name: &'static str, index: &Layout) -> Result<()> {
    let shape = index.shape();
    check_that!(name, shape.len() == 1 => "index has shape {shape:?}, expected one dimension")
}

/// Lowers the word of a flag to the number of a bad index.
fn lower(flag: Option<&mut [f32]>, bad: u32) {
    if let Some(flag) = flag {
        let word: &mut u32 = &mut cast_slice_mut(flag)[0];
        *word = bad.min(*word);
    }
}

/// Checks an index tensor over a shape, and the flag.
fn check_index(
    name: &'static str,
    shape: &[usize],
    axis: usize,
    index: Operand<'_>,
    flag: Option<&Buffer>,
) -> Result<()> {
    check_axis(name, axis, shape)?;
    check_operand(name, "index", index)?;
    let dtype = index.buffer.dtype();
    check_that!(name, matches!(dtype, DType::U32 | DType::I32) =>
        "index has dtype {dtype}, expected u32 or i32")?;
    let found = index.layout.shape();
    let mut extents = found.iter().zip(shape).enumerate();
    let within = extents.all(|(other, (found, most))| other == axis || found <= most);
    check_that!(name, found.len() == shape.len() && within =>
        "index has shape {found:?}, expected at most {shape:?} but along axis {axis}")?;
    match flag {
        Some(flag) => check_typed(name, "flag", flag, DType::U32, 1),
        None => Ok(()),
    }
}
