//! Losses: formulas over elements, reduced as PyTorch reduces them. They are made of operations, so that
//! they can be differentiated again.

use super::frame::{broadcast, promoted};
use crate::{AutogradError, DType, Result, Tensor};

/// What becomes of a loss's elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossReduction {
    /// They stay: PyTorch's `reduction="none"`.
    None,
    /// Their mean, weighted where the loss has weights.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// Their sum divided by the samples, the first extent: `"batchmean"`.
    BatchMean,
}

impl Tensor {
    /// Computes (prediction - target)², as `torch.nn.functional.mse_loss`; both broadcast. Losses of
    /// f16 and bf16 are computed in f32 and rounded once.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the shapes do not broadcast, [`AutogradError::DType`] unless both
    /// are floats.
    pub fn mse_loss(&self, target: &Tensor, reduction: LossReduction) -> Result<Tensor> {
        self.distance_loss("mse_loss", target, reduction, Tensor::square)
    }

    /// Computes |prediction - target|, as `torch.nn.functional.l1_loss`.
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`].
    pub fn l1_loss(&self, target: &Tensor, reduction: LossReduction) -> Result<Tensor> {
        self.distance_loss("l1_loss", target, reduction, Tensor::abs)
    }

    /// Computes d² / 2 for distances d below `delta`, else delta (d - delta / 2), as
    /// `torch.nn.functional.huber_loss`.
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`], and [`AutogradError::Argument`] unless delta is positive.
    pub fn huber_loss(
        &self,
        target: &Tensor,
        delta: f32,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        const OP: &str = "huber_loss";
        if delta.is_nan() || delta <= 0.0 {
            let reason = format!("delta is {delta}, expected a positive number");
            return Err(AutogradError::Argument { op: OP, reason });
        }
        self.distance_loss(OP, target, reduction, |d| huber(&d.abs()?, delta))
    }

    /// Computes d² / (2 beta) for distances d below `beta`, else d - beta / 2, as
    /// `torch.nn.functional.smooth_l1_loss`; with beta 0 that is the distance.
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`], and [`AutogradError::Argument`] for a negative beta.
    pub fn smooth_l1_loss(
        &self,
        target: &Tensor,
        beta: f32,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        const OP: &str = "smooth_l1_loss";
        if beta.is_nan() || beta < 0.0 {
            let reason = format!("beta is {beta}, expected 0 or a positive number");
            return Err(AutogradError::Argument { op: OP, reason });
        }
        self.distance_loss(OP, target, reduction, |d| match beta == 0.0 {
            true => d.abs(),
            false => huber(&d.abs()?, beta)?.div(beta),
        })
    }

    /// Computes (1 - t) x + (1 + (p - 1) t) softplus(-x) of logits x and targets t, with the weight p
    /// of positive targets, times `weight`; both weights broadcast. As
    /// `torch.nn.functional.binary_cross_entropy_with_logits`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`] unless the target has this shape, [`AutogradError::DType`] unless both
    /// are floats, and [`AutogradError::Argument`] for weights that do not broadcast.
    pub fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        weight: Option<&Tensor>,
        pos_weight: Option<&Tensor>,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        const OP: &str = "binary_cross_entropy_with_logits";
        self.same_device(OP, [("weight", weight), ("pos_weight", pos_weight)])?;
        let (x, target, dtype) = self.loss_operands(OP, target)?;
        if x.shape() != target.shape() {
            return Err(target.shape_error(OP, "the target", format!("{:?}", x.shape())));
        }
        let mut tail = x.neg()?.softplus()?;
        if let Some(positive) = pos_weight {
            let positive = positive.to_dtype(DType::F32)?;
            tail = tail.mul(positive.sub(1.0)?.mul(&target)?.add(1.0)?)?;
        }
        let mut loss = target.neg()?.add(1.0)?.mul(x)?.add(tail)?;
        if let Some(weight) = weight {
            loss = loss.mul(weight.to_dtype(DType::F32)?)?;
        }
        loss.reduced_loss(reduction)?.to_dtype(dtype)
    }

    /// Computes t (log t - x) of log-probabilities x and targets t, 0 where t is 0, or with
    /// `log_target` exp(t) (t - x). As `torch.nn.functional.kl_div`; [`LossReduction::BatchMean`] is
    /// the divergence's mean over the samples of x. Both broadcast.
    ///
    /// # Errors
    /// As [`Tensor::mse_loss`].
    pub fn kl_div(
        &self,
        target: &Tensor,
        log_target: bool,
        reduction: LossReduction,
    ) -> Result<Tensor> {
        const OP: &str = "kl_div";
        let (x, target, dtype) = self.loss_operands(OP, target)?;
        let [x, target] = broadcast(OP, [("the input", &x), ("the target", &target)])?;
        let loss = match log_target {
            true => target.exp()?.mul(target.sub(x)?)?,
            false => {
                // Not the logarithm of 0, whose slope times 0 is no number. Negative targets and NaN are
                // NaN, and their gradients too, as x log x is there.
                let is_other = target.detach().ne(0.0)?;
                let log = target.where_(&is_other, 1.0)?.log()?;
                let entropy = target.mul(log)?.where_(&is_other, 0.0)?;
                entropy.sub(target.mul(x)?)?
            }
        };
        let loss = match (reduction, self.shape().first()) {
            // The samples are those of x, also where the target has more dimensions.
            (LossReduction::BatchMean, Some(&samples)) => loss.sum()?.div(samples as f32)?,
            _ => loss.reduced_loss(reduction)?,
        };
        loss.to_dtype(dtype)
    }

    /// Reduces a loss that is still by elements to the pass over a part of a batch: the sum of all,
    /// times `scale`, one element, such as one over the elements of the whole batch; and beside it each
    /// sample's sum (\[N\], unscaled, no part of the tape). The samples' bits do not depend on the batch.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for a loss without dimensions or a scale of
    /// several elements.
    pub fn loss_with_rows(&self, scale: &Tensor) -> Result<(Tensor, Tensor)> {
        const OP: &str = "loss_with_rows";
        self.same_device(OP, [("scale", Some(scale))])?;
        scale.expect_shape(OP, "scale", &[1])?;
        if self.rank() == 0 {
            return Err(self.shape_error(OP, "the loss", "[N, ..]"));
        }
        if self.is_half() {
            let (total, rows) = self.to_dtype(DType::F32)?.loss_with_rows(scale)?;
            return Ok((total.to_dtype(self.dtype())?, rows.to_dtype(self.dtype())?));
        }
        let inner: Vec<isize> = (1..self.rank() as isize).collect();
        let rows = match inner.is_empty() {
            true => self.clone(),
            false => self.sum_dim(&inner, false)?,
        };
        let total = rows.sum()?.mul(&scale.reshape::<usize>(&[])?)?;
        Ok((total, rows.detach()))
    }

    /// A loss of prediction - target, both broadcast.
    fn distance_loss(
        &self,
        op: &'static str,
        target: &Tensor,
        reduction: LossReduction,
        of_distance: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (x, target, dtype) = self.loss_operands(op, target)?;
        let [x, target] = broadcast(op, [("the input", &x), ("the target", &target)])?;
        let loss = of_distance(&x.sub(target)?)?;
        loss.reduced_loss(reduction)?.to_dtype(dtype)
    }

    /// Input and target of a loss in f32, and the type of its result.
    fn loss_operands(&self, op: &'static str, target: &Tensor) -> Result<(Tensor, Tensor, DType)> {
        self.same_device(op, [("the target", Some(target))])?;
        for (argument, x) in [("the input", self), ("the target", target)] {
            if !x.dtype().is_float() {
                x.expect_type(op, argument, DType::F32)?;
            }
        }
        let wide = |x: &Tensor| x.to_dtype(DType::F32);
        Ok((wide(self)?, wide(target)?, promoted(self, target)))
    }

    /// Reduces elements that all weigh the same.
    pub(super) fn reduced_loss(&self, reduction: LossReduction) -> Result<Tensor> {
        match reduction {
            LossReduction::None => Ok(self.clone()),
            LossReduction::Mean => self.mean(),
            LossReduction::Sum => self.sum(),
            LossReduction::BatchMean => {
                let samples = self.shape().first().copied().unwrap_or(1);
                self.sum()?.div(samples as f32)
            }
        }
    }
}

/// d² / 2 below delta, else delta (d - delta / 2), of distances.
fn huber(distance: &Tensor, delta: f32) -> Result<Tensor> {
    let near = distance.detach().lt(delta)?;
    let line = distance.sub(0.5 * delta)?.mul(delta)?;
    distance.square()?.mul(0.5)?.where_(&near, line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input, message};

    /// Predictions and targets whose distances are away from the corners at 0 and 1.
    fn apart() -> [Tensor; 2] {
        let device = hlx_core::testing::devices()[0].clone();
        let of = |values: &[f32]| Tensor::from_slice(&device, values, &[2, 3]).expect("uploads");
        [
            of(&[0.5, -1.0, 2.0, 0.25, 3.0, -0.5]),
            of(&[0.0, 1.0, 2.5, 0.75, -1.0, 0.125]),
        ]
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        for reduction in [LossReduction::None, LossReduction::Mean, LossReduction::Sum] {
            let x = apart();
            check("mse_loss", &x, |x| x[0].mse_loss(&x[1], reduction));
            check("l1_loss", &x, |x| x[0].l1_loss(&x[1], reduction));
            check("huber_loss", &x, |x| x[0].huber_loss(&x[1], 1.5, reduction));
            check("smooth_l1_loss", &x, |x| {
                x[0].smooth_l1_loss(&x[1], 0.75, reduction)
            });
        }
        let x = [input(1, &[4, 3]), input(2, &[4, 3]), input(3, &[3])];
        check("binary_cross_entropy_with_logits", &x, |x| {
            let (target, weights) = (x[1].sigmoid()?, x[2].exp()?);
            let (w, p) = (Some(&x[2]), Some(&weights));
            x[0].binary_cross_entropy_with_logits(&target, w, p, LossReduction::Mean)
        });
        check("kl_div", &x[..2], |x| {
            let log = x[0].log_softmax(-1)?;
            log.kl_div(&x[1].softmax()?, false, LossReduction::BatchMean)
        });
        check("kl_div", &x[..2], |x| {
            let logs = [x[0].log_softmax(-1)?, x[1].log_softmax(-1)?];
            logs[0].kl_div(&logs[1], true, LossReduction::Sum)
        });
    }

    #[test]
    fn input_and_target_broadcast() -> Result<()> {
        let x = [input(1, &[2, 3]), input(2, &[4, 1, 3])];
        let (none, mean) = (LossReduction::None, LossReduction::BatchMean);
        assert_eq!(x[0].mse_loss(&x[1], none)?.shape(), [4, 2, 3]);
        check("mse_loss", &x, |x| x[0].mse_loss(&x[1], none));
        check("kl_div", &x, |x| x[0].kl_div(&x[1].exp()?, false, mean));
        let target = x[1].exp()?;
        let sum = x[0].kl_div(&target, false, LossReduction::Sum)?;
        let of_samples = x[0].kl_div(&target, false, mean)?;
        assert_eq!(of_samples.to_vec::<f32>()?, sum.div(2.0)?.to_vec::<f32>()?);
        Ok(())
    }

    #[test]
    fn losses_of_16_bits_are_rounded_once() -> Result<()> {
        let x = [input(1, &[64]), input(2, &[64])];
        for dtype in [DType::F16, DType::BF16] {
            let half = [x[0].to_dtype(dtype)?, x[1].to_dtype(dtype)?];
            let in_f32 = [half[0].to_dtype(DType::F32)?, half[1].to_dtype(DType::F32)?];
            let loss = half[0].mse_loss(&half[1], LossReduction::Mean)?;
            let exact = in_f32[0].mse_loss(&in_f32[1], LossReduction::Mean)?;
            assert!(loss.equal(&exact.to_dtype(dtype)?)?);
            // Beside f32 the result is f32, as in PyTorch.
            let mixed = half[0].l1_loss(&in_f32[1], LossReduction::Mean)?;
            assert_eq!(mixed.dtype(), DType::F32);
        }
        Ok(())
    }

    #[test]
    fn a_logit_of_0_has_a_slope_and_a_target_of_0_none() -> Result<()> {
        let [x, _] = apart();
        let zero = x.zeros_like()?.with_gradient();
        let target = x.ones_like()?;
        let loss =
            zero.binary_cross_entropy_with_logits(&target, None, None, LossReduction::Sum)?;
        loss.backward()?;
        assert_eq!(zero.grad().expect("a slope").to_vec::<f32>()?, [-0.5; 6]);
        let target = x.zeros_like()?.with_gradient();
        let loss = x.kl_div(&target, false, LossReduction::Sum)?;
        assert_eq!(loss.item::<f32>()?, 0.0);
        loss.backward()?;
        let slopes = target.grad().expect("a slope").to_vec::<f32>()?;
        assert!(slopes.iter().all(|slope| slope.is_finite()), "{slopes:?}");
        Ok(())
    }

    #[test]
    fn the_rows_of_a_loss_do_not_depend_on_the_batch() -> Result<()> {
        let [x, target] = [input(1, &[4, 5]), input(2, &[4, 5])];
        let scale = Tensor::from_slice(x.device(), &[0.25], &[1])?;
        let each = x.mse_loss(&target, LossReduction::None)?;
        let (total, rows) = each.loss_with_rows(&scale)?;
        assert_eq!((total.shape(), rows.shape()), (&[][..], &[4][..]));
        let alone = x
            .narrow(0, 2, 1)?
            .mse_loss(&target.narrow(0, 2, 1)?, LossReduction::None)?;
        let (_, row) = alone.loss_with_rows(&scale)?;
        assert_eq!(rows.to_vec::<f32>()?[2], row.to_vec::<f32>()?[0]);
        check("loss_with_rows", &[x], |x| {
            Ok(x[0]
                .mse_loss(&target, LossReduction::None)?
                .loss_with_rows(&scale)?
                .0)
        });
        Ok(())
    }

    #[test]
    fn unfitting_arguments_are_refused() {
        let [x, target] = apart();
        let text = message(x.mse_loss(&input(1, &[2]), LossReduction::Mean));
        assert_eq!(text, "mse_loss: shapes [2, 3] and [2] do not broadcast");
        let whole = target.to_dtype(DType::I32).expect("converts");
        let text = message(x.l1_loss(&whole, LossReduction::Mean));
        assert_eq!(
            text,
            "l1_loss: the target has elements of i32, expected f32"
        );
        let row = input(1, &[3]);
        let mean = LossReduction::Mean;
        let text = message(x.binary_cross_entropy_with_logits(&row, None, None, mean));
        assert_eq!(
            text,
            "binary_cross_entropy_with_logits: the target has shape [3], expected [2, 3]"
        );
        let text = message(x.huber_loss(&target, 0.0, LossReduction::Mean));
        assert_eq!(text, "huber_loss: delta is 0, expected a positive number");
    }
}
