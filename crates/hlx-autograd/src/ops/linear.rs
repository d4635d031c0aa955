//! The affine map of the last dimension, alone or added to a residual stream.

use hlx_core::{Buffer, Context};
use hlx_kernels::matmul::{Epilogue, MatMul, matmul_with};
use hlx_kernels::reduce::column_sum;

use super::matmul::weight_gradient;
use crate::saved::Saved;
use crate::{Backward, Gradient, Result, Tensor};

/// The parameters of an affine map from \[.., K\] to \[.., N\], for operations that have one.
#[derive(Clone)]
pub(super) struct Affine {
    weight: Tensor,
    bias: Option<Tensor>,
    k: usize,
    pub n: usize,
}

impl Affine {
    /// Checks the parameters of operation `op`, which calls them `names`.
    pub fn new(
        op: &'static str,
        names: [&'static str; 2],
        (weight, bias): (&Tensor, Option<&Tensor>),
        k: usize,
    ) -> Result<Self> {
        let n = match weight.shape() {
            &[n, columns] if columns == k => n,
            _ => return Err(weight.shape_error(op, names[0], format!("[N, {k}]"))),
        };
        if let Some(bias) = bias {
            bias.expect_shape(op, names[1], &[n])?;
        }
        let (weight, bias) = (weight.clone(), bias.cloned());
        Ok(Self { weight, bias, k, n })
    }

    /// The weight and the bias.
    pub fn parameters(&self) -> impl Iterator<Item = &Tensor> {
        std::iter::once(&self.weight).chain(&self.bias)
    }

    /// Computes y = x Wᵀ + bias for `rows` rows, and what follows it.
    pub fn forward(
        &self,
        ctx: &Context,
        x: &Buffer,
        y: &Buffer,
        rows: usize,
        epilogue: Epilogue<'_>,
    ) -> Result<()> {
        let product = MatMul {
            trans_b: true,
            ..MatMul::new(rows, self.n, self.k)
        };
        let (weight, bias) = (self.weight.buffer(), self.bias.as_ref().map(Tensor::buffer));
        Ok(matmul_with(ctx, x, weight, bias, y, &product, epilogue)?)
    }

    /// Adds up the gradients of bias and weight, from that of y and from x.
    pub fn backward_parameters(
        &self,
        pass: &mut Backward<'_>,
        dy: &Buffer,
        x: &Saved,
        rows: usize,
        batch: usize,
    ) -> Result<()> {
        if let Some(bias) = self.bias.as_ref().filter(|bias| bias.requires_grad()) {
            let target = pass.open(bias, batch)?;
            let (ctx, shards) = (pass.context(), pass.shards());
            let (out, rows) = (&target.buffer, rows / shards);
            column_sum(ctx, dy, out, shards, rows, self.n, target.accumulate)?;
            pass.close(target)?;
        }
        if !self.weight.requires_grad() {
            return Ok(());
        }
        let (left, right) = ((dy, self.n), (&x.values()?, self.k));
        weight_gradient(pass, &self.weight, left, right, rows, batch)
    }

    /// Computes dx = dy W.
    pub fn backward_input(&self, ctx: &Context, dy: &Buffer, rows: usize) -> Result<Buffer> {
        let dx = ctx.alloc(rows * self.k)?;
        self.backward_input_into(ctx, dy, &dx, rows, Epilogue::None)?;
        Ok(dx)
    }

    /// As [`backward_input`](Self::backward_input), into a given buffer and with what follows.
    pub fn backward_input_into(
        &self,
        ctx: &Context,
        dy: &Buffer,
        dx: &Buffer,
        rows: usize,
        epilogue: Epilogue<'_>,
    ) -> Result<()> {
        let product = MatMul::new(rows, self.k, self.n);
        let weight = self.weight.buffer();
        matmul_with(ctx, dy, weight, None, dx, &product, epilogue)?;
        Ok(())
    }
}

/// The addition of a residual in a product's epilogue.
pub(super) fn residual_epilogue(residual: Option<&Tensor>) -> Epilogue<'_> {
    residual.map_or(Epilogue::None, |residual| Epilogue::Add(residual.buffer()))
}

impl Tensor {
    /// Computes y = x Wᵀ + bias over the last dimension, \[.., K\] to \[.., N\], as
    /// `torch.nn.functional.linear`.
    ///
    /// `weight` is \[N, K\], `bias` \[N\]; each element's chain starts from its bias.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        self.affine("linear", (weight, bias), None)
    }

    /// Computes `residual.add(self.linear(weight, bias))` in one launch, to the same bits.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    pub fn linear_add(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        residual: &Tensor,
    ) -> Result<Tensor> {
        self.affine("linear_add", (weight, bias), Some(residual))
    }

    fn affine(
        &self,
        op: &'static str,
        parameters: (&Tensor, Option<&Tensor>),
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        let (rows, k) = self.rows_and_columns(op)?;
        let map = Affine::new(op, ["weight", "bias"], parameters, k)?;
        let mut shape = self.shape().to_vec();
        shape[self.shape().len() - 1] = map.n;
        if let Some(residual) = residual {
            residual.expect_shape(op, "the residual", &shape)?;
        }
        let ctx = self.context();
        let y = ctx.alloc(rows * map.n)?;
        map.forward(ctx, self.buffer(), &y, rows, residual_epilogue(residual))?;
        let saved = self.save();
        let (x, again, residual) = (self.clone(), map.clone(), residual.cloned());
        let added = residual.clone();
        let inputs: Vec<&Tensor> = again.parameters().chain([self]).chain(&added).collect();
        Tensor::from_operation(op, &inputs, y, &shape, move |pass, dy| {
            if let Some(residual) = residual {
                pass.add(&residual, Gradient::shared(dy.buffer().clone()))?;
            }
            map.backward_parameters(pass, dy.buffer(), &saved, rows, x.batch())?;
            if !x.requires_grad() {
                return Ok(());
            }
            let ctx = pass.context();
            let dx = map.backward_input(ctx, dy.buffer(), rows)?;
            pass.add(&x, Gradient::owned(dx))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let inputs = [input(1, &[2, 3, 5]), input(2, &[4, 5]), input(3, &[4])];
        check("linear", &inputs, |x| x[0].linear(&x[1], Some(&x[2])));
        check("linear", &inputs[..2], |x| x[0].linear(&x[1], None));
        check("linear", &[input(1, &[5]), input(2, &[4, 5])], |x| {
            x[0].linear(&x[1], None)
        });
    }

    #[test]
    fn a_residual_is_added_to_the_same_bits() -> crate::Result<()> {
        let inputs = [
            input(1, &[2, 3, 5]),
            input(2, &[4, 5]),
            input(3, &[4]),
            input(4, &[2, 3, 4]),
        ];
        check("linear_add", &inputs, |x| {
            x[0].linear_add(&x[1], Some(&x[2]), &x[3])
        });
        let [x, w, b, r] = &inputs;
        let apart = r.add(&x.linear(w, Some(b))?)?.to_vec()?;
        assert_eq!(x.linear_add(w, Some(b), r)?.to_vec()?, apart);
        let text = message(x.linear_add(w, None, b));
        assert_eq!(
            text,
            "linear_add: the residual has shape [4], expected [2, 3, 4]"
        );
        Ok(())
    }

    #[test]
    fn a_bias_of_another_width_is_refused() {
        let (x, weight, bias) = (input(1, &[3, 5]), input(2, &[4, 5]), input(3, &[5]));
        let text = message(x.linear(&weight, Some(&bias)));
        assert_eq!(text, "linear: bias has shape [5], expected [4]");
    }
}
