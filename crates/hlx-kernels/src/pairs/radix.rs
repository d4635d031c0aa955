//! The radix sort of long lines on a GPU: a digit of 4 bits a sweep, least significant first.
//!
//! Its sweeps run on Vulkan alone: the CPU device sorts a line in one launch, and
//! a total order leaves only one result.

use hlx_core::{Buffer, DType, Device};

use super::{LONGEST_LINE, Second, Sort};
use crate::error::Result;
use crate::kernel::Kernel;
use crate::layout::Walk;
use crate::terms::Terms;

shader!(sort::{count as count_shader, offsets as offsets_shader, scatter as scatter_shader});

/// Pairs of a workgroup.
const BLOCK: usize = 4096;

/// Bits of a sweep.
const DIGIT_BITS: usize = 4;

/// Keys and places, `[lines, n]` each.
pub(super) type Pairs = [Buffer; 2];

/// Writes the places of the first `k` of each line.
pub(super) fn argsort(
    device: &Device,
    name: &'static str,
    sort: &Sort,
    x: &Buffer,
    places: &Buffer,
) -> Result<()> {
    sweeps(device, name, sort, 32, x, Some(places)).map(drop)
}

/// Returns keys `[n]` of the lowest `bits` bits in ascending order, and the places that they had;
/// equal keys stay in their order.
pub(crate) fn sorted_pairs(
    device: &Device,
    name: &'static str,
    keys: &Buffer,
    bits: usize,
) -> Result<Pairs> {
    let n = keys.len();
    let sort = Sort {
        terms: Terms::of_line(n),
        inner: 1,
        k: n,
        dtype: DType::U32,
        flip: 0,
    };
    if !device.is_cpu() && n > LONGEST_LINE {
        return sweeps(device, name, &sort, bits, keys, None);
    }
    let pairs = pairs_of(device, n)?;
    sort.launch_lines(device, name, keys, Second::Keys(&pairs[0]), &pairs[1])?;
    Ok(pairs)
}

/// Memory of `n` pairs.
pub(super) fn pairs_of(device: &Device, n: usize) -> Result<Pairs> {
    Ok([
        device.alloc_typed(DType::U32, n)?,
        device.alloc_typed(DType::U32, n)?,
    ])
}

/// Sorts by the lowest `bits` bits of the keys; the last sweep writes `result` instead of pairs, if there is one.
fn sweeps(
    device: &Device,
    name: &'static str,
    sort: &Sort,
    bits: usize,
    x: &Buffer,
    result: Option<&Buffer>,
) -> Result<Pairs> {
    let (lines, n) = (sort.terms.n_results, sort.terms.n);
    let blocks = n.div_ceil(BLOCK);
    let counts = &device.alloc_shape_typed(DType::U32, &[lines, 1 << DIGIT_BITS, blocks])?;
    let sweeps = bits.div_ceil(DIGIT_BITS).max(1);
    let mut from = [x.clone(), x.clone()];
    let mut spare: Option<Pairs> = None;
    for sweep in 0..sweeps {
        let push = sort.push(n, blocks, sweep * DIGIT_BITS);
        let last = result.filter(|_| sweep + 1 == sweeps);
        let constants = constants!(0: sort.dtype.id(), sort.flip, sweep == 0, last.is_some());
        Kernel::new(name, &count_shader::SHADER)
            .constants(&constants[..3])
            .reads([&from[0]])
            .writes([counts])
            .launch_on_gpu(device, push, lines * blocks)?;
        let of_counts = push!(offsets_shader => lines, n: blocks << DIGIT_BITS);
        Kernel::new(name, &offsets_shader::SHADER)
            .updates([counts])
            .launch_on_gpu(device, of_counts, lines)?;
        let to = match (last, spare.take()) {
            // The keys of the last sweep are written nowhere.
            (Some(result), _) => [device.alloc_typed(DType::U32, 1)?, result.clone()],
            (None, Some(spare)) => spare,
            (None, None) => pairs_of(device, lines * n)?,
        };
        Kernel::new(name, &scatter_shader::SHADER)
            .constants(constants)
            .reads([&from[0], &from[1], counts])
            .writes(to.each_ref())
            .launch_on_gpu(device, push, lines * blocks)?;
        let read = std::mem::replace(&mut from, to);
        spare = (sweep > 0).then_some(read);
    }
    Ok(from)
}

impl Terms {
    /// One contiguous line.
    fn of_line(n: usize) -> Self {
        Self {
            first: 0,
            origin: 0,
            remaining: Walk::line(1, 0),
            reduced: Walk::line(n, 1),
            n_results: 1,
            n,
            along: true,
        }
    }
}
