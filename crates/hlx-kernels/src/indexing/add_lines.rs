//! `scatter_add` line by line, without a sort: where there are lines enough to fill the device.
//!
//! All contributions of a target lie in one line of the index along the axis. A workgroup follows its
//! lines in order (`indexing/add_lines.glsl`), on the CPU a task; the order of additions is that of
//! [`super::scatter_add`].

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{Binding, Buffer, DType, Device};

use super::cpu::{Chains, sum_of};
use super::{NO_BAD_INDEX, lower};
use crate::error::{KernelError, Result};
use crate::kernel::{Kernel, PushConstants};
use crate::layout::{Layout, Operand, Walk};
use crate::parallel::{self, write};
use crate::terms::{PIECE, check_fits, fits, part};

shader!(indexing::{add_lines, add_lines_held});

/// Targets of a line that the module `add_lines_held` has room for.
const MOST_HELD: usize = 4096;

/// Rounds that the shaders count; a line takes at most one a position.
const MOST_ROUNDS: usize = 1 << 24;

/// Threads of a workgroup.
const GROUP: usize = 256;

/// The most dimensions of the lines that the push constants have room for.
const MAX_DIMS: usize = 4;

/// The lines of one addition.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    lines: usize,
    /// Contributions of a line.
    positions: usize,
    /// Targets of a line.
    n: usize,
    /// Lines between neighbours along the axis of the index.
    inner: usize,
    /// The lines' dimensions over target, index and source.
    walk: Walk<3>,
    axis_strides: [isize; 3],
    /// Whether every line of the target has one of the index.
    whole: bool,
    float: bool,
}

impl Lines {
    /// The lines of an index and a source of its shape along `axis` of a target of `shape`.
    pub fn of(
        shape: &[usize],
        axis: usize,
        index: &Layout,
        source: &Layout,
        float: bool,
    ) -> Result<Self> {
        let error = KernelError::argument("scatter_add");
        let target = Layout::contiguous(shape)?;
        let mut part = target.clone();
        for (other, &extent) in index.shape().iter().enumerate() {
            if other != axis {
                part = part.slice(other, (0, extent, 1)).map_err(error)?;
            }
        }
        let first = |layout: &Layout| layout.select(axis, 0).map_err(error);
        let (target_line, index_line, source_line) = (first(&part)?, first(index)?, first(source)?);
        Ok(Self {
            lines: index_line.n_elements(),
            positions: index.shape()[axis],
            n: shape[axis],
            inner: index.shape()[axis + 1..].iter().product(),
            whole: target_line.n_elements() * shape[axis] == target.n_elements(),
            walk: Walk::over([&target_line, &index_line, &source_line]),
            axis_strides: [&target, index, source].map(|layout| layout.strides()[axis]),
            float,
        })
    }

    /// Neighbouring lines of a workgroup: as many as lie side by side, and enough for its threads.
    fn columns(&self) -> usize {
        let beside = self.inner.next_power_of_two().min(32);
        let short = GROUP / self.positions.next_power_of_two().min(GROUP);
        beside.max(short)
    }

    /// Whether this is the faster way: the lines fill the device.
    pub fn suit(&self, device: &Device, target: &Buffer) -> bool {
        if device.is_cpu() {
            return self.whole && self.lines / self.inner >= 2 * device.cpu_threads();
        }
        let groups = self.lines.div_ceil(self.columns());
        let numbers = u32::try_from(self.lines * self.positions).is_ok();
        let rounds = self.positions < MOST_ROUNDS;
        let room = self.walk.shape.len() <= MAX_DIMS && numbers && rounds && fits(device, target);
        room && groups >= 2 * device.tuning().processors
    }

    fn push(&self) -> PushConstants {
        let (extents, strides) = self.walk.words::<MAX_DIMS>();
        push!(add_lines =>
            lines: self.lines, positions: self.positions, n: self.n, inner: self.inner,
            n_dims: self.walk.shape.len(), extents, first: self.walk.offsets.map(|at| at as u32),
            axis_strides: self.axis_strides.map(|stride| stride as u32),
            strides: std::array::from_fn::<_, { 3 * MAX_DIMS }, _>(|i| strides.as_flattened()[i])
        )
    }

    /// Launches the addition; [`Lines::suit`] holds.
    pub fn launch(
        mut self,
        device: &Device,
        target: &Buffer,
        index: Operand<'_>,
        source: Operand<'_>,
        flag: Option<&Buffer>,
    ) -> Result<()> {
        const NAME: &str = "scatter_add";
        let (index_part, index_start) = part(index)?;
        let (source_part, source_start) = part(source)?;
        check_fits(NAME, "index", device, &index_part)?;
        check_fits(NAME, "source", device, &source_part)?;
        self.walk.offsets[1] -= index_start;
        self.walk.offsets[2] -= source_start;
        let many = self.positions > PIECE;
        let words = match many && !device.is_cpu() {
            true => target.len(),
            false => 1,
        };
        let counts = device.alloc_typed(DType::U32, words)?;
        let partials = device.alloc_typed(DType::U32, words)?;
        let flagged = flag.is_some();
        let (push, columns) = (self.push(), self.columns());
        let held = columns == 1 && !many && self.n <= MOST_HELD;
        let shader = match held {
            true => &add_lines_held::SHADER,
            false => &add_lines::SHADER,
        };
        let kernel = Kernel::new(NAME, shader)
            .constants(constants!(0: self.float, flagged, columns, many))
            .reads([&index_part, &source_part])
            .writes_if(flag.map(Binding::ReadWrite))
            .updates([target, &counts, &partials]);
        let groups = self.lines.div_ceil(columns);
        kernel.launch(device, push, groups, move |inputs, outputs| {
            let ([index, source], [flag, target, _, _]) = (inputs, outputs);
            let (index, source) = (cast_slice(index), cast_slice(source));
            let bad = self.on_cpu(index, source, cast_slice_mut(target));
            lower(flagged.then_some(flag), bad);
        })
    }

    /// Adds the lines of each block of the target by a task; returns the first bad index.
    fn on_cpu(&self, index: &[u32], source: &[u32], target: &mut [u32]) -> u32 {
        let inner = self.inner;
        let first_bad = AtomicU32::new(NO_BAD_INDEX);
        parallel::for_each(write(target, self.n * inner), |outer, block| {
            let bad = |p: usize, i: usize| {
                let number = (outer * self.positions + p) * inner + i;
                first_bad.fetch_min(number as u32, Relaxed);
            };
            let lines = (outer * inner..(outer + 1) * inner).map(|line| self.walk.places(line));
            if self.positions <= PIECE && inner == 1 {
                for line in lines {
                    self.add_line(line, index, source, block, |p| bad(p, 0));
                }
                return;
            }
            let mut chains = Chains::new(self.float, 1, block);
            let lines: Vec<[usize; 3]> = lines.collect();
            for p in 0..self.positions {
                for (i, line) in lines.iter().enumerate() {
                    let [at, from] = self.at(*line, p);
                    let row = index[at] as usize;
                    if row < self.n {
                        chains.add_one(row * inner + i, source[from]);
                    } else {
                        bad(p, i);
                    }
                }
            }
            chains.finish();
        });
        first_bad.into_inner()
    }

    /// Where a line's index and contribution of a position lie.
    fn at(&self, [_, index, source]: [usize; 3], position: usize) -> [usize; 2] {
        let [_, index_stride, source_stride] = self.axis_strides;
        let along = |stride: isize| position as isize * stride;
        [
            index.wrapping_add_signed(along(index_stride)),
            source.wrapping_add_signed(along(source_stride)),
        ]
    }

    /// Adds the positions of one line, each target of which has one piece; calls `bad` with the positions of
    /// bad indices. Replacing -0 by +0 each time gives the chain that does it at its end.
    fn add_line(
        &self,
        line: [usize; 3],
        index: &[u32],
        source: &[u32],
        targets: &mut [u32],
        mut bad: impl FnMut(usize),
    ) {
        let mut add = |p: usize, row: u32, word: u32| match targets.get_mut(row as usize) {
            Some(total) => *total = sum_of(self.float, *total, word),
            None => bad(p),
        };
        let [_, index_stride, source_stride] = self.axis_strides;
        if (index_stride, source_stride) == (1, 1) {
            let [_, at, from] = line;
            let positions = index[at..].iter().zip(&source[from..]).take(self.positions);
            let positions = positions.enumerate();
            return positions.for_each(|(p, (row, word))| add(p, *row, *word));
        }
        for p in 0..self.positions {
            let [at, from] = self.at(line, p);
            add(p, index[at], source[from]);
        }
    }
}
