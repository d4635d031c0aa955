//! Normal and uniform random values, drawn on the host: initial weights.
//!
//! Elements 4j to 4j + 3 come from the Philox block with the counter (j, 0, 0, purpose): two
//! pairs of normal values (Box and Muller), times the standard deviation; or four uniform values,
//! fma(u, 2 bound, -bound) with u of 24 bits in [0, 1).

use hlx_core::arith::{FloatOps, philox4x32, uniform};

/// Blocks drawn side by side, each in a lane of the vector registers.
pub(crate) const LANES: usize = 16;

/// The four words of each block from `first` on: a lane has a block.
#[inline(always)]
pub(crate) fn philox_lanes(
    key: [u32; 2],
    [stream, purpose]: [u32; 2],
    first: u32,
) -> [[u32; LANES]; 4] {
    let mut lanes = [[0; LANES]; 4];
    for lane in 0..LANES {
        let counter = [first.wrapping_add(lane as u32), 0, stream, purpose];
        for (component, word) in lanes.iter_mut().zip(philox4x32(counter, key)) {
            component[lane] = word;
        }
    }
    lanes
}

/// Makes values of pairs of words: normal ones, of which `f` makes the results.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // One index into all arrays: what vectorises.
pub(crate) fn normal_lanes<A: FloatOps>(lanes: &mut [[u32; LANES]; 4], f: impl Fn(f32) -> f32) {
    for lane in 0..LANES {
        for pair in [0, 2] {
            let (x, y) = A::normal_pair(lanes[pair][lane], lanes[pair + 1][lane]);
            (lanes[pair][lane], lanes[pair + 1][lane]) = (f(x).to_bits(), f(y).to_bits());
        }
    }
}

multiversion! {
    /// Draws the blocks from `first_block` on into `values`; the last may be cut short.
    ///
    /// Call it under [`hlx_core::cpu::with_flush`].
    pub fn draw_normal<A>(
        key: [u32; 2],
        purpose: u32,
        deviation: f32,
        first_block: u32,
        values: &mut [f32],
    ) {
        let mut block = first_block;
        for values in values.chunks_mut(4 * LANES) {
            let mut lanes = philox_lanes(key, [0, purpose], block);
            normal_lanes::<A>(&mut lanes, |value| A::mul(value, deviation));
            for (i, value) in values.iter_mut().enumerate() {
                *value = f32::from_bits(lanes[i % 4][i / 4]);
            }
            block = block.wrapping_add(LANES as u32);
        }
    }

    /// Draws the uniform values of the blocks from `first_block` on into `values`, from -bound to
    /// below bound; the last block may be cut short.
    ///
    /// Call it under [`hlx_core::cpu::with_flush`].
    pub fn draw_uniform<A>(
        key: [u32; 2],
        purpose: u32,
        bound: f32,
        first_block: u32,
        values: &mut [f32],
    ) {
        let width = A::mul(2.0, bound);
        for (block_idx, values) in values.chunks_mut(4).enumerate() {
            let block = first_block.wrapping_add(block_idx as u32);
            let words = philox4x32([block, 0, 0, purpose], key);
            for (value, word) in values.iter_mut().zip(words) {
                *value = A::fma(uniform(word), width, -bound);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hlx_core::arith::normal_pair;
    use hlx_core::cpu::with_flush;

    #[test]
    fn uniform_blocks_are_those_of_their_counters() {
        let (key, purpose, bound) = ([7, 9], 0x8000_0003, 0.3);
        let mut values = vec![0.0; 4 * 100 + 3];
        with_flush(|| draw_uniform(key, purpose, bound, 5, &mut values));
        for (block, four) in values.chunks(4).enumerate() {
            let words = philox4x32([5 + block as u32, 0, 0, purpose], key);
            for (value, word) in four.iter().zip(words) {
                // Exact in f64, so that one rounding is the fused multiply-add's.
                let unit = f64::from(word >> 8) / f64::from(1 << 24);
                let exact = unit * f64::from(2.0 * bound) - f64::from(bound);
                assert_eq!(value.to_bits(), (exact as f32).to_bits());
            }
        }
    }

    #[test]
    fn blocks_are_those_of_their_counters() {
        let (key, purpose, deviation) = ([7, 9], 0x8000_0003, 0.02);
        let mut values = vec![0.0; 4 * 1000 + 3];
        with_flush(|| draw_normal(key, purpose, deviation, 5, &mut values));
        for (block, four) in values.chunks(4).enumerate() {
            let [a, b, c, d] = philox4x32([5 + block as u32, 0, 0, purpose], key);
            let ((x, y), (z, w)) = with_flush(|| (normal_pair(a, b), normal_pair(c, d)));
            for (value, expected) in four.iter().zip([x, y, z, w]) {
                assert_eq!(value.to_bits(), (expected * deviation).to_bits());
            }
        }
    }
}
