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
//! [`matmul`](fn@crate::product::matmul)'s chains.

mod cpu;

use hlx_core::{Binding, Buffer, CpuBindings, Device, Shader};

use crate::error::{Result, check_sizes};
use crate::kernel::Kernel;

shader!(recurrent::{lstm_forward, lstm_backward, gru_forward, gru_backward});

/// A kind of cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `torch.nn.LSTM`'s.
    Lstm,
    /// `torch.nn.GRU`'s.
    Gru,
}

impl Cell {
    /// W, the gates.
    pub const fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// The states that a step hands to the next one: the hidden one, and an LSTM's cells.
    pub const fn states(self) -> usize {
        match self {
            Self::Lstm => 2,
            Self::Gru => 1,
        }
    }
}

/// Where a step is in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeStep {
    /// What computes it.
    pub cell: Cell,
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

/// An operand of a step: its name, its use and its length.
type Operand<'a> = (&'static str, Binding<'a>, usize);

/// A step's kernel: its name, its shader, and what computes it on the CPU.
type CellKernel = (&'static str, &'static Shader, Body);
/// What computes it on the CPU.
type Body = fn(TimeStep, &mut CpuBindings<'_>);

impl TimeStep {
    /// The elements of a `[B, H]` tensor.
    fn units(&self) -> usize {
        self.batch * self.width
    }

    /// The elements of a `[B, T, H]` tensor.
    fn all(&self) -> usize {
        self.time * self.units()
    }

    /// Checks the step: behind this no number of elements wraps.
    fn check(&self, name: &'static str) -> Result<()> {
        check_sizes(name, &[self.batch, self.time, self.width])?;
        let (position, previous, time) = (self.position, self.previous, self.time);
        let fits = position < time && previous.is_none_or(|previous| previous < time);
        check_that!(name, fits =>
            "position is {position} after {previous:?}, expected below {time}")
    }

    /// Launches a step over its operands, in binding order.
    fn launch<const N: usize>(
        self,
        device: &Device,
        (name, shader, body): CellKernel,
        operands: [Option<Operand<'_>>; N],
    ) -> Result<()> {
        let (most, mut kernel) = (device.max_binding_words(), Kernel::new(name, shader));
        for (argument, binding, len) in operands.into_iter().flatten() {
            kernel = kernel.checked(argument, binding, len)?;
            check_that!(name, len <= most =>
                "{argument} has {len} elements, expected at most {most} on this device")?;
        }
        let previous = self.previous.unwrap_or(self.time);
        let push = push!(lstm_forward =>
            batch: self.batch, time: self.time, width: self.width, position: self.position, previous);
        let groups = self.units().div_ceil(256);
        kernel.launch_bound(device, push, groups, move |bindings| body(self, bindings))
    }
}

/// The buffers of [`cell_forward`], for W gates.
#[derive(Clone, Copy, Debug)]
pub struct CellForward<'a> {
    /// `[B, T, W, H]`: the inputs times their weights, and their bias.
    pub x: &'a Buffer,
    /// `[B, W, H]`: `s`.
    pub from_hidden: &'a Buffer,
    /// `[B, H]`, of an LSTM: the cells before the step, replaced by those after it.
    pub cells: Option<&'a Buffer>,
    /// `[B, H]`: the hidden state, which a GRU reads, replaced by the one after the step.
    pub hidden: &'a Buffer,
    /// `[B, T, 4, H]`: the position's gates are written, for [`cell_backward`]; of a GRU `r`, `z`, `n` and `s_n`.
    pub gates: &'a Buffer,
    /// `[B, T, H]`, of an LSTM `[2, B, T, H]`: the position's hidden state, then its cells, are written.
    pub out: &'a Buffer,
}

/// Computes a step of a cell.
///
/// # Errors
/// A shape error if a length is not as above, [`KernelError::Argument`](crate::KernelError::Argument) if an
/// LSTM has no cells, a GRU some, or a tensor is larger than the device binds; the device's error.
pub fn cell_forward(device: &Device, step: TimeStep, buffers: &CellForward<'_>) -> Result<()> {
    let kernel: CellKernel = match step.cell {
        Cell::Lstm => ("lstm_forward", &lstm_forward::SHADER, cpu::lstm_forward),
        Cell::Gru => ("gru_forward", &gru_forward::SHADER, cpu::gru_forward),
    };
    step.check(kernel.0)?;
    let is_lstm = step.cell == Cell::Lstm;
    check_given(kernel.0, "cells", buffers.cells, is_lstm)?;
    let (w, units, all) = (step.cell.gates(), step.units(), step.all());
    let hidden = match is_lstm {
        true => Binding::Write(buffers.hidden),
        false => Binding::ReadWrite(buffers.hidden),
    };
    let cells = buffers.cells.map(Binding::ReadWrite);
    let states = step.cell.states() * all;
    let operands = [
        Some(("x", Binding::Read(buffers.x), w * all)),
        Some(("from_hidden", Binding::Read(buffers.from_hidden), w * units)),
        cells.map(|cells| ("cell", cells, units)),
        Some(("hidden", hidden, units)),
        Some(("gates", Binding::ReadWrite(buffers.gates), 4 * all)),
        Some(("out", Binding::ReadWrite(buffers.out), states)),
    ];
    step.launch(device, kernel, operands)
}

/// The buffers of [`cell_backward`], for W gates.
#[derive(Clone, Copy, Debug)]
pub struct CellBackward<'a> {
    /// `[B, T, 4, H]`, as [`cell_forward`] left them.
    pub gates: &'a Buffer,
    /// `[B, T, H]` or `[2, B, T, H]`, likewise.
    pub out: &'a Buffer,
    /// `[B, H]`: an LSTM's cells, or a GRU's hidden state, before the first step.
    pub first: &'a Buffer,
    /// The gradient of `out`.
    pub dout: &'a Buffer,
    /// `[B, H]`: the gradient of the hidden state from the step after. A GRU replaces it by the part for the step before
    /// that goes through no product.
    pub dhidden: &'a Buffer,
    /// `[B, H]`, of an LSTM: that of the cells, replaced by the one for the step before.
    pub dcells: Option<&'a Buffer>,
    /// `[B, W, H]`: overwritten by the gradient of the step's `s`.
    pub dstep: &'a Buffer,
    /// `[B, T, W, H]`: the gradient of `x` is written at the position. An LSTM's `s` has the same one.
    pub dx: &'a Buffer,
    /// `[B, T, W, H]`, of a GRU: that of `s`.
    pub dfrom_hidden: Option<&'a Buffer>,
}

/// Computes the gradients of a step of a cell.
///
/// # Errors
/// As [`cell_forward`].
pub fn cell_backward(device: &Device, step: TimeStep, buffers: &CellBackward<'_>) -> Result<()> {
    let kernel: CellKernel = match step.cell {
        Cell::Lstm => ("lstm_backward", &lstm_backward::SHADER, cpu::lstm_backward),
        Cell::Gru => ("gru_backward", &gru_backward::SHADER, cpu::gru_backward),
    };
    step.check(kernel.0)?;
    let is_lstm = step.cell == Cell::Lstm;
    check_given(kernel.0, "dcells", buffers.dcells, is_lstm)?;
    check_given(kernel.0, "dfrom_hidden", buffers.dfrom_hidden, !is_lstm)?;
    let (w, units, all) = (step.cell.gates(), step.units(), step.all());
    let (first, dhidden) = match is_lstm {
        true => ("first_cell", Binding::Read(buffers.dhidden)),
        false => ("first_hidden", Binding::ReadWrite(buffers.dhidden)),
    };
    let (states, dcells) = (step.cell.states() * all, buffers.dcells);
    let dsums = buffers.dfrom_hidden.map(Binding::ReadWrite);
    let operands = [
        Some(("gates", Binding::Read(buffers.gates), 4 * all)),
        Some(("out", Binding::Read(buffers.out), states)),
        Some((first, Binding::Read(buffers.first), units)),
        Some(("dout", Binding::Read(buffers.dout), states)),
        Some(("dhidden", dhidden, units)),
        dcells.map(|dcells| ("dcell", Binding::ReadWrite(dcells), units)),
        Some(("dstep", Binding::Write(buffers.dstep), w * units)),
        Some(("dx", Binding::ReadWrite(buffers.dx), w * all)),
        dsums.map(|dsums| ("dfrom_hidden", dsums, w * all)),
    ];
    step.launch(device, kernel, operands)
}

/// Checks that a buffer of one kind of cell is there where it should be, and only there.
fn check_given(
    name: &'static str,
    argument: &'static str,
    buffer: Option<&Buffer>,
    expected: bool,
) -> Result<()> {
    check_that!(name, buffer.is_some() == expected =>
        "this cell {verb} {argument}", verb = if expected { "needs" } else { "has no" })
}

#[cfg(test)]
mod tests;
