//! The recurrent part of an LSTM, with or without a projection.

use hlx_core::{Buffer, Device};
use hlx_kernels::elementwise::{add_assign, assign_strided};
use hlx_kernels::product::{Incoming, Role, step_product};
use hlx_kernels::recurrent::{LstmBackward, LstmForward, lstm_backward, lstm_forward};
use hlx_kernels::{Layout, Operand};

use super::{
    CELLS, Parameters, Recurrence, STEP, Sequence, StepProduct, WeightGradient, outer_sum, part,
    sigmoid_slope, tanh_slope,
};
use crate::{Backward, Gradient, Input, Result, Tensor};

/// What the backward pass needs of a scan.
struct Saved {
    parameters: Parameters,
    /// \[B, T, 4 H\]: the gates.
    gates: Buffer,
    /// \[2, B, T, H\]: the units `o tanh(c)`, and the cells. Without a projection the output itself.
    units: Buffer,
    /// The hidden state and the cells before the first position.
    begin: [Buffer; 2],
    /// The same as operands, where they were given.
    firsts: [Option<Tensor>; 2],
    /// Of the inputs times their weights.
    input: Input,
}

impl Tensor {
    /// Computes an LSTM's hidden states and cells of all positions, each \[B, T, H\], from the inputs
    /// times their weights, \[B, T, 4 H\]: the recurrent part of a layer of `torch.nn.LSTM`. With a
    /// projection the hidden states are \[B, T, P\].
    ///
    /// `initial` are the hidden state, \[B, H\] or \[B, P\], and the cells, \[B, H\], before the first
    /// position; zeros if left out. The gradient of a weight is one chain over samples and positions in
    /// order. In a pass that is recorded the derivative is made of operations, some twenty a position.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape), also for no position.
    pub fn lstm_scan(
        &self,
        recurrence: Recurrence<'_>,
        initial: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, Tensor)> {
        const OP: &str = "lstm_scan";
        let (first_hidden, first_cell) = initial.unzip();
        let states = [("the hidden state", first_hidden), (CELLS, first_cell)];
        let sequence = Sequence::new(OP, self, &recurrence, &states, 4)?;
        let device = self.device();
        let extents = [sequence.hidden, sequence.width];
        let first = |at: usize| -> Result<Buffer> {
            let values = states[at].1.map(Tensor::buffer).transpose()?;
            sequence.state(device, values.as_ref(), extents[at])
        };
        let begin = [first(0)?, first(1)?];
        let (gates, units) = (sequence.kept(device, 4)?, sequence.kept(device, 2)?);
        forward(self, &recurrence, &sequence, (&begin, &gates, &units))?;
        let out = match &recurrence.projection {
            None => units.clone(),
            Some(projection) => project(device, projection, &sequence, &units)?,
        };
        let operands: Vec<&Tensor> = [self, recurrence.weight]
            .into_iter()
            .chain(recurrence.bias)
            .chain(recurrence.projection)
            .chain(first_hidden)
            .chain(first_cell)
            .collect();
        let saved = Saved {
            parameters: Parameters::new(self, &recurrence, sequence),
            gates,
            units,
            begin,
            firsts: [first_hidden.cloned(), first_cell.cloned()],
            input: self.input(),
        };
        let shape = [2, sequence.batch, sequence.time, sequence.width];
        let rule = move |pass: &mut Backward<'_>, dout: &Tensor, out: Option<&Tensor>| {
            let Some(out) = out else { return Ok(()) };
            match pass.is_recorded() {
                true => saved.recorded_gradients(pass, dout, out),
                false => saved.gradients(pass, dout, out),
            }
        };
        let both = Tensor::of_output_rule(OP, &operands, (out, &shape), rule)?;
        let along = |axis: usize| (axis == 0).then_some(1);
        let both = both.with_samples_of(self.samples().moved(along));
        let hidden = both.select(0, 0)?.narrow(2, 0, sequence.hidden)?;
        Ok((hidden, both.select(0, 1)?))
    }
}

/// Computes all steps: the gates, and units and cells.
fn forward(
    projected: &Tensor,
    recurrence: &Recurrence<'_>,
    sequence: &Sequence,
    (begin, gates, out): (&[Buffer; 2], &Buffer, &Buffer),
) -> Result<()> {
    let device = projected.device();
    let hidden = sequence.state(device, Some(&begin[0]), sequence.hidden)?;
    let cell = sequence.state(device, Some(&begin[1]), sequence.width)?;
    let batch = sequence.batch;
    let product = StepProduct::new(device, recurrence.weight, recurrence.bias, batch)?;
    let projection = match recurrence.projection {
        None => None,
        Some(weight) => Some((
            StepProduct::new(device, weight, None, batch)?,
            device.alloc(sequence.units())?,
        )),
    };
    let sums = device.alloc_shape(&[4, sequence.units()])?;
    let x = &projected.buffer()?;
    for step in sequence.steps() {
        product.compute(device, &hidden, &sums)?;
        let forward = LstmForward {
            x,
            from_hidden: &sums,
            cell: &cell,
            hidden: projection.as_ref().map_or(&hidden, |(_, units)| units),
            gates,
            out,
        };
        lstm_forward(device, step, &forward)?;
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
    let out = sequence.kept(device, 2)?;
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
        let device = pass.device().clone();
        let weight = self.parameters.weight.buffer()?;
        let projection = match &self.parameters.projection {
            None => None,
            Some(weight) => Some(Projection::new(&device, weight, &sequence, dout)?),
        };
        let dcell = sequence.state(&device, None, sequence.width)?;
        let dunits = sequence.state(&device, None, sequence.width)?;
        let dstep = device.alloc_shape(&[4, sequence.units()])?;
        let dgates = sequence.kept(&device, 4)?;
        let dout = match &projection {
            None => dout.buffer()?,
            Some(projection) => projection.dcells.clone(),
        };
        for step in sequence.steps().rev() {
            if let Some(projection) = &projection {
                projection.to_units(&device, &sequence, step.position, &dunits)?;
            }
            let backward = LstmBackward {
                gates: &self.gates,
                out: &self.units,
                first_cell: &self.begin[1],
                dout: &dout,
                dhidden: &dunits,
                dcell: &dcell,
                dstep: &dstep,
                dgates: &dgates,
            };
            lstm_backward(&device, step, &backward)?;
            let dhidden = projection.as_ref().map_or(&dunits, |one| &one.dhidden);
            self.parameters
                .to_hidden(&device, &weight, (&dstep, dhidden), false)?;
        }
        let out = out.buffer()?;
        self.parameters
            .gradients(pass, &dgates, &out, &self.begin[0])?;
        let dhidden = match projection {
            None => dunits,
            Some(projection) => {
                projection.gradient(pass, &self.parameters, &self.units)?;
                projection.dhidden
            }
        };
        pass.add(&self.input, Gradient::owned(dgates))?;
        for (first, gradient) in self.firsts.iter().zip([dhidden, dcell]) {
            if let Some(first) = first {
                pass.add(first.input(), Gradient::owned(gradient))?;
            }
        }
        Ok(())
    }

    /// As [`Saved::gradients`], by operations.
    fn recorded_gradients(
        &self,
        pass: &mut Backward<'_>,
        dout: &Tensor,
        out: &Tensor,
    ) -> Result<()> {
        let parameters = &self.parameters;
        let sequence = parameters.sequence;
        let (hidden, cells) = (
            out.select(0, 0)?.narrow(2, 0, sequence.hidden)?,
            out.select(0, 1)?,
        );
        let before = sequence.before(&hidden, self.firsts[0].as_ref())?;
        let cells_before = sequence.before(&cells, self.firsts[1].as_ref())?;
        let [i, f, g, o] = self.gates_of(&before)?;
        let squashed = cells.tanh()?;
        let to_cells = o.mul(&tanh_slope(&squashed)?)?;
        let slopes = [
            g.mul(&sigmoid_slope(&i)?)?,
            cells_before.mul(&sigmoid_slope(&f)?)?,
            i.mul(&tanh_slope(&g)?)?,
        ];
        let to_output = squashed.mul(&sigmoid_slope(&o)?)?;
        let dhidden = dout.select(0, 0)?.narrow(2, 0, sequence.hidden)?;
        let dcells = dout.select(0, 1)?;
        let mut later: Option<[Tensor; 2]> = None;
        let (mut all, mut all_hidden) = (Vec::new(), Vec::new());
        for position in sequence.positions_back() {
            let at = |x: &Tensor| x.select(1, position);
            let mut dhidden = at(&dhidden)?;
            if let Some([from_hidden, _]) = &later {
                dhidden = dhidden.add(from_hidden)?;
            }
            let dunits = match &parameters.projection {
                None => dhidden.clone(),
                Some(projection) => dhidden.matmul_of(projection, STEP)?,
            };
            let mut dcell = at(&dcells)?.add(&dunits.mul(&at(&to_cells)?)?)?;
            if let Some([_, from_cells]) = &later {
                dcell = dcell.add(from_cells)?;
            }
            let [di, df, dg] = [0, 1, 2].map(|gate: usize| dcell.mul(&at(&slopes[gate])?));
            let dgate_o = dunits.mul(&at(&to_output)?)?;
            let ds = Tensor::cat(&[&di?, &df?, &dg?, &dgate_o], 1)?;
            later = Some([
                ds.matmul_of(&parameters.weight, STEP)?,
                dcell.mul(&at(&f)?)?,
            ]);
            all.push(ds);
            all_hidden.push(dhidden);
        }
        let ds = sequence.stacked(all)?;
        parameters.recorded_gradients(pass, &ds, &before)?;
        if let Some(projection) = &parameters.projection {
            let dhidden = sequence.stacked(all_hidden)?;
            let units = o.mul(&squashed)?;
            pass.add_tensor(projection.input(), &outer_sum(&dhidden, &units)?)?;
        }
        pass.add_tensor(&self.input, &ds)?;
        for (first, gradient) in self.firsts.iter().zip(later.iter().flatten()) {
            if let Some(first) = first {
                pass.add_tensor(first.input(), gradient)?;
            }
        }
        Ok(())
    }

    /// The gates i, f, g, o of all positions on the tape.
    fn gates_of(&self, before: &Tensor) -> Result<[Tensor; 4]> {
        let values = (&self.gates, &self.input);
        let rule = |gradients: [Tensor; 4], [i, f, g, o]: [Tensor; 4]| {
            let slopes = [
                sigmoid_slope(&i)?,
                sigmoid_slope(&f)?,
                tanh_slope(&g)?,
                sigmoid_slope(&o)?,
            ];
            let ds = gradients.iter().zip(&slopes);
            let ds: Vec<Tensor> = ds.map(|(dy, slope)| dy.mul(slope)).collect::<Result<_>>()?;
            let ds = Tensor::cat(&ds.iter().collect::<Vec<_>>(), 2)?;
            Ok([ds.clone(), ds])
        };
        self.parameters.gates("lstm_gates", values, before, rule)
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
        let dcells = sequence.kept(device, 2)?;
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
            dy: &Incoming::new(Role::Step, &self.all, false),
            x: (&units).into(),
            widths: [sequence.hidden, sequence.width],
            rows,
            transposed: false,
        };
        gradient.add_to(pass, &weight.input(), parameters.batch)
    }
}
