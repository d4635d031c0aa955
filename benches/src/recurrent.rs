//! The cases of recurrent layers: one layer of an LSTM in one direction, as a layer of `torch.nn.LSTM`.

use anyhow::Result;
use hlx_core::{Buffer, Device};
use hlx_kernels::KernelError;
use hlx_kernels::product::{MatMul, matmul, step_product};
use hlx_kernels::recurrent::{
    Cell, CellBackward, CellForward, TimeStep, cell_backward, cell_forward,
};
use hlx_kernels::reduce::column_sum;

use crate::maker::{Launches, Maker};

/// The tensors of a layer; B samples, T positions, I inputs, H units.
struct Layer {
    sizes: [usize; 4],
    x: Buffer,
    weight_ih: Buffer,
    /// \[H, 4 H\] forward, transposed once before the steps, and \[4 H, H\] backward.
    weight_hh: Buffer,
    bias: Buffer,
    projected: Buffer,
    sums: Buffer,
    state: [Buffer; 2],
    gates: Buffer,
    out: Buffer,
}

impl Layer {
    fn new(make: &Maker<'_>, sizes: [usize; 4]) -> Result<Self> {
        let [batch, time, input, units] = sizes;
        let (rows, all) = (4 * units, batch * time);
        Ok(Self {
            sizes,
            x: make.values(all * input)?,
            weight_ih: make.values(rows * input)?,
            weight_hh: make.values(rows * units)?,
            bias: make.values(rows)?,
            projected: make.empty(all * rows)?,
            sums: make.empty(batch * rows)?,
            state: [make.values(batch * units)?, make.values(batch * units)?],
            gates: make.empty(all * rows)?,
            out: make.empty(2 * all * units)?,
        })
    }

    fn steps(&self) -> impl DoubleEndedIterator<Item = TimeStep> + use<> {
        let [batch, time, _, width] = self.sizes;
        (0..time).map(move |position| TimeStep {
            cell: Cell::Lstm,
            batch,
            time,
            width,
            position,
            previous: position.checked_sub(1),
        })
    }

    /// One product for all inputs, and a product and a step for each position.
    fn forward(&self, device: &Device) -> Result<(), KernelError> {
        let [batch, time, input, units] = self.sizes;
        let inputs = MatMul {
            trans_b: true,
            ..MatMul::new(batch * time, 4 * units, input)
        };
        let (bias, [hidden, cell]) = (Some(&self.bias), &self.state);
        matmul(
            device,
            &self.x,
            &self.weight_ih,
            bias,
            &self.projected,
            &inputs,
        )?;
        let (shape, weight) = ([batch, 4 * units, units], &self.weight_hh);
        for step in self.steps() {
            step_product(device, [hidden, weight], bias, &self.sums, shape, false)?;
            let buffers = CellForward {
                x: &self.projected,
                from_hidden: &self.sums,
                cells: Some(cell),
                hidden,
                gates: &self.gates,
                out: &self.out,
            };
            cell_forward(device, step, &buffers)?;
        }
        Ok(())
    }
}

/// What the backward pass writes.
struct Gradients {
    dout: Buffer,
    dstate: [Buffer; 2],
    dstep: Buffer,
    dgates: Buffer,
    dx: Buffer,
    dweight_ih: Buffer,
    dweight_hh: Buffer,
    dbias: Buffer,
}

impl Gradients {
    fn new(make: &Maker<'_>, [batch, time, input, units]: [usize; 4]) -> Result<Self> {
        let (rows, all) = (4 * units, batch * time);
        Ok(Self {
            dout: make.values(2 * all * units)?,
            dstate: [make.values(batch * units)?, make.values(batch * units)?],
            dstep: make.empty(batch * rows)?,
            dgates: make.empty(all * rows)?,
            dx: make.empty(all * input)?,
            dweight_ih: make.empty(rows * input)?,
            dweight_hh: make.empty(rows * units)?,
            dbias: make.empty(rows)?,
        })
    }

    /// A step and a product for each position, then three products and a sum over all of them. The
    /// gradient of the recurrent weight reads the outputs where it would read those before them, which
    /// takes the same time.
    fn backward(&self, device: &Device, layer: &Layer) -> Result<(), KernelError> {
        let [batch, time, input, units] = layer.sizes;
        let (rows, all) = (4 * units, batch * time);
        let [dhidden, dcell] = &self.dstate;
        let (shape, weight) = ([batch, units, rows], &layer.weight_hh);
        for step in layer.steps().rev() {
            let buffers = CellBackward {
                gates: &layer.gates,
                out: &layer.out,
                first: &layer.state[1],
                dout: &self.dout,
                dhidden,
                dcells: Some(dcell),
                dstep: &self.dstep,
                dx: &self.dgates,
                dfrom_hidden: None,
            };
            cell_backward(device, step, &buffers)?;
            step_product(device, [&self.dstep, weight], None, dhidden, shape, false)?;
        }
        let of_input = MatMul::new(all, input, rows);
        matmul(
            device,
            &self.dgates,
            &layer.weight_ih,
            None,
            &self.dx,
            &of_input,
        )?;
        let gradient = |right: &Buffer, width: usize, out: &Buffer| {
            let shape = MatMul {
                trans_a: true,
                ..MatMul::new(rows, width, all)
            };
            matmul(device, &self.dgates, right, None, out, &shape)
        };
        gradient(&layer.x, input, &self.dweight_ih)?;
        gradient(&layer.out.slice(0, all * units)?, units, &self.dweight_hh)?;
        column_sum(device, &self.dgates, &self.dbias, 1, all, rows, false)
    }
}

/// Prepares a case: samples, positions, inputs, units.
///
/// # Errors
/// A device without the memory.
pub fn lstm(device: &Device, is_backward: bool, sizes: [usize; 4]) -> Result<Launches> {
    let make = Maker(device);
    let layer = Layer::new(&make, sizes)?;
    let device = device.clone();
    if !is_backward {
        return Ok(Box::new(move || layer.forward(&device)));
    }
    let gradients = Gradients::new(&make, sizes)?;
    layer.forward(&device)?;
    Ok(Box::new(move || gradients.backward(&device, &layer)))
}
