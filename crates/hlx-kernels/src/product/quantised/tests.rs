//! Every device against the definition in f64 and 64-bit integers.

mod columns;
pub mod definition;
pub mod few_rows;
mod placed;

use super::*;
use hlx_core::{Buffer, DType, Device, IntegerPath};

use super::specification::NO_EXPONENT;
use crate::Result;
use crate::activation::Activation;
use crate::product::floats::Epilogue;
use crate::testing::{TestMemory, elements_of, normal, run_everywhere, values};
use crate::tuning::{DigitLayout, KernelTuning};

/// Rows of very different sizes, of zeros, of one huge value, of the smallest normal numbers, and of odd lengths.
pub fn awkward(seed: u64, rows: usize, k: usize) -> Vec<f32> {
    let mut x = normal(seed, rows * k);
    for (row, x) in x.chunks_mut(k.max(1)).enumerate() {
        match row % 7 {
            1 => x.iter_mut().for_each(|x| *x *= 1e-20),
            2 => x.fill(0.0),
            3 => x[k / 2] = 3e38,
            4 => x
                .iter_mut()
                .for_each(|x| *x = f32::MIN_POSITIVE.copysign(*x)),
            5 => x[0] = -0.0,
            _ => {}
        }
    }
    x
}

fn prepared(device: &Device, mem: &mut TestMemory, x: &[f32], of: Preparation) -> Result<Prepared> {
    let x = mem.input(device, x)?;
    let prepared = Prepared {
        digits: mem.output_of(device, DType::I8, of.digits_len())?,
        exponents: mem.output_of(device, DType::I32, of.exponents_len())?,
        of,
    };
    prepare(device, &x, &prepared)?;
    Ok(prepared)
}

/// Handles whose products of integers take the device's fastest instructions, plain ones alone, and dot products, where it has
/// them.
pub fn every_way(device: &Device) -> [Device; 3] {
    let fastest = KernelTuning::of(device).products.integers;
    let dots = device.integer_paths().contains(&IntegerPath::Dots);
    let dots = if dots { IntegerPath::Dots } else { fastest };
    [fastest, IntegerPath::Plain, dots].map(|path| {
        let mut tuning = KernelTuning::of(device).clone();
        tuning.products.integers = path;
        tuning.on(device).expect("a tuning")
    })
}

/// Where digits may lie on a device; twice the same on the CPU.
pub fn layouts(device: &Device) -> [DigitLayout; 2] {
    match device.is_cpu() {
        true => [DigitLayout::Rows; 2],
        false => [DigitLayout::Rows, DigitLayout::Pieces],
    }
}

/// The digits of an operand in rows, wherever they lie.
pub fn digits_in_rows(device: &Device, prepared: &Prepared) -> Result<Buffer> {
    let (of, planes) = (prepared.of, prepared.of.n_digits.planes());
    if of.layout == DigitLayout::Rows {
        return Ok(prepared.digits.clone());
    }
    let laid: Vec<i8> = device.download(&prepared.digits)?;
    let blocks = of.rows.div_ceil(16);
    let at = |plane: usize, row: usize, term: usize| {
        let piece = (term / 32 * blocks + row / 16) * planes + plane;
        laid[piece * 512 + term / 16 % 2 * 256 + row % 16 * 16 + term % 16]
    };
    let rows = (0..planes).flat_map(|plane| (0..of.rows).map(move |row| (plane, row)));
    let terms = rows.flat_map(|(plane, row)| (0..of.padded()).map(move |k| (plane, row, k)));
    let digits: Vec<i8> = terms.map(|(plane, row, k)| at(plane, row, k)).collect();
    Ok(device.buffer_of(&digits)?)
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// The integers of a row and its exponent, by f64.
fn reference(row: &[f32], n_digits: Digits) -> (Vec<i64>, i32) {
    let top = row.iter().fold(0.0_f32, |top, x| top.max(x.abs()));
    if row.iter().any(|x| !x.is_finite()) {
        return (vec![0; row.len()], NO_EXPONENT);
    }
    if top < f32::MIN_POSITIVE {
        return (vec![0; row.len()], 254);
    }
    // The largest e with which the largest number still has the digits.
    let scaled = |x: f32, e: i32| (f64::from(x) * 2.0_f64.powi(e)).round_ties_even() as i64;
    let mut e = -130;
    while scaled(top, e + 1) <= i64::from(n_digits.largest()) {
        e += 1;
    }
    (row.iter().map(|&x| scaled(x, e)).collect(), e)
}

/// The sum of all terms of a piece as the specification makes a float of it.
fn expected(a: &(Vec<i64>, i32), b: &(Vec<i64>, i32)) -> f32 {
    if a.1 == NO_EXPONENT || b.1 == NO_EXPONENT {
        return f32::NAN;
    }
    let terms = a.0.iter().zip(&b.0);
    let v = terms.map(|(&a, &b)| a * b).sum::<i64>() as f32;
    flushed(f64::from(v) * 2.0_f64.powi(-(a.1 + b.1)))
}

/// The nearest float, which is no subnormal and no -0.
fn flushed(value: f64) -> f32 {
    match value.abs() < f64::from(f32::MIN_POSITIVE) {
        true => 0.0,
        false => value as f32 + 0.0,
    }
}

/// The ways of a product behind the first one.
const WAYS: [&str; 5] = [
    "plainly",
    "by dot products",
    "in pieces",
    "plainly, in pieces",
    "by dot products, in pieces",
];

/// The product by the path that the device takes, plainly and by dot products, of digits in rows and in pieces: one result.
fn product_everywhere(
    a: &[f32],
    b: &[f32],
    bias: Option<&[f32]>,
    [m, n, k]: [usize; 3],
) -> Vec<f32> {
    let (of_a, of_b) = (
        Preparation::of_rows(m, k, Digits::Two),
        Preparation::of_rows(n, k, Digits::One),
    );
    let got = run_everywhere(&format!("integer_product {m} {n} {k}"), |device, mem| {
        let bias = match bias {
            Some(bias) => Some(mem.input(device, bias)?),
            None => None,
        };
        let shape = IntegerProduct::new(m, n, k);
        let (mut outputs, mut digits) = (Vec::new(), Vec::new());
        for layout in layouts(device) {
            let a = prepared(device, mem, a, Preparation { layout, ..of_a })?;
            let b = prepared(device, mem, b, Preparation { layout, ..of_b })?;
            for device in &every_way(device) {
                let c = mem.output(device, m * n)?;
                integer_product(device, [&a, &b], bias.as_ref(), &c, &shape, Epilogue::None)?;
                outputs.push(c);
            }
            if digits.is_empty() {
                digits = vec![a.digits, a.exponents];
            }
        }
        Ok([outputs, digits].concat())
    });
    for (other, reason) in got[1..6].iter().zip(WAYS) {
        assert_eq!(bits(&got[0]), bits(other), "{m} {n} {k}: {reason}");
    }
    let got = [&got[0], &got[6], &got[7]];
    let (digits, exponents) = (
        elements_of::<i8>(got[1], of_a.digits_len()),
        elements_of::<i32>(got[2], of_a.exponents_len()),
    );
    for (row, x) in a.chunks(k.max(1)).enumerate().take(m) {
        for (piece, x) in x.chunks(PIECE).enumerate() {
            let (integers, e) = reference(x, Digits::Two);
            let place = row * of_a.pieces() + piece;
            assert_eq!(exponents[place], e, "row {row}, piece {piece}");
            for (i, q) in integers.iter().enumerate() {
                let at = row * of_a.padded() + piece * PIECE + i;
                let [high, low] = [digits[at], digits[m * of_a.padded() + at]].map(i64::from);
                assert_eq!(256 * high + low, *q, "row {row}, {i}: {}", x[i]);
            }
        }
    }
    got[0].clone()
}

/// The products of rows `a` with two digits and rows `b` with one by the definition, \[M, N\], of pieces of `terms` terms.
pub fn defined(
    a: &[f32],
    b: &[f32],
    bias: Option<&[f32]>,
    [m, n, k]: [usize; 3],
    piece: usize,
) -> Vec<f32> {
    let lines = |x: &[f32], rows: usize, n_digits| -> Vec<Vec<_>> {
        let row = |row: usize| {
            let pieces = x[row * k..][..k].chunks(piece);
            pieces.map(|x| reference(x, n_digits)).collect()
        };
        (0..rows).map(row).collect()
    };
    let (a, b) = (lines(a, m, Digits::Two), lines(b, n, Digits::One));
    let element = |at: usize| {
        let (row, column) = (at / n, at % n);
        let pieces = a[row].iter().zip(&b[column]);
        let sum = pieces
            .map(|(a, b)| expected(a, b))
            .reduce(|sum, r| flushed(f64::from(sum) + f64::from(r)));
        let sum = sum.unwrap_or(0.0);
        let with_bias =
            |bias: &[f32]| flushed(f64::from(sum) + f64::from(flushed(bias[column].into())));
        bias.map_or(sum, with_bias)
    };
    (0..m * n).map(element).collect()
}

/// Asserts equal words, every NaN being one.
pub fn assert_words(name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let same = found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
        assert!(same, "{name}, {at}: {found:e}, expected {expected:e}");
    }
}

fn check(a: &[f32], b: &[f32], bias: Option<&[f32]>, sizes: [usize; 3]) {
    let found = product_everywhere(a, b, bias, sizes);
    let expected = defined(a, b, bias, sizes, PIECE);
    assert_words(&format!("{sizes:?}"), &found, &expected);
}

#[test]
fn products_are_the_definition_on_every_device() {
    for shape in [
        [1, 1, 1],
        [3, 5, 31],
        [17, 16, 32],
        [16, 33, 33],
        [20, 9, 200],
        [7, 40, 1_031],
        [3, 70, 2 * PIECE + 100],
        [65, 132, 70],
    ] {
        let [m, n, k] = shape;
        let (a, b) = (awkward(1, m, k), awkward(2, n, k));
        check(&a, &b, None, shape);
        check(&a, &b, Some(&values(3, n)), shape);
    }
}

#[test]
fn rows_with_nan_and_infinity_give_nan() {
    let [m, n, k] = [4, 3, 40];
    let (mut a, mut b) = (normal(1, m * k), normal(2, n * k));
    a[k + 7] = f32::NAN;
    a[2 * k] = f32::NEG_INFINITY;
    b[k + 39] = f32::INFINITY;
    check(&a, &b, None, [m, n, k]);
}

#[test]
fn the_largest_digits_of_the_longest_sum_fit() {
    let k = PIECE;
    // Integers of 32,639 and -32,639, and of 127: the upper digits sum to 127 127 k.
    let a: Vec<f32> = (0..2 * k)
        .map(|i| if i < k { 32_639.0 } else { -32_639.0 })
        .collect();
    // Lower digits of -128: 32,512 - 128 = 32,384 = 126 256 + 128.
    let b = vec![127.0; k];
    check(&a, &b, None, [2, 1, k]);
    let a: Vec<f32> = (0..k)
        .map(|i| if i == 0 { 32_639.0 } else { 32_384.0 })
        .collect();
    check(&a, &b, None, [1, 1, k]);
}

#[test]
fn what_does_not_fit_is_refused_in_a_line() {
    let device = &hlx_core::testing::cpu().expect("the CPU device");
    let of = |dtype, len| device.alloc_typed(dtype, len).expect("memory");
    let prepared = |of_what: Preparation| Prepared {
        digits: of(DType::I8, of_what.digits_len()),
        exponents: of(DType::I32, of_what.exponents_len()),
        of: of_what,
    };
    let x = of(DType::F32, 8);
    let two_digits = prepared(Preparation::of_rows(1, 8, Digits::Two));
    let refused = |x: &Buffer, to: &Prepared| {
        let refused = prepare(device, x, to);
        refused.expect_err("it is refused").to_string()
    };
    let nine = prepared(Preparation::of_rows(1, 9, Digits::Two));
    assert_eq!(
        refused(&x, &nine),
        "prepare_integers: x has 8 elements, expected 9"
    );
    let text = refused(&two_digits.exponents, &two_digits);
    assert_eq!(text, "prepare_integers: x has dtype i32, expected f32");
    let c = of(DType::F32, 1);
    let shape = IntegerProduct::new(1, 1, 8);
    let text = integer_product(
        device,
        [&two_digits, &two_digits],
        None,
        &c,
        &shape,
        Epilogue::None,
    );
    assert_eq!(
        text.expect_err("it is refused").to_string(),
        "integer_product: b's digits has 128 elements, expected 64"
    );
    let one_digit = prepared(Preparation::of_rows(1, 8, Digits::One));
    let shape = IntegerProduct {
        accumulate: true,
        ..shape
    };
    let text = integer_product(
        device,
        [&two_digits, &one_digit],
        None,
        &c,
        &shape,
        Epilogue::Scale(2.0),
    );
    assert_eq!(
        text.expect_err("it is refused").to_string(),
        "integer_product: an epilogue and accumulate exclude each other"
    );
}

#[test]
fn batches_and_what_is_added_are_the_products_alone() {
    let [batch, m, n, k] = [3, 70, 133, 150];
    let (x, y, extra) = (
        awkward(1, batch * m, k),
        awkward(2, batch * n, k),
        normal(3, batch * m * n),
    );
    let got = run_everywhere("integer_product in a batch", |device, mem| {
        let [_, layout] = layouts(device);
        let of_a = Preparation::of_rows(batch * m, k, Digits::Two);
        let of_b = Preparation::of_rows(batch * n, k, Digits::One);
        let a = prepared(device, mem, &x, Preparation { layout, ..of_a })?;
        let b = prepared(device, mem, &y, Preparation { layout, ..of_b })?;
        let extra = mem.input(device, &extra)?;
        let all = IntegerProduct {
            batch,
            ..IntegerProduct::new(m, n, k)
        };
        let mut outputs = Vec::new();
        for device in &every_way(device) {
            let sums = [0, 1, 2].map(|_| mem.output(device, batch * m * n));
            let [c, added, accumulated] = sums;
            let (c, added, accumulated) = (c?, added?, accumulated?);
            integer_product(device, [&a, &b], None, &c, &all, Epilogue::None)?;
            integer_product(device, [&a, &b], None, &added, &all, Epilogue::Add(&extra))?;
            device.copy(&extra, &accumulated)?;
            let onto = IntegerProduct {
                accumulate: true,
                ..all
            };
            integer_product(device, [&a, &b], None, &accumulated, &onto, Epilogue::None)?;
            outputs.extend([c, added, accumulated]);
            let [before, after, slope] = [0, 1, 2].map(|_| mem.output(device, batch * m * n));
            let (before, after, slope) = (before?, after?, slope?);
            let kind = Activation::GELU;
            let activated = Epilogue::Activation { kind, out: &after };
            integer_product(device, [&a, &b], None, &before, &all, activated)?;
            device.copy(&extra, &slope)?;
            let backward = Epilogue::ActivationBackward(kind);
            integer_product(device, [&a, &b], None, &slope, &all, backward)?;
            outputs.extend([before, after, slope]);
        }
        Ok(outputs)
    });
    let parts = x.chunks(m * k).zip(y.chunks(n * k));
    let alone = parts.flat_map(|(x, y)| product_everywhere(x, y, None, [m, n, k]));
    let alone: Vec<f32> = alone.collect();
    let added: Vec<f32> = alone.iter().zip(&extra).map(|(c, r)| c + r).collect();
    for (outputs, plainly) in got.chunks(6).zip(std::iter::repeat(&got[6..])) {
        assert_eq!(bits(&outputs[0]), bits(&alone));
        assert_eq!(bits(&outputs[1]), bits(&added));
        assert_eq!(bits(&outputs[2]), bits(&added));
        assert_eq!(bits(&outputs[3]), bits(&alone));
        assert_eq!(bits(&outputs[4]), bits(&plainly[4]), "an activation");
        assert_eq!(bits(&outputs[5]), bits(&plainly[5]), "its slope");
    }
}
