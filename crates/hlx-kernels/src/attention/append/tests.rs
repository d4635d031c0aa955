//! The launch has the bits of a norm, a rotation and copies, on every device.

use super::*;
use crate::norm::{Norm, NormForward, norm_forward};
use crate::rope::{Rope, rope};
use crate::testing::{TestMemory, normal, run_everywhere};

const FREQUENCIES: [f32; 3] = [1.0, 0.3, 0.001];
const EPS: f32 = 1e-6;

/// The samples' first places and lengths: with padding, with a full cache, and past its end.
const FIRST: [u32; 4] = [0, 3, 7, 9];
const LENGTHS: [u32; 4] = [1, 5, 9, 11];

fn shape(heads: usize, time: usize, head_width: usize) -> Attention {
    Attention {
        keys: 10,
        key_heads: 2,
        ..Attention::causal([FIRST.len(), time], heads, head_width)
    }
}

/// The queries and the caches, before which the caches hold other values.
fn appended(shape: &Attention, norms: bool, rotation: bool) -> Vec<Vec<f32>> {
    run_everywhere("append_heads", |device, mem| {
        let (width, rows) = (shape.head_width, shape.batch * shape.queries);
        // All heads of a token side by side, behind one element.
        let stride = (shape.heads + 2 * shape.key_heads) * width;
        let buffer = &mem.input(device, &normal(1, 1 + rows * stride))?;
        let heads = |head: usize| HeadRows {
            buffer,
            first: 1 + head * width,
            stride,
        };
        let weights = [
            mem.input(device, &normal(2, width))?,
            mem.input(device, &normal(3, width))?,
        ];
        let frequencies = mem.input(device, &FREQUENCIES)?;
        let inputs = AppendInputs {
            q: heads(0),
            k: heads(shape.heads),
            v: heads(shape.heads + shape.key_heads),
            norms: norms.then_some(HeadNorms {
                weights: weights.each_ref(),
                eps: EPS,
            }),
            rotation: rotation.then_some(HeadRotation {
                frequencies: &frequencies,
                scale: 1.25,
            }),
            first_positions: &mem.input_u32(device, &FIRST)?,
            lengths: &mem.input_u32(device, &LENGTHS)?,
            pages: None,
        };
        let q_out = mem.output(device, (rows * shape.heads * width).max(1))?;
        let q_out = q_out.slice(0, rows * shape.heads * width)?;
        let cached = shape.batch * shape.keys * shape.key_heads * width;
        let [keys, values] = [4, 5].map(|seed| mem.input(device, &normal(seed, cached)));
        let (keys, values) = (keys?, values?);
        append_heads(device, &inputs, &q_out, [&keys, &values], shape)?;
        match shape.heads {
            0 => Ok(vec![keys, values]),
            _ => Ok(vec![q_out, keys, values]),
        }
    })
}

/// A part of every token's heads by the single kernels: normed, rotated.
fn single(shape: &Attention, heads: std::ops::Range<usize>, gain: u64, on: [bool; 2]) -> Vec<f32> {
    let (width, n, rows) = (shape.head_width, heads.len(), shape.batch * shape.queries);
    let all = normal(1, 1 + rows * (shape.heads + 2 * shape.key_heads) * width);
    let stride = (shape.heads + 2 * shape.key_heads) * width;
    let part: Vec<f32> = (0..rows)
        .flat_map(|row| all[1 + row * stride + heads.start * width..][..n * width].to_vec())
        .collect();
    let places = FIRST
        .iter()
        .flat_map(|first| (0..shape.queries).map(move |t| first + t as u32));
    let places: Vec<u32> = places.collect();
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let got = crate::testing::run_on("single", &device, |device, mem: &mut TestMemory| {
        let mut x = mem.input(device, &part)?;
        if on[0] {
            let y = mem.output(device, part.len())?;
            let stats = mem.output(device, rows * n)?;
            let weight = mem.input(device, &normal(gain, width))?;
            norm_forward(
                device,
                &Norm::rms(rows * n, width, EPS),
                &NormForward {
                    x: &x,
                    weight: &weight,
                    bias: None,
                    y: &y,
                    stats: &stats,
                },
            )?;
            x = y;
        }
        if on[1] {
            let y = mem.output(device, part.len())?;
            let sizes = Rope {
                rows,
                heads: n,
                width,
                scale: 1.25,
                inverse: false,
            };
            let (places, frequencies) = (
                mem.input_u32(device, &places)?,
                mem.input(device, &FREQUENCIES)?,
            );
            rope(device, &x, &places, &frequencies, &y, &sizes)?;
            x = y;
        }
        Ok(vec![x])
    });
    got.into_iter().flatten().collect()
}

/// The cache with a token's heads written to their places.
fn written(shape: &Attention, seed: u64, heads: &[f32]) -> Vec<f32> {
    let per_token = shape.key_heads * shape.head_width;
    let mut cache = normal(seed, shape.batch * shape.keys * per_token);
    for (row, heads) in heads.chunks(per_token).enumerate() {
        let sample = row / shape.queries;
        let place = FIRST[sample] as usize + row % shape.queries;
        if place < shape.keys.min(LENGTHS[sample] as usize) {
            let at = (sample * shape.keys + place) * per_token;
            cache[at..][..per_token].copy_from_slice(heads);
        }
    }
    cache
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn heads_have_the_bits_of_single_launches_at_their_places() {
    for (heads, time, width) in [(3, 1, 8), (3, 2, 33), (1, 3, 160), (0, 2, 8)] {
        for on in [[true, true], [true, false], [false, true], [false, false]] {
            let shape = shape(heads, time, width);
            let mut got = appended(&shape, on[0], on[1]);
            let values = got.pop().expect("values");
            let keys = got.pop().expect("keys");
            if let Some(queries) = got.pop() {
                let want = single(&shape, 0..heads, 2, on);
                assert_eq!(bits(&queries), bits(&want), "{shape:?}, {on:?}");
            }
            let want = written(&shape, 4, &single(&shape, heads..heads + 2, 3, on));
            assert_eq!(bits(&keys), bits(&want), "{shape:?}, {on:?}");
            let want = single(&shape, heads + 2..heads + 4, 0, [false; 2]);
            assert_eq!(bits(&values), bits(&written(&shape, 5, &want)), "{shape:?}");
        }
    }
}

#[test]
fn unfitting_buffers_are_named() {
    let device = hlx_core::testing::cpu().expect("the CPU device");
    let memory = |n| device.alloc(n).expect("memory");
    let (buffer, ids) = (&memory(4), memory(4));
    let rows = HeadRows {
        buffer,
        first: 0,
        stride: 16,
    };
    let inputs = AppendInputs {
        q: rows,
        k: rows,
        v: rows,
        norms: None,
        rotation: None,
        first_positions: &ids,
        lengths: &ids,
        pages: None,
    };
    let shape = shape(0, 1, 8);
    let caches = [memory(640), memory(640)];
    let refused = append_heads(&device, &inputs, &memory(0), caches.each_ref(), &shape);
    assert_eq!(
        refused.expect_err("refused").to_string(),
        "append_heads: k ends at element 64 of 4"
    );
}
