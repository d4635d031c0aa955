//! Writing and adding by index along an axis: `scatter`, `scatter_add` and `index_add`, in place.
//!
//! `scatter`: where several indices choose one element, the last in row-major order of the index wins.
//!
//! `scatter_add`, `index_add`: **the order of a target's additions** is that of its contributions in
//! row-major order of the index. They are cut into pieces of 4,096. The first piece is a chain that
//! goes on from the stored value, each other piece a chain from +0, and their values are added to
//! the first's in order. A float result of zero is +0; a target without a contribution keeps its
//! value; integers wrap. No float is added by an atomic operation: on a GPU contributions are sorted by
//! target, or followed line by line where there are many lines.

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Binding, Buffer, DType, Device};

use super::add_lines::Lines;
use super::cpu::Addition;
use super::{Picks, check_index, check_line, cpu, lower};
use crate::error::{KernelError, Result, check_len};
use crate::kernel::{Kernel, PushConstants};
use crate::layout::{Layout, Operand, Walk};
use crate::map::GROUP_THREADS;
use crate::pairs::sorted_pairs;
use crate::terms::{PIECE, check_axis, check_fits, check_operand, part};

shader!(indexing::{targets, scatter as scatter_shader, starts, chains as chains_shader, chains_of_four, joins});

/// Writes `target[i with index[i] in the place of axis] = source[i]` in place, for every index `i` of
/// the index's shape; target is contiguous of `shape`. The index has its rank and along other axes
/// at most its extents, and nowhere more than the source's. PyTorch: `target.scatter_(axis, index,
/// source)`, whose result among equal targets is open.
///
/// # Errors
/// [`KernelError::Argument`] for an axis that does not exist, an index of another rank, of larger
/// extents or of another type than u32 or i32, a source of another type, a flag that is not one u32,
/// or a tensor beyond 32-bit places on a GPU; [`KernelError::Length`] for a target of another length;
/// or the device's error. Indices out of range write nothing and set the flag: see the module above.
#[allow(clippy::too_many_arguments)] // PyTorch's plain arguments.
pub fn scatter(
    device: &Device,
    target: &Buffer,
    shape: &[usize],
    axis: usize,
    index: Operand<'_>,
    source: Operand<'_>,
    flag: Option<&Buffer>,
) -> Result<()> {
    const NAME: &str = "scatter";
    let source_layout = check(NAME, target, shape, axis, index, source, flag)?;
    if index.layout.n_elements() == 0 {
        return Ok(());
    }
    let picks = picks_of(NAME, &Layout::contiguous(shape)?, axis, index.layout)?;
    let winners = device.alloc_typed(DType::U32, target.len())?;
    device.fill(&winners, 0)?;
    choose(device, NAME, picks, index, flag, &winners, true)?;

    let source = Operand::new(source.buffer, &source_layout);
    let (source_part, start) = part(source)?;
    check_fits(NAME, "source", device, &source_part)?;
    check_fits(NAME, "target", device, target)?;
    let mut walk = Walk::over([&source_layout]);
    walk.offsets[0] -= start;
    let (extents, [strides]) = walk.words();
    let push = push!(scatter_shader =>
        count: target.len(), first: walk.offsets[0], n_dims: walk.shape.len(), extents, strides
    );
    let bytes = target.dtype().size();
    let kernel = Kernel::new(NAME, &scatter_shader::SHADER)
        .constants([(0, 8 * bytes as u32)])
        .reads([&source_part, &winners])
        .updates([target]);
    let groups = target.words().div_ceil(GROUP_THREADS);
    kernel.launch(device, push, groups, move |[source, winners], [target]| {
        let winners = cast_slice(winners);
        match bytes {
            4 => cpu::scatter::<u32>(&walk, cast_slice(source), winners, cast_slice_mut(target)),
            2 => cpu::scatter::<u16>(&walk, cast_slice(source), winners, cast_slice_mut(target)),
            _ => cpu::scatter::<u8>(&walk, cast_slice(source), winners, cast_slice_mut(target)),
        }
    })
}

/// Adds `source[i]` to `target[i with index[i] in the place of axis]` in place, for every index `i`
/// of the index's shape, in the written order; f32, i32 or u32. PyTorch:
/// `target.scatter_add_(axis, index, source)`.
///
/// # Errors
/// As [`scatter`].
#[allow(clippy::too_many_arguments)] // PyTorch's plain arguments.
pub fn scatter_add(
    device: &Device,
    target: &Buffer,
    shape: &[usize],
    axis: usize,
    index: Operand<'_>,
    source: Operand<'_>,
    flag: Option<&Buffer>,
) -> Result<()> {
    const NAME: &str = "scatter_add";
    let source_layout = check(NAME, target, shape, axis, index, source, flag)?;
    if index.layout.n_elements() == 0 {
        return Ok(());
    }
    let float = target.dtype().is_float();
    let source = Operand::new(source.buffer, &source_layout);
    let lines = Lines::of(shape, axis, index.layout, &source_layout, float)?;
    if lines.suit(device, target) {
        return lines.launch(device, target, index, source, flag);
    }
    let picks = picks_of(NAME, &Layout::contiguous(shape)?, axis, index.layout)?;
    let addition = Addition {
        count: picks.count,
        lines: 1,
        n: target.len(),
        inner: 1,
        axis_stride: 0,
        walk: Walk::over([&source_layout]),
        by_position: true,
        float,
    };
    addition.launch(device, NAME, picks, index, flag, source, target)
}

/// Adds the slices of `source` along `axis` to those of `target` at the indices `[m]`, in place and
/// in the written order; f32, i32 or u32. Target is contiguous of `shape`; the source has `m` along
/// the axis and otherwise that shape. PyTorch: `target.index_add_(axis, index, source)`.
///
/// # Errors
/// As [`scatter`]; the index has one dimension, and the source the stated shape.
#[allow(clippy::too_many_arguments)] // PyTorch's plain arguments.
pub fn index_add(
    device: &Device,
    target: &Buffer,
    shape: &[usize],
    axis: usize,
    index: Operand<'_>,
    source: Operand<'_>,
    flag: Option<&Buffer>,
) -> Result<()> {
    const NAME: &str = "index_add";
    check_axis(NAME, axis, shape)?;
    check_line(NAME, index.layout)?;
    let m = index.layout.n_elements();
    let mut expected = shape.to_vec();
    expected[axis] = m;
    check_that!(NAME, source.layout.shape() == expected =>
        "source has shape {found:?}, expected {expected:?}", found = source.layout.shape())?;
    let line = Layout::contiguous(&[shape[axis]])?;
    check_index(NAME, line.shape(), 0, index, flag)?;
    check_memory(NAME, target, shape, source)?;
    if source.layout.n_elements() == 0 {
        return Ok(());
    }
    let picks = picks_of(NAME, &line, 0, index.layout)?;
    let slice = source.layout.select(axis, 0);
    let slice = slice.map_err(KernelError::argument(NAME))?;
    let addition = Addition {
        count: m,
        lines: slice.n_elements(),
        n: shape[axis],
        inner: shape[axis + 1..].iter().product(),
        axis_stride: source.layout.strides()[axis],
        walk: Walk::over([&slice]),
        by_position: false,
        float: target.dtype().is_float(),
    };
    addition.launch(device, NAME, picks, index, flag, source, target)
}

/// Checks the arguments of a scatter and returns the source's layout at the index's shape.
fn check(
    name: &'static str,
    target: &Buffer,
    shape: &[usize],
    axis: usize,
    index: Operand<'_>,
    source: Operand<'_>,
    flag: Option<&Buffer>,
) -> Result<Layout> {
    check_index(name, shape, axis, index, flag)?;
    check_memory(name, target, shape, source)?;
    let (found, expected) = (source.layout.shape(), index.layout.shape());
    let mut extents = found.iter().zip(expected);
    let covers = extents.all(|(found, least)| found >= least);
    check_that!(name, found.len() == expected.len() && covers =>
        "source has shape {found:?}, expected at least the index's {expected:?}")?;
    let mut layout = source.layout.clone();
    for (axis, &extent) in expected.iter().enumerate() {
        let part = layout.slice(axis, (0, extent, 1));
        layout = part.map_err(KernelError::argument(name))?;
    }
    Ok(layout)
}

fn check_memory(
    name: &'static str,
    target: &Buffer,
    shape: &[usize],
    source: Operand<'_>,
) -> Result<()> {
    check_operand(name, "source", source)?;
    check_len(name, "target", target, shape)?;
    let (found, expected) = (source.buffer.dtype(), target.dtype());
    check_that!(name, found == expected =>
        "source has dtype {found}, expected the target's {expected}")?;
    let adds = name != "scatter";
    check_that!(name, !adds || expected.size() == 4 =>
        "target has dtype {expected}, expected f32, i32 or u32")
}

/// The picks of an index, in the part of its buffer that [`choose`] binds.
fn picks_of(name: &'static str, x: &Layout, axis: usize, index: &Layout) -> Result<Picks> {
    Picks::of(x, axis, index, [0, 0]).map_err(KernelError::argument(name))
}

/// Writes each index's place to `targets`, or each place's last index with `winners`.
fn choose(
    device: &Device,
    name: &'static str,
    mut picks: Picks,
    index: Operand<'_>,
    flag: Option<&Buffer>,
    targets: &Buffer,
    winners: bool,
) -> Result<()> {
    // Places and numbers have 32 bits, of which all set are none of them.
    let largest = picks.count.max(targets.len());
    check_that!(name, u32::try_from(largest + 1).is_ok() =>
        "{largest} indices or targets are more than 2^32 - 2")?;
    let (index_part, start) = part(index)?;
    picks.walk.offsets[1] -= start;
    check_fits(name, "index", device, &index_part)?;
    check_fits(name, "target", device, targets)?;
    let flagged = flag.is_some();
    let kernel = Kernel::new(name, &targets::SHADER)
        .constants(constants!(0: winners, flagged))
        .reads([&index_part])
        .writes_if(flag.map(Binding::ReadWrite))
        .updates([targets]);
    let (push, groups) = (picks.push(), picks.count.div_ceil(GROUP_THREADS));
    kernel.launch(device, push, groups, move |[index], [flag, targets]| {
        let targets = cast_slice_mut(targets);
        let bad = match winners {
            true => cpu::winners(&picks, cast_slice(index), targets),
            false => cpu::targets(&picks, cast_slice(index), targets),
        };
        lower(flagged.then_some(flag), bad);
    })
}

impl Addition {
    fn launch(
        mut self,
        device: &Device,
        name: &'static str,
        picks: Picks,
        index: Operand<'_>,
        flag: Option<&Buffer>,
        source: Operand<'_>,
        target: &Buffer,
    ) -> Result<()> {
        let (source_part, start) = part(source)?;
        self.walk.offsets[0] -= start;
        check_fits(name, "source", device, &source_part)?;
        check_fits(name, "target", device, target)?;
        let additions = self.count * self.lines;
        let counted = device.is_cpu() || u32::try_from(additions).is_ok();
        check_that!(name, counted => "{additions} additions are more than 2^32 - 1")?;
        let keys = device.alloc_typed(DType::U32, self.count)?;
        choose(device, name, picks, index, flag, &keys, false)?;
        if !device.is_cpu() {
            return self.launch_on_gpu(device, name, &keys, &source_part, target);
        }
        let kernel = Kernel::new(name, &chains_shader::SHADER)
            .reads([&keys, &source_part])
            .updates([target]);
        kernel.launch(device, self.push(), 1, move |[keys, source], [target]| {
            let (keys, source) = (cast_slice(keys), cast_slice(source));
            cpu::add(&self, keys, source, cast_slice_mut(target));
        })
    }

    fn push(&self) -> PushConstants {
        let (extents, [strides]) = self.walk.words();
        push!(starts =>
            count: self.count, lines: self.lines, n: self.n, inner: self.inner,
            axis_stride: self.axis_stride as u32, first: self.walk.offsets[0],
            n_dims: self.walk.shape.len(), extents, strides
        )
    }

    /// Whether four lines from a multiple of four on lie side by side, aligned, in every contribution
    /// and every target.
    fn has_fours(&self) -> bool {
        let (extent, stride) = self.walk.innermost();
        let strides = self.walk.strides[0].iter().rev().skip(1).copied();
        let mut distances = strides.chain([self.axis_stride, self.walk.offsets[0] as isize]);
        let sizes = [self.lines, self.inner, extent];
        let aligned = sizes.iter().all(|size| size.is_multiple_of(4));
        !self.by_position && stride == 1 && aligned && distances.all(|distance| distance % 4 == 0)
    }

    /// Sorts the contributions by target, and makes the chains of every piece and then their sums.
    fn launch_on_gpu(
        &self,
        device: &Device,
        name: &'static str,
        keys: &Buffer,
        source: &Buffer,
        target: &Buffer,
    ) -> Result<()> {
        // All bits of "no target" are set, so it comes last.
        let bits = (usize::BITS - self.n.leading_zeros()) as usize;
        let [keys, positions] = &sorted_pairs(device, name, keys, bits)?;
        let slots = self.count.div_ceil(PIECE);
        let starts = device.alloc_typed(DType::U32, self.n)?;
        let partials = device.alloc_shape_typed(DType::U32, &[2, slots, self.lines])?;
        let heads = device.alloc_typed(DType::U32, slots)?;
        device.fill(&heads, u32::MAX)?;
        let constants = constants!(0: self.float, self.by_position);
        let kernel = |shader| Kernel::new(name, shader).constants(constants);
        let launch = |kernel: Kernel<'_>, threads: usize| {
            kernel.launch_on_gpu(device, self.push(), threads.div_ceil(GROUP_THREADS))
        };
        let found = kernel(&starts::SHADER).reads([keys]).updates([&starts]);
        launch(found, self.count)?;
        let (shader, lines) = match self.has_fours() {
            true => (&chains_of_four::SHADER, self.lines / 4),
            false => (&chains_shader::SHADER, self.lines),
        };
        let chains = kernel(shader)
            .reads([keys, positions, &starts, source])
            .updates([target, &partials, &heads]);
        launch(chains, self.count * lines)?;
        if slots == 1 {
            return Ok(()); // No target has more than one piece.
        }
        let joins = kernel(&joins::SHADER)
            .reads([keys, &partials, &heads])
            .updates([target]);
        launch(joins, slots * self.lines)
    }
}
