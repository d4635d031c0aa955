//! Operands of 16-bit elements on the CPU: packed as the f32 of the same values.

use bytemuck::cast_slice;
use hlx_core::cpu::{SimdLevel, simd_level};
use hlx_core::multiversion;

use super::pack::{Element, Operand, Panel};
use crate::element::{from_bf16, from_f16};
use crate::product::transposed::{transpose_columns, transposed};

/// A type of 16 bits.
pub(super) trait Half: Copy + Sync {
    /// The bits of the f32 with the value of an element, which lies in the low 16 bits.
    fn widen(bits: u32) -> u32;

    const IS_BRAIN: bool;
}

/// Elements of f16.
#[derive(Clone, Copy)]
pub(super) struct Binary16;

/// Elements of bf16.
#[derive(Clone, Copy)]
pub(super) struct Brain16;

impl Half for Binary16 {
    #[inline(always)]
    fn widen(bits: u32) -> u32 {
        from_f16(bits)
    }

    const IS_BRAIN: bool = false;
}

impl Half for Brain16 {
    #[inline(always)]
    fn widen(bits: u32) -> u32 {
        from_bf16(bits)
    }

    const IS_BRAIN: bool = true;
}

multiversion! {
    /// Writes rows of sixteen pairs of elements, a word each, as two rows of f32 each; these lie `width` apart.
    fn put(is_brain: bool, pairs: &[i32], width: usize, to: &mut [f32]) {
        match is_brain {
            true => put_of::<Brain16>(pairs, width, to),
            false => put_of::<Binary16>(pairs, width, to),
        }
    }
}

#[inline(always)]
fn put_of<H: Half>(pairs: &[i32], width: usize, to: &mut [f32]) {
    let rows = to.chunks_mut(width);
    for (k, to) in rows.enumerate().take(pairs.len() / 8) {
        let pairs = &pairs[k / 2 * 16..][..16];
        for (to, pair) in to[..16].iter_mut().zip(pairs) {
            *to = value::<H>((*pair as u32 >> (k % 2 * 16)) & 0xffff);
        }
    }
}

impl<H: Half> Element for H {
    type Stored = u16;

    fn pack(from: Operand<'_, u16>, panel: Panel, to: &mut [f32]) {
        let to = &mut to[..panel.k_count * panel.width];
        if panel.count < panel.width {
            to.fill(0.0);
        }
        if from.k_contiguous {
            pack_transposed::<H>(from.data, from.stride, panel, to);
            return;
        }
        for (k, to) in to.chunks_exact_mut(panel.width).enumerate() {
            let at = (panel.k_first + k) * from.stride + panel.first;
            for (to, &half) in to.iter_mut().zip(&from.data[at..at + panel.count]) {
                *to = value::<H>(half.into());
            }
        }
    }
}

#[inline(always)]
fn value<H: Half>(bits: u32) -> f32 {
    f32::from_bits(H::widen(bits))
}

/// Packs vectors that lie along k, in blocks of four vectors and eight k, or with AVX-512 of sixteen and 32. The last block of
/// vectors overlaps its neighbour rather than being narrower: it writes the same values twice.
fn pack_transposed<H: Half>(data: &[u16], row: usize, panel: Panel, to: &mut [f32]) {
    let (width, level) = (panel.width, simd_level());
    let mut i = 0;
    while i < panel.count {
        let (n_vectors, n_terms) = match panel.count - i {
            16.. if level == SimdLevel::Avx512 => (16, 32),
            _ => (panel.count.min(4), 8),
        };
        i = i.min(panel.count - n_vectors);
        let vector = |r: usize, k: usize| &data[(panel.first + i + r) * row + panel.k_first + k..];
        let blocks = match n_vectors {
            4.. => panel.k_count / n_terms * n_terms,
            _ => 0,
        };
        for k in (0..blocks).step_by(n_terms) {
            let to = &mut to[k * width + i..];
            if n_vectors == 16 {
                let vectors = std::array::from_fn(|r| cast_slice(&vector(r, k)[..32]));
                let mut pairs = [0; 256];
                transpose_columns(level, vectors, 0, [256, 16], &mut pairs);
                put(H::IS_BRAIN, &pairs, width, to);
                continue;
            }
            let pairs = transposed(std::array::from_fn(|r| cast_slice(&vector(r, k)[..8])));
            for (k, to) in to.chunks_mut(width).enumerate().take(8) {
                for (to, pair) in to.iter_mut().zip(pairs[k / 2]) {
                    *to = value::<H>((pair >> (k % 2 * 16)) & 0xffff);
                }
            }
        }
        for r in 0..n_vectors {
            for k in blocks..panel.k_count {
                to[k * width + i + r] = value::<H>(vector(r, k)[0].into());
            }
        }
        i += n_vectors;
    }
}
