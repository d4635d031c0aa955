//! The walk of several strided operands as launches bind it: windows of their buffers, and places
//! counted from the start of a window.

use hlx_core::{ALIGNMENT_WORDS, Buffer, Device};

use crate::error::{KernelError, Result, check_len};
use crate::layout::{Access, Layout, Operand, Walk, access, broadcast_shape};

impl<const N: usize> Walk<N> {
    /// The walk over layouts of one shape, with one dimension at least.
    pub fn along(layouts: [&Layout; N]) -> Self {
        let mut walk = Self::over(layouts);
        if walk.shape.is_empty() {
            walk.shape.push(1);
            walk.strides.iter_mut().for_each(|strides| strides.push(1));
        }
        walk
    }

    /// `count` elements from `start` on; there is one dimension.
    pub fn cut(&self, start: usize, count: usize) -> Self {
        Self {
            shape: vec![count],
            strides: self.strides.clone(),
            offsets: self.places(start),
        }
    }

    /// How four neighbours of an operand lie; there must be quads.
    pub fn access(&self, k: usize) -> Access {
        access(&self.shape, &self.strides[k], self.offsets[k])
    }

    /// The dimension along which an operand is contiguous, if that is not the innermost one and both
    /// are long enough for tiles.
    pub fn transposed(&self, k: usize) -> Option<usize> {
        let inner = self.shape.len() - 1;
        let a = self.strides[k].iter().position(|&stride| stride == 1)?;
        let along = !matches!(self.strides[k][inner], 0 | 1);
        (along && self.shape[a].min(self.shape[inner]) >= TILED_FROM).then_some(a)
    }

    /// The offsets, extents and strides as the push constants of `walk.glsl` have them, with room
    /// for this many dimensions: innermost first, wrapped to 32 bits.
    pub fn push(&self, dimensions: usize) -> Vec<u32> {
        let mut push: Vec<u32> = self.offsets.iter().map(|&offset| offset as u32).collect();
        let padding = || std::iter::repeat(0);
        let extents = self.shape.iter().rev().map(|&extent| extent as u32);
        push.extend(extents.chain(padding()).take(dimensions - 1));
        for strides in &self.strides {
            let strides = strides.iter().rev().map(|&stride| stride as u32);
            push.extend(strides.chain(padding()).take(dimensions));
        }
        push
    }

    /// Makes the window of an operand's buffer that its elements touch, from an aligned word on,
    /// and counts the operand's places from there.
    ///
    /// # Errors
    /// [`KernelError::Argument`] if the elements leave the buffer, or the window is larger than
    /// the device binds.
    pub fn window(
        &mut self,
        device: &Device,
        operation: &'static str,
        argument: &str,
        k: usize,
        buffer: &Buffer,
    ) -> Result<Buffer> {
        let (first, end) = self.span(k);
        let (len, per_word) = (buffer.len(), buffer.dtype().per_word());
        check_that!(operation, first < end && end <= len =>
            "{argument} has an element at place {last}, its buffer has {len}",
            last = end.saturating_sub(1))?;
        let start = first - first % (ALIGNMENT_WORDS * per_word);
        let window = buffer.slice(start, end - start)?;
        let (words, limit) = (window.words(), device.max_binding_words());
        let counted = device.is_cpu() || u32::try_from(end - start).is_ok();
        check_that!(operation, words <= limit && counted =>
            "{argument} spans {words} words of its buffer, the device binds {limit}")?;
        self.offsets[k] -= start;
        Ok(window)
    }

    /// The most elements that fit one launch, where there is one dimension: each operand's span
    /// must be bound, and the output of this many elements per word.
    pub fn most_elements(&self, per_word: [usize; N], out_per_word: usize, words: usize) -> usize {
        let words = words.saturating_sub(ALIGNMENT_WORDS);
        let of_operand = |(strides, per_word): (&Vec<isize>, usize)| {
            let step = strides.last().map_or(1, |stride| stride.unsigned_abs());
            words.saturating_mul(per_word) / step.max(1)
        };
        let operands = self.strides.iter().zip(per_word).map(of_operand);
        let bound = operands.fold(words.saturating_mul(out_per_word), usize::min);
        bound.min(MOST_COUNTED)
    }
}

/// Extents from which both dimensions of a tile fill enough of it.
pub(super) const TILED_FROM: usize = 16;

/// Elements that a launch counts in 32 bits, with room for a thread's beyond the last.
const MOST_COUNTED: usize = u32::MAX as usize - 4096;

/// Expands operands to their joint shape.
///
/// # Errors
/// [`KernelError::Argument`] if the shapes do not broadcast, or the operation has other elements
/// than the output.
pub(super) fn joint<const N: usize>(
    operation: &'static str,
    operands: [(&'static str, Operand<'_>); N],
    out: &Buffer,
) -> Result<[Layout; N]> {
    let shapes = operands.map(|(_, operand)| operand.layout.shape());
    let refused =
        || KernelError::argument(operation)(format!("shapes {shapes:?} do not broadcast"));
    let shape = broadcast_shape(&shapes).ok_or_else(refused)?;
    let expanded = operands.map(|(_, operand)| operand.layout.expand(&shape));
    let layouts: Result<Vec<_>, String> = expanded.into_iter().collect();
    let layouts = layouts.map_err(|_| refused())?;
    check_len(operation, "out", out, shape.as_slice())?;
    layouts.try_into().map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::in_quads;

    #[test]
    fn neighbours_are_vectors_only_where_every_row_is_aligned() {
        let of = |shape: &[usize]| Layout::contiguous(shape).expect("a shape");
        let (whole, row) = (of(&[3, 8]), of(&[8]).expand(&[3, 8]).expect("a row"));
        let column = of(&[3, 1]).expand(&[3, 8]).expect("a column");
        let axes = Walk::along([&whole, &row, &column]);
        assert_eq!(
            [0, 1, 2].map(|k| axes.access(k)),
            [Access::Vector, Access::Vector, Access::Same]
        );
        let shifted = of(&[3, 9]).slice(1, (1, 9, 1)).expect("a slice");
        assert_eq!(Walk::along([&shifted]).access(0), Access::Apart);
        assert_eq!(Walk::along([&of(&[7])]).access(0), Access::Vector);
        let odd = Walk::along([&of(&[3, 7]), &of(&[7]).expand(&[3, 7]).expect("a row")]);
        assert_eq!(
            (in_quads(&odd.shape), odd.access(0)),
            (false, Access::Apart)
        );
    }

    #[test]
    fn push_constants_have_the_innermost_dimension_first() {
        let x = Layout::contiguous(&[2, 3, 4]).expect("a shape");
        let x = x
            .permute(&[2, 0, 1])
            .expect("a permutation")
            .flip(0)
            .expect("flipped");
        let push = Walk::along([&x]).push(4);
        assert_eq!(push[..4], [3, 6, 4, 0]);
        assert_eq!(push[4..], [4, u32::MAX, 0, 0]);
    }
}
