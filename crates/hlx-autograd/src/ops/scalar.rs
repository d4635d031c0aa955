//! What may be the other operand of an operation: a tensor, or a number.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::{DType, Result, Tensor};

/// An operand: a tensor, or a number, which becomes a tensor without dimensions beside the other
/// operand. As in PyTorch a number decides the kind of the result's type, not its width: a float
/// beside f16 values gives f16.
pub trait Operand {
    /// The operand as a tensor of the other one's device.
    ///
    /// # Errors
    /// What the device reports.
    fn beside(self, other: &Tensor) -> Result<Tensor>;

    /// The operand as an f32, if it is one.
    fn as_f32(&self) -> Option<f32> {
        None
    }
}

impl Operand for &Tensor {
    fn beside(self, _: &Tensor) -> Result<Tensor> {
        Ok(self.clone())
    }
}

impl Operand for Tensor {
    fn beside(self, _: &Tensor) -> Result<Tensor> {
        Ok(self)
    }
}

impl Operand for Result<Tensor> {
    fn beside(self, _: &Tensor) -> Result<Tensor> {
        self
    }
}

impl Operand for f32 {
    fn beside(self, other: &Tensor) -> Result<Tensor> {
        Tensor::full(other.device(), &[], self, DType::F32)
    }

    fn as_f32(&self) -> Option<f32> {
        Some(*self)
    }
}

impl Operand for i32 {
    fn beside(self, other: &Tensor) -> Result<Tensor> {
        Tensor::whole(other.device(), self)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident),+ $(,)?) => {
        $(
            impl<O: Operand> $trait<O> for &Tensor {
                type Output = Result<Tensor>;

                fn $method(self, other: O) -> Result<Tensor> {
                    Tensor::$method(self, other)
                }
            }

            impl<O: Operand> $trait<O> for Tensor {
                type Output = Result<Tensor>;

                fn $method(self, other: O) -> Result<Tensor> {
                    Tensor::$method(&self, other)
                }
            }
        )+
    };
}
operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        Tensor::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;

    fn neg(self) -> Result<Tensor> {
        Tensor::neg(&self)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::test_support::input;

    #[test]
    fn operators_are_the_methods() -> crate::Result<()> {
        let (x, y) = (input(1, &[2, 3]), input(2, &[3]));
        assert_eq!((&x + &y)?.to_vec::<f32>()?, x.add(&y)?.to_vec::<f32>()?);
        assert_eq!(
            (&x - y.clone())?.to_vec::<f32>()?,
            x.sub(&y)?.to_vec::<f32>()?
        );
        assert_eq!(
            (&x * (&y / 2.0_f32))?.to_vec::<f32>()?,
            x.mul(y.div(2.0)?)?.to_vec::<f32>()?
        );
        assert_eq!((-&x)?.to_vec::<f32>()?, x.mul(-1.0)?.to_vec::<f32>()?);
        Ok(())
    }
}
