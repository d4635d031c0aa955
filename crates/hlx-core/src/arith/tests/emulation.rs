//! The emulated multiplication and multiply-add against the hardware's, and on models of devices.

use super::*;

/// Triples whose product or sum lands on the edges: near 2^-126, near overflow, near a midpoint.
fn triples(n: usize) -> Vec<[f32; 3]> {
    let mut random = Inputs::new(7);
    let edges = edges();
    let mut all = Vec::new();
    for a in &edges {
        for b in &edges {
            all.push([*a, *b, edges[random.bits() as usize % edges.len()]]);
            all.push([*a, *b, -(a * b)]);
        }
    }
    for case in 0..n {
        let mut triple = [random.any(), random.any(), random.any()];
        let exponent = random.bits() as i32 % 60;
        match case % 5 {
            0 => {}
            1 => {
                triple = [
                    random.scaled(-3..=3),
                    random.scaled(-3..=3),
                    random.scaled(-28..=6),
                ]
            }
            2 => {
                let a = random.scaled(exponent..=exponent);
                let b = random.scaled(-127 - exponent..=-125 - exponent);
                triple = [
                    a,
                    b,
                    random.scaled(-126..=-120) * (random.bits() & 1) as f32,
                ];
            }
            3 => {
                let (a, b) = (random.scaled(-3..=3), random.scaled(-3..=3));
                triple = [
                    a,
                    b,
                    f32::from_bits(
                        (-(a * b))
                            .to_bits()
                            .wrapping_add(random.bits() % 5)
                            .wrapping_sub(2),
                    ),
                ];
            }
            _ => {
                // Few significant bits: exact ties.
                let short = |x: f32| f32::from_bits(x.to_bits() & 0xffff_c000);
                let (a, b) = (short(random.scaled(-3..=3)), short(random.scaled(-3..=3)));
                triple = [a, b, random.scaled(-2..=26)];
            }
        }
        all.push(triple);
    }
    all
}

multiversion! {
    /// `[fma, mul]` of each triple by the instructions that kernels use.
    fn hardware<A>(triples: &[[f32; 3]], out: &mut [[f32; 2]]) {
        for (y, &[a, b, c]) in out.iter_mut().zip(triples) {
            *y = [A::fma(a, b, c), A::mul(a, b)];
        }
    }
}

#[test]
fn emulated_fma_and_mul_have_the_hardwares_bits() {
    let triples = triples(4_000_000);
    let mut want = vec![[0.0; 2]; triples.len()];
    with_flush(|| hardware(&triples, &mut want));
    let check = |mode: &str| {
        for (&[a, b, c], [fma, mul]) in triples.iter().zip(&want) {
            let fmas = [soft::softfma::<soft::Here>(a, b, c), wide::fma(a, b, c)];
            for found in fmas {
                assert!(
                    same(found, *fma),
                    "{mode}: fma({a:e}, {b:e}, {c:e}) is {found:e}, expected {fma:e}"
                );
            }
            let found = wide::mul(a, b);
            assert!(
                same(found, *mul),
                "{mode}: mul({a:e}, {b:e}) is {found:e}, expected {mul:e}"
            );
        }
    };
    check("subnormals kept");
    with_flush(|| check("subnormals flushed"));
}

/// Models of devices: what their instructions give where x86's would not.
mod device {
    use super::wide::to_f32;
    use super::*;

    /// Rounds an exact f64 to f32 without a flush, in any mode of the thread.
    fn round_subnormal(exact: f64) -> f32 {
        let (sign, size) = (exact.to_bits() & 1 << 63, exact.abs());
        if size >= f64::from(f32::MIN_POSITIVE) || exact.is_nan() {
            return to_f32(exact);
        }
        // The units of 2^-149, rounded to even by adding 2^52.
        let units = size * f64::from_bits((1023 + 149) << 52) + 4_503_599_627_370_496.0;
        f32::from_bits((units.to_bits() as u32) | (sign >> 32) as u32)
    }

    /// `a * b + c`, exact except for a last bit, which is odd if the sum was not exact.
    fn odd_fma(a: f32, b: f32, c: f32) -> f64 {
        let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
        let sum = product + c;
        let c_part = sum - product;
        let error = (product - (sum - c_part)) + (c - c_part);
        let even = sum.to_bits() & 1 == 0;
        let step = if (error > 0.0) == (sum > 0.0) {
            1
        } else {
            u64::MAX
        };
        let inexact = error.abs() > 0.0;
        f64::from_bits(if inexact && even {
            sum.to_bits().wrapping_add(step)
        } else {
            sum.to_bits()
        })
    }

    fn before_rounding(exact: f64) -> f32 {
        let tiny = exact.abs() < f64::from(f32::MIN_POSITIVE);
        to_f32(if tiny { exact * 0.0 } else { exact })
    }

    macro_rules! device {
        ($(#[$doc:meta])* $name:ident, $input:expr, $round:expr, $fma:expr) => {
            $(#[$doc])*
            pub struct $name;
            impl soft::Device for $name {
                fn fma(a: f32, b: f32, c: f32) -> f32 {
                    $fma($input(a), $input(b), $input(c))
                }
                fn mul(a: f32, b: f32) -> f32 {
                    $round(f64::from($input(a)) * f64::from($input(b)))
                }
                fn add(a: f32, b: f32) -> f32 {
                    $round(f64::from($input(a)) + f64::from($input(b)))
                }
            }
        };
    }

    device!(
        /// Fuses, and preserves subnormals.
        Preserves, |x: f32| x, round_subnormal, |a, b, c| round_subnormal(odd_fma(a, b, c))
    );
    device!(
        /// Does not fuse, and preserves subnormals: lavapipe 22.3.
        PreservesUnfused, |x: f32| x, round_subnormal,
        |a, b, c| Self::add(Self::mul(a, b), c)
    );
    device!(
        /// Fuses, and flushes before rounding: AArch64.
        Before, flush, before_rounding, |a, b, c| before_rounding(odd_fma(a, b, c))
    );
    device!(
        /// Does not fuse, and flushes before rounding.
        BeforeUnfused, flush, before_rounding, |a, b, c| Self::add(Self::mul(a, b), c)
    );
    device!(
        /// Does not fuse, and flushes after rounding.
        AfterUnfused, flush, to_f32, |a, b, c| Self::add(Self::mul(a, b), c)
    );
}

/// Products and sums that round to 2^-126 from just below, and those that just do not.
fn just_below_the_smallest(n: usize) -> Vec<[f32; 3]> {
    let mut random = Inputs::new(11);
    let mut all = Vec::new();
    while all.len() < n {
        let a = u64::from(random.bits() >> 9 | 1 << 23 | 1);
        let b = (1_u64 << 47) / a + u64::from(random.bits() & 1);
        let shift = random.bits() % 60;
        let bits = |significand: u64, exponent: u32| {
            f32::from_bits(exponent << 23 | significand as u32 & 0x007f_ffff)
        };
        let sign = if random.bits() & 1 == 0 { 1.0 } else { -1.0 };
        let (x, y) = (bits(a, 64 + shift) * sign, bits(b, 63 - shift));
        all.push([x, y, 0.0 * sign]);
        // A normal addend that the product lowers by a fraction of a unit.
        let z = f32::from_bits(0x0080_0000 + random.bits() % 3);
        let tiny = random.scaled(-30..=-22);
        all.push([tiny, -f32::MIN_POSITIVE * sign, z * sign]);
        all.push([x, y, f32::from_bits(random.bits() % 2 * 0x0080_0000)]);
    }
    all
}

/// Counts, of all triples, how often a device's own instructions part from HLX, and asserts that
/// the emulation does not.
fn emulation_on<D: soft::Device>(name: &str, fuses: bool, triples: &[[f32; 3]]) -> [usize; 2] {
    let mut parted = [0; 2];
    for &[a, b, c] in triples {
        let [fma, mul, add] = [wide::fma(a, b, c), wide::mul(a, b), wide::fma(a, 1.0, c)];
        let mut pairs = vec![
            ("mul", soft::softmul::<D>(a, b), mul),
            ("add", soft::softadd::<D>(a, c), add),
            ("soft fma", soft::softfma::<D>(a, b, c), fma),
        ];
        if fuses {
            pairs.push(("flushed fma", soft::flushed_fma::<D>(a, b, c), fma));
        }
        for (operation, found, want) in pairs {
            assert!(
                same(found, want),
                "{name}: {operation} of ({a:e}, {b:e}, {c:e}) is {found:e}, expected {want:e}"
            );
        }
        parted[0] += usize::from(!same(D::mul(a, b), mul));
        parted[1] += usize::from(!same(D::fma(a, b, c), fma));
    }
    parted
}

#[test]
fn the_emulation_has_the_same_bits_on_devices_of_every_flush_rule() {
    let mut triples = just_below_the_smallest(300_000);
    triples.extend(self::triples(1_500_000));
    let parted = [
        emulation_on::<device::Preserves>("keeps", true, &triples),
        emulation_on::<device::PreservesUnfused>("keeps, unfused", false, &triples),
        emulation_on::<device::Before>("before", true, &triples),
        emulation_on::<device::BeforeUnfused>("before, unfused", false, &triples),
        emulation_on::<device::AfterUnfused>("after, unfused", false, &triples),
    ];
    // The models differ from HLX, so there was something to emulate.
    assert!(
        parted[..4].iter().flatten().all(|count| *count > 1000),
        "{parted:?}"
    );
    assert!(parted[4][0] == 0 && parted[4][1] > 1000, "{parted:?}");
}

/// What AArch64's guard rests on: where a device that flushes before rounding parts from HLX, it
/// has flushed.
#[test]
fn a_flush_before_rounding_parts_only_where_it_flushes() {
    use soft::Device as _;
    let mut parted = 0;
    for [a, b, c] in just_below_the_smallest(300_000) {
        let [a, b, c] = [a, b, c].map(flush);
        let pairs = [
            (device::Before::mul(a, b), wide::mul(a, b)),
            (device::Before::fma(a, b, c), wide::fma(a, b, c)),
        ];
        for (found, expected) in pairs
            .into_iter()
            .filter(|(found, expected)| !same(*found, *expected))
        {
            assert_eq!(abs(found), 0.0, "of ({a:e}, {b:e}, {c:e})");
            assert_eq!(abs(expected), f32::MIN_POSITIVE, "of ({a:e}, {b:e}, {c:e})");
            parted += 1;
        }
        assert!(same(device::Before::add(a, c), wide::fma(a, 1.0, c)));
    }
    assert!(parted > 1000, "{parted} parted");
}
