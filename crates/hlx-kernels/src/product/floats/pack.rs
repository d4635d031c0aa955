//! Packing: copies a stretch of an operand into the order in which a register tile reads it.

use std::ops::Range;

use bytemuck::{Pod, cast_slice};

#[cfg(target_arch = "x86_64")]
use hlx_core::cpu::{SimdLevel, simd_level};

use crate::product::transposed::transpose_block;
#[cfg(target_arch = "x86_64")]
use crate::product::transposed::transpose_eight;

/// A matrix seen by the product: `count` vectors (rows of A, columns of B) along k.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a, T = f32> {
    pub data: &'a [T],
    /// Distance between neighbours in the direction that is not contiguous.
    pub stride: usize,
    /// True when neighbouring k lie side by side: element (i, k) is at `i * stride + k`;
    /// otherwise it is at `k * stride + i`.
    pub k_contiguous: bool,
}

/// What to pack: vectors `first .. first + count` over `k_first .. k_first + k_count`.
#[derive(Clone, Copy)]
pub(crate) struct Panel {
    pub first: usize,
    pub count: usize,
    pub k_first: usize,
    pub k_count: usize,
    /// Floats from one k to the next in the packed panel; those past `count` become +0.
    pub width: usize,
}

impl Panel {
    pub fn new(vectors: &Range<usize>, terms: &Range<usize>, width: usize) -> Self {
        Self {
            first: vectors.start,
            count: vectors.len(),
            k_first: terms.start,
            k_count: terms.len(),
            width,
        }
    }

    /// The panel without its first terms.
    fn after(self, terms: usize) -> Self {
        Self {
            k_first: self.k_first + terms,
            k_count: self.k_count - terms,
            ..self
        }
    }
}

/// The part of an operand that a rectangle of C multiplies at a time.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The matrix of the batch.
    pub batch_idx: usize,
    /// Rows of A, or columns of B.
    pub vectors: &'a Range<usize>,
    pub terms: &'a Range<usize>,
}

/// An operand of a batch of products, as the CPU packs it.
pub(crate) trait Source: Copy + Sync {
    /// Floats that [`stage`](Source::stage) needs for a part of at most so many vectors and terms.
    fn staged_len(&self, _vectors: usize, _terms: usize) -> usize {
        0
    }

    /// Brings what the panels of a part are packed from into a form in which that is quick.
    fn stage(&self, _part: &Part<'_>, _staged: &mut [f32]) {}

    /// Packs a panel of a part as `[k][width]` into the front of `to`; `staged` is as [`stage`](Source::stage) left it.
    fn pack(&self, part: &Part<'_>, staged: &[f32], panel: Panel, to: &mut [f32]);

    /// The matrix in memory, if its vectors lie side by side, so that tiles can read it unpacked.
    fn in_place(&self, _batch_idx: usize) -> Option<Operand<'_>> {
        None
    }

    /// The rows of a register tile, if they are packed already.
    fn packed(
        &self,
        _batch_idx: usize,
        _rows: &Range<usize>,
        _terms: &Range<usize>,
    ) -> Option<&[f32]> {
        None
    }
}

/// An element of an operand in memory.
pub(crate) trait Element: Copy + Sync {
    type Stored: Pod + Sync;

    /// Packs a panel as `[k][width]` into `to`, zeros behind the vectors.
    fn pack(from: Operand<'_, Self::Stored>, panel: Panel, to: &mut [f32]);

    /// The same matrix as tiles read it unpacked, if they can.
    fn in_place(_from: Operand<'_, Self::Stored>) -> Option<Operand<'_>> {
        None
    }
}

impl Element for f32 {
    type Stored = Self;

    fn pack(from: Operand<'_>, panel: Panel, to: &mut [f32]) {
        pack(from, panel, to);
    }

    fn in_place(from: Operand<'_>) -> Option<Operand<'_>> {
        (!from.k_contiguous).then_some(from)
    }
}

/// An operand in memory: matrices that lie `stride` elements apart.
#[derive(Clone, Copy)]
pub(crate) struct Matrices<'a, E: Element = f32> {
    first: Operand<'a, E::Stored>,
    stride: usize,
}

impl<'a, E: Element> Matrices<'a, E> {
    /// Matrices in words, which may hold several elements; `row` and `k_contiguous` as in [`Operand`].
    pub fn new(words: &'a [f32], stride: usize, row: usize, k_contiguous: bool) -> Self {
        let first = Operand {
            data: cast_slice(words),
            stride: row,
            k_contiguous,
        };
        Self { first, stride }
    }

    fn matrix(&self, batch_idx: usize) -> Operand<'a, E::Stored> {
        Operand {
            data: &self.first.data[batch_idx * self.stride..],
            ..self.first
        }
    }
}

impl<E: Element> Source for Matrices<'_, E> {
    fn pack(&self, part: &Part<'_>, _staged: &[f32], panel: Panel, to: &mut [f32]) {
        E::pack(self.matrix(part.batch_idx), panel, to);
    }

    fn in_place(&self, batch_idx: usize) -> Option<Operand<'_>> {
        E::in_place(self.matrix(batch_idx))
    }
}

/// Packs a panel as `[k][width]` into the front of `to`.
pub(crate) fn pack(from: Operand, panel: Panel, to: &mut [f32]) {
    let to = &mut to[..panel.k_count * panel.width];
    if panel.count < panel.width {
        to.fill(0.0);
    }
    if from.k_contiguous {
        transpose(from, panel, to);
    } else {
        match (panel.count == panel.width, panel.width) {
            (true, 6) => copy_rows::<6>(from, panel, to),
            (true, 8) => copy_rows::<8>(from, panel, to),
            (true, 14) => copy_rows::<14>(from, panel, to),
            (true, 16) => copy_rows::<16>(from, panel, to),
            (true, 32) => copy_rows::<32>(from, panel, to),
            _ => copy_any(from, panel, to),
        }
    }
}

/// Copies rows of a width known to the compiler, which then needs no call a row.
fn copy_rows<const WIDTH: usize>(from: Operand, panel: Panel, to: &mut [f32]) {
    let (to, _) = to.as_chunks_mut::<WIDTH>();
    let mut at = panel.k_first * from.stride + panel.first;
    for row in to {
        // The next panel reads the same rows, which are apart too far for the processor to expect it.
        prefetch(from.data.as_ptr().wrapping_add(at + WIDTH));
        row.copy_from_slice(&from.data[at..at + WIDTH]);
        at += from.stride;
    }
}

/// Has the line of the cache at an address loaded, if there is one.
#[inline(always)]
fn prefetch(at: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64; a prefetch of any address has no effect but on time.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Copies the narrow panels of an edge.
fn copy_any(from: Operand, panel: Panel, to: &mut [f32]) {
    for (k, row) in to.chunks_exact_mut(panel.width).enumerate() {
        let at = (panel.k_first + k) * from.stride + panel.first;
        row[..panel.count].copy_from_slice(&from.data[at..at + panel.count]);
    }
}

/// Transposes in blocks of 8 x 8 or 4 x 4. The last block of vectors overlaps its neighbour rather than
/// being narrower: it writes the same values twice.
fn transpose(from: Operand, panel: Panel, to: &mut [f32]) {
    if panel.count < 4 || panel.k_count == 0 {
        return transpose_any(from, panel, 0..panel.k_count, to);
    }
    let done = transpose_eights(from, panel, to);
    let (rest, to) = (panel.after(done), &mut to[done * panel.width..]);
    transpose_fours(from, rest, to);
}

/// Transposes in blocks of 8 x 8 where the processor has vectors of eight; returns the number of terms that are done.
#[cfg(target_arch = "x86_64")]
fn transpose_eights(from: Operand, panel: Panel, to: &mut [f32]) -> usize {
    let Panel { count, width, .. } = panel;
    // A block of fewer vectors overwrites the next row's beginning, which comes after it.
    let fits = count >= 8 || count == width;
    if !fits || simd_level() < SimdLevel::Avx2 {
        return 0;
    }
    let n_terms = match count {
        8.. => panel.k_count / 8 * 8,
        _ => panel.k_count.saturating_sub(1) / 8 * 8,
    };
    let mut i = 0;
    loop {
        let rows = std::array::from_fn(|r| {
            let vector = panel.first + (i + r).min(count - 1);
            &from.data[vector * from.stride + panel.k_first..][..n_terms]
        });
        // SAFETY: the processor has AVX2 at this level.
        unsafe { transpose_eight(rows, n_terms, width, &mut to[i..]) };
        if i + 8 >= count {
            return n_terms;
        }
        i = (i + 8).min(count - 8);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn transpose_eights(_from: Operand, _panel: Panel, _to: &mut [f32]) -> usize {
    0
}

/// Transposes in blocks of 4 x 4.
fn transpose_fours(from: Operand, panel: Panel, to: &mut [f32]) {
    let blocks = panel.k_count / 4 * 4;
    let mut i = 0;
    loop {
        let rows: [&[f32]; 4] = std::array::from_fn(|r| {
            let at = (panel.first + i + r) * from.stride + panel.k_first;
            &from.data[at..at + blocks]
        });
        for k in (0..blocks).step_by(4) {
            let rows = rows.map(|row| cast_slice(&row[k..k + 4]));
            transpose_block(rows, &mut to[k * panel.width + i..], panel.width);
        }
        if i + 4 >= panel.count {
            break;
        }
        i = (i + 4).min(panel.count - 4);
    }
    transpose_any(from, panel, blocks..panel.k_count, to);
}

/// Transposes element by element.
fn transpose_any(from: Operand, panel: Panel, k_range: std::ops::Range<usize>, to: &mut [f32]) {
    for k in k_range {
        for i in 0..panel.count {
            to[k * panel.width + i] =
                from.data[(panel.first + i) * from.stride + panel.k_first + k];
        }
    }
}
