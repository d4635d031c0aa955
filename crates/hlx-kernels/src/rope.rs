//! Rotary positions (Su et al. 2021, arXiv:2104.09864): pairs of a head's elements are rotated by an angle
//! that grows with the position.
//!
//! x, y `[rows, H, D]`; positions `[rows]`; frequencies `[half]` with `2 half <= D`. Element `i < half`
//! of a head makes a pair with element `i + half`, as in Hugging Face's models. With
//! `a = position * frequency[i]`, `c = cos(a) * scale` and `s = sin(a) * scale` (of the inverse rotation
//! `s = -(sin(a) * scale)`):
//! `y[i] = fma(x[i], c, -(x[i + half] * s))` and `y[i + half] = fma(x[i + half], c, x[i] * s)`. Elements
//! from `2 half` on are copied. The derivative is the inverse rotation of `dy`.

use hlx_core::{Buffer, Device, as_u32};

use crate::error::{Result, check_sizes};
use crate::kernel::Kernel;
use crate::map::GROUP_THREADS;
use crate::parallel::{self, read, write};

shader!(shader, rope::rope);

/// The sizes of the rotation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Tokens.
    pub rows: usize,
    /// Heads of a token.
    pub heads: usize,
    /// Elements of a head.
    pub width: usize,
    /// What sines and cosines are multiplied by; 1 except for YaRN.
    pub scale: f32,
    /// Rotates back: the derivative.
    pub inverse: bool,
}

/// Rotates every head of `x` by its token's position, and overwrites `y`. A position from 2^24 on is
/// rounded to an f32.
///
/// # Errors
/// A shape error, or the device's error.
pub fn rope(
    device: &Device,
    x: &Buffer,
    positions: &Buffer,
    frequencies: &Buffer,
    y: &Buffer,
    sizes: &Rope,
) -> Result<()> {
    const NAME: &str = "rope";
    let (rows, heads, width) = (sizes.rows, sizes.heads, sizes.width);
    let (scale, inverse) = (sizes.scale, sizes.inverse);
    check_sizes(NAME, &[rows, heads, width])?;
    let (count, pairs) = (rows * heads * width, frequencies.len());
    let kernel = Kernel::new(NAME, &shader::SHADER)
        .read("x", x, count)?
        .read("positions", positions, rows)?
        .read("frequencies", frequencies, pairs)?
        .write("y", y, count)?;
    let rotated = 2 * pairs;
    check_that!(NAME, rotated <= width =>
        "{pairs} frequencies rotate {rotated} elements, and a head has {width}")?;
    check_that!(NAME, u32::try_from(count).is_ok() =>
        "{rows} x {heads} x {width} elements are more than a kernel can index")?;
    if count == 0 {
        return Ok(());
    }
    let push = push!(shader => rows, heads, width, pairs, inverse, scale);
    let groups = (rows * (width - pairs)).div_ceil(GROUP_THREADS);
    kernel.launch(device, push, groups, move |inputs, outputs| {
        let ([x, positions, frequencies], [y]) = (inputs, outputs);
        let token = heads * width;
        let positions = read(as_u32(positions), 8);
        let pieces = (read(x, 8 * token), write(y, 8 * token), positions);
        parallel::for_each(pieces, |_, (x, y, positions)| {
            let mut factors = vec![0.0; 2 * pairs];
            let (c, s) = factors.split_at_mut(pairs);
            let tokens = x.chunks(token).zip(y.chunks_mut(token));
            for ((x, y), &position) in tokens.zip(positions) {
                rotations_at(position as f32, frequencies, scale, c, s);
                if inverse {
                    s.iter_mut().for_each(|s| *s = -*s);
                }
                for (x, y) in x.chunks(width).zip(y.chunks_mut(width)) {
                    rotate_head(x, c, s, y);
                }
            }
        });
    })
}

multiversion! {
    /// The cosines and sines of a position.
    pub(crate) fn rotations_at<A>(position: f32, frequencies: &[f32], scale: f32, c: &mut [f32], s: &mut [f32]) {
        for ((frequency, c), s) in frequencies.iter().zip(c).zip(s) {
            let angle = A::mul(position, *frequency);
            *c = A::mul(A::cos(angle), scale);
            *s = A::mul(A::sin(angle), scale);
        }
    }

    /// One head of one token.
    pub(crate) fn rotate_head<A>(x: &[f32], c: &[f32], s: &[f32], y: &mut [f32]) {
        let pairs = c.len();
        let (first, rest) = x.split_at(pairs);
        let (second, tail) = rest.split_at(pairs);
        let (y_first, rest) = y.split_at_mut(pairs);
        let (y_second, y_rest) = rest.split_at_mut(pairs);
        let sources = first.iter().zip(second).zip(c.iter().zip(s));
        let targets = y_first.iter_mut().zip(y_second);
        for (((a, b), (c, s)), (y_a, y_b)) in sources.zip(targets) {
            *y_a = A::fma(*a, *c, -A::mul(*b, *s));
            *y_b = A::fma(*b, *c, A::mul(*a, *s));
        }
        y_rest.copy_from_slice(tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{normal, run_everywhere};

    const FREQUENCIES: [f32; 3] = [1.0, 0.3, 0.001];

    fn sizes(positions: &[u32], inverse: bool) -> Rope {
        Rope {
            rows: positions.len(),
            heads: 3,
            width: 8,
            scale: 1.25,
            inverse,
        }
    }

    /// Rotates on every device, which give equal bits.
    fn rotated(x: &[f32], positions: &[u32], inverse: bool) -> Vec<f32> {
        let mut got = run_everywhere("rope", |device, mem| {
            let input = mem.input(device, x)?;
            let positions_in = mem.input_u32(device, positions)?;
            let frequencies = mem.input(device, &FREQUENCIES)?;
            let y = mem.output(device, x.len())?;
            let sizes = sizes(positions, inverse);
            rope(device, &input, &positions_in, &frequencies, &y, &sizes)?;
            Ok(vec![y])
        });
        got.remove(0)
    }

    /// Positions at the start, past a task's rows, and where angles need more than their f32 reduction.
    fn positions() -> Vec<u32> {
        let far = [131_071, 131_073, 500_000, (1 << 24) - 1];
        (0..29).chain(far).collect()
    }

    #[test]
    fn pairs_turn_by_their_angle_and_the_rest_stays() {
        let positions = positions();
        let x = normal(1, positions.len() * 3 * 8);
        let y = rotated(&x, &positions, false);
        for (token, position) in positions.iter().enumerate() {
            for head in 0..3 {
                let at = (token * 3 + head) * 8;
                for (i, frequency) in FREQUENCIES.iter().enumerate() {
                    let angle = f64::from(*position as f32 * frequency);
                    let (sin, cos) = angle.sin_cos();
                    let [a, b] = [x[at + i], x[at + i + 3]].map(f64::from);
                    let want = [1.25 * (a * cos - b * sin), 1.25 * (b * cos + a * sin)];
                    for (want, got) in want.into_iter().zip([y[at + i], y[at + i + 3]]) {
                        assert!((want - f64::from(got)).abs() < 2e-6, "{position}: {got}");
                    }
                }
                assert_eq!(y[at + 6..at + 8], x[at + 6..at + 8]);
            }
        }
    }

    #[test]
    fn the_inverse_turns_back() {
        let positions = positions();
        let x = normal(2, positions.len() * 3 * 8);
        let back = rotated(&rotated(&x, &positions, false), &positions, true);
        for (at, (x, back)) in x.iter().zip(&back).enumerate() {
            let scale = if at % 8 < 6 { 1.25 * 1.25 } else { 1.0 };
            assert!((x * scale - back).abs() < 4e-6, "{at}: {x} {back}");
        }
    }

    #[test]
    fn more_frequencies_than_pairs_are_refused() {
        let device = hlx_core::testing::cpu().expect("the CPU device");
        let memory = |n| device.alloc(n).expect("memory");
        let (x, positions, y) = (memory(24), memory(1), memory(24));
        let error = rope(&device, &x, &positions, &memory(5), &y, &sizes(&[0], false));
        assert_eq!(
            error.expect_err("refused").to_string(),
            "rope: 5 frequencies rotate 10 elements, and a head has 8"
        );
    }
}
