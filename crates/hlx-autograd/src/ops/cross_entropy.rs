//! Cross-entropy of logits against target ids, with ignored positions and label smoothing.

use hlx_kernels::cross_entropy::{cross_entropy_backward, cross_entropy_forward};

use super::reduce::{scaled_sum, upstream_factor};
use crate::{DType, Gradient, Result, Tensor};

impl Tensor {
    /// Computes the sum over rows of -log softmax(logits)\[target\], times `scale`, as
    /// `torch.nn.functional.cross_entropy_scaled(reduction="sum", ignore_index=...)`.
    ///
    /// Logits are \[.., V\], targets the ids \[..\]; a target of [`IGNORE_INDEX`] counts nothing.
    /// `scale` is a tensor of one element: one over the number of targets that count, in the
    /// whole batch when this is a part. With label smoothing s a row's loss is (1 - s) times the
    /// above plus s times the mean over all V.
    ///
    /// [`IGNORE_INDEX`]: crate::IGNORE_INDEX
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) and
    /// [`AutogradError::DType`](crate::AutogradError::DType).
    #[doc = example!(
        "let logits = Tensor::zeros(&device, &[2, 4], DType::F32)?.with_gradient();",
        "let targets = Tensor::from_slice::<u32>(&device, &[1, 3], &[2])?;",
        "let scale = Tensor::full(&device, &[1], 0.5, DType::F32)?;",
        "let loss = logits.cross_entropy_scaled(&targets, &scale, 0.0)?;",
        "assert!((loss.item::<f32>()? - 1.386_294_4).abs() < 1e-6);"
    )]
    pub fn cross_entropy_scaled(
        &self,
        targets: &Tensor,
        scale: &Tensor,
        label_smoothing: f32,
    ) -> Result<Tensor> {
        Ok(self
            .cross_entropy_with_rows(targets, scale, label_smoothing)?
            .0)
    }

    /// As [`Tensor::cross_entropy_scaled`], and returns each row's loss (\[..\], unscaled, 0 where
    /// ignored, no part of the tape) beside the total. The rows' bits do not depend on the batch.
    ///
    /// # Errors
    /// As [`Tensor::cross_entropy_scaled`].
    #[doc = example!(
        "let logits = Tensor::zeros(&device, &[2, 4], DType::F32)?;",
        "let targets = Tensor::from_slice::<u32>(&device, &[1, IGNORE_INDEX], &[2])?;",
        "let scale = Tensor::ones(&device, &[1], DType::F32)?;",
        "let (_, rows) = logits.cross_entropy_with_rows(&targets, &scale, 0.0)?;",
        "assert_eq!(rows.to_vec::<f32>()?[1], 0.0);"
    )]
    pub fn cross_entropy_with_rows(
        &self,
        targets: &Tensor,
        scale: &Tensor,
        label_smoothing: f32,
    ) -> Result<(Tensor, Tensor)> {
        let others = [("targets", Some(targets)), ("scale", Some(scale))];
        self.same_device("cross_entropy", others)?;
        let (rows, vocabulary) = self.rows_and_columns("cross_entropy")?;
        targets.expect_type("cross_entropy", "targets", DType::U32)?;
        let leading = &self.shape()[..self.shape().len() - 1];
        if targets.shape() != leading {
            return Err(targets.shape_error("cross_entropy", "targets", format!("{leading:?}")));
        }
        scale.expect_shape("cross_entropy", "scale", &[1])?;
        let device = self.device();
        let (losses, stats) = (device.alloc(rows)?, device.alloc_shape(&[2, rows])?);
        let (logits, ids, factor) = (self.buffer()?, targets.buffer()?, scale.buffer()?);
        cross_entropy_forward(
            device,
            &logits,
            &ids,
            &losses,
            &stats,
            rows,
            vocabulary,
            label_smoothing,
        )?;
        let total = scaled_sum(device, &losses, &factor)?;
        let row_losses =
            Tensor::from_buffer(device, losses, leading)?.with_samples_of(self.samples());
        let x = self.input();
        let saved = [
            self.save_values(&logits),
            targets.save_values(&ids),
            scale.save_values(&factor),
        ];
        let loss =
            Tensor::from_operation("cross_entropy", &[self], total, &[], move |pass, dy| {
                let device = pass.device();
                let [logits, ids, scale] = &saved;
                let (logits, ids) = (logits.values()?, ids.values()?);
                let factor = upstream_factor(device, &scale.values()?, &dy)?;
                let dx = device.alloc(logits.len())?;
                cross_entropy_backward(
                    device,
                    &logits,
                    &ids,
                    &stats,
                    &factor,
                    &dx,
                    rows,
                    vocabulary,
                    label_smoothing,
                )?;
                pass.add(&x, Gradient::owned(dx))
            })?;
        Ok((loss, row_losses))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, ids, input, message};
    use crate::{IGNORE_INDEX, Tensor};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let logits = input(1, &[2, 3, 7]);
        let device = logits.device().clone();
        let targets = Tensor::from_slice::<u32>(&device, &[6, IGNORE_INDEX, 0, 3, 3, 1], &[2, 3])
            .expect("uploads");
        let scale = Tensor::from_slice(&device, &[0.7], &[1]).expect("uploads");
        for smoothing in [0.0, 0.1] {
            check("cross_entropy", std::slice::from_ref(&logits), |x| {
                x[0].cross_entropy_scaled(&targets, &scale, smoothing)
            });
        }
    }

    #[test]
    fn targets_of_another_shape_are_refused() {
        let logits = input(1, &[2, 3, 7]);
        let scale = Tensor::from_slice(logits.device(), &[1.0], &[1]).expect("uploads");
        let text = message(logits.cross_entropy_scaled(&ids(1, 7, &[6]), &scale, 0.0));
        assert_eq!(
            text,
            "cross_entropy: targets has shape [6], expected [2, 3]"
        );
    }
}
