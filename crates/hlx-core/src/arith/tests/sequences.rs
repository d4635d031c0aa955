//! The sequences of division and square root against the hardware's instructions.

use super::*;

#[test]
fn the_division_sequence_has_the_hardwares_bits() {
    multiversion! { fn first_difference<A>(pairs: &[[f32; 2]]) -> Option<[f32; 2]> {
        pairs.iter().copied().find(|[a, b]| !same(soft::softdiv::<A>(*a, *b), a / b))
    } }
    let mut random = Inputs::new(3);
    let edges = edges();
    let mut pairs: Vec<[f32; 2]> = edges
        .iter()
        .flat_map(|a| edges.iter().map(|b| [*a, *b]))
        .collect();
    for case in 0..8_000_000 {
        pairs.push(match case % 4 {
            0 => [random.any(), random.any()],
            1 => [random.scaled(-126..=-60), random.scaled(60..=127)],
            _ => [random.scaled(0..=0), random.scaled(0..=0)],
        });
    }
    let found = with_flush(|| first_difference(&pairs));
    assert_eq!(found, None, "softdiv differs from the hardware's division");
}

/// The quotients nearest to a midpoint of two floats: `2^s a = (Q + 1/2) b + k/2` for a small odd
/// `k`, found by the inverse of `b` modulo a power of two.
#[test]
fn the_division_sequence_rounds_the_hardest_quotients() {
    multiversion! { fn first_difference<A>(first: u32, step: u32) -> Option<[f32; 2]> {
        let mut b = (1 << 23) | first | 1;
        while b < 1 << 24 {
            let inverse = (0..5).fold(1_u64, |x, _| {
                x.wrapping_mul(2_u64.wrapping_sub(u64::from(b).wrapping_mul(x)))
            });
            for k in [1_u64, 3, 5, 7].into_iter().flat_map(|k| [k, k.wrapping_neg()]) {
                for s in [24, 25] {
                    // (2Q + 1) b = 2^s a' - k with a = a' / 2 whole: 2Q + 1 = -k / b modulo 2^s.
                    let q = inverse.wrapping_mul(k.wrapping_neg()) & ((1 << s) - 1);
                    for q in [q, q + (1 << s)] {
                        let whole = q.wrapping_mul(u64::from(b)).wrapping_add(k);
                        let a = (whole >> s) as u32;
                        if a >> 23 == 1 && q >> 24 == 1 {
                            let (a, b) = (a as f32, b as f32);
                            if soft::softdiv::<A>(a, b).to_bits() != (a / b).to_bits() {
                                return Some([a, b]);
                            }
                        }
                    }
                }
            }
            b += step;
        }
        None
    } }
    let step = if std::env::var_os("HLX_EXHAUSTIVE").is_some() {
        2
    } else {
        74
    };
    assert_eq!(
        first_difference(0, step),
        None,
        "softdiv differs from the hardware's division"
    );
}

#[test]
fn the_square_root_sequence_is_right_for_every_significand() {
    multiversion! { fn first_difference<A>(first: u32, last: u32, step: u32) -> Option<f32> {
        (first..=last).step_by(step as usize).map(f32::from_bits)
            .find(|x| !same(soft::softsqrt::<A>(*x), x.sqrt()))
    } }
    with_flush(|| {
        // Two binades hold every significand under both parities of the exponent.
        assert_eq!(
            first_difference(1.0_f32.to_bits(), 4.0_f32.to_bits(), 1),
            None
        );
        assert_eq!(first_difference(0, u32::MAX, 1009), None);
    });
    for x in edges() {
        let (got, want) = with_flush(|| (soft::softsqrt::<Exact>(x), x.sqrt()));
        assert!(
            same(got, want),
            "softsqrt({x:e}) is {got:e}, expected {want:e}"
        );
    }
}
