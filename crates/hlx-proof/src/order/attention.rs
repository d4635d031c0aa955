//! The trees of attention: every sum that inputs of our choice can reach.

use super::tree::{Tree, terms};
use super::*;
use hlx_core::{arith, cpu::with_flush};
use hlx_kernels::Operand;
use hlx_kernels::attention::{
    Attention, AttentionGradients, AttentionOperands, AttentionOutput, Limits, PreparedAttention,
    Schedule, layouts_of_packed,
};

/// Positions of the sums over keys and queries: two blocks of 32 and a third begun.
const TIME: usize = 70;
/// Widths of the sums over a head: both kinds of kernel.
const WIDTHS: [usize; 2] = [8, 33];

/// One sequence whose heads carry a pair of masks in each column (`over_time`), or a pair each.
struct Case {
    shape: Attention,
    masks: Masks,
    over_time: bool,
}

impl Case {
    fn over_time(width: usize) -> Self {
        let masks = Masks::all(TIME);
        let heads = masks.len().div_ceil(width);
        Self {
            shape: shape(TIME, heads, width),
            masks,
            over_time: true,
        }
    }

    fn over_width(width: usize) -> Self {
        let masks = Masks::all(width);
        let heads = masks.len();
        Self {
            shape: shape(1, heads, width),
            masks,
            over_time: false,
        }
    }

    fn width(&self) -> usize {
        self.shape.head_width
    }

    /// Elements of `[T, H, D]`.
    fn len(&self) -> usize {
        self.shape.queries * self.shape.heads * self.width()
    }

    /// `[T, H, D]` of masks: along the positions, or along the head.
    fn masked(&self) -> Vec<f32> {
        let columns = self.shape.heads * self.width();
        let term = |index: usize| {
            let (position, column) = (index / columns, index % columns);
            let (pair, k) = if self.over_time {
                (column, position)
            } else {
                (column / self.width(), column % self.width())
            };
            // Columns past the last pair repeat the first.
            self.masks.term(pair % self.masks.len(), k)
        };
        (0..self.len()).map(term).collect()
    }

    fn constant(&self, value: f32) -> Vec<f32> {
        vec![value; self.len()]
    }

    /// 1 in the first column of each head, else 0: a product of two such is 1.
    fn first_column(&self) -> Vec<f32> {
        let column = |index: usize| f32::from(u8::from(index.is_multiple_of(self.width())));
        (0..self.len()).map(column).collect()
    }

    /// `[T, 3, H, D]` from query, key and value.
    fn qkv(&self, parts: [&[f32]; 3]) -> Vec<f32> {
        let columns = self.shape.heads * self.width();
        let positions = (0..self.shape.queries).map(|t| t * columns..(t + 1) * columns);
        positions
            .flat_map(|at| parts.map(|part| part[at.clone()].to_vec()).concat())
            .collect()
    }

    /// Where the result of a pair lies in `[T, 3, H, D]`: position `t` of `part`.
    fn at(&self, t: usize, part: usize, pair: usize) -> usize {
        let columns = self.shape.heads * self.width();
        let column = if self.over_time {
            pair
        } else {
            pair * self.width()
        };
        (3 * t + part) * columns + column
    }

    fn chain(&self) -> Tree {
        Tree::chain(terms(self.masks.n))
    }

    fn scale(&self) -> f64 {
        f64::from(with_flush(|| arith::rsqrt(self.width() as f32)))
    }

    /// Runs the forward; returns o `[T, H, D]` or, with `stats`, `[H, T, 2]`.
    fn forward(
        &self,
        device: &Device,
        mem: &mut TestMemory,
        qkv: &[f32],
        want_stats: bool,
    ) -> Result<Buffer, KernelError> {
        let qkv = mem.input(device, qkv)?;
        let o = mem.output(device, self.len())?;
        let stats = mem.output(device, 2 * self.shape.heads * self.shape.queries)?;
        self.prepared(device, &qkv, |prepared, operands| {
            prepared.forward_to(device, operands, [&o, &stats])
        })?;
        Ok(if want_stats { stats } else { o })
    }

    /// Runs the backward with weights of 1 (scores, maxima and o of our choice); returns dqkv
    /// or, with `want_delta`, delta.
    fn backward(
        &self,
        device: &Device,
        mem: &mut TestMemory,
        [qkv, o, d_o]: [&[f32]; 3],
        want_delta: bool,
    ) -> Result<Buffer, KernelError> {
        let queries = self.shape.heads * self.shape.queries;
        let (qkv, o, d_o) = (
            mem.input(device, qkv)?,
            mem.input(device, o)?,
            mem.input(device, d_o)?,
        );
        let stats = mem.input(device, &[0.0, 1.0].repeat(queries))?;
        let delta = mem.output(device, queries)?;
        let (joint, n) = (mem.output(device, 3 * self.len())?, self.len());
        let apart = [0; 3].map(|_| mem.output(device, n));
        let [dq, dk, dv] = apart;
        let apart = [dq?, dk?, dv?];
        let mut gradients = Vec::new();
        self.prepared(device, &qkv, |prepared, operands| {
            let output = AttentionOutput {
                o: &o,
                stats: &stats,
                d_o: &d_o,
            };
            if !want_delta {
                gradients = prepared.backward(device, operands, &output)?;
                return Ok(());
            }
            let is_packed = Schedule::of(device, operands, &self.shape) == Schedule::Packed;
            let heads = [0, 1, 2].map(|i| Operand {
                buffer: if is_packed { &joint } else { &apart[i] },
                layout: operands.heads[i].layout,
            });
            let delta = &delta;
            let gradients = AttentionGradients { delta, heads };
            prepared.backward_to(device, operands, &output, &gradients)
        })?;
        Ok(gradients.pop().unwrap_or(delta))
    }

    /// Calls `run` with the kernels that the device has for packed operands.
    fn prepared(
        &self,
        device: &Device,
        qkv: &Buffer,
        run: impl FnOnce(&PreparedAttention, &AttentionOperands<'_>) -> Result<(), KernelError>,
    ) -> Result<(), KernelError> {
        let layouts = layouts_of_packed(&self.shape)?;
        let operands = AttentionOperands {
            heads: layouts.each_ref().map(|layout| Operand {
                buffer: qkv,
                layout,
            }),
            packed: Some(qkv),
            limits: Limits::default(),
            counter: None,
        };
        run(
            &PreparedAttention::new(device, &operands, &self.shape, true)?,
            &operands,
        )
    }
}

fn shape(time: usize, heads: usize, head_width: usize) -> Attention {
    Attention::causal([1, time], heads, head_width)
}

/// With queries of 0 every weight is exp(0) = 1, every correction too, and the last query's
/// `o` is the sum of the values over the number of keys.
#[test]
fn output_is_a_chain_over_keys() {
    for width in WIDTHS {
        let case = Case::over_time(width);
        let qkv = case.qkv([&case.constant(0.0), &case.constant(1.0), &case.masked()]);
        let last = (TIME - 1) * case.shape.heads * width;
        assert_order(
            "attention_forward: o",
            &case.masks,
            &case.chain(),
            |device, mem| case.forward(device, mem, &qkv, false),
            |o, pair| f64::from(o[last + pair]) * TIME as f64,
        );
    }
}

/// One position: its maximum is its score.
#[test]
fn score_is_a_chain_over_the_head() {
    for width in WIDTHS {
        let case = Case::over_width(width);
        let ones = case.constant(1.0);
        let qkv = case.qkv([&case.masked(), &ones, &ones]);
        assert_order(
            "attention_forward: score",
            &case.masks,
            &case.chain(),
            |device, mem| case.forward(device, mem, &qkv, true),
            |stats, pair| f64::from(stats[2 * pair]) / case.scale(),
        );
    }
}

#[test]
fn delta_is_a_chain_over_the_head() {
    for width in WIDTHS {
        let case = Case::over_width(width);
        let (zeros, ones) = (case.constant(0.0), case.constant(1.0));
        let qkv = case.qkv([&zeros, &zeros, &zeros]);
        let o = case.masked();
        assert_order(
            "attention_backward: delta",
            &case.masks,
            &case.chain(),
            |device, mem| case.backward(device, mem, [&qkv, &o, &ones], true),
            plain,
        );
    }
}

/// One position, `delta = 0`, a weight of 1: with queries of 0 and keys of 1, dQ is `dp scale` in
/// every column; with keys of 0 and queries of 1, dK is.
#[test]
fn slope_of_a_weight_is_a_chain_over_the_head() {
    for width in WIDTHS {
        let case = Case::over_width(width);
        let (zeros, ones) = (case.constant(0.0), case.constant(1.0));
        for part in [0, 1] {
            let (q, k) = if part == 0 {
                (&zeros, &ones)
            } else {
                (&ones, &zeros)
            };
            let qkv = case.qkv([q, k, &case.masked()]);
            assert_order(
                "attention_backward: dp",
                &case.masks,
                &case.chain(),
                |device, mem| case.backward(device, mem, [&qkv, &zeros, &ones], false),
                |dqkv, pair| f64::from(dqkv[case.at(0, part, pair)]) / case.scale(),
            );
        }
    }
}

/// With weights of 1, `dp = 1` and `delta = 0`, the last query's gradient is the sum of the keys
/// times the scale, the first key's that of the queries, and the first value's that of `d_o`.
#[test]
fn gradients_are_chains_over_keys_and_queries() {
    for width in WIDTHS {
        let case = Case::over_time(width);
        let (zeros, first, masked) = (case.constant(0.0), case.first_column(), case.masked());
        let dq = (
            "dQ",
            case.qkv([&zeros, &masked, &first]),
            &first,
            0,
            TIME - 1,
        );
        let dk = ("dK", case.qkv([&masked, &zeros, &first]), &first, 1, 0);
        let dv = ("dV", case.qkv([&zeros, &zeros, &zeros]), &masked, 2, 0);
        for (name, qkv, d_o, part, t) in [dq, dk, dv] {
            let scale = if part == 2 { 1.0 } else { case.scale() };
            assert_order(
                &format!("attention_backward: {name}"),
                &case.masks,
                &case.chain(),
                |device, mem| case.backward(device, mem, [&qkv, &zeros, d_o], false),
                |dqkv, pair| f64::from(dqkv[case.at(t, part, pair)]) / scale,
            );
        }
    }
}
