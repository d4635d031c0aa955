//! Losses over classes: negative log-likelihood and cross-entropy, with class weights, an ignored
//! target, label smoothing, and targets that are probabilities.
//!
//! They are made of operations, so that they can be differentiated again; the exception is
//! cross-entropy without class weights, reduced to one number, which is a kernel.

use super::loss::LossReduction;
use crate::{AutogradError, DType, IGNORE_INDEX, Result, Tensor};

/// How a cross-entropy or a negative log-likelihood counts its targets.
#[derive(Clone, Copy, Debug)]
pub struct CrossEntropyOptions<'a> {
    /// A weight for each class, \[C\].
    pub weight: Option<&'a Tensor>,
    /// The target that counts nothing: PyTorch's `ignore_index`, whose -100 is no u32.
    pub ignore_index: u32,
    /// The part of a target that is spread evenly over all classes; not for `nll_loss`.
    pub label_smoothing: f32,
    /// What becomes of the positions' losses; the mean is over the weights of those that count.
    pub reduction: LossReduction,
}

impl Default for CrossEntropyOptions<'_> {
    fn default() -> Self {
        Self {
            weight: None,
            ignore_index: IGNORE_INDEX,
            label_smoothing: 0.0,
            reduction: LossReduction::Mean,
        }
    }
}

impl Tensor {
    /// Computes -weight\[target\] x\[target\] of log-probabilities \[N, C, ..\] (or \[C\]) and ids
    /// \[N, ..\] (or none), as `torch.nn.functional.nll_loss`. Losses of f16 and bf16 are computed in f32
    /// and rounded once.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) and
    /// [`AutogradError::DType`](crate::AutogradError::DType). An id that is no class is no error, as the
    /// host would have to wait for it: its loss is NaN, and so is its gradient.
    pub fn nll_loss(&self, targets: &Tensor, options: &CrossEntropyOptions<'_>) -> Result<Tensor> {
        const OP: &str = "nll_loss";
        if self.is_half() {
            return self.class_loss_in_f32(targets, options, Tensor::nll_loss);
        }
        let axis = self.class_axis(OP, targets, options.weight)?;
        let (chosen, weights) = self.chosen(axis, targets, options)?;
        weighted(&chosen, &weights, options.reduction)
    }

    /// Computes -log softmax(x)\[target\] of logits \[N, C, ..\] (or \[C\]), as
    /// `torch.nn.functional.cross_entropy`: targets are ids \[N, ..\], or probabilities of the logits'
    /// shape and type. [`Tensor::cross_entropy_scaled`] is the kernel for parts of a batch.
    ///
    /// # Errors
    /// As [`Tensor::nll_loss`], and [`AutogradError::Argument`] unless the smoothing is in \[0, 1\].
    pub fn cross_entropy_loss(
        &self,
        targets: &Tensor,
        options: &CrossEntropyOptions<'_>,
    ) -> Result<Tensor> {
        const OP: &str = "cross_entropy_loss";
        if self.is_half() {
            return self.class_loss_in_f32(targets, options, Tensor::cross_entropy_loss);
        }
        let smoothing = options.label_smoothing;
        if !(0.0..=1.0).contains(&smoothing) {
            let reason = format!("label_smoothing is {smoothing}, expected 0 to 1");
            return Err(AutogradError::Argument { op: OP, reason });
        }
        let is_probability = targets.dtype() == DType::F32 && targets.shape() == self.shape();
        if is_probability {
            return self.soft_cross_entropy(OP, targets, options);
        }
        let axis = self.class_axis(OP, targets, options.weight)?;
        let fused = options.weight.is_none()
            && options.reduction != LossReduction::None
            && smoothing < 1.0
            && self.n_elements() > 0;
        if fused {
            return self.fused_cross_entropy(axis, targets, options);
        }
        // Whatever the logits of ignored targets are, they have no gradient, as in the kernel.
        let counts = targets.ne(target_of(targets, options)?)?;
        let counted = self.where_(&counts.unsqueeze(axis as isize)?, 0.0)?;
        let log = counted.log_softmax(axis as isize)?;
        let (mut loss, weights) = log.chosen(axis, targets, options)?;
        if smoothing > 0.0 {
            let all = log.weighted_classes(axis, options.weight)?;
            let spread = smoothing / self.shape()[axis] as f32;
            let smooth = all.neg()?.mul(spread)?;
            loss = loss
                .mul(1.0 - smoothing)?
                .add(smooth)?
                .where_(&counts, 0.0)?;
        }
        weighted(&loss, &weights, options.reduction)
    }

    /// A loss of 16-bit elements, with targets and weights of 16 bits or f32.
    fn class_loss_in_f32(
        &self,
        targets: &Tensor,
        options: &CrossEntropyOptions<'_>,
        loss: impl FnOnce(&Tensor, &Tensor, &CrossEntropyOptions<'_>) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let weight = options.weight.map(Tensor::widened).transpose()?;
        let targets = targets.widened()?;
        let options = CrossEntropyOptions {
            weight: weight.as_ref(),
            ..*options
        };
        self.in_f32(|x| loss(x, &targets, &options))
    }

    /// The classes' dimension: the second, or of one dimension that one.
    fn class_dim(&self, op: &'static str) -> Result<usize> {
        match self.rank() {
            0 => Err(self.shape_error(op, "the input", "[N, C, ..] or [C]")),
            1 => Ok(0),
            _ => Ok(1),
        }
    }

    /// Checks ids and weights against logits, and returns the classes' dimension.
    fn class_axis(
        &self,
        op: &'static str,
        targets: &Tensor,
        weight: Option<&Tensor>,
    ) -> Result<usize> {
        self.same_device(op, [("targets", Some(targets)), ("weight", weight)])?;
        self.expect_type(op, "the input", DType::F32)?;
        let axis = self.class_dim(op)?;
        targets.expect_type(op, "targets", DType::U32)?;
        let mut expected = self.shape().to_vec();
        let classes = expected.remove(axis);
        if targets.shape() != expected {
            return Err(targets.shape_error(op, "targets", format!("{expected:?}")));
        }
        if let Some(weight) = weight {
            weight.expect_shape(op, "weight", &[classes])?;
        }
        Ok(axis)
    }

    /// The losses of log-probabilities at the targets, 0 where they count nothing, and the weights by
    /// which they count.
    fn chosen(
        &self,
        axis: usize,
        targets: &Tensor,
        options: &CrossEntropyOptions<'_>,
    ) -> Result<(Tensor, Tensor)> {
        let device = self.device();
        let counts = targets.ne(target_of(targets, options)?)?;
        let classes = Tensor::whole_u32(
            device,
            u32::try_from(self.shape()[axis]).unwrap_or(u32::MAX),
        )?;
        let is_class = targets.lt(classes)?;
        let ids = counts.logical_and(&is_class)?;
        let ids = targets.where_(&ids, Tensor::zeros(device, &[], DType::U32)?)?;
        let dim = axis as isize;
        // A target that is no class has a loss and gradients of NaN, as in the kernel.
        let is_fine = is_class.logical_or(counts.logical_not()?)?;
        let sign = Tensor::full(device, &[], -1.0, DType::F32)?.where_(&is_fine, f32::NAN)?;
        let picked = self.gather(dim, &ids.unsqueeze(dim)?)?.squeeze(dim)?;
        let picked = picked.mul(sign)?;
        let mut weights = counts.to_dtype(DType::F32)?;
        let mut loss = picked;
        if let Some(weight) = options.weight {
            let flat = ids.reshape(&[ids.n_elements()])?;
            let of_targets = weight.index_select(0, &flat)?.reshape(ids.shape())?;
            loss = loss.mul(&of_targets)?;
            weights = of_targets.mul(weights)?;
        }
        Ok((loss.where_(&counts, 0.0)?, weights))
    }

    /// The sum over classes of x times the class's weight.
    fn weighted_classes(&self, axis: usize, weight: Option<&Tensor>) -> Result<Tensor> {
        let terms = match weight {
            Some(weight) => {
                let mut shape = vec![1; self.rank() - axis];
                shape[0] = weight.n_elements();
                self.mul(weight.reshape(&shape)?)?
            }
            None => self.clone(),
        };
        terms.sum_dim(&[axis as isize], false)
    }

    /// Cross-entropy by the kernel, reduced to one number.
    fn fused_cross_entropy(
        &self,
        axis: usize,
        targets: &Tensor,
        options: &CrossEntropyOptions<'_>,
    ) -> Result<Tensor> {
        let device = self.device();
        let mut last: Vec<isize> = (0..self.rank() as isize).collect();
        let class = last.remove(axis);
        last.push(class);
        let counts = targets.ne(target_of(targets, options)?)?;
        let ignored = Tensor::whole_u32(device, IGNORE_INDEX)?;
        let ids = match options.ignore_index {
            IGNORE_INDEX => targets.clone(),
            // What the kernel would ignore is no class here.
            _ => targets
                .minimum(Tensor::whole_u32(device, IGNORE_INDEX - 1)?)?
                .where_(&counts, ignored)?,
        };
        let scale = match options.reduction {
            LossReduction::Mean => counts.to_dtype(DType::F32)?.sum()?.reciprocal()?,
            LossReduction::BatchMean => {
                let samples = targets.shape().first().copied().unwrap_or(1);
                Tensor::full(device, &[], samples as f32, DType::F32)?.reciprocal()?
            }
            _ => Tensor::ones(device, &[], DType::F32)?,
        };
        let scale = scale.reshape(&[1])?;
        let rows = self.permute(&last)?;
        rows.cross_entropy_scaled(&ids, &scale, options.label_smoothing)
    }

    /// Cross-entropy against probabilities; the mean is over the positions.
    fn soft_cross_entropy(
        &self,
        op: &'static str,
        targets: &Tensor,
        options: &CrossEntropyOptions<'_>,
    ) -> Result<Tensor> {
        self.same_device(op, [("targets", Some(targets)), ("weight", options.weight)])?;
        self.expect_type(op, "the input", DType::F32)?;
        let axis = self.class_dim(op)?;
        let classes = self.shape()[axis];
        if let Some(weight) = options.weight {
            weight.expect_shape(op, "weight", &[classes])?;
        }
        let smoothing = options.label_smoothing;
        let spread = smoothing / classes as f32;
        let targets = match smoothing == 0.0 {
            true => targets.clone(),
            false => targets.mul(1.0 - smoothing)?.add(spread)?,
        };
        let log = self.log_softmax(axis as isize)?;
        let loss = log
            .mul(targets)?
            .weighted_classes(axis, options.weight)?
            .neg()?;
        loss.reduced_loss(options.reduction)
    }
}

/// The ignored target beside the ids, without dimensions.
fn target_of(targets: &Tensor, options: &CrossEntropyOptions<'_>) -> Result<Tensor> {
    Tensor::whole_u32(targets.device(), options.ignore_index)
}

/// Reduces losses that are weighted already; a mean is over the weights.
fn weighted(loss: &Tensor, weights: &Tensor, reduction: LossReduction) -> Result<Tensor> {
    match reduction {
        LossReduction::Mean => loss.sum()?.div(weights.sum()?),
        other => loss.reduced_loss(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input, message, values};

    fn targets(logits: &Tensor, ids: &[u32], shape: &[usize]) -> Tensor {
        Tensor::from_slice::<u32>(logits.device(), ids, shape).expect("uploads")
    }

    const REDUCTIONS: [LossReduction; 4] = [
        LossReduction::None,
        LossReduction::Mean,
        LossReduction::Sum,
        LossReduction::BatchMean,
    ];

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let logits = input(1, &[3, 4, 2]);
        let ids = targets(&logits, &[0, 3, 9, 1, 2, 2], &[3, 2]);
        let weight = input(2, &[4]).exp().expect("values");
        for reduction in REDUCTIONS {
            for (weight, label_smoothing) in [(None, 0.0), (None, 0.1), (Some(&weight), 0.2)] {
                let options = CrossEntropyOptions {
                    weight,
                    ignore_index: 9,
                    label_smoothing,
                    reduction,
                };
                let x = std::slice::from_ref(&logits);
                check("cross_entropy_loss", x, |x| {
                    x[0].cross_entropy_loss(&ids, &options)
                });
                check("nll_loss", x, |x| x[0].nll_loss(&ids, &options));
                let pair = [logits.clone(), input(5, &[3, 4, 2])];
                check("cross_entropy_loss", &pair, |x| {
                    x[0].cross_entropy_loss(&x[1].softmax_dim(1)?, &options)
                });
            }
        }
    }

    /// The definition in f64 beside the kernel's path and the one of operations.
    #[test]
    fn the_kernel_and_the_operations_agree_with_the_definition() -> Result<()> {
        let logits = input(1, &[3, 4, 2]);
        let (x, ids) = (values(1, 24), [0, 3, 9, 1, 2, 2]);
        let (smoothing, mut total) = (0.1, 0.0);
        for (position, &id) in ids.iter().enumerate().filter(|(_, id)| **id != 9) {
            let at = |class: usize| f64::from(x[position / 2 * 8 + class * 2 + position % 2]);
            let log_sum = (0..4).map(|class| at(class).exp()).sum::<f64>().ln();
            let all: f64 = (0..4).map(|class| log_sum - at(class)).sum();
            total += (1.0 - smoothing) * (log_sum - at(id as usize)) + smoothing / 4.0 * all;
        }
        let ids = targets(&logits, &ids, &[3, 2]);
        let ones = Tensor::ones(logits.device(), &[4], DType::F32)?;
        for weight in [None, Some(&ones)] {
            for (reduction, divisor) in REDUCTIONS[1..].iter().zip([5.0, 1.0, 3.0]) {
                let options = CrossEntropyOptions {
                    weight,
                    ignore_index: 9,
                    label_smoothing: 0.1,
                    reduction: *reduction,
                };
                let loss = logits.cross_entropy_loss(&ids, &options)?.item::<f32>()?;
                assert!(
                    (f64::from(loss) - total / divisor).abs() < 1e-5,
                    "{reduction:?}"
                );
            }
        }
        Ok(())
    }

    #[test]
    fn one_sample_without_a_batch_and_no_counted_target() -> Result<()> {
        let logits = input(1, &[4]);
        let options = CrossEntropyOptions::default();
        let one = targets(&logits, &[2], &[]);
        let alone = logits.cross_entropy_loss(&one, &options)?.item::<f32>()?;
        let row = logits.reshape(&[1, 4])?;
        let batched = row
            .cross_entropy_loss(&one.reshape(&[1])?, &options)?
            .item::<f32>()?;
        assert_eq!(alone, batched);
        let none = targets(&logits, &[IGNORE_INDEX], &[]);
        assert!(
            logits
                .cross_entropy_loss(&none, &options)?
                .item::<f32>()?
                .is_nan()
        );
        Ok(())
    }

    #[test]
    fn unfitting_arguments_are_refused() {
        let logits = input(1, &[3, 4]);
        let options = CrossEntropyOptions::default();
        let text = message(logits.nll_loss(&targets(&logits, &[0, 1], &[2]), &options));
        assert_eq!(text, "nll_loss: targets has shape [2], expected [3]");
        let text = message(logits.cross_entropy_loss(&input(1, &[3]), &options));
        assert_eq!(
            text,
            "cross_entropy_loss: targets has elements of f32, expected u32"
        );
        let smoothed = CrossEntropyOptions {
            label_smoothing: 1.5,
            ..options
        };
        let ids = targets(&logits, &[0, 1, 2], &[3]);
        let text = message(logits.cross_entropy_loss(&ids, &smoothed));
        assert_eq!(
            text,
            "cross_entropy_loss: label_smoothing is 1.5, expected 0 to 1"
        );
    }
}
