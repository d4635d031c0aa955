//! The CPU twin of attention; the parent module has the specification.
//!
//! A task has 32 positions of a head, one per lane of two AVX-512 registers: queries in the forward and in dQ, keys in dK
//! and dV. Every product is then of one form, a number from a row as it lies in memory times 32 lanes, so nothing but the
//! task's own rows is transposed, and any head width and any length run at full lane width. Where not every lane sees a
//! whole block, what a lane does not see is left out by a selection. In a forward pass a quantised query by itself, as a token of a
//! generation has one, has the keys of a block in the lanes.

use super::sizes::Attention;
use crate::parallel;
use operands::Range;
use tile::{TILE, delta_tile};

mod digits;
mod few;
mod operands;
mod rows;
mod tile;
mod tiles;
#[cfg(target_arch = "x86_64")]
mod vectors;
mod walk;

pub use digits::QuantisedRows;
use digits::one;
pub use few::{FewRows, scores, values};
pub use operands::{Inputs, Operands};
pub use tiles::Tiles;

/// `delta[i] = sum_d do[i, d] o[i, d]`.
pub fn delta(o: &[f32], d_o: &[f32], delta: &mut [f32], of: &Attention) {
    let (queries, heads, width) = (of.queries, of.heads, of.head_width);
    parallel::for_each(parallel::write(delta, queries), |at, delta| {
        let first = (at / heads * queries * heads + at % heads) * width;
        let stride = heads * width;
        for (tile, delta) in delta.chunks_mut(TILE).enumerate() {
            let at = first + tile * TILE * stride;
            delta_tile(&o[at..], &d_o[at..], stride, width, delta);
        }
    });
}

/// Writes `o` and `stats`.
pub fn forward(inputs: Inputs<'_>, o: &mut [f32], stats: &mut [f32]) {
    let of = inputs.attention;
    let outputs = (
        Tiles::of_queries(of, o, of.output_place()),
        Tiles::of_stats(of, stats),
    );
    parallel::for_each(outputs, |_, (mut o, mut stats)| {
        let n = o.tile.n;
        parallel::scratch(n * (of.head_width + 2), |words: &mut [f32]| {
            let (rows, words) = words.split_at_mut(n * of.head_width);
            forward_tile(inputs, o.tile, rows, words);
            o.write(rows);
            stats.write(words);
        });
    });
}

/// Writes the gradient of queries at `dq`, from the statistics and delta.
pub fn backward_query(inputs: Inputs<'_>, saved: [&[f32]; 2], dq: Tiles<'_>) {
    parallel::for_each(dq, |_, mut dq| {
        let len = dq.tile.n * inputs.attention.head_width;
        parallel::scratch(len, |rows: &mut [f32]| {
            backward_query_tile(inputs, saved, dq.tile, rows);
            dq.write(rows);
        });
    });
}

/// Writes the gradients of keys and values at `[dk, dv]`.
pub fn backward_key_value(
    inputs: Inputs<'_>,
    key_ranges: &[f32],
    saved: [&[f32]; 2],
    [dk, dv]: [Tiles<'_>; 2],
) {
    let key_ranges = bytemuck::cast_slice(key_ranges);
    parallel::for_each((dk, dv), |_, (mut dk, mut dv)| {
        let len = dk.tile.n * inputs.attention.head_width;
        parallel::scratch(2 * len, |rows: &mut [f32]| {
            let (of_keys, of_values) = rows.split_at_mut(len);
            backward_key_value_tile(inputs, key_ranges, saved, dk.tile, of_keys, of_values);
            dk.write(of_keys);
            dv.write(of_values);
        });
    });
}

multiversion! {
    fn forward_tile<A>(inputs: Inputs<'_>, tile: tiles::Tile, o: &mut [f32], stats: &mut [f32]) {
        match inputs.operands {
            Operands::Floats(of) => walk::forward::<A, _>(of, inputs, tile, o, stats),
            Operands::Quantised(of) if tile.n == 1 && inputs.attention.dropout.is_none() => {
                one::forward::<A>(of, inputs, tile, o, stats);
            }
            Operands::Quantised(of) => walk::forward::<A, _>(of, inputs, tile, o, stats),
        }
    }

    fn backward_query_tile<A>(
        inputs: Inputs<'_>,
        saved: [&[f32]; 2],
        tile: tiles::Tile,
        dq: &mut [f32],
    ) {
        match inputs.operands {
            Operands::Floats(of) => walk::backward_query::<A, _>(of, inputs, saved, tile, dq),
            Operands::Quantised(of) => walk::backward_query::<A, _>(of, inputs, saved, tile, dq),
        }
    }

    fn backward_key_value_tile<A>(
        inputs: Inputs<'_>,
        key_ranges: &[Range],
        saved: [&[f32]; 2],
        tile: tiles::Tile,
        dk: &mut [f32],
        dv: &mut [f32],
    ) {
        let ranges = inputs.of_keys(key_ranges, tile);
        let ranges = &ranges[..tile.n];
        match inputs.operands {
            Operands::Floats(of) => {
                walk::backward_key_value::<A, _>(of, inputs, ranges, saved, tile, [dk, dv]);
            }
            Operands::Quantised(of) => {
                walk::backward_key_value::<A, _>(of, inputs, ranges, saved, tile, [dk, dv]);
            }
        }
    }
}
