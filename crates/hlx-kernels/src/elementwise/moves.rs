//! Elements of one type moved from one strided layout to another.
//!
//! The dimensions are ordered by the target's strides, the longest first, and each must be longer
//! than all that lies within: so no element is written twice, a stretch of the target can
//! be given to a thread, and a place tells its index.

mod cpu;

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{ALIGNMENT_WORDS, Buffer, DType, Device};

use self::cpu::assign;
use super::strided::VECTOR;
use crate::error::{KernelError, check_that};
use crate::kernel::Kernel;
use crate::layout::{Operand, Walk};
use crate::map::{GROUP_THREADS, windows};

shader!(copy::{assign, assign_narrow, tiles});

/// Rows and columns of the tile that a workgroup turns, and rows of a strip on the CPU.
pub(super) const TILE: usize = 32;

/// Words from which on a kernel copies faster than the queue does.
pub(super) const LONG: usize = 1 << 20;

/// One dimension: its extent, and the steps of the source and of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dimension {
    pub extent: usize,
    pub x: isize,
    pub y: usize,
}

/// Elements of `x` to be written to places of `y`.
#[derive(Clone, Debug)]
pub(super) struct Move {
    name: &'static str,
    /// Outermost first by the target's strides.
    dimensions: Vec<Dimension>,
    x: (Buffer, usize),
    y: (Buffer, usize),
}

impl Move {
    /// Orders and joins the dimensions of two operands of one type; `x` broadcasts to `y`.
    ///
    /// # Errors
    /// [`KernelError::Argument`] if elements of `y` overlap.
    pub fn new(name: &'static str, x: Operand<'_>, y: Operand<'_>) -> Result<Self, KernelError> {
        let argument = |reason: String| KernelError::Argument {
            operation: name,
            reason,
        };
        let expanded = x.layout.expand(y.layout.shape()).map_err(argument)?;
        for (argument, buffer, layout) in [("x", x.buffer, x.layout), ("out", y.buffer, y.layout)] {
            let (end, len) = (layout.span().1, buffer.len());
            check_that(name, end <= len, || {
                format!(
                    "{argument} has an element at place {}, its buffer has {len}",
                    end - 1
                )
            })?;
        }
        let axes = Walk::along([&expanded, y.layout]);
        let [mut x_offset, mut y_offset] = axes.offsets;
        let mut dimensions = Vec::with_capacity(axes.shape.len());
        for (d, &extent) in axes.shape.iter().enumerate() {
            let (mut from, to) = (axes.strides[0][d], axes.strides[1][d]);
            if to < 0 {
                let last = extent as isize - 1;
                x_offset = x_offset.wrapping_add_signed(last * from);
                y_offset = y_offset.wrapping_add_signed(last * to);
                from = -from;
            }
            dimensions.push(Dimension {
                extent,
                x: from,
                y: to.unsigned_abs(),
            });
        }
        dimensions.sort_by_key(|dimension| std::cmp::Reverse(dimension.y));
        check_that(name, nested(&dimensions), || {
            format!("out is {}, expected elements that do not overlap", y.layout)
        })?;
        let moved = Self {
            name,
            dimensions: joined(&dimensions),
            x: (x.buffer.clone(), x_offset),
            y: (y.buffer.clone(), y_offset),
        };
        moved.into_words()
    }

    /// Whether the elements are words.
    pub fn in_words(&self) -> bool {
        self.x.0.dtype().size() == 4
    }

    /// Takes elements of a narrow type as words, where every row is whole words on both sides.
    fn into_words(mut self) -> Result<Self, KernelError> {
        let per_word = self.x.0.dtype().per_word();
        let inner = self.dimensions.last().copied();
        let rows = inner.is_some_and(|inner| {
            inner.x == 1 && inner.y == 1 && inner.extent.is_multiple_of(per_word)
        });
        let outer = &self.dimensions[..self.dimensions.len() - 1];
        let aligned = outer
            .iter()
            .all(|outer| outer.x % per_word as isize == 0 && outer.y.is_multiple_of(per_word));
        let starts = self.x.1.is_multiple_of(per_word) && self.y.1.is_multiple_of(per_word);
        if per_word == 1 || !(rows && aligned && starts) {
            return Ok(self);
        }
        for (buffer, offset) in [&mut self.x, &mut self.y] {
            *buffer = buffer.view_as(DType::U32, buffer.words())?;
            *offset /= per_word;
        }
        let last = self.dimensions.len() - 1;
        for (d, dimension) in self.dimensions.iter_mut().enumerate() {
            if d == last {
                dimension.extent /= per_word;
            } else {
                dimension.x /= per_word as isize;
                dimension.y /= per_word;
            }
        }
        Ok(self)
    }

    /// Launches the copy; `fresh` says that all of the target's buffer is written.
    ///
    /// # Errors
    /// As [`super::assign_strided`].
    pub fn launch(self, device: &Device, fresh: bool) -> Result<(), KernelError> {
        if let ([Dimension { extent, x: 1, y: 1 }], true) = (&self.dimensions[..], self.in_words())
            && (device.is_cpu() || *extent < LONG)
        {
            let source = self.x.0.slice(self.x.1, *extent)?;
            let target = self.y.0.slice(self.y.1, *extent)?;
            return Ok(device.copy(&source, &target)?);
        }
        let axes = self.axes();
        if axes.shape.len() > 1 || device.is_cpu() {
            return self.window(device, axes, fresh);
        }
        let per_word = self.x.0.dtype().per_word();
        let limit = axes.most_elements([per_word; 2], per_word, device.max_binding_words());
        for (start, count) in windows(axes.count(), 4 * ALIGNMENT_WORDS, limit) {
            self.window(device, axes.cut(start, count), fresh)?;
        }
        Ok(())
    }

    fn axes(&self) -> Walk<2> {
        let of = |stride: fn(&Dimension) -> isize| self.dimensions.iter().map(stride).collect();
        Walk {
            shape: self.dimensions.iter().map(|d| d.extent).collect(),
            strides: [of(|d| d.x), of(|d| d.y as isize)],
            offsets: [self.x.1, self.y.1],
        }
    }

    /// One launch, over operands that can be bound.
    fn window(&self, device: &Device, mut axes: Walk<2>, fresh: bool) -> Result<(), KernelError> {
        let x = axes.window(device, self.name, ("x", 0), &self.x.0)?;
        let y = axes.window(device, self.name, ("out", 1), &self.y.0)?;
        check_that(self.name, !x.overlaps(&y), || {
            "x shares memory with out, expected two buffers".to_owned()
        })?;
        let cut = Cut::of(&axes, y.words(), y.dtype());
        let dimensions = dimensions_of(&axes);
        let ([from, to], size) = (axes.offsets, y.dtype().size());
        let kernel = Kernel::new(self.name, cut.shader)
            .constants(&cut.specialization)
            .reads([&x])
            .accumulate("out", &y, y.len(), !fresh)?;
        kernel.launch(device, cut.push, cut.groups, move |[x], [y]| {
            if let (true, Some(last)) = (fresh, y.last_mut()) {
                *last = 0.0; // Its spare bytes.
            }
            let (x, y) = (cast_slice::<f32, u8>(x), cast_slice_mut::<f32, u8>(y));
            match size {
                4 => assign(
                    cast_slice::<u8, u32>(x),
                    from,
                    &mut cast_slice_mut::<u8, u32>(y)[to..],
                    &dimensions,
                ),
                2 => assign(
                    cast_slice::<u8, u16>(x),
                    from,
                    &mut cast_slice_mut::<u8, u16>(y)[to..],
                    &dimensions,
                ),
                _ => assign(x, from, &mut y[to..], &dimensions),
            }
        })?;
        Ok(())
    }
}

/// Whether each stride is longer than all that lies within.
fn nested(dimensions: &[Dimension]) -> bool {
    let mut reach = 0;
    dimensions.iter().rev().all(|dimension| {
        let longer = dimension.y > reach || dimension.extent == 1;
        reach += (dimension.extent - 1) * dimension.y;
        longer
    })
}

/// Joins neighbours that both sides step through as one.
fn joined(dimensions: &[Dimension]) -> Vec<Dimension> {
    let mut joined: Vec<Dimension> = Vec::with_capacity(dimensions.len());
    for dimension in dimensions {
        let extent = dimension.extent as isize;
        match joined.last_mut() {
            Some(outer)
                if outer.x == dimension.x * extent && outer.y == dimension.y * dimension.extent =>
            {
                *outer = Dimension {
                    extent: outer.extent * dimension.extent,
                    ..*dimension
                };
            }
            _ => joined.push(*dimension),
        }
    }
    joined
}

fn dimensions_of(axes: &Walk<2>) -> Vec<Dimension> {
    let strides = axes.strides[0].iter().zip(&axes.strides[1]);
    let dimensions = axes.shape.iter().zip(strides);
    let dimension = |(&extent, (&x, &y)): (&usize, (&isize, &isize))| Dimension {
        extent,
        x,
        y: y.unsigned_abs(),
    };
    dimensions.map(dimension).collect()
}

/// The shader of a move with its arguments.
struct Cut {
    shader: &'static hlx_core::Shader,
    specialization: Vec<(u32, u32)>,
    push: Vec<u32>,
    groups: usize,
}

impl Cut {
    fn of(axes: &Walk<2>, words: usize, dtype: DType) -> Self {
        if dtype.size() < 4 {
            return Self::narrow(axes, words, dtype);
        }
        let inner = axes.strides[1].last();
        match axes.turned(0) {
            Some(a) if inner == Some(&1) => Self::tiles(axes, a),
            _ => Self::rows(axes),
        }
    }

    fn rows(axes: &Walk<2>) -> Self {
        let whole = axes.in_quads() && axes.count().is_multiple_of(4);
        let vectors = whole && [0, 1].iter().all(|&k| axes.access(k) == VECTOR);
        let mut push = vec![axes.count() as u32];
        push.extend(axes.push(8));
        Self {
            shader: &assign::SHADER,
            specialization: vec![(990, axes.shape.len() as u32), (985, u32::from(vectors))],
            push,
            groups: axes.count().div_ceil(4 * GROUP_THREADS),
        }
    }

    fn narrow(axes: &Walk<2>, words: usize, dtype: DType) -> Self {
        let mut push = vec![words as u32, axes.offsets[0] as u32, axes.offsets[1] as u32];
        push.extend(padded::<8>(axes.shape.iter().map(|&extent| extent as u32)));
        for strides in &axes.strides {
            push.extend(padded::<8>(strides.iter().map(|&stride| stride as u32)));
        }
        Self {
            shader: &assign_narrow::SHADER,
            specialization: vec![
                (990, axes.shape.len() as u32),
                (980, dtype.per_word().trailing_zeros()),
            ],
            push,
            groups: words.div_ceil(GROUP_THREADS),
        }
    }

    /// Tiles of dimension `a` and the innermost one.
    fn tiles(axes: &Walk<2>, a: usize) -> Self {
        let b = axes.shape.len() - 1;
        let batch: Vec<usize> = (0..b).rev().filter(|&d| d != a).collect();
        let [a_extent, b_extent] = [axes.shape[a], axes.shape[b]];
        let batches: usize = batch.iter().map(|&d| axes.shape[d]).product();
        let groups = a_extent.div_ceil(TILE) * b_extent.div_ceil(TILE) * batches;
        let mut push = vec![groups as u32, a_extent as u32, b_extent as u32];
        push.extend(axes.offsets.map(|offset| offset as u32));
        push.extend([axes.strides[0][b] as u32, axes.strides[1][a] as u32]);
        push.extend(padded::<6>(batch.iter().map(|&d| axes.shape[d] as u32)));
        for strides in &axes.strides {
            push.extend(padded::<6>(batch.iter().map(|&d| strides[d] as u32)));
        }
        Self {
            shader: &tiles::SHADER,
            specialization: vec![(990, batch.len() as u32)],
            push,
            groups,
        }
    }
}

fn padded<const LEN: usize>(values: impl Iterator<Item = u32>) -> [u32; LEN] {
    let mut padded = [0; LEN];
    for (slot, value) in padded.iter_mut().zip(values) {
        *slot = value;
    }
    padded
}
