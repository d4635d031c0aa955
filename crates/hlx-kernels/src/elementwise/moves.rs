//! Elements of one type moved from one strided layout to another.
//!
//! The dimensions are ordered by the target's strides, the longest first, and each must be longer
//! than all that lies within: so no element is written twice, a stretch of the target can
//! be given to a thread, and a place tells its index.

mod cpu;

use std::cmp::Reverse;

use bytemuck::{cast_slice, cast_slice_mut};
use hlx_core::{ALIGNMENT_WORDS, Buffer, DType, Device};

use self::cpu::{TILE, assign};
use crate::error::{KernelError, Result};
use crate::kernel::Kernel;
use crate::layout::{Access, Operand, Walk, in_quads};
use crate::map::{GROUP_THREADS, windows};

shader!(copy::{assign, assign_narrow, tiles});

/// Words from which on a kernel copies faster than the queue does.
pub(super) const LONG: usize = 1 << 20;

/// Elements of `x` to be written to places of `y`.
#[derive(Clone, Debug)]
pub(super) struct Move {
    name: &'static str,
    /// Over both, outermost first by the target's strides, which are positive.
    walk: Walk<2>,
    x: Buffer,
    y: Buffer,
}

impl Move {
    /// Orders and joins the dimensions of two operands of one type; `x` broadcasts to `y`.
    ///
    /// # Errors
    /// [`KernelError::Argument`] if elements of `y` overlap.
    pub fn new(name: &'static str, x: Operand<'_>, y: Operand<'_>) -> Result<Self> {
        let argument = KernelError::argument(name);
        let mut layouts = [
            x.layout.expand(y.layout.shape()).map_err(argument)?,
            y.layout.clone(),
        ];
        for (argument, Operand { buffer, layout }) in [("x", x), ("out", y)] {
            let (end, len) = (layout.span().1, buffer.len());
            check_that!(name, end <= len =>
                "{argument} has an element at place {last}, its buffer has {len}", last = end - 1)?;
        }
        let strides = y.layout.strides();
        for axis in (0..strides.len()).filter(|&axis| strides[axis] < 0) {
            for layout in &mut layouts {
                *layout = layout.flip(axis).map_err(argument)?;
            }
        }
        let mut order: Vec<usize> = (0..y.layout.rank()).collect();
        order.sort_by_key(|&axis| Reverse(layouts[1].strides()[axis]));
        for layout in &mut layouts {
            *layout = layout.permute(&order).map_err(argument)?;
        }
        let moved = Self {
            name,
            walk: Walk::along(layouts.each_ref()),
            x: x.buffer.clone(),
            y: y.buffer.clone(),
        };
        check_that!(name, moved.is_nested() =>
            "out is {}, expected elements that do not overlap", y.layout)?;
        moved.into_words()
    }

    /// Whether each stride of the target is longer than all that lies within.
    fn is_nested(&self) -> bool {
        let mut reach = 0;
        let mut dimensions = self.walk.shape.iter().zip(&self.walk.strides[1]).rev();
        dimensions.all(|(&extent, &stride)| {
            let longer = stride > reach || extent == 1;
            reach += (extent as isize - 1) * stride;
            longer
        })
    }

    /// Whether the elements are words.
    pub fn in_words(&self) -> bool {
        self.x.dtype().size() == 4
    }

    /// Takes elements of a narrow type as words, where every row is whole words on both sides.
    fn into_words(mut self) -> Result<Self> {
        let (per_word, walk) = (self.x.dtype().per_word(), &mut self.walk);
        let inner = walk.shape.len() - 1;
        let whole = |stride: &isize| stride % per_word as isize == 0;
        let rows = walk.steps() == [1, 1] && walk.shape[inner].is_multiple_of(per_word);
        let mut strides = walk.strides.iter();
        let aligned = strides.all(|strides| strides[..inner].iter().all(whole));
        let mut offsets = walk.offsets.iter();
        let starts = offsets.all(|offset| offset.is_multiple_of(per_word));
        if per_word == 1 || !(rows && aligned && starts) {
            return Ok(self);
        }
        walk.shape[inner] /= per_word;
        for (offset, strides) in walk.offsets.iter_mut().zip(&mut walk.strides) {
            *offset /= per_word;
            for stride in &mut strides[..inner] {
                *stride /= per_word as isize;
            }
        }
        for buffer in [&mut self.x, &mut self.y] {
            *buffer = buffer.view_as(DType::U32, buffer.words())?;
        }
        Ok(self)
    }

    /// Launches the copy; `fresh` says that all of the target's buffer is written.
    ///
    /// # Errors
    /// As [`super::assign_strided`].
    pub fn launch(self, device: &Device, fresh: bool) -> Result<()> {
        let (count, one_run) = (self.walk.count(), self.walk.shape.len() == 1);
        let is_dense = one_run && self.walk.steps() == [1, 1] && self.in_words();
        if is_dense && (device.is_cpu() || count < LONG) {
            let [from, to] = self.walk.offsets;
            let (source, target) = (self.x.slice(from, count)?, self.y.slice(to, count)?);
            return Ok(device.copy(&source, &target)?);
        }
        if !one_run || device.is_cpu() {
            return self.window(device, self.walk.clone(), fresh);
        }
        let per_word = self.x.dtype().per_word();
        let most = device.max_binding_words();
        let limit = self.walk.most_elements([per_word; 2], per_word, most);
        for (start, count) in windows(count, 4 * ALIGNMENT_WORDS, limit) {
            self.window(device, self.walk.cut(start, count), fresh)?;
        }
        Ok(())
    }

    /// One launch, over operands that can be bound.
    fn window(&self, device: &Device, mut walk: Walk<2>, fresh: bool) -> Result<()> {
        let x = walk.window(device, self.name, "x", 0, &self.x)?;
        let y = walk.window(device, self.name, "out", 1, &self.y)?;
        check_that!(self.name, !x.overlaps(&y) =>
            "x shares memory with out, expected two buffers")?;
        let cut = Cut::of(&walk, y.words(), y.dtype());
        let size = y.dtype().size();
        let kernel = Kernel::new(self.name, cut.shader)
            .constants(&cut.specialization)
            .reads([&x])
            .accumulate("out", &y, y.len(), !fresh)?;
        kernel.launch(device, cut.push, cut.groups, move |[x], [y]| {
            if let (true, Some(last)) = (fresh, y.last_mut()) {
                *last = 0.0; // Its spare bytes.
            }
            match size {
                4 => assign::<u32>(cast_slice(x), cast_slice_mut(y), &walk),
                2 => assign::<u16>(cast_slice(x), cast_slice_mut(y), &walk),
                _ => assign::<u8>(cast_slice(x), cast_slice_mut(y), &walk),
            }
        })
    }
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
        match axes.transposed(0) {
            Some(a) if inner == Some(&1) => Self::tiles(axes, a),
            _ => Self::rows(axes),
        }
    }

    fn rows(axes: &Walk<2>) -> Self {
        let whole = in_quads(&axes.shape) && axes.count().is_multiple_of(4);
        let vectors = whole && [0, 1].iter().all(|&k| axes.access(k) == Access::Vector);
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
        let (extents, strides) = axes.words::<8>();
        let mut push = vec![words as u32];
        push.extend(axes.offsets.map(|offset| offset as u32));
        push.extend(extents);
        push.extend(strides.as_flattened());
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
        let strides = axes.strides.each_ref();
        let batch = Walk {
            shape: batch.iter().map(|&d| axes.shape[d]).collect(),
            strides: strides.map(|all| batch.iter().map(|&d| all[d]).collect()),
            offsets: axes.offsets,
        };
        let [a_extent, b_extent] = [axes.shape[a], axes.shape[b]];
        let batches = batch.count();
        let groups = a_extent.div_ceil(TILE) * b_extent.div_ceil(TILE) * batches;
        let mut push = vec![groups as u32, a_extent as u32, b_extent as u32];
        push.extend(axes.offsets.map(|offset| offset as u32));
        push.extend([axes.strides[0][b] as u32, axes.strides[1][a] as u32]);
        let (extents, strides) = batch.words::<6>();
        push.extend(extents);
        push.extend(strides.as_flattened());
        Self {
            shader: &tiles::SHADER,
            specialization: vec![(990, batch.shape.len() as u32)],
            push,
            groups,
        }
    }
}
