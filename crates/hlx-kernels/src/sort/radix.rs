//! The radix sort of long lines on a GPU: a digit of 4 bits a pass, least significant first.
//!
//! Its passes run on Vulkan alone: the CPU device sorts a line in one launch ([`launch_on_gpu`]), and
//! a total order leaves only one result.

use hlx_core::{Binding, Buffer, DType, Device, Launch, Shader, groups_1d, push_bytes};

use super::{LONGEST_LINE, Second, Sort, rows_shader};
use crate::error::{KernelError, check_that};
use crate::terms::{Dims, Terms};

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
            let push = self.sort.push(self.blocks, pass * DIGIT_BITS);
            let first = pass == 0;
            self.count(&push, first, &from[0])?;
            self.offsets()?;
            let last = result.filter(|_| pass + 1 == passes);
            let to = match (last, spare.take()) {
                // The keys of the last pass are written nowhere.
                (Some(result), _) => [self.device.alloc_typed(DType::U32, 1)?, result.clone()],
                (None, Some(spare)) => spare,
                (None, None) => pairs_of(self.device, elements)?,
            };
            self.scatter(&push, (first, last.is_some()), &from, &to)?;
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

    fn count(&self, push: &rows_shader::Push, first: bool, x: &Buffer) -> Result<(), KernelError> {
        let bindings = [Binding::Read(x), Binding::Write(&self.counts)];
        let constants = self.constants(first);
        self.launch(
            &count_shader::SHADER,
            &constants,
            &bindings,
            push_bytes(push),
            self.blocks,
        )
    }

    fn offsets(&self) -> Result<(), KernelError> {
        let push = offsets_shader::Push {
            lines: self.sort.terms.n_results as u32,
            n: (self.blocks << DIGIT_BITS) as u32,
        };
        let bindings = [Binding::ReadWrite(&self.counts)];
        self.launch(
            &offsets_shader::SHADER,
            &[],
            &bindings,
            push_bytes(&push),
            1,
        )
    }

    fn scatter(
        &self,
        push: &rows_shader::Push,
        (first, last): (bool, bool),
        [keys, places]: &Pairs,
        [to_keys, to_places]: &Pairs,
    ) -> Result<(), KernelError> {
        let bindings = [
            Binding::Read(keys),
            Binding::Read(places),
            Binding::Read(&self.counts),
            Binding::Write(to_keys),
            Binding::Write(to_places),
        ];
        let [dtype, flip, first] = self.constants(first);
        let constants = [dtype, flip, first, (3, u32::from(last))];
        self.launch(
            &scatter_shader::SHADER,
            &constants,
            &bindings,
            push_bytes(push),
            self.blocks,
        )
    }

    /// Launches a pass with so many workgroups a line.
    fn launch(
        &self,
        shader: &'static Shader,
        specialization: &[(u32, u32)],
        bindings: &[Binding<'_>],
        push: &[u8],
        groups_a_line: usize,
    ) -> Result<(), KernelError> {
        let launch = Launch {
            name: self.name,
            shader,
            specialization,
            bindings,
            push,
            groups: groups_1d(self.sort.terms.n_results * groups_a_line),
        };
        launch_on_gpu(self.device, launch)
    }
}

/// Launches one of several kernels that together do what the CPU device does in one launch; the CPU
/// device refuses it.
pub(crate) fn launch_on_gpu(device: &Device, launch: Launch<'_>) -> Result<(), KernelError> {
    check_that(launch.name, !device.is_cpu(), || {
        "a kernel of GPUs alone on the CPU device".to_owned()
    })?;
    // The body is one of the CPU device's, which is not here.
    Ok(device.launch(launch, |_| {})?)
}

impl Terms {
    /// One contiguous line.
    fn of_line(n: usize) -> Self {
        Self {
            first: 0,
            origin: 0,
            kept: Dims::line(1, 0),
            reduced: Dims::line(n, 1),
            n_results: 1,
            n,
            along: true,
        }
    }
}
