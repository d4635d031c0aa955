//! Forms that PyTorch gives operations by arguments: one bound of a clamp, a quotient rounded to whole
//! numbers, a sum with a factor.

use super::frame::{broadcast, promoted};
use super::scalar::Operand;
use crate::graph::tape::no_grad;
use crate::graph::tensor::is_half;
use crate::{DType, Result, Tensor};

/// How a quotient becomes a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Down, as [`Tensor::floor_divide`].
    Floor,
    /// Toward zero.
    Trunc,
}

/// Whether an operand stands for a number: no dimensions, and no gradient.
fn is_number(bound: &Tensor) -> bool {
    bound.rank() == 0 && !bound.requires_grad()
}

impl Tensor {
    /// Takes the larger of x and a bound, as `torch.clamp(x, min=..)`: NaN stays. Where x is equal to a
    /// number the gradient is 0; a tensor shares it, as in [`Tensor::maximum`].
    ///
    /// # Errors
    /// As [`Tensor::maximum`].
    pub fn clamp_min(&self, low: impl Operand) -> Result<Tensor> {
        let low = low.beside(self)?;
        if !is_number(&low) {
            return self.maximum(low);
        }
        let within = self.ge(&low)?;
        self.bounded("clamp_min", low, within, |x, low| x.le(low))
    }

    /// Takes the smaller of x and a bound, as `torch.clamp(x, max=..)`; see [`Tensor::clamp_min`].
    ///
    /// # Errors
    /// As [`Tensor::minimum`].
    pub fn clamp_max(&self, high: impl Operand) -> Result<Tensor> {
        let high = high.beside(self)?;
        if !is_number(&high) {
            return self.minimum(high);
        }
        let within = self.le(&high)?;
        self.bounded("clamp_max", high, within, |x, high| x.ge(high))
    }

    /// x where it is within the bound or NaN, else the bound. The gradient is 0 where x is `at_or_past` it.
    fn bounded(
        &self,
        op: &'static str,
        bound: Tensor,
        within: Tensor,
        at_or_past: fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mask = match self.dtype().is_float() {
            true => within.logical_or(self.isnan()?)?,
            false => within,
        };
        let value = no_grad(|| self.where_(&mask, &bound))?;
        if !(self.dtype().is_float() && self.requires_grad()) {
            return Ok(value);
        }
        let (place, x, output) = (self.input(), self.clone(), (value.buffer()?, value.shape()));
        Tensor::of_rule(op, &[self], output, move |pass, dy, _| {
            let zero = Tensor::zeros(dy.device(), &[], dy.dtype())?;
            let dx = zero.where_(&at_or_past(&x, &bound)?, dy)?;
            pass.add_tensor(&place, &dx.to_dtype(x.dtype())?)
        })
    }

    /// Computes log(1 + exp(beta x)) / beta, and x where beta x is above a threshold:
    /// `torch.nn.functional.softplus(x, beta, threshold)`.
    ///
    /// # Errors
    /// As [`Tensor::unary`].
    pub fn softplus_with(&self, beta: f32, threshold: f32) -> Result<Tensor> {
        if self.is_half() {
            return self.in_f32(|x| x.softplus_with(beta, threshold));
        }
        let scaled = self.mul(beta)?;
        let smooth = scaled.softplus()?.mul(1.0 / beta)?;
        smooth.where_(&scaled.le(threshold)?, self)
    }

    /// Computes `x + alpha y`, as `torch.add(x, y, alpha=alpha)`; f16 and bf16 are rounded once.
    ///
    /// # Errors
    /// As [`Tensor::add`].
    pub fn add_scaled(&self, other: impl Operand, alpha: impl Operand) -> Result<Tensor> {
        let other = other.beside(self)?;
        let dtype = promoted(self, &other);
        if !is_half(dtype) {
            // The product is of the sum's type: a narrower one would round or wrap.
            return self.add(other.to_dtype(dtype)?.mul(alpha)?);
        }
        let wide = other.to_dtype(DType::F32)?.mul(alpha)?;
        self.to_dtype(DType::F32)?.add(wide)?.to_dtype(dtype)
    }

    /// Divides and rounds to a whole number, as `torch.div(.., rounding_mode=..)`. Integers stay
    /// integers; a quotient by 0 of them is 0. The gradient is 0.
    ///
    /// # Errors
    /// As [`Tensor::div`].
    pub fn div_rounded(&self, other: impl Operand, rounding: Rounding) -> Result<Tensor> {
        const OP: &str = "div";
        let other = other.beside(self)?;
        let quotient = no_grad(|| self.rounded_quotient(&other, rounding))?;
        if !quotient.dtype().is_float() {
            return Ok(quotient);
        }
        let [a, b] = broadcast(
            OP,
            [("the left operand", self), ("the right operand", &other)],
        )?;
        let inputs = [&a, &b].map(|x| (x.input(), x.dtype()));
        let output = (quotient.buffer()?, quotient.shape());
        Tensor::of_rule(OP, &[&a, &b], output, move |pass, dy, _| {
            for (input, dtype) in &inputs {
                let zeros = Tensor::zeros(dy.device(), dy.shape(), *dtype)?;
                pass.add_tensor(input, &zeros)?;
            }
            Ok(())
        })
    }

    fn rounded_quotient(&self, other: &Tensor, rounding: Rounding) -> Result<Tensor> {
        if rounding == Rounding::Floor {
            return self.floor_divide(other);
        }
        let dtype = promoted(self, other);
        if dtype.is_float() {
            // A quotient rounded to 16 bits may be a whole number that it is below.
            let wide = self
                .to_dtype(DType::F32)?
                .div(other.to_dtype(DType::F32)?)?;
            return wide.trunc()?.to_dtype(dtype);
        }
        // Down, and up again by one where that is away from zero.
        let floor = self.floor_divide(other)?;
        let rest = self.remainder(other)?.ne(0)?;
        let below = floor.lt(0)?.logical_and(rest)?;
        floor.add(below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input};

    #[test]
    fn derivatives_agree_with_finite_differences() -> Result<()> {
        let x = [input(1, &[3, 4]), input(2, &[4])];
        check("clamp_min", &x, |x| x[0].clamp_min(&x[1]));
        check("clamp_max", &x, |x| x[0].clamp_max(&x[1]));
        check("softplus", &x[..1], |x| x[0].softplus_with(3.0, 2.0));
        Ok(())
    }

    #[test]
    fn bounds_keep_nan_and_have_no_gradient_at_them() -> Result<()> {
        let device = hlx_core::testing::devices()[0].clone();
        let x = Tensor::from_slice(&device, &[1.0, 2.0, f32::NAN, 3.0], &[4])?.with_gradient();
        let y = x.clamp_min(2.0)?;
        let found = y.to_vec::<f32>()?;
        assert_eq!((found[0], found[1], found[3]), (2.0, 2.0, 3.0));
        assert!(found[2].is_nan());
        y.sum()?.backward()?;
        assert_eq!(
            x.grad().expect("one").to_vec::<f32>()?,
            [0.0, 0.0, 1.0, 1.0]
        );
        let nan = Tensor::from_slice(&device, &[f32::NAN], &[1])?;
        assert!(
            x.clamp_max(&nan)?
                .to_vec::<f32>()?
                .iter()
                .all(|value| value.is_nan())
        );
        Ok(())
    }

    #[test]
    fn whole_quotients_go_toward_zero() -> Result<()> {
        let device = hlx_core::testing::devices()[0].clone();
        let a = Tensor::from_slice(&device, &[-7_i32, 7, -6, 5, 3], &[5])?;
        let b = Tensor::from_slice(&device, &[2_i32, -2, 3, 2, 0], &[5])?;
        let quotient = a.div_rounded(&b, Rounding::Trunc)?;
        assert_eq!(quotient.to_vec::<i32>()?, [-3, -3, -2, 2, 0]);
        let floor = a.div_rounded(&b, Rounding::Floor)?;
        assert_eq!(floor.to_vec::<i32>()?, [-4, -4, -2, 2, 0]);
        Ok(())
    }
}
