//! Every device against the law in 128-bit integers and single multiply-adds, for every format.

use std::ops::Range;

use hlx_core::testing::{self, cases};
use hlx_core::{Device, IntegerPath, arith};

use super::*;
use crate::Result;
use crate::element::from_f16;
use crate::product::floats::Epilogue;
use crate::product::quantised::tests::few_rows::Before;
use crate::product::quantised::tests::{awkward, every_way};
use crate::product::quantised::{Digits, FewRows, PIECE, Preparation, Prepared};
use crate::testing::{normal, run_everywhere};
use crate::tuning::KernelTuning;

mod hosts;

/// A deterministic stream of numbers.
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A block with any integers, scales and minima that the format can have: some of them all at their limits.
pub(super) fn any_block(format: &BlockFormat, row: usize, at: usize) -> Block {
    let mut stream = Stream(0x9e37_79b9_7f4a_7c15 ^ (((row as u64) << 32) | (at as u64 + 1)));
    stream.next();
    let extreme = stream.below(4) == 0;
    let sign = stream.below(2) == 1;
    let mut block = Block::default();
    let integers: Vec<i8> = (i8::MIN..=i8::MAX)
        .filter(|q| format.bits_of(*q).is_some())
        .collect();
    let (least, most) = (integers[0], integers[integers.len() - 1]);
    for q in &mut block.q[..format.block] {
        *q = match (extreme, sign) {
            (true, true) => least,
            (true, false) => most,
            _ => integers[stream.below(integers.len() as u64) as usize],
        };
    }
    if format.has_scales {
        for (scale, min) in block.scales.iter_mut().zip(&mut block.mins) {
            *scale = match extreme {
                true if sign => i8::MIN,
                true => i8::MAX,
                false => stream.below(256) as u8 as i8,
            };
            *min = if extreme { 63 } else { stream.below(64) as u8 };
            // Kinds of 32 terms per group have scales of 6 bits.
            if format.group == 32 {
                *scale = (*scale as u8 & 63) as i8;
            }
        }
    }
    let half = |stream: &mut Stream| loop {
        let bits = stream.below(1 << 16) as u32;
        if bits & 0x7c00 != 0x7c00 {
            return f32::from_bits(from_f16(bits));
        }
    };
    block.d = match format.factor {
        Factor::Brain => f32::from_bits((1 + stream.below(200) as u32) << 23),
        Factor::Half => half(&mut stream),
        // Of any sign, and below 2^-126 too.
        Factor::Float => {
            let bits = stream.below(1 << 32) as u32;
            let exponent = if extreme {
                0
            } else {
                60 + stream.below(100) as u32
            };
            f32::from_bits(bits & 0x807f_ffff | exponent << 23)
        }
    };
    block.dmin = if format.has_mins {
        half(&mut stream)
    } else {
        0.0
    };
    block
}

/// What the law gives for a row of A's integers, their exponents by pieces, and a row of the weight.
fn expected(format: &BlockFormat, integers: &[i64], exponents: &[i32], row: usize) -> f32 {
    let mut result = None;
    for (piece, (integers, &e)) in integers.chunks(PIECE).zip(exponents).enumerate() {
        let mut c = 0.0_f32;
        for (at, x) in integers.chunks(format.block).enumerate() {
            let block = any_block(format, row, piece * PIECE / format.block + at);
            let (mut sum, mut mins) = (0_i128, 0_i128);
            for (group, x) in x.chunks(format.group).enumerate() {
                let q = &block.q[group * format.group..];
                let dot: i64 = q.iter().zip(x).map(|(q, x)| i64::from(*q) * x).sum();
                sum += i128::from(block.scales[group]) * i128::from(dot);
                mins += i128::from(block.mins[group]) * i128::from(x.iter().sum::<i64>());
            }
            // (The levels of NF4 are 127 times its numbers.)
            let d = match format.name {
                "NF4" => arith::mul(block.d, 1.0 / 127.0),
                _ => block.d,
            };
            c = arith::fma(d, sum as f32, c);
            if format.has_mins {
                c = arith::fma(-block.dmin, mins as f32, c);
            }
        }
        let [first, second] = crate::product::quantised::specification::factors(e);
        let r = arith::pos0(arith::mul(arith::mul(c, first), second));
        result = Some(result.map_or(r, |before| arith::add(before, r)));
    }
    result.unwrap_or(0.0)
}

/// The integers of prepared rows: of their digits.
fn integers_of(device: &Device, a: &Prepared) -> Result<(Vec<Vec<i64>>, Vec<i32>)> {
    let (rows, k, padded) = (a.of.rows, a.of.k, a.of.padded());
    let digits: Vec<i8> = device.download(&a.digits)?;
    let of_row = |row: usize| {
        let digit = |plane: usize, i: usize| i64::from(digits[(plane * rows + row) * padded + i]);
        (0..k).map(|i| 256 * digit(0, i) + digit(1, i)).collect()
    };
    Ok((
        (0..rows).map(of_row).collect(),
        device.download(&a.exponents)?,
    ))
}

/// The ways of [`every_way`] that differ: the fastest where a device has matrices, plain integers and dot products.
fn ways() -> Range<usize> {
    let has_matrices = |device: &Device| {
        let path = KernelTuning::of(device).products.integers;
        matches!(path, IntegerPath::Matrices(_))
    };
    match testing::devices().iter().any(has_matrices) {
        true => 0..3,
        false => 1..3,
    }
}

fn check(format: &'static BlockFormat, [m, n, k]: [usize; 3], has_bias: bool, adds: bool) {
    let name = format!("{} {m} {n} {k} {has_bias} {adds}", format.name);
    let mut x = awkward(1, m, k);
    if m > 3 {
        x[2 * k] = f32::NAN;
    }
    let (bias, residual) = (normal(3, n), normal(4, m * n));
    for way in ways() {
        run_everywhere(&name, |device, mem| {
            let device = &every_way(device)[way];
            let x = mem.input(device, &x)?;
            let a = Prepared::new(device, &x, Preparation::of_rows(m, k, Digits::Two))?;
            let b = BlockRows::new(device, format, [n, k], |row, at, block| {
                *block = any_block(format, row, at);
            })?;
            let (of_bias, of_residual) = (mem.input(device, &bias)?, mem.input(device, &residual)?);
            let c = mem.output(device, m * n)?;
            let epilogue = if adds {
                Epilogue::Add(&of_residual)
            } else {
                Epilogue::None
            };
            block_product(device, &a, &b, has_bias.then_some(&of_bias), &c, epilogue)?;
            if way == 1 && device.is_cpu() {
                let (integers, exponents) = integers_of(device, &a)?;
                let found: Vec<f32> = device.download(&c)?;
                let pieces = a.of.pieces();
                for (i, found) in found.iter().enumerate() {
                    let (row, column) = (i / n, i % n);
                    let exponents = &exponents[row * pieces..][..pieces];
                    let law = || expected(format, &integers[row], exponents, column);
                    let mut v = hlx_core::cpu::with_flush(law);
                    if has_bias {
                        v = arith::pos0(arith::add(v, bias[column]));
                    }
                    if adds {
                        v = arith::add(v, residual[i]);
                    }
                    let is_same = v.to_bits() == found.to_bits() || v.is_nan() && found.is_nan();
                    assert!(is_same, "{name}, {row} {column}: {v:e} {found:e}");
                }
            }
            Ok(vec![c])
        });
    }
}

#[test]
fn every_format_has_the_bits_of_the_law() {
    for (i, format) in BLOCK_FORMATS.iter().enumerate() {
        let block = format.block;
        let sizes = [
            [2, 21, 4096 + block],
            [19, 70, 2 * block],
            [1, 16, 3 * block],
            [5, 33, block],
            [18, 17, 4096 + block],
            [70, 66, 4096 + block],
        ];
        // All of them for a format of each length of blocks.
        let n = if ["Q5_1", "Q6_K", "NF4"].contains(&format.name) {
            6
        } else {
            2
        };
        for (j, sizes) in cases(sizes, 2).take(n).enumerate() {
            check(format, sizes, (i + j) % 2 == 0, (i + j) % 3 == 0);
        }
    }
}

#[test]
fn few_rows_of_floats_have_the_bits_of_separate_launches() {
    let sizes = [[1, 21, 4096], [2, 17, 512], [3, 16, 768], [1, 9, 4352]];
    let names = ["Q4_K", "Q6_K", "Q8_0", "Q4_1", "NF4"];
    for (i, name) in names.into_iter().enumerate() {
        let format = BlockFormat::named(name).expect("a format");
        for (j, before) in Before::ALL.into_iter().enumerate() {
            let [m, n, k] = sizes[(i + j) % 4];
            let name = format!("{name} {before:?} {m} {n} {k}");
            let (x, operand) = (awkward(1, m, k), before.numbers(m, k));
            let (bias, residual) = (normal(3, n), normal(4, m * n));
            for way in ways() {
                run_everywhere(&name, |device, mem| {
                    let device = &every_way(device)[way];
                    let [x, operand] = [mem.input(device, &x)?, mem.input(device, &operand)?];
                    let [bias, residual] =
                        [mem.input(device, &bias)?, mem.input(device, &residual)?];
                    let weight = BlockRows::new(device, format, [n, k], |row, at, block| {
                        *block = any_block(format, row, at);
                    })?;
                    let c = mem.output(device, m * n)?;
                    let rows = FewRows {
                        x: &x,
                        prologue: before.prologue(&operand),
                        bias: (i % 2 == 0).then_some(&bias),
                        added: (j % 2 == 0).then_some(&residual),
                        m,
                    };
                    block_product_of_few(device, &rows, &weight, &c)?;
                    Ok(vec![c])
                });
            }
        }
    }
}

/// What a value multiplies its scale by.
fn number(format: &BlockFormat, q: i8) -> f32 {
    if format.name != "NF4" {
        return f32::from(q);
    }
    let nearest = NF4_NUMBERS.into_iter().min_by(|a, b| {
        let far = |number: &f32| (127.0 * number - f32::from(q)).abs();
        far(a).total_cmp(&far(b))
    });
    nearest.expect("16 numbers")
}

#[test]
fn values_of_rows_are_those_of_the_formula() {
    for format in &BLOCK_FORMATS {
        let (rows, k) = (19, 3 * format.block);
        let ids = [3_u32, 18, 0, 19, 3];
        run_everywhere(format.name, |device, mem| {
            let weight = BlockRows::new(device, format, [rows, k], |row, at, block| {
                *block = any_block(format, row, at);
            })?;
            let y = mem.output(device, ids.len() * k)?;
            block_rows(device, &device.buffer_of(&ids)?, &weight, &y)?;
            let found: Vec<f32> = device.download(&y)?;
            for (id, found) in ids.iter().zip(found.chunks(k)) {
                for (i, found) in found.iter().enumerate() {
                    let block = any_block(format, *id as usize, i / format.block);
                    let (i, group) = (i % format.block, i % format.block / format.group);
                    let scale = arith::mul(arith::flush(block.d), f32::from(block.scales[group]));
                    let least = match format.has_mins {
                        true => arith::mul(block.dmin, f32::from(block.mins[group])),
                        false => 0.0,
                    };
                    let v = arith::sub(arith::mul(scale, number(format, block.q[i])), least);
                    let is_known = (*id as usize) < rows;
                    let is_same = found.to_bits() == v.to_bits();
                    assert!(
                        if is_known { is_same } else { found.is_nan() },
                        "{} {i}",
                        format.name
                    );
                }
            }
            Ok(vec![y])
        });
    }
}

#[test]
fn what_a_format_cannot_have_is_named() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let message = |name: &str, k: usize, change: fn(&mut Block)| {
        let format = BlockFormat::named(name).expect("a format");
        let made = BlockRows::new(&device, format, [1, k], |_, _, block| change(block));
        made.map(|_| ()).expect_err("an error").to_string()
    };
    let of_row = "block_rows: row 0, block 0:";
    assert_eq!(
        message("Q4_K", 128, |_| {}),
        "block_rows: rows of 128 values, expected a multiple of 256, a block of Q4_K"
    );
    assert_eq!(
        message("Q4_0", 32, |block| block.q[3] = 8),
        format!("{of_row} the integer 8 is none of Q4_0")
    );
    assert_eq!(
        message("Q4_K", 256, |block| block.mins[2] = 64),
        format!("{of_row} the minimum 64 is larger than 63")
    );
    assert_eq!(
        message("MXFP4", 32, |block| block.q[3] = 5),
        format!("{of_row} the integer 5 is none of MXFP4")
    );
    assert_eq!(
        message("NF4", 64, |block| block.q[3] = 5),
        format!("{of_row} the integer 5 is none of NF4")
    );
    let of_16 = [f32::INFINITY, f32::NAN, 70_000.0, 1e-9].map(|d| ("Q8_0", 16, d));
    let of_32 = [f32::INFINITY, f32::NAN].map(|d| ("NF4", 32, d));
    for (name, bits, d) in of_16.into_iter().chain(of_32) {
        let format = BlockFormat::named(name).expect("a format");
        let read = |_: usize, _: usize, block: &mut Block| block.d = d;
        let made = BlockRows::new(&device, format, [1, 64], read);
        let text = made.map(|_| ()).expect_err("an error").to_string();
        assert_eq!(
            text,
            format!("{of_row} d is {d:e}, no finite number of {bits} bits")
        );
    }
    Ok(())
}
