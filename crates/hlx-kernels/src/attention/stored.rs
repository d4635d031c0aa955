//! The passes that store a number of each pair of a query and a key, of some heads at a time, on GPUs alone.
//!
//! The forward pass of wide heads stores the scores: their products, the softmax and the sums of values are kernels of
//! their own. The backward pass stores the weights and the scores' gradients: each pair's are computed once, and
//! the gradients are sums over stored numbers.

use hlx_core::{Binding, Buffer, Device};

use super::pass::{RangedPass, Saved};
use super::sizes::Strided;
use crate::elementwise::permuted;
use crate::kernel::Kernel;
use crate::{Operand, Result};

// Products of queries and keys, and sums over what they store.
shader!(attention::{
    ranged_weights as weights, ranged_scores as scores, ranged_sum as sum, ranged_output as output,
    ranged_softmax as softmax
});

/// The rows and columns of the workgroups of all of them, except the softmax.
const TILE: [usize; 2] = [128, 64];
/// Queries of a workgroup of the softmax.
const SOFTMAX_ROWS: usize = 128;
/// Keys of a block, which update a query's sums together.
const BLOCK: usize = 32;

/// A pass that stores what belongs to pairs of queries and keys, for some key heads at a time.
pub struct Stored<'a> {
    pass: &'a RangedPass<'a>,
    /// Key heads at a time, at most.
    key_heads: usize,
}

/// The first of some key heads, and how many.
type HeadRange = [usize; 2];

/// A sum over keys for the queries, or over queries for the keys.
#[derive(Clone, Copy)]
struct Sum<'a> {
    name: &'static str,
    /// What was stored.
    weights: &'a Buffer,
    columns: &'a Buffer,
    /// Where the rows of the columns lie.
    place: Strided,
    ranges: &'a Buffer,
    out: &'a Buffer,
    /// Whether it is a key's or a value's gradient, and so a sum over queries.
    over_queries: bool,
    /// What the sum is multiplied by.
    scale: f32,
    /// The corrections between blocks, and the sums of the weights, of an output.
    corrections: Option<[&'a Buffer; 2]>,
}

impl<'a> Stored<'a> {
    pub fn new(pass: &'a RangedPass<'a>, key_heads: usize) -> Self {
        Self { pass, key_heads }
    }

    fn parts(&self) -> impl Iterator<Item = HeadRange> {
        let (all, some) = (self.pass.placed.attention.all_key_heads(), self.key_heads);
        (0..all)
            .step_by(some)
            .map(move |first| [first, some.min(all - first)])
    }

    /// Memory for a number of each pair of some heads.
    fn pairs(&self) -> Result<Buffer> {
        let of = &self.pass.placed.attention;
        let rows = of.group() * self.key_heads * of.queries;
        Ok(self.pass.device.alloc_shape(&[rows, of.keys])?)
    }

    /// Computes `o` and `stats`.
    pub fn forward(&self, [o, stats]: [&Buffer; 2]) -> Result<()> {
        let (pass, placed) = (self.pass, self.pass.placed);
        let (device, ranges, [q, k, v]) = (pass.device, pass.ranges, pass.operands.heads);
        let [q, k] = [positions_last(device, q)?, positions_last(device, k)?];
        let rows = placed.attention.group() * self.key_heads * placed.attention.queries;
        // The scores, then the weights, `[heads, S, T]`.
        let pairs = self.pairs()?;
        // `[heads, S / 32, T]`, and `[heads, T]`.
        let blocks = placed.attention.keys.div_ceil(BLOCK);
        let corrections = device.alloc_shape(&[rows, blocks])?;
        let sums = device.alloc(rows)?;
        let [width, _, capped, _] = placed.constants();
        for part in self.parts() {
            let kernel = Kernel::new("ranged_attention_forward_scores", &scores::SHADER)
                .constants([width, capped])
                .reads([&q, &k, ranges])
                .writes([&pairs]);
            self.products(kernel, 1, part)?;
            self.softmax([&pairs, &corrections, &sums, stats], part)?;
            let of_values = Sum {
                name: "ranged_attention_forward_output",
                weights: &pairs,
                columns: v.buffer,
                place: placed.places[2],
                ranges,
                out: o,
                over_queries: false,
                scale: 1.0,
                corrections: Some([&corrections, &sums]),
            };
            self.sum(&of_values, part)?;
        }
        Ok(())
    }

    fn softmax(
        &self,
        [pairs, corrections, sums, stats]: [&Buffer; 4],
        [first, key_heads]: HeadRange,
    ) -> Result<()> {
        let (pass, all) = (self.pass, self.pass.placed.push());
        let of = &pass.placed.attention;
        let heads = key_heads * of.group();
        let push = push!(softmax =>
            queries: all.queries, keys: all.keys, heads: all.heads, first_head: first * of.group(),
            stored_heads: heads, seed_low: all.seed_low, seed_high: all.seed_high,
            purpose: all.purpose, p: all.p, factor: all.factor
        );
        let groups = (heads * of.queries).div_ceil(SOFTMAX_ROWS);
        Kernel::new("ranged_attention_forward_softmax", &softmax::SHADER)
            .constants(constants!(3: of.dropout.is_some()))
            .reads([pass.ranges])
            .reads_if(pass.operands.counter)
            .updates([pairs])
            .writes([corrections, sums])
            // The other parts are written by other launches.
            .updates([stats])
            .launch_on_gpu(pass.device, push, groups)
    }

    /// Computes the gradients.
    pub fn backward(&self, saved: &Saved<'_>, [dq, dk, dv]: [&Buffer; 3]) -> Result<()> {
        let (pass, placed) = (self.pass, self.pass.placed);
        let (device, ranges, operands) = (pass.device, pass.ranges, pass.operands);
        let of = &placed.attention;
        let ([of_q, of_k, _], output) = (placed.places, saved.output);
        let [q, k, v] = operands.heads;
        let [of_queries, _] = of.layouts()?;
        let d_o = Operand::new(output.d_o, &of_queries);
        let [q_last, k_last] = [positions_last(device, q)?, positions_last(device, k)?];
        let [v_last, d_o_last] = [positions_last(device, v)?, positions_last(device, d_o)?];
        // The weights and the scores' gradients, `[heads, T, S]`, and those once more, `[heads, S, T]`.
        let [w, ds, transposed_ds] = [self.pairs()?, self.pairs()?, self.pairs()?];
        let [width, _, capped, dropped] = placed.constants();
        for part in self.parts() {
            let kernel = Kernel::new("ranged_attention_backward_weights", &weights::SHADER)
                .constants([width, capped, dropped])
                .reads([&q_last, &k_last, &v_last, &d_o_last, ranges])
                .reads_if(operands.counter)
                .reads([output.stats, saved.delta])
                // Read back where a weight is p itself.
                .updates([&w])
                .writes([&ds, &transposed_ds]);
            self.products(kernel, 2, part)?;
            let of_queries = Sum {
                name: "ranged_attention_backward_query",
                weights: &transposed_ds,
                columns: k.buffer,
                place: of_k,
                ranges,
                out: dq,
                over_queries: false,
                scale: of.scale,
                corrections: None,
            };
            let of_keys = Sum {
                name: "ranged_attention_backward_key",
                weights: &ds,
                columns: q.buffer,
                place: of_q,
                ranges: saved.key_ranges,
                out: dk,
                over_queries: true,
                ..of_queries
            };
            let of_values = Sum {
                name: "ranged_attention_backward_value",
                weights: &w,
                columns: output.d_o,
                place: of.output_place(),
                out: dv,
                scale: 1.0,
                ..of_keys
            };
            for gradient in [of_queries, of_keys, of_values] {
                self.sum(&gradient, part)?;
            }
        }
        Ok(())
    }

    /// Launches a kernel that stores numbers of `part` from products of queries and keys.
    fn products(
        &self,
        kernel: Kernel<'_>,
        products: u64,
        [first, key_heads]: HeadRange,
    ) -> Result<()> {
        let (placed, all) = (&self.pass.placed, self.pass.placed.push());
        let of = &placed.attention;
        let heads = key_heads * of.group();
        let push = push!(weights =>
            queries: all.queries, keys: all.keys, heads: all.heads, group: all.group,
            first_head: first * of.group(), stored_heads: heads,
            scale: all.scale, cap: all.cap, inverse_cap: all.inverse_cap, seed_low: all.seed_low,
            seed_high: all.seed_high, purpose: all.purpose, p: all.p, factor: all.factor
        );
        let [rows, columns] = TILE;
        let tiles = of.queries.div_ceil(rows) * of.keys.div_ceil(columns);
        kernel
            .flops(of.flops_of_heads(heads, products))
            .launch_on_gpu(self.pass.device, push, heads * tiles)
    }

    /// Launches a sum of `part`.
    fn sum(&self, sum: &Sum<'_>, [first, key_heads]: HeadRange) -> Result<()> {
        let of = &self.pass.placed.attention;
        let (group, place) = (of.group(), sum.place);
        let [of_keys, of_queries] = [[of.keys, of.key_heads], [of.queries, of.heads]];
        let ([rows, heads], [terms, _]) = match sum.over_queries {
            true => (of_keys, of_queries),
            false => (of_queries, of_keys),
        };
        let (repeats, column_group) = if sum.over_queries {
            (group, 1)
        } else {
            (1, group)
        };
        // Of the rows' heads.
        let [first, n_heads] = [first, key_heads].map(|n| n * column_group);
        let push = push!(sum =>
            rows, terms, heads, repeats, column_group, first_head: first, n_heads,
            columns_first: place.first, columns_batch: place.batch,
            columns_position: place.position, columns_head: place.head,
            last_first: of.causal && !sum.over_queries, scale: sum.scale
        );
        let [tile, width] = TILE;
        let groups = rows.div_ceil(tile) * n_heads * of.head_width.div_ceil(width);
        let shader = match sum.corrections {
            Some(_) => &output::SHADER,
            None => &sum::SHADER,
        };
        Kernel::new(sum.name, shader)
            .constants([(0, of.head_width as u32)])
            .reads([sum.weights, sum.columns, sum.ranges])
            // The other parts are written by other launches.
            .updates([sum.out])
            .bind_all(sum.corrections.into_iter().flatten().map(Binding::Read))
            .flops(of.flops_of_heads(key_heads * group, 1))
            .launch_on_gpu(self.pass.device, push, groups)
    }
}

/// Copies `[B, T, H, D]` to `[B, H, D, T]`.
fn positions_last(device: &Device, x: Operand<'_>) -> Result<Buffer> {
    permuted(device, "ranged_attention", x, &[0, 2, 3, 1])
}
