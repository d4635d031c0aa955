//! The recurrent part of a layer of gated recurrent units.

use hlx_kernels::recurrent::Cell;

use super::scan::{Saved, scan};
use super::{Recurrence, STEP, sigmoid_slope, tanh_slope};
use crate::error::AutogradError;
use crate::{Backward, Result, Tensor};

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
        let firsts = [("the hidden state", initial)];
        let (out, _) = scan(
            OP,
            Cell::Gru,
            self,
            &recurrence,
            &firsts,
            recorded_gradients,
        )?;
        Ok(out)
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
    let before = sequence.before(out, saved.firsts[0].as_ref())?;
    let [r, z, n, from_hidden] = gates_of(saved, &before)?;
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
    pass.add_tensor(&saved.input, &sequence.stacked(all_x)?)?;
    match saved.firsts[0].as_ref().zip(later.as_ref()) {
        Some((first, gradient)) => pass.add_tensor(first.input(), gradient),
        None => Ok(()),
    }
}

/// The gates r, z, n of all positions and what r multiplies, on the tape.
fn gates_of(saved: &Saved, before: &Tensor) -> Result<[Tensor; 4]> {
    let (values, input) = (&saved.gates, &saved.input);
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
    saved
        .parameters
        .gates("gru_gates", values, input, before, rule)
}
