//! The recurrent parts of LSTM and GRU, over inputs that are multiplied by their weights.

use hlx_autograd::Recurrence;
use pyo3::prelude::*;

use super::{Handle, pair};
use crate::tensor::PyTensor;
use crate::wait::run;

/// Hidden states and cells [B, T, H] of an LSTM from its projected inputs [B, T, 4 H].
#[pyfunction]
#[pyo3(signature = (x, weight, bias = None, projection = None, reverse = false, states = None))]
pub fn lstm_scan(
    py: Python<'_>,
    x: Handle,
    weight: Handle,
    bias: Option<Handle>,
    projection: Option<Handle>,
    reverse: bool,
    states: Option<(Handle, Handle)>,
) -> PyResult<(PyTensor, PyTensor)> {
    let both = run(py, move || {
        let recurrence = Recurrence {
            weight: &weight,
            bias: bias.as_deref(),
            projection: projection.as_deref(),
            reverse,
        };
        let states = states.as_ref().map(|(hidden, cells)| (&hidden.0, &cells.0));
        x.lstm_scan(recurrence, states)
    })?;
    Ok(pair(both))
}

/// Hidden states [B, T, H] of a GRU from its projected inputs [B, T, 3 H].
#[pyfunction]
#[pyo3(signature = (x, weight, bias = None, reverse = false, state = None))]
pub fn gru_scan(
    py: Python<'_>,
    x: Handle,
    weight: Handle,
    bias: Option<Handle>,
    reverse: bool,
    state: Option<Handle>,
) -> PyResult<PyTensor> {
    let hidden = run(py, move || {
        let recurrence = Recurrence {
            weight: &weight,
            bias: bias.as_deref(),
            projection: None,
            reverse,
        };
        x.gru_scan(recurrence, state.as_deref())
    })?;
    Ok(hidden.into())
}
