//! Attention over ranges in the `integer` arithmetic: every product of a query, a key, a value or a weight is an exact
//! sum over integers ([`crate::integer`]), forward and backward.
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

use hlx_core::{Binding, Buffer, Context, Launch, groups_1d, push_bytes};

use super::sizes::RangedAttention;
use super::{AttentionInputs, AttentionSaved, Strided, backward_delta};
use crate::KernelError;
use crate::error::check_len;
use crate::integer::Width;
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
    ctx: &Context,
    inputs: &AttentionInputs<'_>,
    o: &Buffer,
    stats: &Buffer,
    attention: &RangedAttention,
) -> Result<(), KernelError> {
    const NAME: &str = "integer_attention_forward";
    attention.check(NAME)?;
    let places = attention.places(NAME, inputs)?;
    check_len(NAME, "o", o, attention.output_len())?;
    check_len(NAME, "stats", stats, 2 * attention.all_queries())?;
    let operands = operands(ctx, inputs, attention, &places)?;
    let ranges = (inputs.query_ranges, inputs.counter);
    forward(
        ctx,
        operands.each_ref(),
        ranges,
        [o, stats],
        (attention, places),
    )
}

/// The forward pass of prepared operands; `ranges` are the queries' and the counter of dropout.
fn forward(
    ctx: &Context,
    [q, k, v]: [&IntegerHeads; 3],
    (ranges, counter): (&Buffer, Option<&Buffer>),
    [o, stats]: [&Buffer; 2],
    (attention, places): (&RangedAttention, [Strided; 3]),
) -> Result<(), KernelError> {
    let push = attention.push(places);
    let chosen = FORWARD.choose(ctx, attention, &places);
    let heads = attention.batch * attention.heads;
    let launch = Launch {
        name: "integer_attention_forward",
        shader: chosen.shader,
        specialization: &chosen.constants,
        bindings: &[
            Binding::Read(&q.words),
            Binding::Read(&k.words),
            Binding::Read(&v.words),
            Binding::Read(ranges),
            // Without dropout nobody reads it.
            Binding::Read(counter.unwrap_or(ranges)),
            Binding::Write(o),
            Binding::Write(stats),
        ],
        push: push_bytes(&push),
        groups: groups_1d(chosen.groups(attention.queries, heads)),
    };
    let (work, attention) = (attention.work(&launch, 2), *attention);
    let of = [q.of, k.of, v.of];
    ctx.launch_counted(launch, work, move |bindings| {
        let ([q, k, v, ranges, counter], [o, stats]) = bindings.split();
        let operands = heads::rows_of([q, k, v], of);
        let inputs = cpu::Inputs::new(operands, ranges, counter, &push, &attention);
        cpu::forward(&inputs, o, stats);
    })?;
    Ok(())
}

/// Computes the gradients of q (`[B, T, H, D]`), k and v (`[B, S, G, D]`); overwrites all three.
///
/// # Errors
/// As [`integer_attention_forward`].
pub fn integer_attention_backward(
    ctx: &Context,
    inputs: &AttentionInputs<'_>,
    saved: &AttentionSaved<'_>,
    [dq, dk, dv]: [&Buffer; 3],
    attention: &RangedAttention,
) -> Result<(), KernelError> {
    const NAME: &str = "integer_attention_backward";
    let places = attention.check_backward(NAME, inputs, saved, [dq, dk, dv])?;
    backward_delta(ctx, saved, attention)?;
    let [q, k, v] = operands(ctx, inputs, attention, &places)?;
    let q_narrow =
        Heads::of_queries(attention, Width::Narrow).prepare(ctx, inputs.q.buffer, places[0])?;
    let d_o = Heads::of_queries(attention, Width::Wide);
    let d_o = d_o.prepare(ctx, saved.d_o, contiguous(attention))?;
    let pass = Pass {
        ctx,
        inputs,
        saved,
        attention,
        places,
    };
    pass.query([&q, &k, &v, &d_o], dq)?;
    pass.key_value([&q, &k, &v, &d_o, &q_narrow], [dk, dv])
}

/// The queries, wide, and the keys and values, narrow.
fn operands(
    ctx: &Context,
    inputs: &AttentionInputs<'_>,
    attention: &RangedAttention,
    places: &[Strided; 3],
) -> Result<[IntegerHeads; 3], KernelError> {
    let of_keys = Heads::of_keys(attention, Width::Narrow);
    Ok([
        Heads::of_queries(attention, Width::Wide).prepare(ctx, inputs.q.buffer, places[0])?,
        of_keys.prepare(ctx, inputs.k.buffer, places[1])?,
        of_keys.prepare(ctx, inputs.v.buffer, places[2])?,
    ])
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
    ctx: &'a Context,
    inputs: &'a AttentionInputs<'a>,
    saved: &'a AttentionSaved<'a>,
    attention: &'a RangedAttention,
    places: [Strided; 3],
}

impl Pass<'_> {
    fn query(&self, operands: [&IntegerHeads; 4], dq: &Buffer) -> Result<(), KernelError> {
        let (inputs, saved, attention) = (self.inputs, self.saved, *self.attention);
        let push = attention.push(self.places);
        let [q, k, v, d_o] = operands.map(|operand| &operand.words);
        let chosen = QUERY.choose(self.ctx, &attention, &self.places);
        let heads = attention.batch * attention.heads;
        let launch = Launch {
            name: "integer_attention_backward_query",
            shader: chosen.shader,
            specialization: &chosen.constants,
            bindings: &[
                Binding::Read(q),
                Binding::Read(k),
                Binding::Read(v),
                Binding::Read(inputs.query_ranges),
                Binding::Read(inputs.counter.unwrap_or(inputs.query_ranges)),
                Binding::Read(d_o),
                Binding::Read(saved.stats),
                Binding::Read(saved.delta),
                Binding::Write(dq),
            ],
            push: push_bytes(&push),
            groups: groups_1d(chosen.groups(attention.queries, heads)),
        };
        let of = operands.map(|operand| operand.of);
        self.ctx
            .launch_counted(launch, attention.work(&launch, 3), move |bindings| {
                let ([q, k, v, ranges, counter, d_o, stats, delta], [dq]) = bindings.split();
                let [q, k, v, d_o] = heads::rows_of([q, k, v, d_o], of);
                let inputs = cpu::Inputs::new([q, k, v], ranges, counter, &push, &attention);
                cpu::backward_query(&inputs, &cpu::Upstream { d_o, stats, delta }, dq);
            })?;
        Ok(())
    }

    fn key_value(
        &self,
        operands: [&IntegerHeads; 5],
        [dk, dv]: [&Buffer; 2],
    ) -> Result<(), KernelError> {
        let (inputs, saved, attention) = (self.inputs, self.saved, *self.attention);
        let push = attention.push(self.places);
        let [q, k, v, d_o, q_narrow] = operands.map(|operand| &operand.words);
        let chosen = KEY_VALUE.choose(self.ctx, &attention, &self.places);
        let heads = attention.batch * attention.key_heads;
        let launch = Launch {
            name: "integer_attention_backward_key_value",
            shader: chosen.shader,
            specialization: &chosen.constants,
            bindings: &[
                Binding::Read(q),
                Binding::Read(k),
                Binding::Read(v),
                Binding::Read(inputs.query_ranges),
                Binding::Read(inputs.counter.unwrap_or(inputs.query_ranges)),
                Binding::Read(d_o),
                Binding::Read(saved.stats),
                Binding::Read(saved.delta),
                Binding::Read(saved.key_ranges),
                Binding::Read(q_narrow),
                Binding::Write(dk),
                Binding::Write(dv),
            ],
            push: push_bytes(&push),
            groups: groups_1d(chosen.groups(attention.keys, heads)),
        };
        let of = operands.map(|operand| operand.of);
        self.ctx
            .launch_counted(launch, attention.work(&launch, 4), move |bindings| {
                let (read, [dk, dv]) = bindings.split();
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
                let inputs = cpu::Inputs::new([q, k, v], ranges, counter, &push, &attention);
                let upstream = cpu::Upstream { d_o, stats, delta };
                cpu::backward_key_value(&inputs, &upstream, (key_ranges, q_narrow), [dk, dv]);
            })?;
        Ok(())
    }
}
