//! The recurrent part of an LSTM, with or without a projection.

use hlx_kernels::recurrent::Cell;

use super::scan::{Saved, scan};
use super::{CELLS, Recurrence, STEP, outer_sum, sigmoid_slope, tanh_slope};
use crate::{Backward, Result, Tensor};

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
        let (first_hidden, first_cells) = initial.unzip();
        let firsts = [("the hidden state", first_hidden), (CELLS, first_cells)];
        let (both, sequence) = scan(
            "lstm_scan",
            Cell::Lstm,
            self,
            &recurrence,
            &firsts,
            recorded_gradients,
        )?;
        let hidden = both.select(0, 0)?.narrow(2, 0, sequence.hidden)?;
        Ok((hidden, both.select(0, 1)?))
    }
}

/// The derivatives of a scan by operations.
fn recorded_gradients(
    saved: &Saved,
    pass: &mut Backward<'_>,
    dout: &Tensor,
    out: &Tensor,
) -> Result<()> {
    let parameters = &saved.parameters;
    let sequence = parameters.sequence;
    let (hidden, cells) = (
        out.select(0, 0)?.narrow(2, 0, sequence.hidden)?,
        out.select(0, 1)?,
    );
    let before = sequence.before(&hidden, saved.firsts[0].as_ref())?;
    let cells_before = sequence.before(&cells, saved.firsts[1].as_ref())?;
    let [i, f, g, o] = gates_of(saved, &before)?;
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
    pass.add_tensor(&saved.input, &ds)?;
    for (first, gradient) in saved.firsts.iter().zip(later.iter().flatten()) {
        if let Some(first) = first {
            pass.add_tensor(first.input(), gradient)?;
        }
    }
    Ok(())
}

/// The gates i, f, g, o of all positions on the tape.
fn gates_of(saved: &Saved, before: &Tensor) -> Result<[Tensor; 4]> {
    let (values, input) = (&saved.gates, &saved.input);
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
    saved
        .parameters
        .gates("lstm_gates", values, input, before, rule)
}
