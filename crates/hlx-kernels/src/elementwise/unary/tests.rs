//! Tests of the unary operations: every formula against f64 or exact integers, on every device.

use hlx_core::{Bool, Element};

use super::*;
use crate::Layout;
use crate::testing::{elements_of, normal, run_everywhere, values};

/// Ends of the range, zeros, halves, steps of the functions, and ordinary values.
fn floats() -> Vec<f32> {
    let mut x = vec![0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    for size in [
        f32::MIN_POSITIVE,
        1e-20,
        1e-4,
        0.25,
        0.5,
        0.75,
        1.0,
        1.5,
        2.5,
        3.0,
        3.5,
        16.0,
        20.5,
        88.8,
        104.0,
        8_388_607.5,
        8_388_608.0,
        16_777_217.0,
        1e20,
        f32::MAX,
    ] {
        x.extend([size, -size]);
    }
    x.extend(values(11, 60).iter().map(|x| x.stored()));
    x.extend(normal(12, 100));
    x
}

const PARAMETERS: [f32; 2] = [-0.75, 1.25];

fn reference(operation: Unary, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let softplus = |x: f64| if x > 20.0 { x } else { x.exp().ln_1p() };
    let [low, high] = PARAMETERS.map(f64::from);
    let truth = |holds: bool| f64::from(u8::from(holds));
    let whole = x as f32;
    match operation {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Square => x * x,
        Unary::Sign if x.is_nan() || x == 0.0 => 0.0,
        Unary::Sign => x.signum(),
        Unary::ReLU if x <= 0.0 => 0.0,
        Unary::ReLU => x,
        Unary::LeakyReLU if x > 0.0 => x,
        Unary::LeakyReLU => low * x,
        Unary::Clamp => x.clamp(low, high),
        Unary::Floor => whole.floor().into(),
        Unary::Ceil => whole.ceil().into(),
        Unary::Round => whole.round_ties_even().into(),
        Unary::Trunc => whole.trunc().into(),
        Unary::Isnan => truth(x.is_nan()),
        Unary::Isfinite => truth(x.is_finite()),
        Unary::LogicalNot => truth(x == 0.0),
        Unary::BitwiseNot => f64::NAN,
        Unary::Reciprocal => 1.0 / x,
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.abs().sqrt() * if x < 0.0 { f64::NAN } else { 1.0 },
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tanh => x.tanh(),
        Unary::Sigmoid => sigmoid(x),
        Unary::GELU => x * cdf(x),
        Unary::GELUTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        Unary::SiLU => x * sigmoid(x),
        Unary::Softplus => softplus(x),
        Unary::Mish => x * softplus(x).tanh(),
        // The product may overflow where the quotient would not, as in PyTorch.
        Unary::Hardswish => f64::from((x * (x + 3.0).clamp(0.0, 6.0)) as f32) / 6.0,
        Unary::Exp2 => x.exp2(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Log2 => x.log2(),
        Unary::Log10 => x.log10(),
        Unary::Log1p => x.ln_1p(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::ELU if x > 0.0 => x,
        Unary::ELU => low * x.exp_m1(),
        Unary::Erf => erf(x),
    }
}

/// The normal distribution's.
fn cdf(x: f64) -> f64 {
    0.5 + 0.5 * erf(x / std::f64::consts::SQRT_2)
}

/// The error function by its series, -1 or 1 beyond 5.
fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut total) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        total += term / f64::from(2 * n + 1);
    }
    total * std::f64::consts::FRAC_2_SQRT_PI
}

/// How far a result may lie from f64's: relative, and for what is a small difference absolute.
fn tolerance(operation: Unary) -> (f64, f64) {
    match operation {
        Unary::GELU | Unary::GELUTanh | Unary::SiLU | Unary::Mish => (2e-6, 1e-6),
        _ => (4e-7, 1.3e-38),
    }
}

/// Runs an operation over a contiguous operand and returns the result's elements as words.
fn run_over<T: Element>(
    operation: Unary,
    compute: DType,
    x: &[T],
    parameters: impl Into<Parameters> + Copy + Sync,
) -> Vec<u32> {
    let n = x.len();
    let out = if operation.is_bool() {
        DType::Bool
    } else {
        compute
    };
    let got = run_everywhere(operation.name(), |device, mem| {
        let (x, layout) = (mem.input_of(device, x)?, Layout::contiguous(&[n])?);
        let y = mem.output_of(device, out, n)?;
        let x = Operand::new(&x, &layout);
        unary(device, operation, compute, x, parameters, &y)?;
        Ok(vec![y])
    });
    match operation.is_bool() {
        true => elements_of::<Bool>(&got[0], n)
            .into_iter()
            .map(|truth| u32::from(bool::from(truth)))
            .collect(),
        false => elements_of(&got[0], n),
    }
}

fn check_floats(operations: &[Unary]) {
    let x = floats();
    for &operation in operations {
        let got = run_over(operation, DType::F32, &x, PARAMETERS);
        let (relative, absolute) = tolerance(operation);
        for (&x, &word) in x.iter().zip(&got) {
            let want = reference(operation, x.into());
            let got = match operation.is_bool() {
                true => f64::from(word),
                false => f32::from_bits(word).into(),
            };
            let close = (got - want).abs() <= absolute + relative * want.abs();
            let infinite = got.is_infinite() && (want as f32) == got as f32;
            let zero = want != 0.0 || operation.is_bool() || same_zero(operation, x, got);
            let nan = got.is_nan() && want.is_nan();
            assert!(
                nan || infinite || close && zero,
                "{operation}({x:e}) = {got:e}, the reference has {want:e}"
            );
        }
    }
}

/// Whether a zero has the sign that the reference says, where the operation keeps signs.
fn same_zero(operation: Unary, x: f32, got: f64) -> bool {
    let has_sign = matches!(
        operation,
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc | Unary::Sqrt | Unary::Sin
    );
    !has_sign || got.is_sign_negative() == x.is_sign_negative()
}

#[test]
fn float_formulas_match_f64() {
    let defined = Unary::ALL
        .iter()
        .filter(|operation| operation.is_defined(DType::F32));
    let defined: Vec<Unary> = defined.copied().collect();
    assert_eq!(
        defined.len(),
        Unary::ALL.len() - 1,
        "all but the complement of bits"
    );
    check_floats(&defined);
}

/// The CPU computes them in vectors, and others of whose piece an angle is large one by one.
#[test]
fn angles_have_the_same_results_beside_large_ones_and_without() {
    let all = floats();
    let is_within = |x: &f32| arith::angles_are_within(std::slice::from_ref(x));
    let within: Vec<f32> = all.iter().copied().filter(is_within).collect();
    assert!(within.len() < all.len());
    for operation in [Unary::Sin, Unary::Cos, Unary::Tan] {
        let of_all = run_over(operation, DType::F32, &all, PARAMETERS);
        let of_all = all.iter().zip(of_all).filter(|(x, _)| is_within(x));
        let expected: Vec<u32> = of_all.map(|(_, word)| word).collect();
        let got = run_over(operation, DType::F32, &within, PARAMETERS);
        assert_eq!(got, expected, "{operation}");
    }
}

#[test]
fn integer_formulas_are_exact() {
    let signed = [
        0,
        1,
        -1,
        2,
        -7,
        127,
        -128,
        46_341,
        i32::MAX,
        i32::MIN,
        i32::MIN + 1,
    ];
    let unsigned = signed.map(|x| x as u32);
    for &operation in Unary::ALL {
        if !operation.is_defined(DType::I32) {
            continue;
        }
        let got = run_over(operation, DType::I32, &signed, [-7, 127]);
        for (&x, word) in signed.iter().zip(got) {
            let want = match operation {
                Unary::Neg => x.wrapping_neg(),
                Unary::Abs => x.wrapping_abs(),
                Unary::Square => x.wrapping_mul(x),
                Unary::Sign => x.signum(),
                Unary::ReLU => x.max(0),
                Unary::Clamp => x.clamp(-7, 127),
                Unary::Isnan => 0,
                Unary::Isfinite => 1,
                Unary::LogicalNot => i32::from(x == 0),
                Unary::BitwiseNot => !x,
                _ => x,
            };
            assert_eq!(word as i32, want, "{operation}({x})");
        }
        let got = run_over(operation, DType::U32, &unsigned, [7_u32, 1 << 31]);
        for (&x, word) in unsigned.iter().zip(got) {
            let want = match operation {
                Unary::Neg => x.wrapping_neg(),
                Unary::Square => x.wrapping_mul(x),
                Unary::Sign => x.min(1),
                Unary::Clamp => x.clamp(7, 1 << 31),
                Unary::Isnan => 0,
                Unary::Isfinite => 1,
                Unary::LogicalNot => u32::from(x == 0),
                Unary::BitwiseNot => !x,
                _ => x,
            };
            assert_eq!(word, want, "{operation}({x})");
        }
    }
}

#[test]
fn bounds_that_cross_or_are_nan_follow_the_written_rule() {
    let x = [0.5, f32::NAN, -0.0, 9.0];
    let of = |bounds: [f32; 2]| {
        let words = run_over(Unary::Clamp, DType::F32, &x, bounds);
        words.into_iter().map(f32::from_bits).collect::<Vec<_>>()
    };
    let crossed = of([3.0, 1.0]);
    assert_eq!(
        (crossed[0], crossed[3], crossed[1].is_nan()),
        (1.0, 1.0, true)
    );
    assert!(of([f32::NAN, 1.0]).iter().all(|y| y.is_nan()));
    assert!(of([0.0, 1.0])[2].is_sign_negative());
}

/// `bool` and 8 bits: computed in 32 bits, wrapped where they are stored.
#[test]
fn narrow_types_wrap_and_truth_values_stay_truth_values() {
    let got = run_everywhere("narrow", |device, mem| {
        let bytes = mem.input_of(device, &[-128_i8, 127, -1, 0, 12])?;
        let truths = mem.input_of(device, &[true, false, true].map(Bool::from))?;
        let (five, three) = (Layout::contiguous(&[5])?, Layout::contiguous(&[3])?);
        let (bytes, truths) = (Operand::new(&bytes, &five), Operand::new(&truths, &three));
        let squared = mem.output_of(device, DType::I8, 5)?;
        let (inverted, negated) = (
            mem.output_of(device, DType::Bool, 3)?,
            mem.output_of(device, DType::U8, 3)?,
        );
        unary(
            device,
            Unary::Square,
            DType::I32,
            bytes,
            [0_u32; 2],
            &squared,
        )?;
        unary(
            device,
            Unary::BitwiseNot,
            DType::U32,
            truths,
            [0_u32; 2],
            &inverted,
        )?;
        unary(device, Unary::Neg, DType::U32, truths, [0_u32; 2], &negated)?;
        Ok(vec![squared, inverted, negated])
    });
    assert_eq!(elements_of::<i8>(&got[0], 5), [0, 1, 1, 0, -112]);
    assert_eq!(elements_of::<u8>(&got[1], 3), [0, 1, 0]);
    assert_eq!(elements_of::<u8>(&got[2], 3), [255, 0, 255]);
}

#[test]
fn types_that_do_not_fit_are_refused_in_one_line() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let floats = device.alloc(3).expect("memory");
    let integers = device.alloc_typed(DType::I32, 3).expect("memory");
    let layout = Layout::contiguous(&[3]).expect("a shape");
    let message = |operation, compute, x: &Buffer, out: &Buffer| {
        let x = Operand::new(x, &layout);
        let result = unary(&device, operation, compute, x, [0_u32; 2], out);
        result.expect_err("refused").to_string()
    };
    assert_eq!(
        message(Unary::Exp, DType::I32, &integers, &integers),
        "exp: compute type is i32, for which the operation is not defined"
    );
    assert_eq!(
        message(Unary::Neg, DType::I32, &floats, &integers),
        "neg: x is f32, expected an integer type or bool under i32"
    );
    assert_eq!(
        message(Unary::Exp, DType::F32, &integers, &integers),
        "exp: out is i32, expected a float type"
    );
    assert_eq!(
        message(Unary::Isnan, DType::F32, &floats, &floats),
        "isnan: out is f32, expected bool"
    );
}
