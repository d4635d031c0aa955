//! The recurrent part of a layer of gated recurrent units.

use hlx_core::Buffer;
use hlx_kernels::recurrent::{GruBackward, GruForward, gru_backward, gru_forward};

use super::{Parameters, Recurrence, STEP, Sequence, StepProduct, sigmoid_slope, tanh_slope};
use crate::error::AutogradError;
use crate::{Backward, Gradient, Input, Result, Tensor};

/// What the backward pass needs of a scan.
struct Saved {
    parameters: Parameters,
    /// \[B, T, 4 H\]: r, z, n, and the part of `s` that r multiplies.
    gates: Buffer,
    /// The hidden state before the first position.
    begin: Buffer,
    /// The same as an operand, where it was given.
    first: Option<Tensor>,
    /// Of the inputs times their weights.
    input: Input,
}

impl Tensor {
    /// Computes a GRU's hidden states of all positions, \[B, T, H\], from the inputs times their
    /// weights, \[B, T, 3 H\]: the recurrent part of a layer of `torch.nn.GRU`.
    ///
    /// `initial` is the hidden state before the first position, \[B, H\]; zeros if left out. Sums and
    /// derivatives as in [`Tensor::lstm_scan`].
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape), also for no position;
    /// [`AutogradError::Argument`] for a projection, which only an LSTM has.
    pub fn gru_scan(&self, recurrence: Recurrence<'_>, initial: Option<&Tensor>) -> Result<Tensor> {
        const OP: &str = "gru_scan";
        if recurrence.projection.is_some() {
            let reason = "a GRU has no projection".to_owned();
            return Err(AutogradError::Argument { op: OP, reason });
        }
        let states = [("the hidden state", initial)];
        let sequence = Sequence::new(OP, self, &recurrence, &states, 3)?;
        let device = self.device();
        let first = initial.map(Tensor::buffer).transpose()?;
        let begin = sequence.state(device, first.as_ref(), sequence.hidden)?;
        let hidden = sequence.state(device, Some(&begin), sequence.hidden)?;
        let (gates, out) = (sequence.kept(device, 4)?, sequence.kept(device, 1)?);
        let product = StepProduct::new(device, recurrence.weight, recurrence.bias, sequence.batch)?;
        let sums = device.alloc_shape(&[3, sequence.units()])?;
        let x = &self.buffer()?;
        for step in sequence.steps() {
            product.compute(device, &hidden, &sums)?;
            let forward = GruForward {
                x,
                from_hidden: &sums,
                hidden: &hidden,
                gates: &gates,
                out: &out,
            };
            gru_forward(device, step, &forward)?;
        }
        let operands: Vec<&Tensor> = [self, recurrence.weight]
            .into_iter()
            .chain(recurrence.bias)
            .chain(initial)
            .collect();
        let saved = Saved {
            parameters: Parameters::new(self, &recurrence, sequence),
            gates,
            begin,
            first: initial.cloned(),
            input: self.input(),
        };
        let shape = [sequence.batch, sequence.time, sequence.width];
        let rule = move |pass: &mut Backward<'_>, dout: &Tensor, out: Option<&Tensor>| {
            let Some(out) = out else { return Ok(()) };
            match pass.is_recorded() {
                true => saved.recorded_gradients(pass, dout, out),
                false => saved.gradients(pass, dout, out),
            }
        };
        let y = Tensor::of_output_rule(OP, &operands, (out, &shape), rule)?;
        let along = |axis: usize| (axis == 0).then_some(0);
        Ok(y.with_samples_of(self.samples().moved(along)))
    }
}

impl Saved {
    /// Hands the gradients of the input, the parameters and the first state to the pass.
    fn gradients(&self, pass: &mut Backward<'_>, dout: &Tensor, out: &Tensor) -> Result<()> {
        let sequence = self.parameters.sequence;
        let device = pass.device().clone();
        let weight = self.parameters.weight.buffer()?;
        let (out, dout) = (out.buffer()?, dout.buffer()?);
        let dhidden = sequence.state(&device, None, sequence.hidden)?;
        let dstep = device.alloc_shape(&[3, sequence.units()])?;
        let (dx, dsums) = (sequence.kept(&device, 3)?, sequence.kept(&device, 3)?);
        for step in sequence.steps().rev() {
            let backward = GruBackward {
                gates: &self.gates,
                out: &out,
                first_hidden: &self.begin,
                dout: &dout,
                dhidden: &dhidden,
                dstep: &dstep,
                dx: &dx,
                dfrom_hidden: &dsums,
            };
            gru_backward(&device, step, &backward)?;
            self.parameters
                .to_hidden(&device, &weight, (&dstep, &dhidden), true)?;
        }
        self.parameters.gradients(pass, &dsums, &out, &self.begin)?;
        pass.add(&self.input, Gradient::owned(dx))?;
        match &self.first {
            Some(first) => pass.add(first.input(), Gradient::owned(dhidden)),
            None => Ok(()),
        }
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
        let before = sequence.before(out, self.first.as_ref())?;
        let [r, z, n, from_hidden] = self.gates_of(&before)?;
        let to_new = z.neg()?.add(1.0)?.mul(&tanh_slope(&n)?)?;
        let to_update = before.sub(&n)?.mul(&sigmoid_slope(&z)?)?;
        let to_reset = from_hidden.mul(&sigmoid_slope(&r)?)?;
        let mut later: Option<Tensor> = None;
        let (mut all_x, mut all_sums) = (Vec::new(), Vec::new());
        for position in sequence.positions_back() {
            let at = |x: &Tensor| x.select(1, position);
            let mut dhidden = at(dout)?;
            if let Some(later) = &later {
                dhidden = dhidden.add(later)?;
            }
            let dn = dhidden.mul(&at(&to_new)?)?;
            let dz = dhidden.mul(&at(&to_update)?)?;
            let dr = dn.mul(&at(&to_reset)?)?;
            let ds = Tensor::cat(&[&dr, &dz, &dn.mul(&at(&r)?)?], 1)?;
            let through_product = ds.matmul_of(&parameters.weight, STEP)?;
            later = Some(dhidden.mul(&at(&z)?)?.add(&through_product)?);
            all_x.push(Tensor::cat(&[&dr, &dz, &dn], 1)?);
            all_sums.push(ds);
        }
        let ds = sequence.stacked(all_sums)?;
        parameters.recorded_gradients(pass, &ds, &before)?;
        pass.add_tensor(&self.input, &sequence.stacked(all_x)?)?;
        match self.first.as_ref().zip(later.as_ref()) {
            Some((first, gradient)) => pass.add_tensor(first.input(), gradient),
            None => Ok(()),
        }
    }

    /// The gates r, z, n of all positions and what r multiplies, on the tape.
    fn gates_of(&self, before: &Tensor) -> Result<[Tensor; 4]> {
        let values = (&self.gates, &self.input);
        let rule = |[dr, dz, dn, dfrom]: [Tensor; 4], [r, z, n, from_hidden]: [Tensor; 4]| {
            let dn = dn.mul(&tanh_slope(&n)?)?;
            let dr = dr.add(&dn.mul(&from_hidden)?)?.mul(&sigmoid_slope(&r)?)?;
            let dz = dz.mul(&sigmoid_slope(&z)?)?;
            let dfrom = dfrom.add(&dn.mul(&r)?)?;
            Ok([
                Tensor::cat(&[&dr, &dz, &dn], 2)?,
                Tensor::cat(&[&dr, &dz, &dfrom], 2)?,
            ])
        };
        self.parameters.gates("gru_gates", values, before, rule)
    }
}
