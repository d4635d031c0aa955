//! Recurrent layers over sequences whose inputs have been multiplied by their weights: LSTM and GRU.
//!
//! A step is a product and one kernel, forward and backward. In a pass that is recorded the gates become
//! an operation over all positions, whose values are those that the kernels left, and the derivative is
//! made of operations on them. Steps have few rows and wait for each other, so that their products are chains in f32 in every
//! arithmetic.

mod gru;
mod lstm;
mod scan;
#[cfg(test)]
mod tests;

use hlx_core::{Buffer, Device};
use hlx_kernels::elementwise::assign_strided;
use hlx_kernels::product::{Incoming, Role, step_product};
use hlx_kernels::recurrent::{Cell, TimeStep};
use hlx_kernels::reduce::column_sum;
use hlx_kernels::transpose::transpose;
use hlx_kernels::{KernelError, Layout, Operand};

use super::matmul::STEP;
use super::weight_gradient::WeightGradient;
use crate::error::AutogradError;
use crate::{Backward, Batch, DType, Input, Result, Tensor};

/// The recurrent weight of a layer, its bias, its projection, and the direction.
#[derive(Clone, Copy, Debug)]
pub struct Recurrence<'a> {
    /// \[4 H, H\] of an LSTM, whose gates are i, f, g, o; \[3 H, H\] of a GRU: r, z, n. With a projection
    /// \[4 H, P\].
    pub weight: &'a Tensor,
    /// \[4 H\] or \[3 H\].
    pub bias: Option<&'a Tensor>,
    /// For an LSTM: \[P, H\], with P below H: a hidden state is the product of its units with it.
    pub projection: Option<&'a Tensor>,
    /// The last position comes first.
    pub reverse: bool,
}

/// The sizes of a sequence, and the order of its positions.
#[derive(Clone, Copy)]
struct Sequence {
    cell: Cell,
    batch: usize,
    time: usize,
    /// H, the units.
    width: usize,
    /// The width of a hidden state: P with a projection, else H.
    hidden: usize,
    reverse: bool,
}

/// The parameters of a recurrence, as a backward pass reads them.
#[derive(Clone)]
struct Parameters {
    weight: Tensor,
    bias: Option<Tensor>,
    projection: Option<Tensor>,
    sequence: Sequence,
    batch: Batch,
}

impl Sequence {
    /// Checks the operands of `op`.
    fn new(
        op: &'static str,
        cell: Cell,
        projected: &Tensor,
        recurrence: &Recurrence<'_>,
        initial: &[(&'static str, Option<&Tensor>)],
    ) -> Result<Self> {
        let gates = cell.gates();
        let Recurrence {
            weight,
            bias,
            projection,
            reverse,
        } = *recurrence;
        let others = [
            ("weight", Some(weight)),
            ("bias", bias),
            ("projection", projection),
        ];
        projected.same_device(op, others.into_iter().chain(initial.iter().copied()))?;
        let input = ("the projected input", Some(projected));
        for (argument, values) in others.into_iter().chain([input]) {
            if let Some(values) = values {
                values.expect_type(op, argument, DType::F32)?;
            }
        }
        let &[rows, hidden] = weight.shape() else {
            return Err(weight.shape_error(op, "weight", format!("[{gates} H, H]")));
        };
        let width = match projection {
            None => hidden,
            Some(projection) => match *projection.shape() {
                [outer, width] if outer == hidden && hidden < width => width,
                _ => {
                    let expected = format!("[{hidden}, H] with H above {hidden}");
                    return Err(projection.shape_error(op, "projection", expected));
                }
            },
        };
        if rows != gates * width {
            let expected = format!("[{}, {hidden}]", gates * width);
            return Err(weight.shape_error(op, "weight", expected));
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
                let extent = if *argument == CELLS { width } else { hidden };
                state.expect_shape(op, argument, &[batch, extent])?;
            }
        }
        Ok(Self {
            cell,
            batch,
            time,
            width,
            hidden,
            reverse,
        })
    }

    fn gates(&self) -> usize {
        self.cell.gates()
    }

    /// The elements of \[B, H\].
    fn units(&self) -> usize {
        self.batch * self.width
    }

    /// The steps in the order in which they are computed.
    fn steps(self) -> impl DoubleEndedIterator<Item = TimeStep> {
        let place = move |n: usize| if self.reverse { self.time - 1 - n } else { n };
        (0..self.time).map(move |n| TimeStep {
            cell: self.cell,
            batch: self.batch,
            time: self.time,
            width: self.width,
            position: place(n),
            previous: n.checked_sub(1).map(place),
        })
    }

    /// A state \[B, extent\] that steps replace: a copy of the first, or zeros.
    fn state(&self, device: &Device, first: Option<&Buffer>, extent: usize) -> Result<Buffer> {
        let state = device.alloc_shape(&[self.batch, extent])?;
        match first {
            Some(first) => device.copy(first, &state)?,
            None => device.fill(&state, 0)?,
        }
        Ok(state)
    }

    /// Memory for the results of all positions, `rows` times H each. The steps write every element.
    fn stored(&self, device: &Device, rows: usize) -> Result<Buffer> {
        Ok(device.alloc_shape(&[rows, self.time, self.units()])?)
    }

    /// The hidden state before each position, contiguous: the one after the position before it. Those of
    /// all positions lie in the first columns of `out`, \[B, T, H\].
    fn hidden_before(&self, device: &Device, out: &Buffer, first: &Buffer) -> Result<Buffer> {
        let &Self {
            batch,
            time,
            hidden,
            ..
        } = self;
        let stored = self.columns(hidden)?;
        let all = Layout::contiguous(&[batch, time, hidden])?;
        let before = device.alloc_shape(&[batch, time, hidden])?;
        let ([start, end], [to, to_end], begin) = match self.reverse {
            false => ([0, time - 1], [1, time], 0),
            true => ([1, time], [0, time - 1], time - 1),
        };
        let from = part(&stored, 1, start, end)?;
        let to = part(&all, 1, to, to_end)?;
        let begin = part(&all, 1, begin, begin + 1)?;
        let of = |buffer, layout| Operand { buffer, layout };
        assign_strided(device, of(out, &from), of(&before, &to))?;
        let one = Layout::contiguous(&[batch, 1, hidden])?;
        assign_strided(device, of(first, &one), of(&before, &begin))?;
        Ok(before)
    }

    /// The first columns of all positions of \[B, T, H\].
    fn columns(&self, n: usize) -> Result<Layout> {
        let all = Layout::contiguous(&[self.batch, self.time, self.width])?;
        part(&all, 2, 0, n)
    }

    /// The second half of \[2, B, T, H\].
    fn cells(&self) -> Result<Layout> {
        let both = Layout::contiguous(&[2, self.batch, self.time, self.width])?;
        part(&both, 0, 1, 2)
    }

    /// As [`Sequence::hidden_before`] by operations, for any state: those after all positions,
    /// \[B, T, ..\], and the first one, zeros if left out.
    fn before(&self, states: &Tensor, first: Option<&Tensor>) -> Result<Tensor> {
        let extent = states.shape()[2];
        let first = match first {
            Some(first) => first.unsqueeze(1)?,
            None => {
                let shape = [self.batch, 1, extent];
                Tensor::zeros(states.device(), &shape, states.dtype())?
            }
        };
        match self.reverse {
            false => Tensor::cat(&[&first, &states.narrow(1, 0, self.time - 1)?], 1),
            true => Tensor::cat(&[&states.narrow(1, 1, self.time - 1)?, &first], 1),
        }
    }

    /// The positions in the order in which a backward pass visits them.
    fn positions_back(&self) -> impl Iterator<Item = usize> + use<> {
        self.steps().rev().map(|step| step.position)
    }

    /// Puts what a backward pass has computed at each position, last visited last, in the positions'
    /// order: \[B, T, ..\].
    fn stacked(&self, mut visited: Vec<Tensor>) -> Result<Tensor> {
        if !self.reverse {
            visited.reverse();
        }
        Tensor::stack(&visited.iter().collect::<Vec<_>>(), 1)
    }
}

/// The argument whose states have H columns, with a projection too.
const CELLS: &str = "the cells";

/// A range along a dimension of a layout.
fn part(layout: &Layout, axis: usize, start: usize, end: usize) -> Result<Layout> {
    let part = layout.slice(axis, (start, end, 1));
    part.map_err(|reason| {
        AutogradError::Kernel(KernelError::Argument {
            operation: "recurrence",
            reason,
        })
    })
}

/// A product of each step: `y = x W^T + bias` of all samples.
struct StepProduct {
    /// W^T, so that no step transposes it.
    transposed: Buffer,
    bias: Option<Buffer>,
    /// Samples, rows and columns of W.
    shape: [usize; 3],
}

impl StepProduct {
    fn new(device: &Device, weight: &Tensor, bias: Option<&Tensor>, batch: usize) -> Result<Self> {
        let (rows, columns) = (weight.shape()[0], weight.shape()[1]);
        let transposed = device.alloc_shape(&[rows, columns])?;
        transpose(device, &weight.buffer()?, rows, columns, &transposed)?;
        Ok(Self {
            transposed,
            bias: bias.map(Tensor::buffer).transpose()?,
            shape: [batch, rows, columns],
        })
    }

    fn compute(&self, device: &Device, x: &Buffer, y: &Buffer) -> Result<()> {
        let (transposed, bias) = (&self.transposed, self.bias.as_ref());
        Ok(step_product(
            device,
            [x, transposed],
            bias,
            y,
            self.shape,
            false,
        )?)
    }
}

impl Parameters {
    fn new(projected: &Tensor, recurrence: &Recurrence<'_>, sequence: Sequence) -> Self {
        Self {
            weight: recurrence.weight.clone(),
            bias: recurrence.bias.cloned(),
            projection: recurrence.projection.cloned(),
            sequence,
            batch: projected.batch(),
        }
    }

    /// The weight and the bias.
    fn affine(&self) -> impl Iterator<Item = &Tensor> {
        [&self.weight].into_iter().chain(&self.bias)
    }

    /// Computes `dh = ds W`, or adds it to what `dh` holds.
    fn to_hidden(
        &self,
        device: &Device,
        weight: &Buffer,
        ds: &Buffer,
        dh: &Buffer,
        accumulate: bool,
    ) -> Result<()> {
        let sequence = &self.sequence;
        let rows = sequence.gates() * sequence.width;
        let shape = [sequence.batch, sequence.hidden, rows];
        Ok(step_product(
            device,
            [ds, weight],
            None,
            dh,
            shape,
            accumulate,
        )?)
    }

    /// Adds up the gradients of the weight and the bias from those of `s` at all positions.
    fn gradients(
        &self,
        pass: &mut Backward<'_>,
        ds: &Buffer,
        out: &Buffer,
        first: &Buffer,
    ) -> Result<()> {
        let sequence = &self.sequence;
        let columns = sequence.gates() * sequence.width;
        let rows = sequence.batch * sequence.time;
        if let Some(bias) = self.bias.as_ref().filter(|bias| bias.requires_grad()) {
            pass.parameter(&bias.input(), self.batch, |device, target, shards| {
                let (out, rows) = (&target.buffer, rows / shards);
                column_sum(device, ds, out, shards, rows, columns, target.accumulate)
            })?;
        }
        if self.weight.requires_grad() {
            let before = sequence.hidden_before(pass.device(), out, first)?;
            let gradient = WeightGradient {
                dy: &Incoming::new(Role::TimeStep, ds, false),
                x: (&before).into(),
                widths: [columns, sequence.hidden],
                rows,
                transposed: false,
            };
            gradient.add_to(pass, &self.weight.input(), self.batch)?;
        }
        Ok(())
    }

    /// As [`Parameters::gradients`] by operations, from `ds`, \[B, T, gates H\], and the hidden states
    /// before each position, \[B, T, ..\].
    fn recorded_gradients(
        &self,
        pass: &mut Backward<'_>,
        ds: &Tensor,
        before: &Tensor,
    ) -> Result<()> {
        if let Some(bias) = &self.bias {
            pass.add_tensor(bias.input(), &ds.sum_dim(&[0, 1], false)?)?;
        }
        pass.add_tensor(self.weight.input(), &outer_sum(ds, before)?)
    }

    /// The gates of all positions, each \[B, T, H\], as an operation on the inputs times their weights and
    /// the hidden states before. Its values are those of the forward pass; `rule` makes the gradients of
    /// the inputs and of `s` from those of the gates, which come first, and the gates.
    fn gates(
        &self,
        op: &'static str,
        values: &Buffer,
        input: &Input,
        before: &Tensor,
        rule: impl Fn([Tensor; 4], [Tensor; 4]) -> Result<[Tensor; 2]> + Send + Sync + 'static,
    ) -> Result<[Tensor; 4]> {
        let sequence = self.sequence;
        let rows = [sequence.batch, sequence.time];
        let shape = [rows[0], rows[1], 4 * sequence.width];
        // An operand of which the place alone is read.
        let x = Tensor::from_buffer(before.device(), values.clone(), &shape)?.at(input.clone());
        let operands: Vec<&Tensor> = [&x, before].into_iter().chain(self.affine()).collect();
        let (parameters, input, before) = (self.clone(), input.clone(), before.clone());
        let derivative = move |pass: &mut Backward<'_>, dy: &Tensor, y: Option<&Tensor>| {
            let Some(y) = y else { return Ok(()) };
            let [dx, ds] = rule(quarters(dy)?, quarters(y)?)?;
            parameters.recorded_gradients(pass, &ds, &before)?;
            pass.add_tensor(before.input(), &ds.matmul_of(&parameters.weight, STEP)?)?;
            pass.add_tensor(&input, &dx)
        };
        let output = (values.clone(), &shape[..]);
        quarters(&Tensor::of_output_rule(op, &operands, output, derivative)?)
    }
}

/// The four parts of the last dimension of \[B, T, 4 H\].
fn quarters(x: &Tensor) -> Result<[Tensor; 4]> {
    let width = x.shape()[2] / 4;
    let quarter = |at: usize| x.narrow(2, at * width, width);
    Ok([quarter(0)?, quarter(1)?, quarter(2)?, quarter(3)?])
}

/// leftᵀ right, summed over samples and positions: \[M, N\] of \[B, T, M\] and \[B, T, N\].
fn outer_sum(left: &Tensor, right: &Tensor) -> Result<Tensor> {
    let flat = |x: &Tensor| x.flatten(0, 1);
    flat(left)?.transpose(0, 1)?.matmul_of(&flat(right)?, STEP)
}

/// The derivative of the logistic function where it has this value.
fn sigmoid_slope(y: &Tensor) -> Result<Tensor> {
    y.mul(&y.neg()?.add(1.0)?)
}

/// The derivative of tanh where it has this value.
fn tanh_slope(y: &Tensor) -> Result<Tensor> {
    y.square()?.neg()?.add(1.0)
}
