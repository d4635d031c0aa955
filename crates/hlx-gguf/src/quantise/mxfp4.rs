//! MXFP4: 32 values of E2M1 and a power of two.

use super::group::Group;
use crate::blocks::{Block, half_power};

/// The exponent of the largest value of E2M1, 6.
const LARGEST: i32 = 2;
/// Powers beside that of the largest value that are tried.
/// The largest power whose multiples by 12 are finite.
const MOST_POWER: i32 = 252;
const STEPS: [i32; 3] = [0, 1, -1];

/// The block of values, one of which is not 0.
pub(super) fn block_of(values: &[f32], weights: &[f64]) -> Block {
    let group = Group::<32>::new(values, weights);
    let exponent = (group.largest().to_bits() >> 52) as i32 - 1023;
    let powers = STEPS.map(|step| (exponent - LARGEST + 127 + step).clamp(2, MOST_POWER) as u8);
    let candidates = powers.map(|power| {
        let d = f64::from(half_power(power));
        let q = group.x.map(|x| doubled(x / d));
        (group.error(&q, d, 0.0), power, q)
    });
    let best = candidates.iter().min_by(|one, two| one.0.total_cmp(&two.0));
    let mut block = Block::default();
    if let Some((_, power, found)) = best {
        block.d = half_power(*power);
        for (q, &found) in block.q.iter_mut().zip(found) {
            *q = found as i8;
        }
    }
    block
}

/// The doubled value of E2M1 that is nearest; of two the smaller one.
fn doubled(x: f64) -> f64 {
    let magnitude = match x.abs() {
        small if small <= 3.5 => super::group::nearest(small),
        middle if middle <= 5.0 => 4.0,
        middle if middle <= 7.0 => 6.0,
        large if large <= 10.0 => 8.0,
        _ => 12.0,
    };
    match x < 0.0 {
        true => -magnitude,
        false => magnitude,
    }
}
