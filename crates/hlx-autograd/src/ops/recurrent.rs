//! Recurrent layers over sequences whose inputs have been multiplied by their weights: LSTM and GRU.

use hlx_core::{Buffer, Context};
use hlx_kernels::elementwise::assign_strided;
use hlx_kernels::matmul::{MatMul, matmul};
use hlx_kernels::recurrent::{
    GruBackward, GruForward, LstmBackward, LstmForward, Step, gru_backward, gru_forward,
    lstm_backward, lstm_forward,
};
use hlx_kernels::reduce::column_sum;
use hlx_kernels::transpose::transpose;
use hlx_kernels::{Layout, Operand};

use super::matmul::weight_gradient;
use crate::error::AutogradError;
use crate::saved::Saved;
use crate::{Backward, Batch, Gradient, Input, Result, Tensor};

/// The recurrent weight of a layer, its bias, and the direction.
#[derive(Clone, Copy, Debug)]
pub struct Recurrence<'a> {
    /// \[4 H, H\] of an LSTM, whose gates are i, f, g, o; \[3 H, H\] of a GRU: r, z, n.
    pub weight: &'a Tensor,
    /// \[4 H\] or \[3 H\].
    pub bias: Option<&'a Tensor>,
    /// The last position comes first.
    pub reverse: bool,
}

/// The sizes of a sequence, and the order of its positions.
#[derive(Clone, Copy)]
struct Sequence {
    batch: usize,
    time: usize,
    width: usize,
    gates: usize,
    reverse: bool,
}

/// What the backward pass needs of the recurrence.
struct SavedRecurrence {
    weight: Input,
    bias: Option<Input>,
    values: Saved,
    sequence: Sequence,
    batch: Batch,
}

impl Sequence {
    /// Checks the operands of `op` with `gates` gates.
    fn new(
        op: &'static str,
        projected: &Tensor,
        recurrence: &Recurrence<'_>,
        initial: &[(&'static str, Option<&Tensor>)],
        gates: usize,
    ) -> Result<Self> {
        let Recurrence { weight, bias, .. } = recurrence;
        let others = [("weight", Some(*weight)), ("bias", *bias)];
        projected.same_context(op, others.into_iter().chain(initial.iter().copied()))?;
        let &[rows, width] = weight.shape() else {
            return Err(weight.shape_error(op, "weight", format!("[{gates} H, H]")));
        };
        if rows != gates * width {
            return Err(weight.shape_error(op, "weight", format!("[{}, {width}]", gates * width)));
        }
        let (batch, time) = match *projected.shape() {
            [batch, time, columns] if columns == rows && time > 0 => (batch, time),
            _ => {
                let expected = format!("[B, T, {rows}] with T of at least 1");
                return Err(projected.shape_error(op, "the projected input", expected));
            }
        };
        if let Some(bias) = bias {
            bias.expect_shape(op, "bias", &[rows])?;
        }
        for (argument, state) in initial {
            if let Some(state) = state {
                state.expect_shape(op, argument, &[batch, width])?;
            }
        }
        Ok(Self {
            batch,
            time,
            width,
            gates,
            reverse: recurrence.reverse,
        })
    }

    /// The elements of \[B, H\].
    fn units(&self) -> usize {
        self.batch * self.width
    }

    /// The steps in the order in which they are computed.
    fn steps(self) -> impl DoubleEndedIterator<Item = Step> {
        let place = move |n: usize| if self.reverse { self.time - 1 - n } else { n };
        (0..self.time).map(move |n| Step {
            batch: self.batch,
            time: self.time,
            width: self.width,
            position: place(n),
            previous: n.checked_sub(1).map(place),
        })
    }

    /// A state \[B, H\] that steps replace: a copy of the first, or zeros.
    fn state(&self, ctx: &Context, first: Option<&Buffer>) -> Result<Buffer> {
        let state = ctx.alloc(self.units())?;
        match first {
            Some(first) => ctx.copy(first, &state)?,
            None => ctx.fill(&state, 0)?,
        }
        Ok(state)
    }

    /// Memory for what all positions keep, `rows` times H each. The steps write every element.
    fn kept(&self, ctx: &Context, rows: usize) -> Result<Buffer> {
        Ok(ctx.alloc(rows * self.time * self.units())?)
    }

    /// The hidden state before each position, \[B, T, H\]: the one after the position before it.
    fn hidden_before(&self, ctx: &Context, out: &Buffer, first: &Buffer) -> Result<Buffer> {
        let &Self {
            batch, time, width, ..
        } = self;
        let all = Layout::contiguous(&[batch, time, width])?;
        let before = self.kept(ctx, 1)?;
        let part = |start: usize, end: usize| -> Result<Layout> {
            let part = all.slice(1, (start, end, 1));
            part.map_err(|reason| {
                AutogradError::Kernel(hlx_kernels::KernelError::Argument {
                    operation: "recurrence",
                    reason,
                })
            })
        };
        let (from, to, begin) = match self.reverse {
            false => (part(0, time - 1)?, part(1, time)?, part(0, 1)?),
            true => (part(1, time)?, part(0, time - 1)?, part(time - 1, time)?),
        };
        let of = |buffer, layout| Operand { buffer, layout };
        assign_strided(ctx, of(out, &from), of(&before, &to))?;
        let one = Layout::contiguous(&[batch, 1, width])?;
        assign_strided(ctx, of(first, &one), of(&before, &begin))?;
        Ok(before)
    }
}

/// The product of a step: `s = h W^T + bias` of all samples.
struct HiddenProduct {
    /// W^T, so that no step turns it.
    turned: Buffer,
    bias: Option<Buffer>,
    shape: MatMul,
    sums: Buffer,
}

impl HiddenProduct {
    fn new(ctx: &Context, recurrence: &Recurrence<'_>, sequence: &Sequence) -> Result<Self> {
        let (rows, width) = (sequence.gates * sequence.width, sequence.width);
        let turned = ctx.alloc(rows * width)?;
        transpose(ctx, &recurrence.weight.buffer()?, rows, width, &turned)?;
        Ok(Self {
            turned,
            bias: recurrence.bias.map(Tensor::buffer).transpose()?,
            shape: MatMul::new(sequence.batch, rows, width),
            sums: ctx.alloc(sequence.batch * rows)?,
        })
    }

    fn compute(&self, ctx: &Context, hidden: &Buffer) -> Result<&Buffer> {
        let (turned, bias) = (&self.turned, self.bias.as_ref());
        matmul(ctx, hidden, turned, bias, &self.sums, &self.shape)?;
        Ok(&self.sums)
    }
}

impl SavedRecurrence {
    fn new(projected: &Tensor, recurrence: &Recurrence<'_>, sequence: Sequence) -> Result<Self> {
        Ok(Self {
            weight: recurrence.weight.input(),
            bias: recurrence.bias.map(Tensor::input),
            values: recurrence.weight.keep(&recurrence.weight.buffer()?),
            sequence,
            batch: projected.batch(),
        })
    }

    /// Computes `dh = ds W`, or adds it to what `dh` holds.
    fn to_hidden(
        &self,
        ctx: &Context,
        weight: &Buffer,
        (ds, dh): (&Buffer, &Buffer),
        accumulate: bool,
    ) -> Result<()> {
        let sequence = &self.sequence;
        let rows = sequence.gates * sequence.width;
        let product = MatMul {
            accumulate,
            ..MatMul::new(sequence.batch, sequence.width, rows)
        };
        Ok(matmul(ctx, ds, weight, None, dh, &product)?)
    }

    /// Adds up the gradients of the weight and the bias from those of `s` at all positions.
    fn parameters(
        &self,
        pass: &mut Backward<'_>,
        ds: &Buffer,
        out: &Buffer,
        first: &Buffer,
    ) -> Result<()> {
        let sequence = &self.sequence;
        let columns = sequence.gates * sequence.width;
        let rows = sequence.batch * sequence.time;
        if let Some(bias) = self.bias.as_ref().filter(|bias| bias.requires_grad()) {
            pass.parameter(bias, self.batch, |ctx, target, shards| {
                let (out, rows) = (&target.buffer, rows / shards);
                column_sum(ctx, ds, out, shards, rows, columns, target.accumulate)
            })?;
        }
        if self.weight.requires_grad() {
            let before = sequence.hidden_before(pass.context(), out, first)?;
            let (left, right) = ((ds, columns), (&before, sequence.width));
            weight_gradient(pass, &self.weight, left, right, rows, self.batch)?;
        }
        Ok(())
    }
}

impl Tensor {
    /// Computes an LSTM's hidden states and cells of all positions, each \[B, T, H\], from the inputs
    /// times their weights, \[B, T, 4 H\]: the recurrent part of a layer of `torch.nn.LSTM`.
    ///
    /// `initial` are the hidden state and the cells before the first position, \[B, H\]; zeros if left
    /// out. The gradient of the weight is one chain over samples and positions in order. There is no
    /// second derivative.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape), also for no position.
    pub fn lstm_scan(
        &self,
        recurrence: Recurrence<'_>,
        initial: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, Tensor)> {
        let (first_hidden, first_cell) = initial.unzip();
        let states = [
            ("the hidden state", first_hidden),
            ("the cells", first_cell),
        ];
        let sequence = Sequence::new("lstm_scan", self, &recurrence, &states, 4)?;
        let ctx = self.context();
        let firsts = [first_hidden, first_cell].map(|state| state.map(Tensor::buffer).transpose());
        let [first_hidden_values, first_cell_values] = firsts;
        let hidden = sequence.state(ctx, first_hidden_values?.as_ref())?;
        let cell = sequence.state(ctx, first_cell_values?.as_ref())?;
        let (begin_hidden, begin_cell) = (
            sequence.state(ctx, Some(&hidden))?,
            sequence.state(ctx, Some(&cell))?,
        );
        let (gates, out) = (sequence.kept(ctx, 4)?, sequence.kept(ctx, 2)?);
        let product = HiddenProduct::new(ctx, &recurrence, &sequence)?;
        let x = &self.buffer()?;
        for step in sequence.steps() {
            let forward = LstmForward {
                x,
                from_hidden: product.compute(ctx, &hidden)?,
                cell: &cell,
                hidden: &hidden,
                gates: &gates,
                out: &out,
            };
            lstm_forward(ctx, step, &forward)?;
        }
        let saved = SavedRecurrence::new(self, &recurrence, sequence)?;
        let places = [Some(self), first_hidden, first_cell].map(|x| x.map(Tensor::input));
        let inputs: Vec<&Tensor> = [self, recurrence.weight]
            .into_iter()
            .chain(recurrence.bias)
            .chain(first_hidden)
            .chain(first_cell)
            .collect();
        let shape = [2, sequence.batch, sequence.time, sequence.width];
        let states = Saved::kept(out.clone(), format!("{shape:?} of lstm_scan"));
        let both = Tensor::from_operation("lstm_scan", &inputs, out, &shape, move |pass, dout| {
            let begin = [&begin_hidden, &begin_cell];
            lstm_gradients(
                pass,
                &saved,
                [&gates, &states.values()?, &dout.buffer()?],
                begin,
                &places,
            )
        })?;
        let along = |axis: usize| (axis == 0).then_some(1);
        let both = both.with_samples_of(self.samples().moved(along));
        Ok((both.select(0, 0)?, both.select(0, 1)?))
    }

    /// Computes a GRU's hidden states of all positions, \[B, T, H\], from the inputs times their
    /// weights, \[B, T, 3 H\]: the recurrent part of a layer of `torch.nn.GRU`.
    ///
    /// `initial` is the hidden state before the first position, \[B, H\]; zeros if left out. Sums and
    /// derivatives as in [`Tensor::lstm_scan`].
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape), also for no position.
    pub fn gru_scan(&self, recurrence: Recurrence<'_>, initial: Option<&Tensor>) -> Result<Tensor> {
        let states = [("the hidden state", initial)];
        let sequence = Sequence::new("gru_scan", self, &recurrence, &states, 3)?;
        let ctx = self.context();
        let first = initial.map(Tensor::buffer).transpose()?;
        let hidden = sequence.state(ctx, first.as_ref())?;
        let begin = sequence.state(ctx, Some(&hidden))?;
        let (gates, out) = (sequence.kept(ctx, 4)?, sequence.kept(ctx, 1)?);
        let product = HiddenProduct::new(ctx, &recurrence, &sequence)?;
        let x = &self.buffer()?;
        for step in sequence.steps() {
            let forward = GruForward {
                x,
                from_hidden: product.compute(ctx, &hidden)?,
                hidden: &hidden,
                gates: &gates,
                out: &out,
            };
            gru_forward(ctx, step, &forward)?;
        }
        let saved = SavedRecurrence::new(self, &recurrence, sequence)?;
        let places = [Some(self), initial].map(|x| x.map(Tensor::input));
        let inputs: Vec<&Tensor> = [self, recurrence.weight]
            .into_iter()
            .chain(recurrence.bias)
            .chain(initial)
            .collect();
        let shape = [sequence.batch, sequence.time, sequence.width];
        let states = Saved::kept(out.clone(), format!("{shape:?} of gru_scan"));
        let y = Tensor::from_operation("gru_scan", &inputs, out, &shape, move |pass, dout| {
            gru_gradients(
                pass,
                &saved,
                [&gates, &states.values()?, &dout.buffer()?],
                &begin,
                &places,
            )
        })?;
        let along = |axis: usize| (axis == 0).then_some(0);
        Ok(y.with_samples_of(self.samples().moved(along)))
    }
}

/// Hands the gradients of the input, the weight, the bias and the first states to the pass.
fn lstm_gradients(
    pass: &mut Backward<'_>,
    saved: &SavedRecurrence,
    [gates, out, dout]: [&Buffer; 3],
    [first_hidden, first_cell]: [&Buffer; 2],
    places: &[Option<Input>; 3],
) -> Result<()> {
    let sequence = saved.sequence;
    let ctx = pass.context();
    let weight = saved.values.values()?;
    let (dhidden, dcell) = (sequence.state(ctx, None)?, sequence.state(ctx, None)?);
    let (dstep, dgates) = (ctx.alloc(4 * sequence.units())?, sequence.kept(ctx, 4)?);
    for step in sequence.steps().rev() {
        let backward = LstmBackward {
            gates,
            out,
            first_cell,
            dout,
            dhidden: &dhidden,
            dcell: &dcell,
            dstep: &dstep,
            dgates: &dgates,
        };
        lstm_backward(ctx, step, &backward)?;
        saved.to_hidden(ctx, &weight, (&dstep, &dhidden), false)?;
    }
    let hidden_words = sequence.time * sequence.units();
    let hidden = out.slice(0, hidden_words)?;
    saved.parameters(pass, &dgates, &hidden, first_hidden)?;
    for (place, gradient) in places.iter().zip([dgates, dhidden, dcell]) {
        if let Some(place) = place {
            pass.add(place, Gradient::owned(gradient))?;
        }
    }
    Ok(())
}

/// As [`lstm_gradients`].
fn gru_gradients(
    pass: &mut Backward<'_>,
    saved: &SavedRecurrence,
    [gates, out, dout]: [&Buffer; 3],
    first_hidden: &Buffer,
    places: &[Option<Input>; 2],
) -> Result<()> {
    let sequence = saved.sequence;
    let ctx = pass.context();
    let weight = saved.values.values()?;
    let dhidden = sequence.state(ctx, None)?;
    let dstep = ctx.alloc(3 * sequence.units())?;
    let (dx, dsums) = (sequence.kept(ctx, 3)?, sequence.kept(ctx, 3)?);
    for step in sequence.steps().rev() {
        let backward = GruBackward {
            gates,
            out,
            first_hidden,
            dout,
            dhidden: &dhidden,
            dstep: &dstep,
            dx: &dx,
            dfrom_hidden: &dsums,
        };
        gru_backward(ctx, step, &backward)?;
        saved.to_hidden(ctx, &weight, (&dstep, &dhidden), true)?;
    }
    saved.parameters(pass, &dsums, out, first_hidden)?;
    for (place, gradient) in places.iter().zip([dx, dhidden]) {
        if let Some(place) = place {
            pass.add(place, Gradient::owned(gradient))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackwardPlan;
    use crate::ops::test_support::{check, input, message};

    const B: usize = 2;
    const T: usize = 3;
    const H: usize = 4;

    /// The projected input, weight, bias, hidden state and cells, for a number of gates.
    fn operands(gates: usize) -> [Tensor; 5] {
        [
            input(1, &[B, T, gates * H]),
            input(2, &[gates * H, H]),
            input(3, &[gates * H]),
            input(4, &[B, H]),
            input(5, &[B, H]),
        ]
    }

    fn recurrence<'a>(x: &'a [Tensor], reverse: bool) -> Recurrence<'a> {
        Recurrence {
            weight: &x[1],
            bias: Some(&x[2]),
            reverse,
        }
    }

    #[test]
    fn derivatives_of_an_lstm_agree_with_finite_differences() {
        for reverse in [false, true] {
            check("lstm_scan", &operands(4), |x| {
                let states = Some((&x[3], &x[4]));
                let (hidden, cells) = x[0].lstm_scan(recurrence(x, reverse), states)?;
                // Both results, with different weights.
                hidden.add(&cells.mul(&cells)?)
            });
            check("lstm_scan", &operands(4)[..3], |x| {
                Ok(x[0].lstm_scan(recurrence(x, reverse), None)?.0)
            });
        }
    }

    #[test]
    fn derivatives_of_a_gru_agree_with_finite_differences() {
        for reverse in [false, true] {
            check("gru_scan", &operands(3)[..4], |x| {
                x[0].gru_scan(recurrence(x, reverse), Some(&x[3]))
            });
            check("gru_scan", &operands(3)[..3], |x| {
                x[0].gru_scan(recurrence(x, reverse), None)
            });
        }
    }

    /// The gradient of the weights by shards, and of a batch in parts, with the bits of the whole.
    #[test]
    fn weights_are_summed_by_shards_however_the_batch_is_split() -> Result<()> {
        for gates in [3, 4] {
            let x = input(1, &[4, T, gates * H]);
            let gradients = |parts: usize| -> Result<[Vec<f32>; 2]> {
                let parameters = [input(2, &[gates * H, H]), input(3, &[gates * H])];
                let [weight, bias] = parameters.map(|parameter| parameter.with_gradient());
                let recurrence = Recurrence {
                    weight: &weight,
                    bias: Some(&bias),
                    reverse: false,
                };
                let each = 4 / parts;
                for part in 0..parts {
                    let x = x
                        .slice(0, part * each..(part + 1) * each, 1)?
                        .with_samples(0)?;
                    let hidden = match gates {
                        3 => x.gru_scan(recurrence, None)?,
                        _ => x.lstm_scan(recurrence, None)?.0,
                    };
                    let plan = BackwardPlan {
                        shards: 1,
                        accumulate: part > 0,
                        whole_batch: parts == 1,
                    };
                    hidden.square()?.sum()?.backward_with(&plan)?;
                }
                let of = |tensor: &Tensor| tensor.grad().expect("a gradient").to_vec();
                Ok([of(&weight)?, of(&bias)?])
            };
            let whole = gradients(1)?;
            assert_eq!(gradients(2)?, whole, "{gates} gates");
            assert_eq!(gradients(4)?, whole, "{gates} gates");
        }
        Ok(())
    }

    #[test]
    fn a_batch_without_samples_is_empty_and_shapes_that_do_not_fit_are_refused() -> Result<()> {
        let [x, weight, bias, hidden, cells] = operands(4);
        let empty = x.slice(0, 0..0, 1)?;
        let recurrence = Recurrence {
            weight: &weight,
            bias: Some(&bias),
            reverse: false,
        };
        let (y, _) = empty.lstm_scan(recurrence, None)?;
        assert_eq!(y.shape(), [0, T, H]);
        let of =
            |x: &Tensor, recurrence, states| x.lstm_scan(recurrence, states).map(|both| both.0);
        let none = x.slice(1, 0..0, 1)?;
        let expected = "lstm_scan: the projected input has shape [2, 0, 16], expected [B, T, 16] \
                        with T of at least 1";
        assert_eq!(message(of(&none, recurrence, None)), expected);
        let expected = "gru_scan: weight has shape [16, 4], expected [12, 4]";
        assert_eq!(message(x.gru_scan(recurrence, None)), expected);
        let wide = hidden.reshape(&[1, 8])?;
        let expected = "lstm_scan: the cells has shape [1, 8], expected [2, 4]";
        assert_eq!(message(of(&x, recurrence, Some((&cells, &wide)))), expected);
        Ok(())
    }
}
