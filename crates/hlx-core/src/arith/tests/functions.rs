//! The functions beside exp, log, sin, cos, tanh and erf: bounds, special values, pairs.

use super::*;

bound_test!(exp2_is_within_its_bound, exp2, f64::exp2, -14..=6, 0.85);
bound_test!(expm1_is_within_its_bound, expm1, f64::exp_m1, -24..=6, 1.5);
bound_test!(
    log2_is_within_its_bound,
    log2,
    |x| if x == 0.0 {
        f64::NEG_INFINITY
    } else {
        x.log2()
    },
    -2..=2,
    1.1
);
bound_test!(
    log10_is_within_its_bound,
    log10,
    |x| if x == 0.0 {
        f64::NEG_INFINITY
    } else {
        x.log10()
    },
    -2..=2,
    1.0
);
bound_test!(log1p_is_within_its_bound, log1p, f64::ln_1p, -24..=2, 1.5);
bound_test!(tan_is_within_its_bound, tan, f64::tan, -12..=17, 2.0);
bound_test!(asin_is_within_its_bound, asin, f64::asin, -13..=-1, 1.25);
bound_test!(acos_is_within_its_bound, acos, f64::acos, -13..=-1, 1.25);
bound_test!(atan_is_within_its_bound, atan, f64::atan, -13..=13, 1.25);
bound_test!(sinh_is_within_its_bound, sinh, f64::sinh, -13..=6, 1.65);
bound_test!(cosh_is_within_its_bound, cosh, f64::cosh, -13..=6, 1.65);

#[test]
fn special_values_of_one_argument_are_as_documented() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let tiny = f32::from_bits(1 | SIGN);
    let pi = std::f32::consts::PI;
    let cases = [
        ("exp2(-inf)", exp2(-inf), 0.0),
        ("exp2(inf)", exp2(inf), inf),
        ("exp2(128)", exp2(128.0), inf),
        ("exp2(-126)", exp2(-126.0), f32::MIN_POSITIVE),
        ("exp2(-126.1)", exp2(-126.1), 0.0),
        ("exp2(nan)", exp2(nan), nan),
        ("expm1(-0)", expm1(-0.0), -0.0),
        ("expm1(-subnormal)", expm1(tiny), -0.0),
        ("expm1(-inf)", expm1(-inf), -1.0),
        ("expm1(inf)", expm1(inf), inf),
        ("expm1(nan)", expm1(nan), nan),
        ("log2(8)", log2(8.0), 3.0),
        ("log2(-0)", log2(-0.0), -inf),
        ("log2(-1)", log2(-1.0), nan),
        ("log2(inf)", log2(inf), inf),
        ("log10(1)", log10(1.0), 0.0),
        ("log10(0)", log10(0.0), -inf),
        ("log10(-inf)", log10(-inf), nan),
        ("log10(inf)", log10(inf), inf),
        ("log1p(-1)", log1p(-1.0), -inf),
        ("log1p(-0)", log1p(-0.0), -0.0),
        ("log1p(-subnormal)", log1p(tiny), -0.0),
        ("log1p(-1.5)", log1p(-1.5), nan),
        ("log1p(inf)", log1p(inf), inf),
        ("log1p(nan)", log1p(nan), nan),
        ("tan(-0)", tan(-0.0), -0.0),
        ("tan(inf)", tan(inf), nan),
        ("asin(-0)", asin(-0.0), -0.0),
        ("asin(1.1)", asin(1.1), nan),
        ("asin(nan)", asin(nan), nan),
        ("acos(1)", acos(1.0), 0.0),
        ("acos(-1)", acos(-1.0), pi),
        ("acos(-inf)", acos(-inf), nan),
        ("atan(-0)", atan(-0.0), -0.0),
        ("atan(1)", atan(1.0), pi / 4.0),
        ("atan(inf)", atan(inf), pi / 2.0),
        ("atan(-inf)", atan(-inf), -pi / 2.0),
        ("atan(nan)", atan(nan), nan),
        ("sinh(-0)", sinh(-0.0), -0.0),
        ("sinh(-inf)", sinh(-inf), -inf),
        ("sinh(nan)", sinh(nan), nan),
        ("cosh(-0)", cosh(-0.0), 1.0),
        ("cosh(-inf)", cosh(-inf), inf),
        ("cosh(nan)", cosh(nan), nan),
    ];
    for (name, got, want) in cases {
        assert!(same(got, want), "{name} is {got:e}, expected {want:e}");
    }
}

/// `atan2(y, x)` and `pow(x, y)` at C99's special values (annex F), which PyTorch has too.
#[test]
fn special_values_of_two_arguments_are_as_in_c() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let pi = std::f32::consts::PI;
    let cases = [
        ("pow(1, nan)", pow(1.0, nan), 1.0),
        ("pow(nan, 0)", pow(nan, -0.0), 1.0),
        ("pow(nan, 1)", pow(nan, 1.0), nan),
        ("pow(-1, nan)", pow(-1.0, nan), nan),
        ("pow(-1, inf)", pow(-1.0, -inf), 1.0),
        ("pow(2, subnormal)", pow(2.0, f32::from_bits(1)), 1.0),
        ("pow(-0, -3)", pow(-0.0, -3.0), -inf),
        ("pow(-0, -2)", pow(-0.0, -2.0), inf),
        ("pow(-0, -inf)", pow(-0.0, -inf), inf),
        ("pow(-0, 3)", pow(-0.0, 3.0), -0.0),
        ("pow(-0, 2.5)", pow(-0.0, 2.5), 0.0),
        (
            "pow(-subnormal, 3)",
            pow(f32::from_bits(1 | SIGN), 3.0),
            -0.0,
        ),
        ("pow(-inf, 3)", pow(-inf, 3.0), -inf),
        ("pow(-inf, 2.5)", pow(-inf, 2.5), inf),
        ("pow(-inf, -3)", pow(-inf, -3.0), -0.0),
        ("pow(-inf, -2)", pow(-inf, -2.0), 0.0),
        ("pow(inf, -1)", pow(inf, -1.0), 0.0),
        ("pow(0.5, -inf)", pow(0.5, -inf), inf),
        ("pow(0.5, inf)", pow(0.5, inf), 0.0),
        ("pow(-8, 1/3)", pow(-8.0, 1.0 / 3.0), nan),
        ("pow(-2, 3)", pow(-2.0, 3.0), -8.0),
        (
            "pow(-2, 127)",
            pow(-2.0, 127.0),
            f32::from_bits(0xff00_0000),
        ),
        ("pow(-2, 129)", pow(-2.0, 129.0), -inf),
        ("pow(-2, -127)", pow(-2.0, -127.0), -0.0),
        ("pow(2, -126)", pow(2.0, -126.0), f32::MIN_POSITIVE),
        ("pow(-1, 2^24 - 1)", pow(-1.0, 16_777_215.0), -1.0),
        ("pow(-1, 2^24)", pow(-1.0, 16_777_216.0), 1.0),
        ("atan2(-0, 0)", atan2(-0.0, 0.0), -0.0),
        ("atan2(0, -0)", atan2(0.0, -0.0), pi),
        ("atan2(-0, -1)", atan2(-0.0, -1.0), -pi),
        ("atan2(-1, 0)", atan2(-1.0, 0.0), -pi / 2.0),
        ("atan2(1, -inf)", atan2(1.0, -inf), pi),
        ("atan2(-1, inf)", atan2(-1.0, inf), -0.0),
        ("atan2(inf, 1)", atan2(inf, 1.0), pi / 2.0),
        ("atan2(inf, -inf)", atan2(inf, -inf), 0.75 * pi),
        ("atan2(-inf, inf)", atan2(-inf, inf), -0.25 * pi),
        ("atan2(nan, 1)", atan2(nan, 1.0), nan),
        ("atan2(1, nan)", atan2(1.0, nan), nan),
    ];
    for (name, got, want) in cases {
        assert!(same(got, want), "{name} is {got:e}, expected {want:e}");
    }
}

/// Pairs of edges with small whole and half numbers, and `n` random ones of six kinds.
fn pairs(n: usize) -> Vec<[f32; 2]> {
    let mut random = Inputs::new(5);
    let mut edges = edges();
    edges.extend((0..12).flat_map(|half| [0.5 * half as f32, -0.5 * half as f32]));
    let mut all: Vec<[f32; 2]> = edges
        .iter()
        .flat_map(|a| edges.iter().map(|b| [*a, *b]))
        .collect();
    for case in 0..n {
        let x = random.any();
        let near_1 = f32::from_bits(0x3f80_0000 + random.bits() % 1024 - 512);
        all.push(match case % 6 {
            0 => [x, random.any()],
            1 => [random.scaled(-7..=7), random.scaled(-7..=7)],
            // Whole numbers.
            2 => {
                let small = |word: u32, n: u32| (word % (2 * n)) as f32 - n as f32;
                [small(random.bits(), 100), small(random.bits(), 30)]
            }
            // Powers of any size, of any float and of those near 1.
            3 | 4 => {
                let x = if case % 6 == 3 { abs(x) } else { near_1 };
                let power = f64::from(random.bits()) / 2_f64.powi(24) - 128.0;
                [x, (power / f64::from(x).log2()) as f32]
            }
            // Points whose coordinates are of one size.
            _ => [x, x * random.scaled(-3..=3)],
        });
    }
    all.iter().map(|pair| pair.map(flush)).collect()
}

macro_rules! pair_test {
    ($test:ident, $function:ident, $exact:expr, $bound:expr) => {
        #[test]
        fn $test() {
            multiversion! { fn all<A>(pairs: &[[f32; 2]], outputs: &mut [f32]) {
                for (out, &[x, y]) in outputs.iter_mut().zip(pairs) {
                    *out = A::$function(x, y);
                }
            } }
            let pairs = with_flush(|| pairs(3_000_000));
            let mut got = vec![0.5; pairs.len()];
            with_flush(|| all(&pairs, &mut got));
            let mut largest = 0.0;
            for (&[x, y], got) in pairs.iter().zip(&got) {
                let exact: fn(f64, f64) -> f64 = $exact;
                let want = exact(f64::from(x), f64::from(y));
                let name = stringify!($function);
                let error = ulps(*got, want);
                assert!(
                    error <= $bound,
                    "{name}({x:e}, {y:e}) is {got:e}, {error} ulp off, more than {}",
                    $bound
                );
                assert!(
                    want.is_nan() || got.is_sign_negative() == want.is_sign_negative(),
                    "{name}({x:e}, {y:e}) is {got:e}, expected {want:e}"
                );
                largest = f64::max(largest, error);
            }
            assert!(
                largest >= 0.5 * $bound,
                "{largest} ulp seen: the bound is loose"
            );
            for (&[x, y], got) in pairs.iter().zip(&got).step_by(23) {
                let host = with_flush(|| $function(x, y));
                assert!(
                    same(host, *got),
                    "on the host {host:e}, in a kernel {got:e} of ({x:e}, {y:e})"
                );
            }
        }
    };
}

pair_test!(pow_is_within_its_bound, pow, f64::powf, 0.95);
pair_test!(atan2_is_within_its_bound, atan2, f64::atan2, 1.6);

/// A power that is a float has its exact value.
#[test]
fn exact_powers_are_exact() {
    for base in -100_i32..=100 {
        for exponent in -20_i32..=20 {
            let want = f64::from(base).powi(exponent);
            if f64::from(want as f32) == want && want.abs() >= f64::from(f32::MIN_POSITIVE) {
                let got = with_flush(|| pow(base as f32, exponent as f32));
                assert!(same(got, want as f32), "pow({base}, {exponent}) is {got:e}");
            }
        }
    }
}

#[test]
fn logarithms_of_whole_powers_are_whole() {
    for exponent in -126_i32..=127 {
        let power = exp2(exponent as f32);
        assert_eq!(f64::from(power), 2_f64.powi(exponent));
        assert_eq!(log2(power), exponent as f32);
    }
    for (exponent, power) in [1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10]
        .iter()
        .enumerate()
    {
        assert_eq!(log10(*power), exponent as f32);
    }
}

/// The floats nearest to the multiples of pi/2 up to 2^17: what is left of the first by the
/// reduction is small beside the third part of pi/2.
#[test]
fn tan_is_within_its_bound_next_to_multiples_of_half_pi() {
    let mut worst = (0.0, 0.0);
    for n in 1..83_443 {
        let nearest = (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32;
        for bits in nearest.to_bits() - 1..=nearest.to_bits() + 1 {
            let x = f32::from_bits(bits);
            let error = ulps(with_flush(|| tan(x)), f64::from(x).tan());
            worst = if error > worst.0 { (error, x) } else { worst };
        }
    }
    assert!(worst.0 <= 2.0, "tan({:e}) is {} ulp off", worst.1, worst.0);
}

/// Vector loops over angles up to 2^17 have the bits of the functions that take every angle.
#[test]
fn angles_within_bounds_need_no_branch() {
    multiversion! { fn all<A>(angles: &[f32], within: &mut [[f32; 3]], any: &mut [[f32; 3]]) {
        for ((x, within), any) in angles.iter().zip(within).zip(any) {
            *within = [A::sin_within(*x), A::cos_within(*x), A::tan_within(*x)];
            *any = [A::sin(*x), A::cos(*x), A::tan(*x)];
        }
    } }
    let all_angles = inputs(9, 500_000, -5..=18);
    assert!(!angles_are_within(&all_angles));
    let is_within = |x: &f32| angles_are_within(std::slice::from_ref(x));
    let mut angles: Vec<f32> = all_angles.into_iter().filter(is_within).collect();
    angles.extend([131_072.0, -131_072.0, f32::INFINITY]);
    assert!(angles_are_within(&angles));
    let (mut within, mut any) = (vec![[0.0; 3]; angles.len()], vec![[1.0; 3]; angles.len()]);
    with_flush(|| all(&angles, &mut within, &mut any));
    for ((x, within), any) in angles.iter().zip(&within).zip(&any) {
        for (within, any) in within.iter().zip(any) {
            assert!(same(*within, *any), "{within:e} and {any:e} of {x:e}");
        }
    }
    assert!(!is_within(&131_072.01) && is_within(&f32::NAN));
}
