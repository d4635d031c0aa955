//! The affine map of the last dimension, alone or added to a residual stream.

use hlx_core::Arithmetic;

use super::affine::{Affine, residual_epilogue, samples_behind};
use super::few_rows::few_rows_product;
use crate::graph::saved_tensor::SavedTensor;
use crate::{Backward, DType, Gradient, Input, Result, Tensor};

impl Tensor {
    /// Computes y = x Wᵀ + bias over the last dimension, \[.., K\] to \[.., N\], as
    /// `torch.nn.functional.linear`.
    ///
    /// `weight` is \[N, K\], `bias` \[N\]; each element's chain starts from its bias. A weight \[K\] with
    /// a bias of one element gives \[..\]. Integers wrap, as in [`Tensor::matmul`].
    ///
    /// A weight of f16 or bf16 that requires no gradient may have an f32 input: the result is that of
    /// the widened weight, to the bit, and a product of few rows reads no more memory than the 16 bits.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape);
    /// [`AutogradError::DType`](crate::AutogradError::DType) for operands of other types.
    #[doc = example!(
        x: "let weight = Tensor::ones(&device, &[4, 3], DType::F32)?;",
        "assert_eq!(x.linear(&weight, None)?.to_vec::<f32>()?[..4], [6.0; 4]);"
    )]
    pub fn linear(&self, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        if self.is_half() && weight.dtype() == self.dtype() {
            return self.weighted_in_f32(weight, bias, |x, weight, bias| x.linear(weight, bias));
        }
        if weight.rank() == 1 {
            let bias = bias.map(|bias| bias.reshape(&[1])).transpose()?;
            let column = self.linear(&weight.unsqueeze(0)?, bias.as_ref())?;
            return column.squeeze(-1);
        }
        if !self.dtype().is_float() && weight.rank() == 2 {
            let product = self.matmul(&weight.transpose(0, 1)?)?;
            return bias.map_or(Ok(product.clone()), |bias| product.add(bias));
        }
        self.affine("linear", (weight, bias), None)
    }

    /// Computes `residual.add(self.linear(weight, bias))` in one launch, to the same bits.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    #[doc = example!(
        x: "let weight = Tensor::eye(&device, 3)?;",
        "assert_eq!(x.linear_add(&weight, None, &x)?.to_vec::<f32>()?, x.mul(2.0)?.to_vec::<f32>()?);"
    )]
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
        let map = Affine::new(op, ["weight", "bias"], parameters, self, k)?;
        let shape = map.output_shape(op, self, residual)?;
        let device = self.device();
        if device.product_arithmetic() == Arithmetic::Integer
            && self.is_fused(None, &[map], residual)
        {
            // The product makes the digits of so few rows itself.
            return few_rows_product(self, None, &map, residual);
        }
        let y = device.alloc_shape(&[rows, map.n])?;
        let around = residual.map(Tensor::buffer).transpose()?;
        let x = map.rows(self, rows)?;
        map.forward(device, &x, &y, residual_epilogue(around.as_ref()))?;
        let inputs: Vec<&Tensor> = map.parameters().chain([self]).chain(residual).collect();
        let saved_x = map.save_input(self, &x)?;
        let (x, batch, map) = (self.input(), self.batch(), map.save(self.requires_grad())?);
        let residual = residual.map(Tensor::input);
        // For a pass that is recorded: x for the weight's gradient, the weight for x's.
        let of = [
            parameters
                .0
                .requires_grad()
                .then(|| SavedTensor::of(self))
                .transpose()?,
            self.requires_grad()
                .then(|| SavedTensor::Whole(parameters.0.clone())),
        ];
        let places = [self.input(), parameters.0.input()];
        let bias = parameters.1.map(Tensor::input);
        let linear = Tensor::of_rule(op, &inputs, (y, &shape), move |pass, dy, _| {
            if let Some(residual) = &residual {
                pass.add_tensor(residual, dy)?;
            }
            if pass.is_recorded() {
                return recorded_backward(pass, dy, &of, &places, bias.as_ref());
            }
            let dy = dy.buffer()?;
            let dy = map.incoming(&dy);
            map.backward_parameters(pass, &dy, saved_x.as_ref(), rows, batch)?;
            if !x.requires_grad() {
                return Ok(());
            }
            let dx = pass.device().alloc(x.n_elements())?;
            // What has reached x from others, as of several projections of one input.
            let earlier = pass.take_pending(&x).map(|earlier| earlier.buffer());
            let earlier = earlier.transpose()?;
            let sum = residual_epilogue(earlier.as_ref());
            map.backward_input(pass.device(), &dy, &dx, rows, sum)?;
            pass.add(&x, Gradient::owned(dx))
        })?;
        Ok(linear.with_samples_of(samples_behind(self)))
    }
}

/// The gradients of y = x Wᵀ + bias, made of operations.
fn recorded_backward(
    pass: &mut Backward<'_>,
    dy: &Tensor,
    [x, weight]: &[Option<SavedTensor>; 2],
    [x_place, weight_place]: &[Input; 2],
    bias: Option<&Input>,
) -> Result<()> {
    let n = dy.shape()[dy.rank() - 1];
    let rows = dy.n_elements() / n.max(1);
    let dy_rows = dy.reshape(&[rows, n])?;
    if let Some(bias) = bias.filter(|bias| bias.requires_grad()) {
        pass.add_tensor(bias, &dy_rows.sum_dim(&[0], false)?)?;
    }
    if let Some(x) = x {
        let x = x.tensor()?;
        let x_rows = x.reshape(&[rows, x.shape()[x.rank() - 1]])?;
        pass.add_tensor(weight_place, &dy_rows.transpose(0, 1)?.matmul(&x_rows)?)?;
    }
    if let Some(weight) = weight {
        let weight = weight.tensor()?;
        pass.add_tensor(x_place, &dy.matmul(&weight.to_dtype(DType::F32)?)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hlx_core::Arithmetic;

    use crate::ops::test_support::{check, input, message};
    use crate::{DType, Tensor, no_grad};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let inputs = [input(1, &[2, 3, 5]), input(2, &[4, 5]), input(3, &[4])];
        check("linear", &inputs, |x| x[0].linear(&x[1], Some(&x[2])));
        check("linear", &inputs[..2], |x| x[0].linear(&x[1], None));
        check("linear", &[input(1, &[5]), input(2, &[4, 5])], |x| {
            x[0].linear(&x[1], None)
        });
    }

    /// In the integer arithmetic the quantised 16-bit weights are held from pass to pass, and made again once a value changes.
    #[test]
    fn changed_weights_are_quantised_again() -> crate::Result<()> {
        for device in hlx_core::testing::devices() {
            let device = device.with_arithmetic(Arithmetic::Integer);
            let values = |seed: f32| {
                (0..15)
                    .map(|i| (seed + i as f32).sin())
                    .collect::<Vec<f32>>()
            };
            let x = Tensor::from_slice(&device, &values(0.5), &[3, 5])?;
            let mut weight =
                Tensor::from_slice(&device, &values(1.0), &[3, 5])?.to_dtype(DType::BF16)?;
            let forward = |weight: &Tensor| no_grad(|| x.linear(weight, None)?.to_vec::<f32>());
            let first = forward(&weight)?;
            assert_eq!(forward(&weight)?, first, "{}", device.info());
            let other =
                Tensor::from_slice(&device, &values(2.0), &[3, 5])?.to_dtype(DType::BF16)?;
            let expected = forward(&other)?;
            assert_ne!(expected, first);
            let same = weight.clone();
            no_grad(|| weight.copy_(&other).map(drop))?;
            assert_eq!(
                forward(&same)?,
                expected,
                "{}: through a handle from before",
                device.info()
            );
            assert_eq!(forward(&weight)?, expected, "{}", device.info());
        }
        Ok(())
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
        let apart = r.add(&x.linear(w, Some(b))?)?.to_vec::<f32>()?;
        assert_eq!(x.linear_add(w, Some(b), r)?.to_vec::<f32>()?, apart);
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
