//! Attention over ranges in the `integer` arithmetic: every product of a query, a key, a value or a weight is an exact
//! sum over integers ([`crate::product::quantised`]), forward and backward.
//!
//! Rows of queries are wide, those of keys and values narrow, each with an exponent of its own over the head's
//! width. What a query sees and how its keys fall into blocks is as in the parent module; so a cached query has the
//! bits of a prefilled one. `product(S, e)` below is the exact sum S, rounded once, times `2^-e`, with -0 made +0.
//!
//! Forward, of query `i` and a block of keys: `s_j = product(sum_d q[i, d] k[j, d], e_q + e_k) * scale`, with a cap
//! `cap * tanh(s_j * (1 / cap))`; `m'`, `c` and `p_j` as in the parent module. `l = fma(l, c, L)`, where L adds the 32
//! `p_j` by halves: j to j + 16, then 8, 4, 2, 1; what is not seen is 0. `u_j = w_j 2^-e_v(j)` become wide integers by
//! the largest of the block that the query sees, and `o = fma(o, c, product(sum_j u_j v[j], e_u))`. At the end
//! `o = o / l`.
//!
//! Backward, with rows of d_o wide: `dp_ij = product(sum_d do[i, d] v[j, d], e_do + e_v)`; delta, `p_ij` and `ds_ij` as in the
//! parent module. Over the blocks of keys in order `dq = dq + product(sum_j u_j k[j], e_u)`, where `u_j = ds_ij 2^-e_k(j)` are
//! wide by query and block; at the end it is multiplied by the scale. For keys and values, queries fall into blocks of 32
//! that count, as their keys do, from the first position of their document. Over the query heads in order, and in each over the
//! blocks that hold a query that sees `j`: `dv = dv + product(sum_i u_i do[i], e_u)`, `u_i = w_ij 2^-e_do(i)`, narrow by key and
//! block; `dk = dk + product(sum_i u_i q[i], e_u)`, `u_i = ds_ij 2^-e_q(i)`, wide by key and block, with rows of q narrow here; dk
//! is multiplied by the scale at the end.
//!
//! A row with a NaN or an infinity makes NaN of what is computed with it.

use hlx_core::{Buffer, Device, align_words};

use super::sizes::{Placed, RangedAttention};
use super::{AttentionInputs, AttentionSaved, Strided, backward_delta};
use crate::error::{check_len, check_that};
use crate::kernel::{Kernel, PushConstants};
use crate::product::quantised::Width;
use crate::{KernelError, Layout, Operand};
pub use heads::{Heads, IntegerHeads};
use shaders::{FORWARD, KEY_VALUE, QUERY};

mod cached;
mod cpu;
mod heads;
mod shaders;

pub use cached::integer_attention_of_cache;

/// Computes `o` and the statistics that the backward needs; overwrites both.
///
/// `o`: `[B, T, H, D]`; `stats`: `[B, H, T, 2]`.
///
/// # Errors
/// If a buffer or operand has another shape, a size is out of range, or a launch fails.
pub fn integer_attention_forward(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    o: &Buffer,
    stats: &Buffer,
    attention: &RangedAttention,
) -> Result<(), KernelError> {
    let operands = IntegerOperands::new(device, inputs, attention, false)?;
    operands.forward(device, inputs, o, stats, attention)
}

/// Computes the gradients of q (`[B, T, H, D]`), k and v (`[B, S, G, D]`); overwrites all three.
///
/// # Errors
/// As [`integer_attention_forward`].
pub fn integer_attention_backward(
    device: &Device,
    inputs: &AttentionInputs<'_>,
    saved: &AttentionSaved<'_>,
    gradients: [&Buffer; 3],
    attention: &RangedAttention,
) -> Result<(), KernelError> {
    let operands = IntegerOperands::new(device, inputs, attention, true)?;
    let (joint, layouts) = JointGradients::allocate(device, attention)?;
    let joint = JointGradients {
        buffer: &joint,
        layouts: layouts.each_ref(),
    };
    operands.backward(device, inputs, saved, &joint, attention)?;
    for (to, part) in gradients.into_iter().zip(joint.parts()?) {
        device.copy(&part, to)?;
    }
    Ok(())
}

/// Where a backward pass writes the gradients of q, k and v: layouts in one buffer, such as that of a packed input.
#[derive(Clone, Copy, Debug)]
pub struct JointGradients<'a> {
    /// The memory of all three.
    pub buffer: &'a Buffer,
    /// Of `[B, T, H, D]`, and twice of `[B, S, G, D]`; no two share an element.
    pub layouts: [&'a Layout; 3],
}

impl JointGradients<'_> {
    /// Each by itself.
    pub fn parts(&self) -> Result<Vec<Buffer>, KernelError> {
        let parts = self.layouts.iter();
        let parts = parts.map(|part| self.buffer.slice(part.offset(), part.n_elements()));
        Ok(parts.collect::<Result<_, _>>()?)
    }

    fn operands(&self) -> [Operand<'_>; 3] {
        let buffer = self.buffer;
        self.layouts.map(|layout| Operand { buffer, layout })
    }

    /// Allocates memory for gradients that lie one behind the other, and returns their layouts.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn allocate(
        device: &Device,
        attention: &RangedAttention,
    ) -> Result<(Buffer, [Layout; 3]), KernelError> {
        let RangedAttention {
            batch,
            queries,
            keys,
            heads,
            key_heads,
            head_width,
            ..
        } = *attention;
        let of_queries = Layout::contiguous(&[batch, queries, heads, head_width])?;
        let of_keys = Layout::contiguous(&[batch, keys, key_heads, head_width])?;
        let places = [&of_queries, &of_keys].map(|of| align_words(of.n_elements()));
        let all = places[0] + 2 * places[1];
        let buffer = device.alloc(all)?;
        let layouts = [
            of_queries,
            of_keys.starting_at(places[0]),
            of_keys.starting_at(places[0] + places[1]),
        ];
        Ok((buffer, layouts))
    }
}

/// Queries, wide, and keys and values, narrow, as integers: what both passes read instead of the numbers.
pub struct IntegerOperands {
    q: IntegerHeads,
    k: IntegerHeads,
    v: IntegerHeads,
    /// The queries narrow, for the backward pass.
    q_narrow: Option<IntegerHeads>,
    places: [Strided; 3],
}

impl IntegerOperands {
    /// Prepares the operands of a forward pass, and those of the backward pass if there is one.
    ///
    /// # Errors
    /// As [`integer_attention_forward`].
    pub fn new(
        device: &Device,
        inputs: &AttentionInputs<'_>,
        attention: &RangedAttention,
        for_backward: bool,
    ) -> Result<Self, KernelError> {
        const NAME: &str = "integer_attention";
        attention.check(NAME)?;
        let places = attention.places(NAME, inputs)?;
        let of_queries = Heads::of_queries(attention, Width::Wide);
        let of_keys = Heads::of_keys(attention, Width::Narrow);
        let (q, q_narrow) = match for_backward {
            true => of_queries.prepare_twice(device, inputs.q.buffer, places[0])?,
            false => (
                of_queries.prepare(device, inputs.q.buffer, places[0])?,
                None,
            ),
        };
        Ok(Self {
            q,
            k: of_keys.prepare(device, inputs.k.buffer, places[1])?,
            v: of_keys.prepare(device, inputs.v.buffer, places[2])?,
            q_narrow,
            places,
        })
    }

    /// As [`integer_attention_forward`]; of the inputs only ranges and counter are read.
    ///
    /// # Errors
    /// As [`integer_attention_forward`].
    pub fn forward(
        &self,
        device: &Device,
        inputs: &AttentionInputs<'_>,
        o: &Buffer,
        stats: &Buffer,
        attention: &RangedAttention,
    ) -> Result<(), KernelError> {
        const NAME: &str = "integer_attention_forward";
        check_len(NAME, "o", o, attention.output_len())?;
        check_len(NAME, "stats", stats, [2, attention.all_queries()])?;
        let Self {
            q, k, v, places, ..
        } = self;
        let (ranges, counter) = (inputs.query_ranges, inputs.counter);
        let placed = attention.at(*places);
        forward(device, [q, k, v], ranges, counter, [o, stats], placed)
    }

    /// Computes the gradients of q, k and v where they are wanted; of the inputs only ranges and counter are read.
    ///
    /// # Errors
    /// As [`integer_attention_forward`], and if the operands were not prepared for it.
    pub fn backward(
        &self,
        device: &Device,
        inputs: &AttentionInputs<'_>,
        saved: &AttentionSaved<'_>,
        gradients: &JointGradients<'_>,
        attention: &RangedAttention,
    ) -> Result<(), KernelError> {
        const NAME: &str = "integer_attention_backward";
        attention.check_saved(NAME, saved)?;
        let places = attention.places_of(NAME, ["dq", "dk", "dv"], gradients.operands())?;
        let Self {
            q,
            k,
            v,
            q_narrow: Some(q_narrow),
            ..
        } = self
        else {
            return check_that(NAME, false, || {
                "the operands were prepared for the forward pass alone".to_owned()
            });
        };
        backward_delta(device, saved, attention)?;
        let d_o = Heads::of_queries(attention, Width::Wide);
        let d_o = d_o.prepare(device, saved.d_o, contiguous(attention))?;
        let pass = Pass {
            device,
            inputs,
            saved,
            placed: attention.at(places),
        };
        pass.query([q, k, v, &d_o], gradients.buffer)?;
        pass.key_value([q, k, v, &d_o, q_narrow], gradients.buffer)
    }
}

/// The forward pass of prepared operands; `ranges` are the queries', and `counter` that of dropout.
fn forward(
    device: &Device,
    [q, k, v]: [&IntegerHeads; 3],
    ranges: &Buffer,
    counter: Option<&Buffer>,
    [o, stats]: [&Buffer; 2],
    placed: Placed,
) -> Result<(), KernelError> {
    let (push, attention) = (placed.push(), placed.attention);
    let chosen = FORWARD.choose(device, &placed);
    let heads = attention.batch * attention.heads;
    let (of, groups) = ([q.of, k.of, v.of], chosen.groups(attention.queries, heads));
    Kernel::new("integer_attention_forward", chosen.shader)
        .constants(&chosen.constants)
        .reads([&q.words, &k.words, &v.words, ranges])
        .reads_if(counter)
        .writes([o, stats])
        .flops(attention.flops(2))
        .launch(
            device,
            PushConstants::of(&push),
            groups,
            move |read, [o, stats]| {
                let [q, k, v, ranges, counter] = read;
                let operands = heads::rows_of([q, k, v], of);
                let inputs = cpu::Inputs::new(operands, ranges, counter, &push, &placed);
                cpu::forward(&inputs, o, stats);
            },
        )
}

/// Where the rows of `o` and `d_o` lie.
fn contiguous(attention: &RangedAttention) -> Strided {
    let position = attention.heads * attention.head_width;
    Strided {
        first: 0,
        batch: attention.queries * position,
        position,
        head: attention.head_width,
    }
}

/// A backward pass.
struct Pass<'a> {
    device: &'a Device,
    inputs: &'a AttentionInputs<'a>,
    saved: &'a AttentionSaved<'a>,
    /// With where the gradients lie.
    placed: Placed,
}

impl Pass<'_> {
    fn query(&self, operands: [&IntegerHeads; 4], gradients: &Buffer) -> Result<(), KernelError> {
        let (inputs, saved, placed) = (self.inputs, self.saved, self.placed);
        let (push, attention) = (placed.push(), placed.attention);
        let [q, k, v, d_o] = operands.map(|operand| &operand.words);
        let chosen = QUERY.choose(self.device, &placed);
        let heads = attention.batch * attention.heads;
        let (of, place) = (operands.map(|operand| operand.of), self.placed.places[0]);
        let (block, groups) = (
            PushConstants::of(&push),
            chosen.groups(attention.queries, heads),
        );
        Kernel::new("integer_attention_backward_query", chosen.shader)
            .constants(&chosen.constants)
            .reads([q, k, v, inputs.query_ranges])
            .reads_if(inputs.counter)
            .reads([d_o, saved.stats, saved.delta])
            .writes([gradients])
            .flops(attention.flops(3))
            .launch(self.device, block, groups, move |read, [gradients]| {
                let [q, k, v, ranges, counter, d_o, stats, delta] = read;
                let [q, k, v, d_o] = heads::rows_of([q, k, v, d_o], of);
                let inputs = cpu::Inputs::new([q, k, v], ranges, counter, &push, &placed);
                let mut dq = vec![0.0; attention.output_len()];
                cpu::backward_query(&inputs, &cpu::Upstream { d_o, stats, delta }, &mut dq);
                let [positions, heads] = [attention.queries, attention.heads];
                place.put(&dq, gradients, [positions, heads, attention.head_width]);
            })
    }

    fn key_value(
        &self,
        operands: [&IntegerHeads; 5],
        gradients: &Buffer,
    ) -> Result<(), KernelError> {
        let (inputs, saved, placed) = (self.inputs, self.saved, self.placed);
        let (push, attention) = (placed.push(), placed.attention);
        let [q, k, v, d_o, q_narrow] = operands.map(|operand| &operand.words);
        let chosen = KEY_VALUE.choose(self.device, &placed);
        let heads = attention.batch * attention.key_heads;
        let (of, [_, of_k, of_v]) = (operands.map(|operand| operand.of), self.placed.places);
        let (block, groups) = (
            PushConstants::of(&push),
            chosen.groups(attention.keys, heads),
        );
        Kernel::new("integer_attention_backward_key_value", chosen.shader)
            .constants(&chosen.constants)
            .reads([q, k, v, inputs.query_ranges])
            .reads_if(inputs.counter)
            .reads([d_o, saved.stats, saved.delta, saved.key_ranges, q_narrow])
            .writes([gradients])
            .flops(attention.flops(4))
            .launch(self.device, block, groups, move |read, [gradients]| {
                let [
                    q,
                    k,
                    v,
                    ranges,
                    counter,
                    d_o,
                    stats,
                    delta,
                    key_ranges,
                    q_narrow,
                ] = read;
                let [q, k, v, d_o, q_narrow] = heads::rows_of([q, k, v, d_o, q_narrow], of);
                let inputs = cpu::Inputs::new([q, k, v], ranges, counter, &push, &placed);
                let upstream = cpu::Upstream { d_o, stats, delta };
                let [mut dk, mut dv] = [0; 2].map(|_| vec![0.0; attention.key_len()]);
                let targets = [&mut dk[..], &mut dv[..]];
                cpu::backward_key_value(&inputs, &upstream, (key_ranges, q_narrow), targets);
                let sizes = [attention.keys, attention.key_heads, attention.head_width];
                of_k.put(&dk, gradients, sizes);
                of_v.put(&dv, gradients, sizes);
            })
    }
}
