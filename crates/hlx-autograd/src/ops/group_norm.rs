//! Group norm: the channels of a sample in groups, each normalised by its own statistics.

use super::normal::{add_affine_gradients, beside};
use crate::{AutogradError, DType, Result, Tensor};

const OP: &str = "group_norm";

impl Tensor {
    /// Normalises each group of C / `groups` channels of a sample of \[N, C, ..\] to mean 0 and variance
    /// 1, then applies gain and bias \[C\], as `torch.nn.functional.group_norm`: a layer norm of the
    /// group, then `n gain + bias`, each rounded. An input of f16 or bf16 is normalised in f32, and the
    /// result rounded once.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape), [`AutogradError::Argument`] for groups
    /// that do not divide the channels, a kernel error for groups without elements.
    pub fn group_norm(
        &self,
        groups: usize,
        affine: Option<[&Tensor; 2]>,
        eps: f32,
    ) -> Result<Tensor> {
        if self.is_half() {
            return self.affine_in_f32(affine, |x, affine| x.group_norm(groups, affine, eps));
        }
        self.expect_type(OP, "the input", DType::F32)?;
        let &[samples, channels, ref inner @ ..] = self.shape() else {
            return Err(self.shape_error(OP, "the input", "[N, C, ..]"));
        };
        if groups == 0 || !channels.is_multiple_of(groups) {
            let reason = format!("{groups} groups do not divide {channels} channels");
            return Err(AutogradError::Argument { op: OP, reason });
        }
        if let Some([weight, bias]) = affine {
            self.same_device(OP, [("weight", Some(weight)), ("bias", Some(bias))])?;
            weight.expect_shape(OP, "weight", &[channels])?;
            bias.expect_shape(OP, "bias", &[channels])?;
        }
        let normal = match samples {
            0 => self.clone(),
            _ => {
                let width = channels / groups * inner.iter().product::<usize>();
                let ones = Tensor::ones(self.device(), &[width], DType::F32)?;
                let zeros = Tensor::zeros(self.device(), &[width], DType::F32)?;
                let rows = self.reshape(&[samples * groups, width])?;
                rows.layer_norm(&ones, &zeros, eps)?.reshape(self.shape())?
            }
        };
        match affine {
            Some([weight, bias]) => normal.channel_affine(weight, bias),
            None => Ok(normal),
        }
    }

    /// Computes x gain + bias of channels: a product and an addition. The parameters are leaves still,
    /// so that their sums can go on over the parts of a shard.
    fn channel_affine(&self, weight: &Tensor, bias: &Tensor) -> Result<Tensor> {
        let rank = self.rank();
        let of = |values: &Tensor| beside(&values.detach(), rank);
        let y = self.detach().mul(of(weight)?)?.add(of(bias)?)?.buffer()?;
        let places = [self.input(), weight.input(), bias.input()];
        let (x, gain, samples) = (self.clone(), weight.clone(), self.samples());
        let inputs = [self, weight, bias];
        let output = Tensor::of_rule(OP, &inputs, (y, self.shape()), move |pass, dy, _| {
            let [x_place, weight, bias] = &places;
            add_affine_gradients(pass, [weight, bias], [dy, &x], samples)?;
            match x_place.requires_grad() {
                true => pass.add_tensor(x_place, &dy.mul(beside(&gain, rank)?)?),
                false => Ok(()),
            }
        })?;
        Ok(output.with_samples_of(samples))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let inputs = [input(1, &[2, 4, 3]), input(2, &[4]), input(3, &[4])];
        check("group_norm", &inputs, |x| {
            x[0].group_norm(2, Some([&x[1], &x[2]]), 1e-5)
        });
        check("group_norm", &[input(1, &[2, 4])], |x| {
            x[0].group_norm(1, None, 1e-5)
        });
    }

    #[test]
    fn groups_that_do_not_divide_the_channels_are_refused() {
        let text = message(input(1, &[2, 4, 3]).group_norm(3, None, 1e-5));
        assert_eq!(text, "group_norm: 3 groups do not divide 4 channels");
    }
}
