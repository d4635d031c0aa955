//! Steps of recurrent cells: LSTM (Hochreiter and Schmidhuber 1997) and GRU (Cho et al. 2014), with
//! PyTorch's gates and order of gates.
//!
//! `B` samples, `T` positions, `H` units. The inputs of all positions have been multiplied by their
//! weights in one product, `x`; before each step one product gives `s = h_before W^T + bias` of all
//! samples. A step is then one launch over `B H` elements, each on its own:
//!
//! | LSTM | |
//! |---|---|
//! | gates | `i = sigmoid(x_i + s_i)`; `f = sigmoid(x_f + s_f)`; `g = tanh(x_g + s_g)`; `o = sigmoid(x_o + s_o)` |
//! | state | `c = fma(f, c_before, i g)`; `h = o tanh(c)` |
//! | backward | `dh = dy + dh_after`; `dc = fma(dh o, 1 - tanh(c)^2, dy_c + dc_after)`; `d_i = (dc g) i (1 - i)`; `d_f = (dc c_before) f (1 - f)`; `d_g = (dc i) (1 - g^2)`; `d_o = (dh tanh(c)) o (1 - o)`; `dc_before = dc f` |
//!
//! | GRU | |
//! |---|---|
//! | gates | `r = sigmoid(x_r + s_r)`; `z = sigmoid(x_z + s_z)`; `n = tanh(fma(r, s_n, x_n))` |
//! | state | `h = fma(z, h_before - n, n)` |
//! | backward | `dh = dy + dh_after`; `d_n = (dh (1 - z)) (1 - n^2)`; `d_z = (dh (h_before - n)) z (1 - z)`; `d_r = (d_n s_n) r (1 - r)`; `dx = (d_r, d_z, d_n)`; `ds = (d_r, d_z, d_n r)`; `dh_before = dh z`, to which the product `ds W` is added as a chain that goes on from it |
//!
//! A step sums nothing. Products ([`step_product`](crate::product::step_product)) and gradients of weights are
//! [`matmul`](mod@crate::product::floats)'s chains.

mod cpu;

use hlx_core::{Binding, Buffer, Device, Launch, Shader, groups_1d, push_bytes};

use crate::error::{KernelError, check_len, check_sizes, check_that};

shader!(lstm_forward_shader, recurrent::lstm_forward);
shader!(lstm_backward_shader, recurrent::lstm_backward);
shader!(gru_forward_shader, recurrent::gru_forward);
shader!(gru_backward_shader, recurrent::gru_backward);

/// Where a step is in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// B
    pub batch: usize,
    /// T
    pub time: usize,
    /// H
    pub width: usize,
    /// The position that is computed.
    pub position: usize,
    /// The position computed before it; `None` of the first.
    pub previous: Option<usize>,
}

impl Step {
    /// Checks the sizes: behind this no number of elements wraps.
    fn check(&self, name: &'static str) -> Result<(), KernelError> {
        check_sizes(name, &[self.batch, self.time, self.width])
    }

    /// The elements of a `[B, H]` tensor.
    fn units(&self) -> usize {
        self.batch * self.width
    }

    /// The elements of a `[B, T, H]` tensor.
    fn all(&self) -> usize {
        self.time * self.units()
    }

    /// Launches a step over buffers that have the lengths given with them.
    fn launch(
        &self,
        device: &Device,
        name: &'static str,
        shader: &'static Shader,
        buffers: &[(&'static str, Binding<'_>, usize)],
        body: impl Fn(&mut hlx_core::CpuBindings<'_>) + Send + Sync + 'static,
    ) -> Result<(), KernelError> {
        let within = |position: usize| position < self.time;
        check_that(
            name,
            within(self.position) && self.previous.is_none_or(within),
            || {
                let (position, previous) = (self.position, self.previous);
                let time = self.time;
                format!("position is {position} after {previous:?}, expected below {time}")
            },
        )?;
        let most = device.max_binding_words();
        for (argument, binding, len) in buffers {
            check_len(name, argument, binding.buffer(), *len)?;
            check_that(name, *len <= most, || {
                format!("{argument} has {len} elements, expected at most {most} on this device")
            })?;
        }
        let bindings: Vec<Binding<'_>> = buffers.iter().map(|(_, binding, _)| *binding).collect();
        let push = lstm_forward_shader::Push {
            batch: self.batch as u32,
            time: self.time as u32,
            width: self.width as u32,
            position: self.position as u32,
            previous: self.previous.unwrap_or(self.time) as u32,
        };
        let launch = Launch {
            name,
            shader,
            specialization: &[],
            bindings: &bindings,
            push: push_bytes(&push),
            groups: groups_1d(self.units().div_ceil(256)),
        };
        Ok(device.launch(launch, body)?)
    }
}

/// The buffers of [`lstm_forward`].
#[derive(Clone, Copy, Debug)]
pub struct LstmForward<'a> {
    /// `[B, T, 4, H]`: the inputs times their weights, and their bias.
    pub x: &'a Buffer,
    /// `[B, 4, H]`: `s`.
    pub from_hidden: &'a Buffer,
    /// `[B, H]`: the cells before the step, replaced by those after it.
    pub cell: &'a Buffer,
    /// `[B, H]`: overwritten by the hidden state after the step.
    pub hidden: &'a Buffer,
    /// `[B, T, 4, H]`: the position's gates are written, for [`lstm_backward`].
    pub gates: &'a Buffer,
    /// `[2, B, T, H]`: the position's hidden state, then its cells, are written.
    pub out: &'a Buffer,
}

/// Computes a step of an LSTM: `torch.nn.LSTM`.
///
/// # Errors
/// A shape error if a length is not as above, a tensor larger than the device binds, or the device's
/// error; so for all functions here.
pub fn lstm_forward(
    device: &Device,
    step: Step,
    buffers: &LstmForward<'_>,
) -> Result<(), KernelError> {
    step.check("lstm_forward")?;
    let (units, all) = (step.units(), step.all());
    let buffers = [
        ("x", Binding::Read(buffers.x), 4 * all),
        ("from_hidden", Binding::Read(buffers.from_hidden), 4 * units),
        ("cell", Binding::ReadWrite(buffers.cell), units),
        ("hidden", Binding::Write(buffers.hidden), units),
        ("gates", Binding::ReadWrite(buffers.gates), 4 * all),
        ("out", Binding::ReadWrite(buffers.out), 2 * all),
    ];
    let shader = &lstm_forward_shader::SHADER;
    step.launch(device, "lstm_forward", shader, &buffers, move |bindings| {
        let (read, written) = bindings.split::<2, 4>();
        cpu::lstm_forward(step, read, written);
    })
}

/// The buffers of [`lstm_backward`].
#[derive(Clone, Copy, Debug)]
pub struct LstmBackward<'a> {
    /// `[B, T, 4, H]`, as [`lstm_forward`] left them.
    pub gates: &'a Buffer,
    /// `[2, B, T, H]`, likewise.
    pub out: &'a Buffer,
    /// `[B, H]`: the cells before the first step.
    pub first_cell: &'a Buffer,
    /// `[2, B, T, H]`: the gradient of `out`.
    pub dout: &'a Buffer,
    /// `[B, H]`: the gradient of the hidden state from the step after.
    pub dhidden: &'a Buffer,
    /// `[B, H]`: that of the cells, replaced by the one for the step before.
    pub dcell: &'a Buffer,
    /// `[B, 4, H]`: overwritten by the gradient of the step's `x + s`.
    pub dstep: &'a Buffer,
    /// `[B, T, 4, H]`: the same is written at the position.
    pub dgates: &'a Buffer,
}

/// Computes the gradients of a step of an LSTM.
pub fn lstm_backward(
    device: &Device,
    step: Step,
    buffers: &LstmBackward<'_>,
) -> Result<(), KernelError> {
    step.check("lstm_backward")?;
    let (units, all) = (step.units(), step.all());
    let buffers = [
        ("gates", Binding::Read(buffers.gates), 4 * all),
        ("out", Binding::Read(buffers.out), 2 * all),
        ("first_cell", Binding::Read(buffers.first_cell), units),
        ("dout", Binding::Read(buffers.dout), 2 * all),
        ("dhidden", Binding::Read(buffers.dhidden), units),
        ("dcell", Binding::ReadWrite(buffers.dcell), units),
        ("dstep", Binding::Write(buffers.dstep), 4 * units),
        ("dgates", Binding::ReadWrite(buffers.dgates), 4 * all),
    ];
    let shader = &lstm_backward_shader::SHADER;
    step.launch(device, "lstm_backward", shader, &buffers, move |bindings| {
        let (read, written) = bindings.split::<5, 3>();
        cpu::lstm_backward(step, read, written);
    })
}

/// The buffers of [`gru_forward`].
#[derive(Clone, Copy, Debug)]
pub struct GruForward<'a> {
    /// `[B, T, 3, H]`: the inputs times their weights, and their bias.
    pub x: &'a Buffer,
    /// `[B, 3, H]`: `s`.
    pub from_hidden: &'a Buffer,
    /// `[B, H]`: the hidden state before the step, replaced by the one after it.
    pub hidden: &'a Buffer,
    /// `[B, T, 4, H]`: the position's `r`, `z`, `n` and `s_n` are written, for [`gru_backward`].
    pub gates: &'a Buffer,
    /// `[B, T, H]`: the position's hidden state is written.
    pub out: &'a Buffer,
}

/// Computes a step of a GRU: `torch.nn.GRU`.
pub fn gru_forward(
    device: &Device,
    step: Step,
    buffers: &GruForward<'_>,
) -> Result<(), KernelError> {
    step.check("gru_forward")?;
    let (units, all) = (step.units(), step.all());
    let buffers = [
        ("x", Binding::Read(buffers.x), 3 * all),
        ("from_hidden", Binding::Read(buffers.from_hidden), 3 * units),
        ("hidden", Binding::ReadWrite(buffers.hidden), units),
        ("gates", Binding::ReadWrite(buffers.gates), 4 * all),
        ("out", Binding::ReadWrite(buffers.out), all),
    ];
    let shader = &gru_forward_shader::SHADER;
    step.launch(device, "gru_forward", shader, &buffers, move |bindings| {
        let (read, written) = bindings.split::<2, 3>();
        cpu::gru_forward(step, read, written);
    })
}

/// The buffers of [`gru_backward`].
#[derive(Clone, Copy, Debug)]
pub struct GruBackward<'a> {
    /// `[B, T, 4, H]`, as [`gru_forward`] left them.
    pub gates: &'a Buffer,
    /// `[B, T, H]`, likewise.
    pub out: &'a Buffer,
    /// `[B, H]`: the hidden state before the first step.
    pub first_hidden: &'a Buffer,
    /// `[B, T, H]`: the gradient of `out`.
    pub dout: &'a Buffer,
    /// `[B, H]`: the gradient of the hidden state from the step after, replaced by the part for the
    /// step before that goes through no product.
    pub dhidden: &'a Buffer,
    /// `[B, 3, H]`: overwritten by the gradient of the step's `s`.
    pub dstep: &'a Buffer,
    /// `[B, T, 3, H]`: the gradient of `x` is written at the position.
    pub dx: &'a Buffer,
    /// `[B, T, 3, H]`: that of `s`.
    pub dfrom_hidden: &'a Buffer,
}

/// Computes the gradients of a step of a GRU.
pub fn gru_backward(
    device: &Device,
    step: Step,
    buffers: &GruBackward<'_>,
) -> Result<(), KernelError> {
    step.check("gru_backward")?;
    let (units, all) = (step.units(), step.all());
    let buffers = [
        ("gates", Binding::Read(buffers.gates), 4 * all),
        ("out", Binding::Read(buffers.out), all),
        ("first_hidden", Binding::Read(buffers.first_hidden), units),
        ("dout", Binding::Read(buffers.dout), all),
        ("dhidden", Binding::ReadWrite(buffers.dhidden), units),
        ("dstep", Binding::Write(buffers.dstep), 3 * units),
        ("dx", Binding::ReadWrite(buffers.dx), 3 * all),
        (
            "dfrom_hidden",
            Binding::ReadWrite(buffers.dfrom_hidden),
            3 * all,
        ),
    ];
    let shader = &gru_backward_shader::SHADER;
    step.launch(device, "gru_backward", shader, &buffers, move |bindings| {
        let (read, written) = bindings.split::<4, 4>();
        cpu::gru_backward(step, read, written);
    })
}

#[cfg(test)]
mod tests;
