//! The choice of elements by a condition.

use hlx_kernels::elementwise;

use super::frame::{broadcast, promoted};
use super::scalar::Operand;
use crate::{Result, Tensor};

impl Tensor {
    /// Takes this tensor's element where `condition` holds, else the other one's: `torch.where(
    /// condition, self, other)`. All three broadcast.
    ///
    /// # Errors
    /// [`AutogradError::DType`](crate::AutogradError::DType) if the condition is no `bool`,
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) if the shapes do not broadcast.
    #[doc = example!(
        x: "assert_eq!(x.where_(&x.gt(3.0)?, 0.0)?.to_vec()?, [0.0, 0.0, 0.0, 4.0, 5.0, 6.0]);"
    )]
    pub fn where_(&self, condition: &Tensor, other: impl Operand) -> Result<Tensor> {
        const OP: &str = "where";
        condition.expect_type(OP, "the condition", crate::DType::Bool)?;
        let other = other.beside(self)?;
        let dtype = promoted(self, &other);
        let (one, two) = (self.to_dtype(dtype)?, other.to_dtype(dtype)?);
        let operands = [
            ("self", &one),
            ("the condition", condition),
            ("the other operand", &two),
        ];
        let [a, condition, b] = broadcast(OP, operands)?;
        let ctx = self.context();
        let out = ctx.alloc_typed(dtype, a.n_elements())?;
        elementwise::select(ctx, condition.operand(), a.operand(), b.operand(), &out)?;
        let [left, right] = [a.input(), b.input()];
        let shape = a.shape().to_vec();
        Tensor::of_rule(OP, &[&a, &b], (out, &shape), move |pass, dy, _| {
            let zero = Tensor::zeros(dy.context(), &[], dy.dtype())?;
            if left.requires_grad() {
                pass.add_tensor(&left, &dy.where_(&condition, &zero)?)?;
            }
            if right.requires_grad() {
                pass.add_tensor(&right, &zero.where_(&condition, dy)?)?;
            }
            Ok(())
        })
    }

    /// Takes `value`, converted to this tensor's type, where `mask` holds, as
    /// `torch.Tensor.masked_fill`.
    ///
    /// # Errors
    /// As [`Tensor::where_`].
    #[doc = example!(
        x: "assert_eq!(x.masked_fill(&x.gt(3.0)?, 0.0)?.to_vec()?, [1.0, 2.0, 3.0, 0.0, 0.0, 0.0]);"
    )]
    pub fn masked_fill(&self, mask: &Tensor, value: f32) -> Result<Tensor> {
        self.same_context("masked_fill", [("the mask", Some(mask))])?;
        let value = Tensor::full(self.context(), &[], value, self.dtype())?;
        self.where_(&mask.logical_not()?, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() -> Result<()> {
        let (x, y) = (input(1, &[3, 4]), input(2, &[4]));
        let mask = x.gt(0.0)?;
        check("where", &[x.clone(), y], |x| x[0].where_(&mask, &x[1]));
        check("masked_fill", std::slice::from_ref(&x), |x| {
            x[0].masked_fill(&mask, 3.0)
        });
        let text = message(x.where_(&x, 0.0));
        assert_eq!(
            text,
            "where: the condition has elements of f32, expected bool"
        );
        Ok(())
    }
}
