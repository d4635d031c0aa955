//! Attention in the `integer` arithmetic: every product of a query, a key, a value or a weight is an exact
//! sum over quantised operands ([`crate::product::quantised`]), forward and backward.
//!
//! Rows of queries have two digits, those of keys and values one, each with an exponent of its own over the head's
//! width. What a query sees and how its keys fall into blocks is as in the parent module; so a cached query has the
//! bits of a prefilled one. `product(S, e)` below is the exact sum S, rounded once, times `2^-e`, with -0 made +0.
//!
//! Forward, of query `i` and a block of keys: `s_j = product(sum_d q[i, d] k[j, d], e_q + e_k) * scale`, with a cap
//! `cap * tanh(s_j * (1 / cap))`; `m'`, `c` and `p_j` as in the parent module. `l = fma(l, c, L)`, where L adds the 32
//! `p_j` by halves: j to j + 16, then 8, 4, 2, 1; what is not seen is 0. `u_j = w_j 2^-e_v(j)` become integers with
//! two digits by the largest of the block that the query sees, and `o = fma(o, c, product(sum_j u_j v[j], e_u))`. At the end
//! `o = o / l`.
//!
//! Backward: rows of d_o have two digits. `dp_ij = product(sum_d do[i, d] v[j, d], e_do + e_v)`; delta, `p_ij` and
//! `ds_ij` as in the parent module. Over the blocks of keys in order `dq = dq + product(sum_j u_j k[j], e_u)`, where the
//! `u_j = ds_ij 2^-e_k(j)` of a query and a block have two digits; at the end it is multiplied by the scale. For keys and
//! values, queries fall into blocks of 32 that count, as their keys do, from the first position of their document. Over
//! the query heads in order, and in each over the blocks that hold a query that sees `j`:
//! `dv = dv + product(sum_i u_i do[i], e_u)`, where the `u_i = w_ij 2^-e_do(i)` of a key and a block have one digit, and
//! `dk = dk + product(sum_i u_i q[i], e_u)`, where the `u_i = ds_ij 2^-e_q(i)` of a key and a block have two digits and
//! rows of q one; dk is multiplied by the scale at the end.
//!
//! A row with a NaN or an infinity makes NaN of what is computed with it.

use hlx_core::{Buffer, Device, align_words};

use super::few;
use super::heads::{Heads, QuantisedHeads};
use super::operands::AttentionGradients;
use super::pages::Pages;
use super::pass::{RangedPass, Saved};
use super::plan::is_of_few_queries;
use super::rows::{Kind, RowOperands};
use super::sizes::{Attention, Placed};
use crate::error::check_len;
use crate::product::quantised::Digits;
use crate::{Layout, Result};

/// Quantised queries with two digits, and keys and values with one: what both passes read instead of the numbers.
pub struct QuantisedOperands {
    heads: [QuantisedHeads; 3],
    /// The queries with one digit, for the backward pass.
    q_one_digit: Option<QuantisedHeads>,
}

/// The elements of a buffer of gradients that lie one behind the other, and their layouts.
///
/// # Errors
/// If they have more elements than memory.
pub fn joint_gradients(of: &Attention) -> Result<(usize, [Layout; 3])> {
    let [of_queries, of_keys] = of.layouts()?;
    let [first, next] = [&of_queries, &of_keys].map(|layout| align_words(layout.n_elements()));
    let values = of_keys.starting_at(first + next);
    let layouts = [of_queries, of_keys.starting_at(first), values];
    Ok((first + 2 * next, layouts))
}

impl QuantisedOperands {
    /// Prepares the operands of a forward pass, and those of the backward pass if there is one.
    pub fn new(pass: &RangedPass<'_>, for_backward: bool) -> Result<Self> {
        let (device, of) = (pass.device, &pass.placed.attention);
        let ([q, k, v], places) = (pass.words(), pass.placed.places);
        let of_queries = Heads::of_queries(of, Digits::Two);
        let (q, q_one_digit) = of_queries.prepare(device, q, places[0], for_backward)?;
        let of_keys = Heads::of_keys(of);
        let (k, _) = of_keys.prepare(device, k, places[1], false)?;
        let (v, _) = of_keys.prepare(device, v, places[2], false)?;
        let heads = [q, k, v];
        Ok(Self { heads, q_one_digit })
    }

    /// Computes `o` and `stats`.
    pub fn forward(&self, pass: &RangedPass<'_>, outputs: [&Buffer; 2]) -> Result<()> {
        let ([q, k, v], counter) = (&self.heads, pass.operands.counter);
        let (heads, ranges) = ([q, k, v, q, q], pass.ranges);
        rows(pass.device, heads, ranges, counter, pass.placed).forward(outputs)
    }

    /// Computes the gradients, layouts of one buffer.
    pub fn backward(
        &self,
        pass: &RangedPass<'_>,
        saved: &Saved<'_>,
        gradients: &AttentionGradients<'_>,
    ) -> Result<()> {
        const NAME: &str = "integer_attention_backward";
        let (device, of) = (pass.device, &pass.placed.attention);
        let Some(q_one_digit) = &self.q_one_digit else {
            return check_that!(NAME, false =>
                "the operands were prepared for the forward pass alone");
        };
        let placed = of.placed(NAME, ["dq", "dk", "dv"], gradients.heads)?;
        pass.begin_backward(NAME, saved)?;
        let d_o = Heads::of_queries(of, Digits::Two);
        let (d_o, _) = d_o.prepare(device, saved.output.d_o, of.output_place(), false)?;
        let ([q, k, v], counter) = (&self.heads, pass.operands.counter);
        let heads = [q, k, v, &d_o, q_one_digit];
        let rows = rows(device, heads, pass.ranges, counter, placed);
        let joint = gradients.heads[0].buffer;
        rows.query(saved, joint, &placed)?;
        rows.key_value(saved, [joint; 2], &placed)
    }
}

/// The launches over prepared heads.
fn rows<'a>(
    device: &'a Device,
    heads: [&'a QuantisedHeads; 5],
    ranges: &'a Buffer,
    counter: Option<&'a Buffer>,
    placed: Placed,
) -> RowOperands<'a> {
    RowOperands {
        device,
        kind: Kind::Quantised(heads.map(|heads| heads.of)),
        words: heads.map(|heads| &heads.words),
        ranges,
        counter,
        pages: None,
        placed,
    }
}

/// Computes `o` of the rows of a cache, whose queries' documents begin at key 0; no weights are dropped.
///
/// `pages`: where keys and values lie in pages, which are then the sequences of their heads, of `PAGE` positions;
/// `ranges`: what [`query_ranges`](super::query_ranges) wrote.
///
/// # Errors
/// If a buffer or operand has other sizes, a size is out of range, weights are dropped, or a launch fails.
pub fn integer_attention_of_cache(
    device: &Device,
    heads: [&QuantisedHeads; 3],
    pages: Option<&Pages<'_>>,
    ranges: &Buffer,
    o: &Buffer,
    attention: &Attention,
) -> Result<()> {
    const NAME: &str = "integer_attention_of_cache";
    attention.check(NAME)?;
    attention.expect_no_dropout(NAME)?;
    let of_keys = Heads::of_cache(attention, pages);
    if let Some(pages) = pages {
        pages.check(NAME, attention)?;
    }
    let expected = [Heads::of_queries(attention, Digits::Two), of_keys, of_keys];
    for ((name, operand), expected) in ["q", "k", "v"].into_iter().zip(heads).zip(expected) {
        check_that!(NAME, operand.of == expected =>
            "{name} has {:?}, expected {expected:?}", operand.of)?;
    }
    check_len(NAME, "o", o, attention.output_len())?;
    let stats = &device.alloc_shape(&[2, attention.all_queries()])?;
    let placed = Placed {
        pool_pages: pages.map(|pages| pages.n),
        ..attention.at([attention.output_place(); 3])
    };
    let of_ranges = [4, attention.batch, attention.queries];
    check_len(NAME, "ranges", ranges, of_ranges)?;
    // The CPU's tiles have a query per lane, and one by itself its keys.
    if device.is_cpu() || !is_of_few_queries(device, attention) {
        let [q, k, v] = heads;
        let rows = rows(device, [q, k, v, q, q], ranges, None, placed);
        let pages = pages.copied();
        return RowOperands { pages, ..rows }.forward([o, stats]);
    }
    let words = heads.map(|heads| &heads.words);
    few::OF_INTEGERS.forward(device, words, ranges, pages, [o, stats], placed)
}
