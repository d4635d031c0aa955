//! The choice of elements by a condition or by their place beside a diagonal.

use hlx_kernels::elementwise::{self, Band};

use super::frame::{broadcast, promoted};
use super::scalar::Operand;
use crate::{DType, Result, Tensor};

impl Tensor {
    /// Takes this tensor's element where `condition` holds, else the other one's: `torch.where(
    /// condition, self, other)`. All three broadcast.
    ///
    /// # Errors
    /// [`AutogradError::DType`](crate::AutogradError::DType) if the condition is no `bool`,
    /// [`AutogradError::Argument`](crate::AutogradError::Argument) if the shapes do not broadcast.
    #[doc = example!(
        x: "assert_eq!(x.where_(&x.gt(3.0)?, 0.0)?.to_vec::<f32>()?, [0.0, 0.0, 0.0, 4.0, 5.0, 6.0]);"
    )]
    pub fn where_(&self, condition: &Tensor, other: impl Operand) -> Result<Tensor> {
        const OP: &str = "where";
        condition.expect_type(OP, "the condition", DType::Bool)?;
        let other = other.beside(self)?;
        let dtype = promoted(self, &other);
        let (one, two) = (self.to_dtype(dtype)?, other.to_dtype(dtype)?);
        let operands = [
            ("self", &one),
            ("the condition", condition),
            ("the other operand", &two),
        ];
        let [a, condition, b] = broadcast(OP, operands)?;
        let device = self.device();
        let out = device.alloc_typed(dtype, a.n_elements())?;
        elementwise::select(device, condition.operand(), a.operand(), b.operand(), &out)?;
        let [left, right] = [a.input(), b.input()];
        let shape = a.shape().to_vec();
        Tensor::of_rule(OP, &[&a, &b], (out, &shape), move |pass, dy, _| {
            let zero = Tensor::zeros(dy.device(), &[], dy.dtype())?;
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
        x: "assert_eq!(x.masked_fill(&x.gt(3.0)?, 0.0)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 0.0, 0.0, 0.0]);"
    )]
    pub fn masked_fill(&self, mask: &Tensor, value: f32) -> Result<Tensor> {
        self.same_device("masked_fill", [("the mask", Some(mask))])?;
        let value = Tensor::full(self.device(), &[], value, self.dtype())?;
        self.where_(&mask.logical_not()?, value)
    }

    /// The matrices with zeros above a diagonal, as `torch.tril`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for fewer than two dimensions.
    #[doc = example!(x: "assert_eq!(x.tril(0)?.to_vec::<f32>()?, [1.0, 0.0, 0.0, 4.0, 5.0, 0.0]);")]
    pub fn tril(&self, diagonal: isize) -> Result<Tensor> {
        self.banded("tril", None, Some(diagonal as i64))
    }

    /// The matrices with zeros below a diagonal, as `torch.triu`.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) for fewer than two dimensions.
    #[doc = example!(x: "assert_eq!(x.triu(0)?.to_vec::<f32>()?, [1.0, 2.0, 3.0, 0.0, 5.0, 6.0]);")]
    pub fn triu(&self, diagonal: isize) -> Result<Tensor> {
        self.banded("triu", Some(diagonal as i64), None)
    }

    fn banded(&self, op: &'static str, low: Option<i64>, high: Option<i64>) -> Result<Tensor> {
        let &[.., rows, columns] = self.shape() else {
            return Err(self.shape_error(op, "the input", "at least two dimensions"));
        };
        let device = self.device();
        let mask = device.alloc_shape_typed(DType::Bool, &[rows, columns])?;
        let band = Band {
            rows,
            columns,
            low,
            high,
        };
        elementwise::band(device, band, &mask)?;
        let mask = Tensor::from_buffer(device, mask, &[rows, columns])?;
        self.where_(&mask, Tensor::zeros(device, &[], self.dtype())?)
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
        check("tril", std::slice::from_ref(&x), |x| x[0].tril(0)?.gelu());
        let text = message(x.where_(&x, 0.0));
        assert_eq!(
            text,
            "where: the condition has elements of f32, expected bool"
        );
        Ok(())
    }

    #[test]
    fn triangles_keep_their_side() -> Result<()> {
        let ones = input(1, &[2, 2]).ones_like()?;
        assert_eq!(ones.triu(1)?.to_vec::<f32>()?, [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(ones.tril(0)?.to_vec::<f32>()?, [1.0, 0.0, 1.0, 1.0]);
        Ok(())
    }
}
