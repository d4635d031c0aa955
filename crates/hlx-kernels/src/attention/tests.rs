//! Attention on every device, against f64, alone and in company.

use hlx_core::testing::cases;
use hlx_core::{Buffer, Device};

use super::packed::Packed;
use super::plan::packed_kernels;
use super::shaders::{FORWARD, STORED_KEY_VALUE, Variant};
use super::*;
use crate::testing::{TestMemory, assert_close, normal, run_everywhere, run_on, values};
use crate::{KernelError, Operand};

mod long_chains;
mod ranged;

fn shape(batch: usize, time: usize, heads: usize, head_width: usize) -> Attention {
    Attention::causal([batch, time], heads, head_width)
}

/// Every edge of a key block and of a tile of 32 or 64 positions; head widths on both sides of 32
/// and of 64. Few of them: a software driver takes a second to compile the kernels of each.
const SHAPES: [[usize; 4]; 8] = [
    [1, 1, 1, 1],
    [2, 5, 2, 8],
    [1, 31, 3, 8],
    [2, 32, 1, 8],
    [1, 65, 1, 8],
    [1, 33, 2, 33],
    [1, 70, 1, 33],
    [1, 34, 1, 80],
];

fn forward_and_backward(qkv: &[f32], d_o: &[f32], shape: &Attention) -> Vec<Vec<f32>> {
    run_everywhere("attention", |device, mem| {
        forward_and_backward_on(device, mem, qkv, d_o, shape)
    })
}

/// Returns o, stats, dqkv.
fn forward_and_backward_on(
    device: &Device,
    mem: &mut TestMemory,
    qkv: &[f32],
    d_o: &[f32],
    shape: &Attention,
) -> Result<Vec<Buffer>, KernelError> {
    let [qkv, d_o] = [mem.input(device, qkv)?, mem.input(device, d_o)?];
    packed_passes(device, &qkv, None, shape, &d_o)
}

/// Returns o, stats, dqkv, by the kernels that the device has for packed operands.
fn packed_passes(
    device: &Device,
    qkv: &Buffer,
    counter: Option<&Buffer>,
    of: &Attention,
    d_o: &Buffer,
) -> Result<Vec<Buffer>, KernelError> {
    let layouts = layouts_of_packed(of)?;
    let heads = layouts.each_ref().map(|layout| Operand {
        buffer: qkv,
        layout,
    });
    let operands = AttentionOperands {
        heads,
        packed: Some(qkv),
        limits: Limits::default(),
        counter,
    };
    let prepared = PreparedAttention::new(device, &operands, of, true)?;
    let [o, stats] = prepared.forward(device, &operands)?;
    let output = AttentionOutput {
        o: &o,
        stats: &stats,
        d_o,
    };
    let gradients = prepared.backward(device, &operands, &output)?;
    Ok([vec![o, stats], gradients].concat())
}

/// Attention and its gradient in f64, the T x T matrix written out, one head at a time.
fn reference(qkv: &[f32], d_o: &[f32], shape: &Attention) -> (Vec<f64>, Vec<f64>) {
    let Attention {
        batch,
        queries: time,
        heads,
        head_width: width,
        ..
    } = *shape;
    let scale = 1.0 / (width as f64).sqrt();
    let mut o = vec![0.0; shape.output_len()];
    let mut dqkv = vec![0.0; 3 * shape.output_len()];
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        let at = |t: usize, which: usize| (((b * time + t) * 3 + which) * heads + h) * width;
        let at_o = |t: usize| ((b * time + t) * heads + h) * width;
        let dot = |x: &[f32], y: &[f32]| -> f64 {
            x.iter()
                .zip(y)
                .map(|(&x, &y)| f64::from(x) * f64::from(y))
                .sum()
        };
        let row = |t: usize, which: usize| &qkv[at(t, which)..][..width];
        for i in 0..time {
            let s: Vec<f64> = (0..=i).map(|j| dot(row(i, 0), row(j, 1)) * scale).collect();
            let top = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = s.iter().map(|s| (s - top).exp()).sum();
            let p: Vec<f64> = s.iter().map(|s| (s - top).exp() / sum).collect();
            let d_o = &d_o[at_o(i)..][..width];
            let dp: Vec<f64> = (0..=i).map(|j| dot(d_o, row(j, 2))).collect();
            let delta: f64 = p.iter().zip(&dp).map(|(p, dp)| p * dp).sum();
            for j in 0..=i {
                let ds = p[j] * (dp[j] - delta) * scale;
                for d in 0..width {
                    o[at_o(i) + d] += p[j] * f64::from(row(j, 2)[d]);
                    dqkv[at(i, 0) + d] += ds * f64::from(row(j, 1)[d]);
                    dqkv[at(j, 1) + d] += ds * f64::from(row(i, 0)[d]);
                    dqkv[at(j, 2) + d] += p[j] * f64::from(d_o[d]);
                }
            }
        }
    }
    (o, dqkv)
}

#[test]
fn agrees_with_f64_on_every_device() {
    for [batch, time, heads, width] in SHAPES {
        let shape = shape(batch, time, heads, width);
        let qkv = normal(1, 3 * shape.output_len());
        let d_o = normal(2, shape.output_len());
        let got = forward_and_backward(&qkv, &d_o, &shape);
        let (o, dqkv) = reference(&qkv, &d_o, &shape);
        assert_close("o", &got[0], &o, 1e-5, 3e-6);
        assert_close("dqkv", &got[2], &dqkv, 1e-5, 5e-5);
    }
}

#[test]
fn awkward_values_have_equal_bits() {
    for shape in [shape(2, 5, 2, 8), shape(1, 70, 1, 33), shape(1, 33, 1, 80)] {
        let qkv = values(3, 3 * shape.output_len());
        let d_o = values(4, shape.output_len());
        forward_and_backward(&qkv, &d_o, &shape);
    }
}

/// A sequence's output and gradients have the same bits alone and as the second of three, with
/// other sequences around it and large values in the padding after it (with a gradient of zero).
#[test]
fn company_and_padding_leave_no_trace() {
    let (time, padded, heads, width) = (37, 70, 2, 8);
    let alone = shape(1, time, heads, width);
    let together = shape(3, padded, heads, width);
    let per_position = heads * width;
    let mut qkv = normal(7, 3 * together.output_len());
    let mut d_o = normal(8, together.output_len());
    d_o[(padded + time) * per_position..2 * padded * per_position].fill(0.0);
    for x in &mut qkv[3 * (padded + time) * per_position..6 * padded * per_position] {
        *x *= 1e6;
    }
    let part = padded * per_position..(padded + time) * per_position;
    let qkv_part = 3 * part.start..3 * part.end;

    let together = forward_and_backward(&qkv, &d_o, &together);
    let alone = forward_and_backward(&qkv[qkv_part.clone()], &d_o[part.clone()], &alone);
    let bits = |x: &[f32]| x.iter().map(|&x| bits(x)).collect::<Vec<_>>();
    assert_eq!(bits(&together[0][part]), bits(&alone[0]), "o");
    assert_eq!(bits(&together[2][qkv_part]), bits(&alone[2]), "dqkv");
}

/// The variant of this number, or the last if the device cannot hold it.
fn tile(
    device: &Device,
    variants: &'static [Variant],
    idx: usize,
    shape: &Attention,
) -> &'static Variant {
    let last = &variants[variants.len() - 1];
    variants
        .get(idx)
        .filter(|variant| variant.fits(device, shape))
        .unwrap_or(last)
}

/// Returns o, stats, dqkv by the tiles of a number, or by the kernels of rows where the device has no packed ones.
fn by_tile(
    device: &Device,
    idx: usize,
    data: &[f32],
    upstream: &[f32],
    shape: Attention,
) -> Vec<Vec<f32>> {
    run_on("attention", device, |device, mem| {
        let [qkv, d_o] = [mem.input(device, data)?, mem.input(device, upstream)?];
        if packed_kernels(device, &shape).is_none() {
            return packed_passes(device, &qkv, None, &shape, &d_o);
        }
        let o = mem.output(device, shape.output_len())?;
        let stats = mem.output(device, 2 * shape.all_queries())?;
        let delta = mem.output(device, shape.all_queries())?;
        let dqkv = mem.output(device, 3 * shape.output_len())?;
        let packed = Packed {
            device,
            qkv: &qkv,
            counter: None,
            attention: shape,
        };
        packed.forward_by(tile(device, &FORWARD, idx, &shape), [&o, &stats])?;
        let output = AttentionOutput {
            o: &o,
            stats: &stats,
            d_o: &d_o,
        };
        // ds of all heads, of two, of one.
        let heads = [shape.all_heads(), shape.all_heads().min(2), 1];
        let key_value = tile(device, &STORED_KEY_VALUE, idx, &shape);
        packed.backward_by(key_value, heads[idx], &output, &delta, &dqkv)?;
        Ok(vec![o, stats, dqkv])
    })
}

/// Asserts that every tile of every device gives the bits of the CPU, which are returned.
fn equal_by_tile(data: &[f32], upstream: &[f32], shape: Attention) -> Vec<Vec<f32>> {
    let cpu = hlx_core::testing::cpu().expect("cpu");
    let want = by_tile(&cpu, 0, data, upstream, shape);
    for device in hlx_core::testing::own_devices() {
        for idx in 0..3 {
            let got = by_tile(&device, idx, data, upstream, shape);
            for (name, (want, got)) in NAMES.iter().zip(want.iter().zip(&got)) {
                let differs = want
                    .iter()
                    .zip(got)
                    .position(|(&want, &got)| bits(want) != bits(got));
                assert_eq!(differs, None, "{name}, {device:?}, tile {idx}, {shape:?}");
            }
        }
    }
    want
}

const NAMES: [&str; 3] = ["o", "stats", "dqkv"];

/// A word as digests read it: all NaNs are one.
fn bits(x: f32) -> u32 {
    hlx_core::digest::canonical_bits(x)
}

/// Every tile that a device can hold gives the bits of the CPU, however few its workgroups are.
#[test]
fn every_tile_has_equal_bits() {
    for shape in cases([shape(1, 70, 1, 33), shape(2, 130, 3, 64)], 2) {
        let data = normal(5, 3 * shape.output_len());
        let upstream = normal(6, shape.output_len());
        equal_by_tile(&data, &upstream, shape);
    }
}

/// Replaces the rows of some positions of `[T, rows, width]`.
fn poison(x: &mut [f32], per_position: usize, positions: std::ops::Range<usize>) {
    let awkward = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MAX,
        f32::MIN,
    ];
    let rows = &mut x[positions.start * per_position..positions.end * per_position];
    for (x, &value) in rows.iter_mut().zip(awkward.iter().cycle()) {
        *x = value;
    }
}

/// Keys and values behind a query, and queries before a key, are skipped, never multiplied by 0: in blocks of
/// 32 on the diagonal, in tiles of 64 beside it, and behind the last position.
#[test]
fn what_a_pair_does_not_see_is_not_read_by_any_tile() {
    for (shape, cut) in [(shape(1, 34, 1, 80), 33), (shape(1, 70, 2, 33), 37)] {
        let per_position = shape.heads * shape.head_width;
        let data = normal(5, 3 * shape.output_len());
        let upstream = normal(6, shape.output_len());
        let clean = equal_by_tile(&data, &upstream, shape);
        let assert_same = |name: &str, got: &[f32], want: &[f32]| {
            let same = got.iter().zip(want).all(|(&a, &b)| bits(a) == bits(b));
            assert!(same && got.len() == want.len(), "{name}, {shape:?}");
        };

        let mut behind = data.clone();
        poison(&mut behind, 3 * per_position, cut..shape.queries);
        let got = equal_by_tile(&behind, &upstream, shape);
        let before = ..cut * per_position;
        assert_same("outputs before the cut", &got[0][before], &clean[0][before]);
        let queries = |dqkv: &[f32]| -> Vec<f32> {
            let rows = dqkv[..3 * cut * per_position].chunks(3 * per_position);
            rows.flat_map(|row| row[..per_position].to_vec()).collect()
        };
        let (got, want) = (queries(&got[2]), queries(&clean[2]));
        assert_same("gradients of queries before the cut", &got, &want);

        let (mut before, mut upstream) = (data.clone(), upstream.clone());
        poison(&mut upstream, per_position, 0..cut);
        // Queries alone: the later ones see the keys and values of these positions.
        for position in before.chunks_mut(3 * per_position).take(cut) {
            poison(position, per_position, 0..1);
        }
        let got = equal_by_tile(&before, &upstream, shape);
        let behind = 3 * cut * per_position..;
        assert_same(
            "gradients behind the cut",
            &got[2][behind.clone()],
            &clean[2][behind],
        );
    }
}

/// One infinity in a value made 32 queries that do not see it NaN on GPUs, not on the CPU.
#[test]
fn an_infinite_hidden_value_changes_no_query_of_wide_heads() {
    let shape = shape(1, 34, 1, 80);
    let mut qkv = normal(1, 3 * shape.output_len());
    let d_o = normal(2, shape.output_len());
    qkv[(33 * 3 + 2) * 80] = f32::INFINITY;
    let got = forward_and_backward(&qkv, &d_o, &shape);
    assert!(got[0][..33 * 80].iter().all(|x| x.is_finite()));
    assert!(got[0][33 * 80].is_infinite());
}

/// Wide heads and longer sequences on the CPU alone, against f64.
#[test]
fn wide_heads_agree_with_f64_on_the_cpu() {
    let device = hlx_core::testing::cpu().expect("cpu");
    for shape in [shape(1, 131, 2, 64), shape(2, 97, 1, 128)] {
        let data = normal(1, 3 * shape.output_len());
        let upstream = normal(2, shape.output_len());
        let got = run_on("attention", &device, |device, mem| {
            forward_and_backward_on(device, mem, &data, &upstream, &shape)
        });
        let (o, dqkv) = reference(&data, &upstream, &shape);
        assert_close("o", &got[0], &o, 1e-5, 3e-6);
        assert_close("dqkv", &got[2], &dqkv, 1e-5, 5e-5);
    }
}

#[test]
fn shapes_out_of_range_are_named() {
    let device = hlx_core::testing::cpu().expect("cpu");
    let x = device.buffer_of(&[0.0; 4]).expect("buffer");
    let refused = |of: &Attention| {
        let passes = packed_passes(&device, &x, None, of, &x);
        passes.expect_err("refused").to_string()
    };
    assert_eq!(
        refused(&shape(1, 1, 1, 257)),
        "attention: head_width is 257, expected 1 to 256"
    );
    assert_eq!(
        refused(&shape(1, 900, 1, 2)),
        "ranged_attention_forward: q ends at element 5396 of 4"
    );
}
