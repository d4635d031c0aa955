//! Products with a weight whose rows have magnitudes of their own, as those of weight-decomposed adapters (DoRA).

use crate::{DType, Result, Tensor};

const OP: &str = "with_magnitudes";

impl Tensor {
    /// Computes y = x · (magnitudes / norms) over the last dimension: of products x = z Vᵀ, \[.., N\], with a matrix V
    /// whose rows have these norms, the products with the same rows of these magnitudes.
    ///
    /// `magnitudes` and `norms` are \[N\]. Each quotient is rounded once, then each product. The norms are constants:
    /// no gradient passes through them, as in Liu and others 2024 (DoRA), section 4.3. The gradients are
    /// dx = dy · (magnitudes / norms) and, summed as a bias's, (dy · x) / norms.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape), another type than f32, and what the device reports.
    #[doc = example!(
        x: "let (m, n) = (Tensor::full(&device, &[3], 1.0, DType::F32)?, Tensor::full(&device, &[3], 2.0, DType::F32)?);",
        "assert_eq!(x.with_magnitudes(&m, &n)?.to_vec::<f32>()?, [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]);"
    )]
    pub fn with_magnitudes(&self, magnitudes: &Tensor, norms: &Tensor) -> Result<Tensor> {
        let others = [("magnitudes", Some(magnitudes)), ("norms", Some(norms))];
        self.same_device(OP, others)?;
        self.rows_and_columns(OP)?;
        let width = self.shape()[self.rank() - 1];
        for (name, tensor) in [("magnitudes", magnitudes), ("norms", norms)] {
            tensor.expect_type(OP, name, DType::F32)?;
            tensor.expect_shape(OP, name, &[width])?;
        }
        let norms = norms.detach();
        let y = self
            .detach()
            .mul(magnitudes.detach().div(&norms)?)?
            .buffer()?;
        let (x, of_magnitudes) = (self.clone(), magnitudes.clone());
        let places = [self.input(), magnitudes.input()];
        let samples = self.samples();
        let inputs = [self, magnitudes];
        let rule = move |pass: &mut crate::Backward<'_>, dy: &Tensor, _: Option<&Tensor>| {
            let [of_x, of_m] = &places;
            if of_x.requires_grad() {
                pass.add_tensor(of_x, &dy.mul(of_magnitudes.div(&norms)?)?)?;
            }
            if of_m.requires_grad() {
                let slope = dy.mul(&x)?.div(&norms)?;
                pass.add_expanded(of_m, &[width], &slope, samples)?;
            }
            Ok(())
        };
        Tensor::of_rule(OP, &inputs, (y, self.shape()), rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackwardPlan;
    use crate::ops::test_support::{check, input, message};

    fn norms(x: &Tensor, n: usize) -> Tensor {
        let values: Vec<f32> = (0..n).map(|at| 0.5 + at as f32 * 0.75).collect();
        Tensor::from_slice(x.device(), &values, &[n]).expect("it uploads")
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        check(OP, &[input(1, &[3, 5]), input(2, &[5])], |x| {
            x[0].with_magnitudes(&x[1], &norms(&x[0], 5))
        });
        check(OP, &[input(3, &[2, 3, 4]), input(4, &[4])], |x| {
            x[0].with_magnitudes(&x[1], &norms(&x[0], 4))
        });
    }

    /// No bit of the gradient depends on how the samples of a batch are split into passes.
    #[test]
    fn gradients_of_magnitudes_do_not_depend_on_micro_batches() -> Result<()> {
        for device in hlx_core::testing::devices() {
            let x = Tensor::from_slice(
                device,
                &crate::ops::test_support::values(5, 4 * 3 * 7),
                &[4, 3, 7],
            )?;
            let gradient = |passes: &[[usize; 2]]| -> Result<Vec<u32>> {
                let m = Tensor::ones(device, &[7], DType::F32)?.with_gradient();
                for &[first, n] in passes {
                    let part = x.narrow(0, first, n)?.contiguous()?.with_samples(0)?;
                    let y = part.with_magnitudes(&m, &norms(&x, 7))?;
                    y.sin()?.sum()?.backward_with(&BackwardPlan {
                        accumulate: first > 0,
                        whole_batch: false,
                        ..BackwardPlan::default()
                    })?;
                }
                let gradient = m.grad().expect("a gradient").to_vec::<f32>()?;
                Ok(gradient.into_iter().map(f32::to_bits).collect())
            };
            let whole = gradient(&[[0, 4]])?;
            assert_eq!(gradient(&[[0, 1], [1, 3]])?, whole, "{}", device.info());
            assert_eq!(gradient(&[[0, 2], [2, 2]])?, whole, "{}", device.info());
        }
        Ok(())
    }

    #[test]
    fn other_shapes_and_types_are_refused() {
        let (x, four) = (input(1, &[3, 5]), input(2, &[4]));
        let found = message(x.with_magnitudes(&four, &norms(&x, 5)));
        assert!(
            found.contains("magnitudes") && found.contains("[5]"),
            "{found}"
        );
        let found = message(x.with_magnitudes(&norms(&x, 5), &four));
        assert!(found.contains("norms") && found.contains("[5]"), "{found}");
    }
}
