//! What is prepared where it is computed has the integers of the same numbers out of memory.

use hlx_core::{Buffer, Device};

use super::super::tests::{digits_in_rows, layouts};
use super::*;
use crate::activation::{Activation, activation_forward};
use crate::elementwise::{Binary, binary};
use crate::layout::{Layout, Operand};
use crate::norm::{Norm, NormForward, norm_forward};
use crate::testing::{TestMemory, normal, run_everywhere};
use crate::tuning::{KernelTuning, RowCut};

const EPS: f32 = 1e-5;

/// x, another operand, weight and bias of \[rows, columns\], among them rows of zeros, of NaN and of tiny numbers.
fn numbers(rows: usize, columns: usize) -> [Vec<f32>; 4] {
    let mut x = normal(1, rows * columns);
    for (row, x) in x.chunks_mut(columns).enumerate() {
        match row % 9 {
            3 => x.fill(0.0),
            5 => x[columns / 2] = f32::NAN,
            7 => x.iter_mut().for_each(|x| *x *= 1e-30),
            _ => {}
        }
    }
    let [up, weight, bias] = [(2, rows), (3, 1), (4, 1)].map(|(seed, n)| normal(seed, n * columns));
    [x, up, weight, bias]
}

fn multiplied(device: &Device, a: &Buffer, b: &Buffer) -> Result<Buffer> {
    let layout = Layout::contiguous(&[a.len()])?;
    let out = device.alloc(a.len())?;
    let of = |buffer| Operand {
        buffer,
        layout: &layout,
    };
    binary(device, Binary::Mul, DType::F32, of(a), of(b), &out)?;
    Ok(out)
}

/// Adds the digits and exponents of an operand to the outputs.
fn push(device: &Device, outputs: &mut Vec<Buffer>, prepared: Prepared) -> Result<()> {
    let digits = digits_in_rows(device, &prepared)?;
    outputs.extend([digits, prepared.exponents]);
    Ok(())
}

/// Fails unless each pair of operands among the outputs has the same words.
fn assert_pairs(name: &str, outputs: &[Vec<f32>]) {
    let words = |output: &[f32]| output.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    for (pair, both) in outputs.chunks_exact(4).enumerate() {
        for part in 0..2 {
            assert_eq!(
                words(&both[part]),
                words(&both[part + 2]),
                "{name}: operand {pair}, {part}"
            );
        }
    }
}

/// The columns of a source and of the stored numbers, beside an operand some of whose rows are zeros.
fn push_columns(
    device: &Device,
    outputs: &mut Vec<Buffer>,
    [source, stored]: [Source<'_>; 2],
    beside: &Buffer,
    [shards, per_shard, columns]: [usize; 3],
) -> Result<()> {
    let of = Preparation::of_columns(shards, per_shard, columns, Digits::One).whole();
    let other = beside.len() / (shards * per_shard);
    for (x, layout) in [source, stored].into_iter().zip(layouts(device)) {
        let (of, beside) = (Preparation { layout, ..of }, Beside::Values(beside, other));
        let columns = Prepared::columns_beside(device, x, of, beside)?;
        push(device, outputs, columns)?;
    }
    Ok(())
}

/// The incoming gradient that decides which rows count.
fn incoming(device: &Device, memory: &mut TestMemory, rows: usize) -> Result<Buffer> {
    let mut dy = normal(9, rows * 5);
    for dy in dy.chunks_mut(5).step_by(4) {
        dy.fill(0.0);
    }
    Ok(memory.input(device, &dy)?)
}

/// Shards, their rows, and columns: short columns, and such that take several workgroups.
const SHAPES: [[usize; 3]; 5] = [
    [1, 1, 1],
    [2, 33, 31],
    [3, 128, 36],
    [1, 257, 64],
    [2, 130, 132],
];

#[test]
fn activations_are_prepared_where_they_are_computed() {
    let kinds = [Activation::GELU, Activation::SiLU];
    for ([shards, per_shard, columns], kind) in SHAPES.into_iter().zip(kinds) {
        let rows = shards * per_shard;
        let [x, up, ..] = numbers(rows, columns);
        let name = format!("integers of {kind} {shards} {per_shard} {columns}");
        let outputs = run_everywhere(&name, |device, memory| {
            let (x, up) = (&memory.input(device, &x)?, &memory.input(device, &up)?);
            let active = &device.alloc(rows * columns)?;
            activation_forward(device, kind, x, active)?;
            let gated = &multiplied(device, active, up)?;
            let dy = incoming(device, memory, rows)?;
            let mut outputs = Vec::new();
            for (source, stored) in [
                (Source::Activation { kind, x }, active),
                (Source::Gated { kind, x, up }, gated),
            ] {
                let both = [source, Source::Stored(stored)];
                let of_rows = Preparation::of_rows(rows, columns, Digits::Two);
                for (x, layout) in both.into_iter().zip(layouts(device)) {
                    let of = Preparation { layout, ..of_rows };
                    push(device, &mut outputs, Prepared::new(device, x, of)?)?;
                }
                let shape = [shards, per_shard, columns];
                push_columns(device, &mut outputs, both, &dy, shape)?;
            }
            Ok(outputs)
        });
        assert_pairs(&name, &outputs);
    }
}

/// The device's own way with rows, and a way in which registers hold them.
fn ways(device: &Device, columns: usize) -> Result<[Device; 2]> {
    let mut tuning = KernelTuning::of(device).clone();
    tuning.held_rows = vec![RowCut {
        up_to: columns,
        threads: if columns > 32 { 32 } else { 128 },
        rows: 2,
        blocks_ahead: 1,
    }];
    Ok([device.clone(), tuning.on(device)?])
}

#[test]
fn norms_are_prepared_where_they_are_computed() {
    for [shards, per_shard, columns] in SHAPES {
        let rows = shards * per_shard;
        let [x, _, weight, bias] = numbers(rows, columns);
        let name = format!("integers of norms {shards} {per_shard} {columns}");
        let outputs = run_everywhere(&name, |device, memory| {
            let [x, weight, bias] =
                &[&x, &weight, &bias].map(|values| memory.input(device, values));
            let [Ok(x), Ok(weight), Ok(bias)] = [x, weight, bias] else {
                panic!("uploads");
            };
            let dy = incoming(device, memory, rows)?;
            let of_rows = Preparation::of_rows(rows, columns, Digits::Two);
            let mut outputs = Vec::new();
            for device in &ways(device, columns)? {
                let y = &device.alloc(rows * columns)?;
                let stats = &memory.output(device, 2 * rows)?;
                push(
                    device,
                    &mut outputs,
                    prepare_norm(
                        device,
                        &Norm::layer(rows, columns, EPS),
                        x,
                        weight,
                        Some(bias),
                        stats,
                    )?,
                )?;
                let unused = device.alloc(2 * rows)?;
                norm_forward(
                    device,
                    &Norm::layer(rows, columns, EPS),
                    &NormForward {
                        x,
                        weight,
                        bias: Some(bias),
                        y,
                        stats: &unused,
                    },
                )?;
                push(device, &mut outputs, Prepared::new(device, y, of_rows)?)?;
                let source = Source::Norm {
                    x,
                    stats,
                    weight,
                    bias: Some(bias),
                };
                let both = [source, Source::Stored(y)];
                push_columns(
                    device,
                    &mut outputs,
                    both,
                    &dy,
                    [shards, per_shard, columns],
                )?;

                let stats = &memory.output(device, rows)?;
                push(
                    device,
                    &mut outputs,
                    prepare_norm(
                        device,
                        &Norm::rms(rows, columns, EPS),
                        x,
                        weight,
                        None,
                        stats,
                    )?,
                )?;
                let (y, unused) = (&device.alloc(rows * columns)?, device.alloc(rows)?);
                norm_forward(
                    device,
                    &Norm::rms(rows, columns, EPS),
                    &NormForward {
                        x,
                        weight,
                        bias: None,
                        y,
                        stats: &unused,
                    },
                )?;
                push(device, &mut outputs, Prepared::new(device, y, of_rows)?)?;
                let source = Source::Norm {
                    x,
                    stats,
                    weight,
                    bias: None,
                };
                let both = [source, Source::Stored(y)];
                push_columns(
                    device,
                    &mut outputs,
                    both,
                    &dy,
                    [shards, per_shard, columns],
                )?;
            }
            Ok(outputs)
        });
        assert_pairs(&name, &outputs);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = crate::testing::devices()[0].clone();
    let alloc = |len| device.alloc(len).expect("memory");
    let (x, stats, gain) = (alloc(2 * 5000), alloc(2), alloc(5000));
    let error = prepare_norm(&device, &Norm::rms(2, 5000, EPS), &x, &gain, None, &stats);
    let text = error.expect_err("refused").to_string();
    let expected = "prepare_integers: a norm's row has 5000 elements, expected at most 4096";
    assert_eq!(text, expected);
    let source = Source::Norm {
        x: &x,
        stats: &alloc(3),
        weight: &gain,
        bias: None,
    };
    let of = Preparation::of_columns(1, 2, 5000, Digits::One).whole();
    let text = Prepared::new(&device, source, of)
        .expect_err("refused")
        .to_string();
    assert_eq!(text, "prepare_integers: stats has 3 elements, expected 2");
    let of = Preparation::of_rows(2, 5000, Digits::Two);
    let source = Source::Norm {
        x: &x,
        stats: &stats,
        weight: &gain,
        bias: None,
    };
    let text = Prepared::new(&device, source, of)
        .expect_err("refused")
        .to_string();
    let expected = "prepare_integers: rows of a norm's result are prepared by the norm";
    assert_eq!(text, expected);
}
