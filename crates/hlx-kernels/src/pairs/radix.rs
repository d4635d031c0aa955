//! The radix sort of long lines on a GPU: a digit of 4 bits a pass, least significant first.
//!
//! Its passes run on Vulkan alone: the CPU device sorts a line in one launch, and
//! a total order leaves only one result.

use hlx_core::{Buffer, DType, Device};

use super::{LONGEST_LINE, Second, Sort};
use crate::error::KernelError;
use crate::kernel::{Kernel, PushConstants};
use crate::layout::Walk;
use crate::terms::Terms;

shader!(count_shader, sort::count);
shader!(offsets_shader, sort::offsets);
shader!(scatter_shader, sort::scatter);

/// Pairs of a workgroup.
const BLOCK: usize = 4096;

/// Bits of a pass.
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
) -> Result<(), KernelError> {
    Passes::new(device, name, sort, 32)?.run(x, Some(places))?;
    Ok(())
}

/// Returns keys `[n]` of the lowest `bits` bits in ascending order, and the places that they had;
/// equal keys keep their order.
pub(crate) fn sorted_pairs(
    device: &Device,
    name: &'static str,
    keys: &Buffer,
    bits: usize,
) -> Result<Pairs, KernelError> {
    let n = keys.len();
    let sort = Sort {
        terms: Terms::of_line(n),
        inner: 1,
        k: n,
        dtype: DType::U32,
        flip: 0,
    };
    if !device.is_cpu() && n > LONGEST_LINE {
        return Passes::new(device, name, &sort, bits)?.run(keys, None);
    }
    let pairs = pairs_of(device, n)?;
    sort.launch_lines(device, name, keys, Second::Keys(&pairs[0]), &pairs[1])?;
    Ok(pairs)
}

/// Memory of `n` pairs.
pub(super) fn pairs_of(device: &Device, n: usize) -> Result<Pairs, KernelError> {
    Ok([
        device.alloc_typed(DType::U32, n)?,
        device.alloc_typed(DType::U32, n)?,
    ])
}

/// The passes of one sort.
struct Passes<'a> {
    device: &'a Device,
    name: &'static str,
    sort: &'a Sort,
    /// Bits of the keys.
    bits: usize,
    /// Blocks of a line.
    blocks: usize,
    /// `[lines, 16, blocks]`.
    counts: Buffer,
}

impl<'a> Passes<'a> {
    fn new(
        device: &'a Device,
        name: &'static str,
        sort: &'a Sort,
        bits: usize,
    ) -> Result<Self, KernelError> {
        let blocks = sort.terms.n.div_ceil(BLOCK);
        let counts = (sort.terms.n_results * blocks) << DIGIT_BITS;
        Ok(Self {
            device,
            name,
            sort,
            bits,
            blocks,
            counts: device.alloc_typed(DType::U32, counts)?,
        })
    }

    /// Sorts; the last pass writes `result` instead of pairs, if there is one.
    fn run(&self, x: &Buffer, result: Option<&Buffer>) -> Result<Pairs, KernelError> {
        let elements = self.sort.terms.n_results * self.sort.terms.n;
        let passes = self.bits.div_ceil(DIGIT_BITS).max(1);
        let mut from = [x.clone(), x.clone()];
        let mut spare: Option<Pairs> = None;
        for pass in 0..passes {
            let (n, shift) = (self.sort.terms.n, pass * DIGIT_BITS);
            let push = self.sort.push(n, self.blocks, shift);
            let first = pass == 0;
            self.count(push, first, &from[0])?;
            self.offsets()?;
            let last = result.filter(|_| pass + 1 == passes);
            let to = match (last, spare.take()) {
                // The keys of the last pass are written nowhere.
                (Some(result), _) => [self.device.alloc_typed(DType::U32, 1)?, result.clone()],
                (None, Some(spare)) => spare,
                (None, None) => pairs_of(self.device, elements)?,
            };
            self.scatter(push, (first, last.is_some()), &from, &to)?;
            let read = std::mem::replace(&mut from, to);
            spare = (!first).then_some(read);
        }
        Ok(from)
    }

    fn constants(&self, first: bool) -> [(u32, u32); 3] {
        [
            (0, self.sort.dtype.id()),
            (1, self.sort.flip),
            (2, u32::from(first)),
        ]
    }

    /// Workgroups of a pass with a number of them per line.
    fn groups(&self, per_line: usize) -> usize {
        self.sort.terms.n_results * per_line
    }

    fn count(&self, push: PushConstants, first: bool, x: &Buffer) -> Result<(), KernelError> {
        Kernel::new(self.name, &count_shader::SHADER)
            .constants(&self.constants(first))
            .reads([x])
            .writes([&self.counts])
            .launch_on_gpu(self.device, push, self.groups(self.blocks))
    }

    fn offsets(&self) -> Result<(), KernelError> {
        let (lines, n) = (self.sort.terms.n_results, self.blocks << DIGIT_BITS);
        let push = push!(offsets_shader => lines, n);
        Kernel::new(self.name, &offsets_shader::SHADER)
            .updates([&self.counts])
            .launch_on_gpu(self.device, push, self.groups(1))
    }

    fn scatter(
        &self,
        push: PushConstants,
        (first, last): (bool, bool),
        [keys, places]: &Pairs,
        to: &Pairs,
    ) -> Result<(), KernelError> {
        let [dtype, flip, first] = self.constants(first);
        Kernel::new(self.name, &scatter_shader::SHADER)
            .constants(&[dtype, flip, first, (3, u32::from(last))])
            .reads([keys, places, &self.counts])
            .writes(to.each_ref())
            .launch_on_gpu(self.device, push, self.groups(self.blocks))
    }
}

impl Terms {
    /// One contiguous line.
    fn of_line(n: usize) -> Self {
        Self {
            first: 0,
            origin: 0,
            kept: Walk::line(1, 0),
            reduced: Walk::line(n, 1),
            n_results: 1,
            n,
            along: true,
        }
    }
}
