//! The scan of a cell over a sequence, with or without a projection, and its backward pass by kernels.

use hlx_core::{Buffer, Device};
use hlx_kernels::elementwise::{add_assign, assign_strided};
use hlx_kernels::product::{Incoming, Role, step_product};
use hlx_kernels::recurrent::{Cell, CellBackward, CellForward, cell_backward, cell_forward};
use hlx_kernels::{Layout, Operand};

use super::{Parameters, Recurrence, Sequence, StepProduct, WeightGradient, part};
use crate::{Backward, Gradient, Input, Result, Tensor};

/// What the backward pass needs of a scan.
pub(super) struct Saved {
    pub parameters: Parameters,
    /// \[B, T, 4 H\]: the gates; of a GRU r, z, n, and the part of `s` that r multiplies.
    pub gates: Buffer,
    /// \[2, B, T, H\]: an LSTM's units `o tanh(c)`, and the cells; \[B, T, H\]: a GRU's hidden states. Without a projection the
    /// output itself.
    units: Buffer,
    /// The states before the first position.
    begin: Vec<Buffer>,
    /// The same as operands, where they were given.
    pub firsts: Vec<Option<Tensor>>,
    /// The place of the inputs times their weights.
    pub input: Input,
}

/// The derivatives of a scan by operations, from the gradient of its output and the output.
type Recorded = fn(&Saved, &mut Backward<'_>, &Tensor, &Tensor) -> Result<()>;

/// Computes the states of all positions from the inputs times their weights, \[B, T, W H\]: \[B, T, H\], or an LSTM's
/// \[2, B, T, H\]; `firsts` are those before the first position.
pub(super) fn scan(
    op: &'static str,
    cell: Cell,
    projected: &Tensor,
    recurrence: &Recurrence<'_>,
    firsts: &[(&'static str, Option<&Tensor>)],
    recorded: Recorded,
) -> Result<(Tensor, Sequence)> {
    let sequence = Sequence::new(op, cell, projected, recurrence, firsts)?;
    let device = projected.device();
    let begin = firsts.iter().zip([sequence.hidden, sequence.width]);
    let begin = begin.map(|((_, first), extent)| {
        let values = first.map(Tensor::buffer).transpose()?;
        sequence.state(device, values.as_ref(), extent)
    });
    let begin: Vec<Buffer> = begin.collect::<Result<_>>()?;
    let states = cell.states();
    let (gates, units) = (
        sequence.stored(device, 4)?,
        sequence.stored(device, states)?,
    );
    forward(projected, recurrence, &sequence, &begin, &gates, &units)?;
    let out = match &recurrence.projection {
        None => units.clone(),
        Some(projection) => project(device, projection, &sequence, &units)?,
    };
    let operands: Vec<&Tensor> = [projected, recurrence.weight]
        .into_iter()
        .chain(recurrence.bias)
        .chain(recurrence.projection)
        .chain(firsts.iter().filter_map(|(_, first)| *first))
        .collect();
    let saved = Saved {
        parameters: Parameters::new(projected, recurrence, sequence),
        gates,
        units,
        begin,
        firsts: firsts.iter().map(|(_, first)| first.cloned()).collect(),
        input: projected.input(),
    };
    let shape = [states, sequence.batch, sequence.time, sequence.width];
    let shape = &shape[usize::from(states == 1)..];
    let rule = move |pass: &mut Backward<'_>, dout: &Tensor, out: Option<&Tensor>| {
        let Some(out) = out else { return Ok(()) };
        match pass.is_recorded() {
            true => recorded(&saved, pass, dout, out),
            false => saved.gradients(pass, dout, out),
        }
    };
    let y = Tensor::of_output_rule(op, &operands, (out, shape), rule)?;
    let along = |axis: usize| (axis == 0).then_some(states - 1);
    Ok((
        y.with_samples_of(projected.samples().moved(along)),
        sequence,
    ))
}

/// Computes all steps: the gates, and units and cells.
fn forward(
    projected: &Tensor,
    recurrence: &Recurrence<'_>,
    sequence: &Sequence,
    begin: &[Buffer],
    gates: &Buffer,
    out: &Buffer,
) -> Result<()> {
    let (device, batch) = (projected.device(), sequence.batch);
    let hidden = sequence.state(device, Some(&begin[0]), sequence.hidden)?;
    let cells = begin.get(1);
    let cells = cells.map(|cells| sequence.state(device, Some(cells), sequence.width));
    let cells = cells.transpose()?;
    let product = StepProduct::new(device, recurrence.weight, recurrence.bias, batch)?;
    let projection = match recurrence.projection {
        None => None,
        Some(weight) => Some((
            StepProduct::new(device, weight, None, batch)?,
            device.alloc(sequence.units())?,
        )),
    };
    let sums = device.alloc_shape(&[sequence.gates(), sequence.units()])?;
    let x = &projected.buffer()?;
    for step in sequence.steps() {
        product.compute(device, &hidden, &sums)?;
        let forward = CellForward {
            x,
            from_hidden: &sums,
            cells: cells.as_ref(),
            hidden: projection.as_ref().map_or(&hidden, |(_, units)| units),
            gates,
            out,
        };
        cell_forward(device, step, &forward)?;
        if let Some((product, units)) = &projection {
            product.compute(device, units, &hidden)?;
        }
    }
    Ok(())
}

/// The output of a scan with a projection, \[2, B, T, H\]: the products of the units in the first P
/// columns, zeros behind them, and the cells.
fn project(
    device: &Device,
    projection: &Tensor,
    sequence: &Sequence,
    units: &Buffer,
) -> Result<Buffer> {
    let (batch, time, hidden) = (sequence.batch, sequence.time, sequence.hidden);
    let products = device.alloc_shape(&[batch, time, hidden])?;
    let all = StepProduct::new(device, projection, None, batch * time)?;
    let all_units = units.slice(0, time * sequence.units())?;
    all.compute(device, &all_units, &products)?;
    let out = sequence.stored(device, 2)?;
    device.fill(&out, 0)?;
    let cells = sequence.cells()?;
    let of = |buffer, layout| Operand { buffer, layout };
    assign_strided(device, of(units, &cells), of(&out, &cells))?;
    let dense = Layout::contiguous(&[batch, time, hidden])?;
    let columns = sequence.columns(hidden)?;
    assign_strided(device, of(&products, &dense), of(&out, &columns))?;
    Ok(out)
}

impl Saved {
    /// Hands the gradients of the input, the parameters and the first states to the pass.
    fn gradients(&self, pass: &mut Backward<'_>, dout: &Tensor, out: &Tensor) -> Result<()> {
        let sequence = self.parameters.sequence;
        let (device, width) = (pass.device().clone(), sequence.width);
        let is_gru = sequence.cell == Cell::Gru;
        let weight = self.parameters.weight.buffer()?;
        let projection = self.parameters.projection.as_ref();
        let projection = projection.map(|weight| Projection::new(&device, weight, &sequence, dout));
        let projection = projection.transpose()?;
        let dcells = (!is_gru).then(|| sequence.state(&device, None, width));
        let dcells = dcells.transpose()?;
        let dunits = sequence.state(&device, None, width)?;
        let dstep = device.alloc_shape(&[sequence.gates(), sequence.units()])?;
        let dx = sequence.stored(&device, sequence.gates())?;
        let dsums = is_gru.then(|| sequence.stored(&device, sequence.gates()));
        let dsums = dsums.transpose()?;
        let dout = match &projection {
            None => dout.buffer()?,
            Some(projection) => projection.dcells.clone(),
        };
        for step in sequence.steps().rev() {
            if let Some(projection) = &projection {
                projection.to_units(&device, &sequence, step.position, &dunits)?;
            }
            let backward = CellBackward {
                gates: &self.gates,
                out: &self.units,
                first: &self.begin[self.begin.len() - 1],
                dout: &dout,
                dhidden: &dunits,
                dcells: dcells.as_ref(),
                dstep: &dstep,
                dx: &dx,
                dfrom_hidden: dsums.as_ref(),
            };
            cell_backward(&device, step, &backward)?;
            let dhidden = projection.as_ref().map_or(&dunits, |one| &one.dhidden);
            // A GRU's kernel has left the part that goes through no product.
            self.parameters
                .to_hidden(&device, &weight, &dstep, dhidden, is_gru)?;
        }
        let (ds, out) = (dsums.as_ref().unwrap_or(&dx), out.buffer()?);
        self.parameters.gradients(pass, ds, &out, &self.begin[0])?;
        let dhidden = match projection {
            None => dunits,
            Some(projection) => {
                projection.gradient(pass, &self.parameters, &self.units)?;
                projection.dhidden
            }
        };
        pass.add(&self.input, Gradient::owned(dx))?;
        let gradients = [Some(dhidden), dcells].into_iter().flatten();
        for (first, gradient) in self.firsts.iter().zip(gradients) {
            if let Some(first) = first {
                pass.add(first.input(), Gradient::owned(gradient))?;
            }
        }
        Ok(())
    }
}

/// The gradient of the hidden states on its way back through a projection.
struct Projection {
    /// \[P, H\].
    weight: Buffer,
    /// \[B, T, P\]: of the output alone, and at the positions that have been visited of all.
    all: Buffer,
    /// \[B, P\]: of the hidden state, from the step after.
    dhidden: Buffer,
    /// \[2, B, T, H\]: the gradient of the cells, behind zeros for the units.
    dcells: Buffer,
}

impl Projection {
    fn new(device: &Device, weight: &Tensor, sequence: &Sequence, dout: &Tensor) -> Result<Self> {
        let (batch, time, hidden) = (sequence.batch, sequence.time, sequence.hidden);
        let values = dout.buffer()?;
        let of = |buffer, layout| Operand { buffer, layout };
        let all = device.alloc_shape(&[batch, time, hidden])?;
        let dense = Layout::contiguous(&[batch, time, hidden])?;
        let columns = sequence.columns(hidden)?;
        assign_strided(device, of(&values, &columns), of(&all, &dense))?;
        let dcells = sequence.stored(device, 2)?;
        device.fill(&dcells, 0)?;
        let cells = sequence.cells()?;
        assign_strided(device, of(&values, &cells), of(&dcells, &cells))?;
        Ok(Self {
            weight: weight.buffer()?,
            all,
            dhidden: sequence.state(device, None, hidden)?,
            dcells,
        })
    }

    /// Adds what has reached a position's hidden state, and computes the gradient of its units.
    fn to_units(
        &self,
        device: &Device,
        sequence: &Sequence,
        position: usize,
        dunits: &Buffer,
    ) -> Result<()> {
        let (batch, time, hidden) = (sequence.batch, sequence.time, sequence.hidden);
        let of = |buffer, layout| Operand { buffer, layout };
        let all = Layout::contiguous(&[batch, time, hidden])?;
        let here = part(&all, 1, position, position + 1)?;
        let one = Layout::contiguous(&[batch, 1, hidden])?;
        let of_output = device.alloc_shape(&[batch, hidden])?;
        assign_strided(device, of(&self.all, &here), of(&of_output, &one))?;
        add_assign(device, &self.dhidden, &of_output)?;
        assign_strided(device, of(&self.dhidden, &one), of(&self.all, &here))?;
        let (operands, shape) = (
            [&self.dhidden, &self.weight],
            [batch, sequence.width, hidden],
        );
        Ok(step_product(device, operands, None, dunits, shape, false)?)
    }

    /// Hands the gradient of the projection to the pass.
    fn gradient(
        &self,
        pass: &mut Backward<'_>,
        parameters: &Parameters,
        units: &Buffer,
    ) -> Result<()> {
        let sequence = parameters.sequence;
        let Some(weight) = parameters.projection.as_ref() else {
            return Ok(());
        };
        if !weight.requires_grad() {
            return Ok(());
        }
        let rows = sequence.batch * sequence.time;
        let units = units.slice(0, rows * sequence.width)?;
        let gradient = WeightGradient {
            dy: &Incoming::new(Role::TimeStep, &self.all, false),
            x: (&units).into(),
            widths: [sequence.hidden, sequence.width],
            rows,
            transposed: false,
        };
        gradient.add_to(pass, &weight.input(), parameters.batch)
    }
}
