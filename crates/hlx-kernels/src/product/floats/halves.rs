//! Operands of 16-bit elements on the CPU: packed as the f32 of the same values.

use bytemuck::cast_slice;
use hlx_core::cpu::{SimdLevel, simd_level};

use super::pack::{Element, Operand, Panel};
use crate::element::{from_bf16, from_f16};
use crate::product::transposed::transpose_block;
#[cfg(target_arch = "x86_64")]
use crate::product::transposed::transpose_sixteen;

/// A type of 16 bits.
pub(super) trait Half: Copy + Sync {
    /// The bits of the f32 with the value of an element, which lies in the low 16 bits.
    fn widen(bits: u32) -> u32;
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
}

impl Half for Brain16 {
    #[inline(always)]
    fn widen(bits: u32) -> u32 {
        from_bf16(bits)
    }
}

/// Writes 32 terms of sixteen vectors as rows of f32, which lie `width` apart.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn put<H: Half>(vectors: [&[i8; 64]; 16], width: usize, to: &mut [f32]) {
    let rows = transpose_sixteen(vectors).into_iter();
    for (pairs, to) in rows.zip(to.chunks_mut(2 * width)) {
        // SAFETY: a register is sixteen words.
        let pairs: [u32; 16] = unsafe { std::mem::transmute(pairs) };
        let (first, second) = to.split_at_mut(width);
        for ((first, second), pair) in first[..16].iter_mut().zip(&mut second[..16]).zip(pairs) {
            *first = value::<H>(pair & 0xffff);
            *second = value::<H>(pair >> 16);
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
    let width = panel.width;
    let mut i = 0;
    while i < panel.count {
        let (n_vectors, n_terms) = match panel.count - i {
            16.. if simd_level() == SimdLevel::Avx512 => (16, 32),
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
            #[cfg(target_arch = "x86_64")]
            if n_vectors == 16 {
                let bytes = |r| cast_slice(&vector(r, k)[..32]).first_chunk();
                let vectors = std::array::from_fn(|r| bytes(r).expect("64 bytes"));
                // SAFETY: the processor has AVX-512 at this level.
                unsafe { put::<H>(vectors, width, to) };
                continue;
            }
            let mut pairs = [0.0; 16];
            let vectors = std::array::from_fn(|r| cast_slice(&vector(r, k)[..8]));
            transpose_block(vectors, &mut pairs, 4);
            for (k, to) in to.chunks_mut(width).enumerate().take(8) {
                for (to, pair) in to.iter_mut().zip(&pairs[k / 2 * 4..][..4]) {
                    *to = value::<H>((pair.to_bits() >> (k % 2 * 16)) & 0xffff);
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
