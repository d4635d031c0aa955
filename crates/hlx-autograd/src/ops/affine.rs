//! Affine maps with their parameters, for the operations that have them.

use hlx_core::{Buffer, Device};
use hlx_kernels::KernelTuning;
use hlx_kernels::product::halves::Halves;
use hlx_kernels::product::{End, Epilogue, Incoming, Matrices, Operand, Role, multiply};
use hlx_kernels::reduce::column_sum;

use super::weight_gradient::{Through, WeightGradient};
use crate::graph::saved::Saved;
use crate::{Backward, Batch, DType, Input, Result, Samples, Tensor};

/// An affine map from \[.., K\] to \[.., N\] with its parameters, for operations that have one.
#[derive(Clone, Copy)]
pub(super) struct Affine<'a> {
    pub weight: &'a Tensor,
    pub bias: Option<&'a Tensor>,
    pub k: usize,
    pub n: usize,
}

/// What the backward pass needs of an affine map.
pub(super) struct SavedAffine {
    weight: Input,
    bias: Option<Input>,
    /// The weight and its values, where a gradient of the input is computed.
    values: Option<(Tensor, Option<Saved>)>,
    k: usize,
    n: usize,
}

/// What the gradient of a weight is made of.
pub(super) enum SavedInput {
    /// The input's values, or what they are computed from.
    Values(Saved),
    /// The rounded operand that the forward pass has read: half of the values' memory.
    Halves(Halves),
}

impl<'a> Affine<'a> {
    /// Checks the parameters of operation `op`, which calls them `names`, for an input \[.., K\].
    pub fn new(
        op: &'static str,
        names: [&'static str; 2],
        parameters: (&'a Tensor, Option<&'a Tensor>),
        x: &Tensor,
        k: usize,
    ) -> Result<Self> {
        let (weight, bias) = parameters;
        x.same_device(op, [(names[0], Some(weight)), (names[1], bias)])?;
        // The kernels widen a weight of 16 bits; a gradient would be summed in f32.
        if !weight.is_half() || weight.requires_grad() {
            weight.expect_type(op, names[0], DType::F32)?;
        }
        let n = match weight.shape() {
            &[n, columns] if columns == k => n,
            _ => return Err(weight.shape_error(op, names[0], format!("[N, {k}]"))),
        };
        if let Some(bias) = bias {
            bias.expect_shape(op, names[1], &[n])?;
        }
        Ok(Self { weight, bias, k, n })
    }

    /// The shape of what the map makes of x, which that of a residual of operation `op` must be.
    pub(super) fn output_shape(
        &self,
        op: &'static str,
        x: &Tensor,
        residual: Option<&Tensor>,
    ) -> Result<Vec<usize>> {
        let mut shape = x.shape().to_vec();
        shape[x.rank() - 1] = self.n;
        if let Some(residual) = residual {
            x.same_device(op, [("the residual", Some(residual))])?;
            residual.expect_shape(op, "the residual", &shape)?;
        }
        Ok(shape)
    }

    /// The weight and the bias.
    pub fn parameters(&self) -> impl Iterator<Item = &'a Tensor> {
        std::iter::once(self.weight).chain(self.bias)
    }

    /// Whether a parameter requires a gradient.
    pub fn requires_grad(&self) -> bool {
        self.parameters().any(Tensor::requires_grad)
    }

    /// Saves what the backward pass needs; the weight's values only to compute the gradient of the
    /// input.
    pub fn save(&self, input_gradient: bool) -> Result<SavedAffine> {
        Ok(SavedAffine {
            weight: self.weight.input(),
            bias: self.bias.map(Tensor::input),
            values: input_gradient.then(|| saved(self.weight)).transpose()?,
            k: self.k,
            n: self.n,
        })
    }

    /// Whether the gradient of the weight, which reads the input, is computed.
    pub fn reads_input(&self) -> bool {
        self.weight.requires_grad()
    }

    /// Saves a tensor, whose rows are an operand, if the gradient of the weight reads it.
    pub(super) fn save_input(&self, x: &Tensor, rows: &Operand) -> Result<Option<SavedInput>> {
        if !self.reads_input() {
            return Ok(None);
        }
        // The shards of a large weight's gradient are windows of the values.
        let in_turn = self.n * self.k >= KernelTuning::of(x.device()).shards_in_turn_from;
        let is_free = x.recipe().is_some_and(|again| again.origin.is_some());
        Ok(Some(match rows {
            // (What a norm or an activation is computed from is saved for its own derivative.)
            Operand::Halves(halves, _) if !in_turn && !is_free && x.n_elements() > 0 => {
                SavedInput::Halves(halves.clone())
            }
            _ => SavedInput::Values(x.save()?),
        }))
    }

    /// A tensor's rows as [`Affine::forward`] reads them.
    pub(super) fn rows(&self, x: &Tensor, rows: usize) -> Result<Operand> {
        let of = Matrices::rows(1, rows, self.k);
        x.product_operand(Role::Signal, of, || x.buffer())
    }

    /// The weight as products read it.
    pub(super) fn operand(&self) -> Result<Operand> {
        let (weight, of) = (self.weight, Matrices::rows(1, self.n, self.k));
        weight.product_operand(Role::Weight, of, || weight.buffer())
    }

    /// Computes y = x Wᵀ + bias, and what follows it.
    pub fn forward(
        &self,
        device: &Device,
        x: &Operand,
        y: &Buffer,
        epilogue: Epilogue<'_>,
    ) -> Result<()> {
        let bias = self.bias.map(Tensor::buffer).transpose()?;
        let weight = self.operand()?;
        let end = End {
            bias: bias.as_ref(),
            epilogue,
            ..End::NONE
        };
        Ok(multiply(device, [x, &weight], end, y)?)
    }
}

impl SavedAffine {
    /// The gradient of y, for both functions below.
    pub fn incoming<'a>(&self, dy: &'a Buffer) -> Incoming<'a> {
        Incoming::new(Role::Gradient, dy, self.values.is_some())
    }

    /// Adds up the gradients of bias and weight, from that of y and, for the weight, from x.
    pub fn backward_parameters(
        &self,
        pass: &mut Backward<'_>,
        dy: &Incoming<'_>,
        x: Option<&SavedInput>,
        rows: usize,
        batch: Batch,
    ) -> Result<()> {
        if let Some(bias) = self.bias.as_ref().filter(|bias| bias.requires_grad()) {
            pass.parameter(bias, batch, |device, target, shards| {
                let (out, rows) = (&target.buffer, rows / shards);
                column_sum(
                    device,
                    dy.values,
                    out,
                    shards,
                    rows,
                    self.n,
                    target.accumulate,
                )
            })?;
        }
        let Some(x) = x.filter(|_| self.weight.requires_grad()) else {
            return Ok(());
        };
        let add = |pass: &mut Backward<'_>, x: Through<'_>| {
            let gradient = WeightGradient {
                dy,
                x,
                widths: [self.n, self.k],
                rows,
                transposed: false,
            };
            gradient.add_to(pass, &self.weight, batch)
        };
        // A large weight's shards are windows of what is stored.
        let in_turn = self.n * self.k >= KernelTuning::of(pass.device()).shards_in_turn_from;
        match x {
            SavedInput::Halves(x) => add(pass, Through::Halves(x)),
            SavedInput::Values(x) if in_turn => add(pass, (&x.values()?).into()),
            SavedInput::Values(x) => {
                let device = pass.device().clone();
                x.with_source(&device, |x| add(pass, x.into()))
            }
        }
    }

    /// Computes dx = dy W, and what follows it; nothing where it was saved without values.
    pub fn backward_input(
        &self,
        device: &Device,
        dy: &Incoming<'_>,
        dx: &Buffer,
        rows: usize,
        epilogue: Epilogue<'_>,
    ) -> Result<()> {
        let Some((weight, values)) = &self.values else {
            return Ok(());
        };
        let of = Matrices::columns(1, self.n, self.k);
        let weight = match values {
            Some(values) => {
                let values = values.values()?;
                weight.product_operand(Role::Weight, of, || Ok(values))?
            }
            None => weight.product_operand(Role::Weight, of, || weight.buffer())?,
        };
        let dy = dy.rows(device, rows, self.n)?;
        let end = End {
            epilogue,
            ..End::NONE
        };
        Ok(multiply(device, [&dy, &weight], end, dx)?)
    }
}

/// A weight, out of the tape, and its values; those of blocks, which do not change, are computed where they are read.
fn saved(weight: &Tensor) -> Result<(Tensor, Option<Saved>)> {
    let values = match weight.in_blocks() {
        Some(_) => None,
        None => Some(weight.save_values(&weight.buffer()?)),
    };
    Ok((weight.detach(), values))
}

/// The addition of a residual, or of an earlier gradient, in a product's epilogue.
pub(super) fn residual_epilogue(residual: Option<&Buffer>) -> Epilogue<'_> {
    residual.map_or(Epilogue::None, Epilogue::Add)
}

/// Where the samples of a map's result are: a sample per element of the last dimension is lost in the product.
pub(super) fn samples_behind(x: &Tensor) -> Samples {
    let last = x.rank() - 1;
    let moved = |axis| (axis != last || last == 0).then_some(axis);
    x.samples().moved(moved)
}
