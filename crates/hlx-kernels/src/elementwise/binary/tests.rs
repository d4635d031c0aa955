//! Tests of the binary operations: every formula against f64 or exact integers, and every way in
//! which operands can lie, on every device.

use half::{bf16, f16};
use hlx_core::{Bool, Element};

use super::*;
use crate::Layout;
use crate::testing::{elements_of, normal, run_everywhere};
use crate::tuning::KernelTuning;

/// All pairs of these.
fn float_pairs() -> (Vec<f32>, Vec<f32>) {
    let mut x = vec![
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        -1e-38,
    ];
    x.extend([
        f32::MIN_POSITIVE,
        1.0,
        -1.0,
        0.5,
        -0.1,
        3.0,
        -3.5,
        7.25,
        1e9,
        -1e20,
        16_777_217.0,
    ]);
    x.extend(normal(21, 6));
    pairs(&x)
}

fn pairs<T: Copy>(x: &[T]) -> (Vec<T>, Vec<T>) {
    x.iter()
        .flat_map(|&a| x.iter().map(move |&b| (a, b)))
        .unzip()
}

fn of<'a>(buffer: &'a Buffer, layout: &'a Layout) -> Operand<'a> {
    Operand { buffer, layout }
}

/// Runs an operation over contiguous operands and returns the result's elements as words.
fn run_over<T: Element>(operation: Binary, compute: DType, a: &[T], b: &[T]) -> Vec<u32> {
    let n = a.len();
    let out = if operation.is_bool() {
        DType::Bool
    } else {
        compute
    };
    let got = run_everywhere(operation.name(), |device, mem| {
        let (a, b) = (mem.input_of(device, a)?, mem.input_of(device, b)?);
        let (layout, y) = (Layout::contiguous(&[n])?, mem.output_of(device, out, n)?);
        binary(
            device,
            operation,
            compute,
            of(&a, &layout),
            of(&b, &layout),
            &y,
        )?;
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

/// The result in f32 where it is exact or rounded once, else in f64.
fn reference(operation: Binary, a: f32, b: f32) -> Option<f64> {
    let (x, y) = (f64::from(a), f64::from(b));
    let toward_zero = x % y;
    let down = toward_zero != 0.0 && (toward_zero < 0.0) != (y < 0.0);
    let truth = |holds: bool| f64::from(u8::from(holds));
    Some(match operation {
        Binary::Add => (a + b).into(),
        Binary::Sub => (a - b).into(),
        Binary::Mul => x * y,
        Binary::Div => (a / b).into(),
        Binary::Remainder if down => (toward_zero as f32 + b).into(),
        Binary::Remainder => toward_zero,
        Binary::FloorDivide if b == 0.0 => x / y,
        Binary::FloorDivide if x.is_infinite() => f64::NAN,
        // The whole number that the rounded quotient is next to is not always this one.
        Binary::FloorDivide if (x / y).abs() > 1e6 => return None,
        Binary::FloorDivide => ((x - toward_zero) / y).round() - truth(down),
        Binary::Maximum | Binary::Minimum if a.is_nan() || b.is_nan() => f64::NAN,
        Binary::Maximum => {
            if x > y {
                x
            } else {
                y
            }
        }
        Binary::Minimum => {
            if x < y {
                x
            } else {
                y
            }
        }
        Binary::Eq => truth(a == b),
        Binary::Ne => truth(a != b),
        Binary::Lt => truth(a < b),
        Binary::Le => truth(a <= b),
        Binary::Gt => truth(a > b),
        Binary::Ge => truth(a >= b),
        Binary::LogicalAnd => truth(a != 0.0 && b != 0.0),
        Binary::LogicalOr => truth(a != 0.0 || b != 0.0),
        Binary::LogicalXor => truth((a != 0.0) != (b != 0.0)),
        Binary::Pow => x.powf(y),
        Binary::Atan2 => x.atan2(y),
        Binary::BitwiseAnd | Binary::BitwiseOr | Binary::BitwiseXor => return None,
        Binary::LeftShift | Binary::RightShift => return None,
    })
}

#[test]
fn float_formulas_match_the_reference() {
    let (a, b) = float_pairs();
    for &operation in Binary::ALL
        .iter()
        .filter(|operation| operation.is_defined(DType::F32))
    {
        let got = run_over(operation, DType::F32, &a, &b);
        let relative = match operation {
            Binary::Pow | Binary::Atan2 => 4e-7,
            _ => 6e-8,
        };
        for ((&a, &b), &word) in a.iter().zip(&b).zip(&got) {
            let (a, b) = (a.stored(), b.stored());
            let Some(want) = reference(operation, a, b) else {
                continue;
            };
            let got = match operation.is_bool() {
                true => f64::from(word),
                false => f32::from_bits(word).into(),
            };
            let close = (got - want).abs() <= 1.2e-38 + relative * want.abs();
            let infinite = got.is_infinite() && want as f32 == got as f32;
            let nan = got.is_nan() && want.is_nan();
            assert!(
                nan || infinite || close,
                "{operation}({a:e}, {b:e}) = {got:e}, the reference has {want:e}"
            );
        }
    }
}

#[test]
fn of_equal_zeros_the_second_is_chosen() {
    for operation in [Binary::Maximum, Binary::Minimum] {
        let got = run_over(operation, DType::F32, &[0.0_f32, -0.0], &[-0.0, 0.0]);
        assert_eq!(got, [0x8000_0000, 0], "{operation}");
    }
}

#[test]
fn a_float_remainder_is_exact_at_any_distance() {
    let a = [f32::MAX, -f32::MAX, 1e30, 16_777_215.0, 5.5, -5.5, 5.5, 0.3];
    let b = [1.1754944e-38, 3.0, -7.0, 0.1, 2.0, 2.0, -2.0, 0.1];
    let got = run_over(Binary::Remainder, DType::F32, &a, &b);
    for ((a, b), word) in a.into_iter().zip(b).zip(got) {
        let want = reference(Binary::Remainder, a, b).map(|want| want as f32);
        assert_eq!(Some(f32::from_bits(word)), want, "{a:e} by {b:e}");
    }
}

#[test]
fn integer_formulas_are_exact() {
    let (a, b) = pairs(&[
        0,
        1,
        -1,
        2,
        -2,
        7,
        -7,
        31,
        32,
        100,
        -65_537,
        i32::MAX,
        i32::MIN,
    ]);
    let (c, d): (Vec<u32>, Vec<u32>) = a
        .iter()
        .zip(&b)
        .map(|(&a, &b)| (a as u32, b as u32))
        .unzip();
    for &operation in Binary::ALL {
        if operation.is_defined(DType::I32) {
            let got = run_over(operation, DType::I32, &a, &b);
            for ((&a, &b), word) in a.iter().zip(&b).zip(got) {
                assert_eq!(
                    word as i32,
                    signed(operation, a, b),
                    "{operation}({a}, {b})"
                );
            }
        }
        if operation.is_defined(DType::U32) {
            let got = run_over(operation, DType::U32, &c, &d);
            for ((&a, &b), word) in c.iter().zip(&d).zip(got) {
                assert_eq!(word, unsigned(operation, a, b), "{operation}({a}, {b})");
            }
        }
    }
}

fn signed(operation: Binary, a: i32, b: i32) -> i32 {
    let (x, y) = (i64::from(a), i64::from(b));
    let shift = if (0..32).contains(&b) { b } else { 31 };
    match operation {
        Binary::Div | Binary::Remainder | Binary::FloorDivide if b == 0 => 0,
        Binary::Div => (x / y) as i32,
        Binary::Remainder => (x - y * floored(x, y)) as i32,
        Binary::FloorDivide => floored(x, y) as i32,
        Binary::Maximum => a.max(b),
        Binary::Minimum => a.min(b),
        Binary::Lt => i32::from(a < b),
        Binary::Le => i32::from(a <= b),
        Binary::Gt => i32::from(a > b),
        Binary::Ge => i32::from(a >= b),
        Binary::RightShift => a >> shift,
        Binary::Pow if b < 0 => match a {
            1 => 1,
            -1 => 1 - 2 * (b & 1),
            _ => 0,
        },
        _ => unsigned(operation, a as u32, b as u32) as i32,
    }
}

fn floored(x: i64, y: i64) -> i64 {
    x.div_euclid(y) - i64::from(y < 0 && x.rem_euclid(y) != 0)
}

fn unsigned(operation: Binary, a: u32, b: u32) -> u32 {
    match operation {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div | Binary::FloorDivide => a.checked_div(b).unwrap_or(0),
        Binary::Remainder => a.checked_rem(b).unwrap_or(0),
        Binary::Maximum => a.max(b),
        Binary::Minimum => a.min(b),
        Binary::Eq => u32::from(a == b),
        Binary::Ne => u32::from(a != b),
        Binary::Lt => u32::from(a < b),
        Binary::Le => u32::from(a <= b),
        Binary::Gt => u32::from(a > b),
        Binary::Ge => u32::from(a >= b),
        Binary::LogicalAnd => u32::from(a != 0 && b != 0),
        Binary::LogicalOr => u32::from(a != 0 || b != 0),
        Binary::LogicalXor => u32::from((a != 0) != (b != 0)),
        Binary::BitwiseAnd => a & b,
        Binary::BitwiseOr => a | b,
        Binary::BitwiseXor => a ^ b,
        Binary::LeftShift => a.checked_shl(b).unwrap_or(0),
        Binary::RightShift => a.checked_shr(b).unwrap_or(0),
        Binary::Pow => a.wrapping_pow(b),
        Binary::Atan2 => 0,
    }
}

type Movement = fn(&Layout) -> Result<Layout, String>;

/// Pairs of views of an array [4, 6, 8], each with the shape that they broadcast to.
const VIEWS: [(&str, Movement, Movement); 9] = [
    ("whole", |x| Ok(x.clone()), |x| Ok(x.clone())),
    ("a row", |x| Ok(x.clone()), |x| x.select(0, 1)?.select(0, 2)),
    ("a column", |x| x.slice(2, (0, 1, 1)), |x| Ok(x.clone())),
    (
        "one element",
        |x| x.select(0, 0)?.select(0, 0)?.select(0, 3),
        |x| Ok(x.clone()),
    ),
    (
        "outer products",
        |x| x.slice(2, (0, 1, 1)),
        |x| x.slice(1, (5, 6, 1)),
    ),
    (
        "transposed",
        |x| x.permute(&[2, 1, 0]),
        |x| x.permute(&[2, 1, 0])?.flip(1),
    ),
    (
        "odd rows",
        |x| x.slice(2, (1, 8, 1)),
        |x| x.slice(2, (0, 7, 1)),
    ),
    (
        "steps",
        |x| x.slice(2, (0, 8, 3)),
        |x| x.slice(2, (1, 8, 3)),
    ),
    (
        "nothing",
        |x| x.slice(0, (2, 2, 1)),
        |x| x.slice(0, (0, 1, 1)),
    ),
];

/// The elements of a view in row-major order of a shape that it broadcasts to.
fn read<T: Copy>(data: &[T], view: &Layout, shape: &[usize]) -> Vec<T> {
    let view = view.expand(shape).expect("a broadcast");
    let n: usize = shape.iter().product();
    let index = |mut linear: usize| {
        let mut index = vec![0; shape.len()];
        for (slot, &extent) in index.iter_mut().zip(shape).rev() {
            *slot = linear % extent;
            linear /= extent;
        }
        index
    };
    (0..n)
        .map(|linear| data[view.place(&index(linear))])
        .collect()
}

/// What makes elements of the operands and of the output of whole numbers.
type Conversions<A, B, O> = (fn(f32) -> A, fn(f32) -> B, fn(f32) -> O);

fn check_views<A: Element, B: Element, O: Element>(
    compute: DType,
    [a, b]: [&dyn Fn(usize) -> f32; 2],
    (of_a, of_b, of_out): Conversions<A, B, O>,
) {
    let whole = Layout::contiguous(&[4, 6, 8]).expect("a shape");
    let n = whole.n_elements();
    let (x, y): (Vec<f32>, Vec<f32>) = (0..n).map(|i| (a(i), b(i))).unzip();
    let (p, q): (Vec<A>, Vec<B>) = x.iter().zip(&y).map(|(&x, &y)| (of_a(x), of_b(y))).unzip();
    for (name, left, right) in VIEWS {
        let (left, right) = (
            left(&whole).expect("a view"),
            right(&whole).expect("a view"),
        );
        let shape = crate::broadcast_shape(&[left.shape(), right.shape()]).expect("one shape");
        let len = shape.iter().product();
        let got = run_everywhere(name, |device, mem| {
            let (p, q) = (mem.input_of(device, &p)?, mem.input_of(device, &q)?);
            let out = mem.output_of(device, O::DTYPE, len)?;
            binary(
                device,
                Binary::Sub,
                compute,
                of(&p, &left),
                of(&q, &right),
                &out,
            )?;
            Ok(vec![out])
        });
        let operands = read(&x, &left, &shape)
            .into_iter()
            .zip(read(&y, &right, &shape));
        let want: Vec<O> = operands.map(|(x, y)| of_out(x - y)).collect();
        assert_eq!(elements_of::<O>(&got[0], len), want, "{name}");
    }
}

/// Small whole numbers are exact in every type, so that a difference shows the places.
#[test]
fn operands_of_any_layout_and_type_are_combined() {
    let numbers: [&dyn Fn(usize) -> f32; 2] = [&|i| (i % 101) as f32, &|i| (i * 7 % 23) as f32];
    check_views(DType::F32, numbers, (|x| x, |y| y, |z| z));
    check_views(DType::F32, numbers, (f16::from_f32, |y| y as i32, |z| z));
    check_views(
        DType::F32,
        numbers,
        (|x| x as i8, bf16::from_f32, f16::from_f32),
    );
    check_views(
        DType::I32,
        numbers,
        (|x| x as u8, |y| y as i32, |z| z as i32),
    );
    check_views(DType::I32, numbers, (|x| x as i8, |y| y as i8, |z| z as i8));
}

/// Long enough for several pieces and workgroups, with a tail.
#[test]
fn long_operands_are_cut_without_a_trace() {
    for n in [1, 3, 1023, 4099, 40_003] {
        let (a, b) = (normal(5, n), normal(6, 1));
        let got = run_everywhere("mul", |device, mem| {
            let (x, y) = (mem.input(device, &a)?, mem.input(device, &b)?);
            let (long, one) = (Layout::contiguous(&[n])?, Layout::contiguous(&[1])?);
            let (out, half) = (
                mem.output(device, n)?,
                mem.output_of(device, DType::F16, n)?,
            );
            binary(
                device,
                Binary::Mul,
                DType::F32,
                of(&x, &long),
                of(&y, &one),
                &out,
            )?;
            binary(
                device,
                Binary::Mul,
                DType::F32,
                of(&x, &long),
                of(&y, &one),
                &half,
            )?;
            Ok(vec![out, half])
        });
        let want: Vec<f32> = a.iter().map(|a| a * b[0]).collect();
        assert_eq!(got[0], want);
        let want: Vec<f16> = want.into_iter().map(f16::from_f32).collect();
        assert_eq!(elements_of::<f16>(&got[1], n), want);
    }
}

#[test]
fn shapes_and_types_that_do_not_fit_are_refused_in_one_line() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let x = device.alloc(6).expect("memory");
    let truths = device.alloc_typed(DType::Bool, 6).expect("memory");
    let [wide, tall] = [&[2, 3], &[3, 2]].map(|shape| Layout::contiguous(shape).expect("a shape"));
    let message = |operation, a, b, out: &Buffer| {
        let result = binary(&device, operation, DType::F32, a, b, out);
        result.expect_err("refused").to_string()
    };
    let (a, b) = (of(&x, &wide), of(&truths, &tall));
    let out = device.alloc(6).expect("memory");
    assert_eq!(
        message(Binary::Add, a, b, &out),
        "add: shapes [[2, 3], [3, 2]] do not broadcast"
    );
    assert_eq!(
        message(Binary::Lt, a, a, &out),
        "lt: out is f32, expected bool"
    );
    let short = device.alloc(5).expect("memory");
    assert_eq!(
        message(Binary::Add, a, a, &short),
        "add: out has 5 elements, expected 6"
    );
    assert_eq!(
        message(Binary::BitwiseAnd, a, a, &out),
        "bitwise_and: compute type is f32, for which the operation is not defined"
    );
}

#[test]
fn an_operand_that_is_copied_first_changes_no_bit() {
    let (a, b) = (normal(1, 40 * 36), normal(2, 40 * 36));
    let outputs = run_everywhere("add of a transposed operand", |device, mem| {
        let (a, b) = (mem.input(device, &a)?, mem.input(device, &b)?);
        let straight = Layout::contiguous(&[40, 36])?;
        let transposed = Layout::contiguous(&[36, 40])?.permute(&[1, 0]);
        let transposed = transposed.expect("two dimensions");
        let operand = |buffer, layout| Operand { buffer, layout };
        let mut outputs = Vec::new();
        for copy_transposed_from in [0, usize::MAX] {
            let mut tuning = KernelTuning::of(device).clone();
            tuning.maps.copy_transposed_from = copy_transposed_from;
            let device = &tuning.on(device)?;
            let y = mem.output(device, 40 * 36)?;
            let operands = (operand(&a, &straight), operand(&b, &transposed));
            binary(device, Binary::Add, DType::F32, operands.0, operands.1, &y)?;
            outputs.push(y);
        }
        Ok(outputs)
    });
    assert_eq!(outputs[0], outputs[1]);
    assert_eq!(outputs[0][36 + 2], a[36 + 2] + b[2 * 40 + 1]);
}
