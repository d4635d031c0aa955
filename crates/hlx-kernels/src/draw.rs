//! Normal random values, drawn on the host: initial weights.
//!
//! Elements 4j to 4j + 3 come from the Philox block with the counter (j, 0, 0, purpose): two
//! pairs of normal values (Box and Muller), times the standard deviation.

use hlx_core::arith::{FloatOps, philox4x32};

/// Blocks drawn side by side, each in a lane of the vector registers.
const LANES: usize = 16;

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
            let mut drawn = [0.0; 4 * LANES];
            draw_lanes::<A>(key, purpose, deviation, block, &mut drawn);
            values.copy_from_slice(&drawn[..values.len()]);
            block = block.wrapping_add(LANES as u32);
        }
    }
}

#[inline(always)]
#[allow(clippy::needless_range_loop)] // One index into all arrays: what vectorises.
fn draw_lanes<A: FloatOps>(
    key: [u32; 2],
    purpose: u32,
    deviation: f32,
    first_block: u32,
    values: &mut [f32; 4 * LANES],
) {
    let mut words = [[0; LANES]; 4];
    for lane in 0..LANES {
        let counter = [first_block.wrapping_add(lane as u32), 0, 0, purpose];
        let [a, b, c, d] = philox4x32(counter, key);
        (words[0][lane], words[1][lane]) = (a, b);
        (words[2][lane], words[3][lane]) = (c, d);
    }
    let mut normal = [[0.0; LANES]; 4];
    for lane in 0..LANES {
        (normal[0][lane], normal[1][lane]) = A::normal_pair(words[0][lane], words[1][lane]);
        (normal[2][lane], normal[3][lane]) = A::normal_pair(words[2][lane], words[3][lane]);
    }
    for (lane, four) in values.chunks_exact_mut(4).enumerate() {
        for (value, column) in four.iter_mut().zip(&normal) {
            *value = A::mul(column[lane], deviation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hlx_core::arith::normal_pair;
    use hlx_core::cpu::with_flush;

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
