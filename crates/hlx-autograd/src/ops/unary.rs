//! Unary operations, an element at a time.
//!
//! The derivatives are made of operations, so that they can be differentiated again. The activations
//! of training have a kernel of their own for the first derivative (`activation.rs`).

use hlx_kernels::elementwise::{self, Unary};

use super::frame::compute_type;
use crate::graph::tape::gradients_enabled;
use crate::{AutogradError, DType, Result, Tensor};

/// The gradient of x from dy, and from x or y.
type Slope = fn(&Tensor, &Tensor, [f32; 2]) -> Result<Tensor>;

/// What a derivative reads besides dy.
#[derive(Clone, Copy)]
enum Derivative {
    /// It is zero everywhere, or the operation is none of floats.
    Zero,
    OfInput(Slope),
    OfOutput(Slope),
}

use Derivative::{OfInput, OfOutput, Zero};

/// 1 / ln 2 and its like, rounded once.
const LN_2: f32 = std::f32::consts::LN_2;
const LN_10: f32 = std::f32::consts::LN_10;
const FRAC_1_SQRT_2: f32 = std::f32::consts::FRAC_1_SQRT_2;
/// From here on the slopes of GELU are 0 and 1 in f32, and what they are made of overflows further out.
const FLAT: f32 = 16.0;
/// 1 / sqrt(2 pi).
const PDF_0: f32 = 0.398_942_3;

fn derivative(operation: Unary) -> Derivative {
    match operation {
        Unary::Neg => OfInput(|dy, _, _| dy.neg()),
        Unary::Abs => OfInput(|dy, x, _| dy.mul(x.sign()?)),
        Unary::Square => OfInput(|dy, x, _| dy.mul(x.mul(2.0)?)),
        // NaN passes the gradient on, as the kernel of training does.
        Unary::ReLU => OfOutput(|dy, y, _| nothing_where(&y.le(0.0)?, dy)),
        Unary::LeakyReLU => OfInput(|dy, x, [slope, _]| dy.where_(&x.gt(0.0)?, dy.mul(slope)?)),
        Unary::Clamp => OfInput(|dy, x, [low, high]| {
            // At a bound it is 0, as in PyTorch from 2.15 on.
            let within = x.gt(low)?.logical_and(x.lt(high)?)?;
            dy.where_(&within, 0.0)
        }),
        Unary::Reciprocal => OfOutput(|dy, y, _| dy.neg()?.mul(y.square()?)),
        Unary::Sqrt => OfOutput(|dy, y, _| dy.div(y.mul(2.0)?)),
        Unary::Rsqrt => OfOutput(|dy, y, _| dy.mul(-0.5)?.mul(y.square()?.mul(y)?)),
        Unary::Exp => OfOutput(|dy, y, _| dy.mul(y)),
        Unary::Exp2 => OfOutput(|dy, y, _| dy.mul(y.mul(LN_2)?)),
        Unary::Expm1 => OfOutput(|dy, y, _| dy.mul(y.add(1.0)?)),
        Unary::Log => OfInput(|dy, x, _| dy.div(x)),
        Unary::Log2 => OfInput(|dy, x, _| dy.div(x.mul(LN_2)?)),
        Unary::Log10 => OfInput(|dy, x, _| dy.div(x.mul(LN_10)?)),
        Unary::Log1p => OfInput(|dy, x, _| dy.div(x.add(1.0)?)),
        Unary::Sin => OfInput(|dy, x, _| dy.mul(x.cos()?)),
        Unary::Cos => OfInput(|dy, x, _| dy.neg()?.mul(x.sin()?)),
        Unary::Tan => OfOutput(|dy, y, _| dy.mul(y.square()?.add(1.0)?)),
        Unary::Asin => OfInput(|dy, x, _| dy.mul(x.square()?.neg()?.add(1.0)?.rsqrt()?)),
        Unary::Acos => OfInput(|dy, x, _| dy.neg()?.mul(x.square()?.neg()?.add(1.0)?.rsqrt()?)),
        Unary::Atan => OfInput(|dy, x, _| dy.div(x.square()?.add(1.0)?)),
        Unary::Sinh => OfInput(|dy, x, _| dy.mul(x.cosh()?)),
        Unary::Cosh => OfInput(|dy, x, _| dy.mul(x.sinh()?)),
        Unary::Tanh => OfOutput(|dy, y, _| dy.mul(y.square()?.neg()?.add(1.0)?)),
        Unary::Sigmoid => OfOutput(|dy, y, _| dy.mul(y.mul(y.neg()?.add(1.0)?)?)),
        Unary::Erf => OfInput(|dy, x, _| {
            let bell = x.square()?.neg()?.exp()?;
            dy.mul(bell.mul(std::f32::consts::FRAC_2_SQRT_PI)?)
        }),
        Unary::GELU => OfInput(|dy, x, _| {
            let x = x.clamp(-FLAT, FLAT)?;
            let cdf = x.mul(FRAC_1_SQRT_2)?.erf()?.add(1.0)?.mul(0.5)?;
            let pdf = x.square()?.mul(-0.5)?.exp()?.mul(PDF_0)?;
            dy.mul(cdf.add(x.mul(pdf)?)?)
        }),
        Unary::GELUTanh => OfInput(gelu_tanh_slope),
        Unary::SiLU => OfInput(|dy, x, _| {
            let s = x.sigmoid()?;
            dy.mul(s.mul(x.mul(s.neg()?.add(1.0)?)?.add(1.0)?)?)
        }),
        Unary::Softplus => OfInput(|dy, x, _| dy.where_(&x.gt(20.0)?, dy.mul(x.sigmoid()?)?)),
        Unary::Mish => OfInput(|dy, x, _| {
            let t = x.softplus()?.tanh()?;
            let steep = x.sigmoid()?.mul(t.square()?.neg()?.add(1.0)?)?;
            dy.mul(t.add(x.mul(steep)?)?)
        }),
        Unary::Hardswish => OfInput(|dy, x, _| {
            let middle = dy.mul(x.div(3.0)?.add(0.5)?)?;
            nothing_where(&x.le(-3.0)?, &middle.where_(&x.lt(3.0)?, dy)?)
        }),
        Unary::ELU => OfOutput(elu_slope),
        _ => Zero,
    }
}

/// 0 where a condition holds, else dy.
fn nothing_where(condition: &Tensor, dy: &Tensor) -> Result<Tensor> {
    Tensor::zeros(dy.device(), &[], dy.dtype())?.where_(condition, dy)
}

/// The gradient of x by way of an operation, from dy and x, for kernels that have one of their own.
pub(super) fn slope(operation: Unary, dy: &Tensor, x: &Tensor) -> Result<Tensor> {
    match derivative(operation) {
        Zero => dy.zeros_like(),
        OfInput(slope) => slope(dy, x, [0.0; 2]),
        OfOutput(slope) => slope(dy, &x.unary(operation, [0.0; 2])?, [0.0; 2]),
    }
}

/// dy, and dy (y + alpha) from zero down. What is differentiated again is the slope below zero alone, as in PyTorch.
fn elu_slope(dy: &Tensor, y: &Tensor, [alpha, _]: [f32; 2]) -> Result<Tensor> {
    let below = match gradients_enabled() {
        true => y.where_(&y.lt(0.0)?, 0.0)?,
        false => y.clone(),
    };
    dy.mul(below.add(alpha)?)?.where_(&y.le(0.0)?, dy)
}

/// With t = tanh(u), u = sqrt(2/pi) (x + 0.044715 x^3): (1 + t) / 2 + x (1 - t^2) u' / 2.
fn gelu_tanh_slope(dy: &Tensor, x: &Tensor, _: [f32; 2]) -> Result<Tensor> {
    const ROOT: f32 = 0.797_884_6;
    let x = x.clamp(-FLAT, FLAT)?;
    let square = x.square()?;
    let t = x.mul(square.mul(0.044_715)?.add(1.0)?)?.mul(ROOT)?.tanh()?;
    let inner = square.mul(3.0 * 0.044_715)?.add(1.0)?.mul(ROOT)?;
    let steep = x.mul(t.square()?.neg()?.add(1.0)?.mul(inner)?)?;
    dy.mul(t.add(1.0)?.add(steep)?.mul(0.5)?)
}

impl Tensor {
    /// Computes `f(x)` for each element; functions of floats convert integers to f32 first, as in
    /// PyTorch.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if there is no formula for the type, and what the device reports.
    #[doc = example!(
        x: "assert_eq!(x.unary(Unary::Clamp, [2.0, 3.0])?.to_vec::<f32>()?, [2.0, 2.0, 3.0, 3.0, 3.0, 3.0]);"
    )]
    pub fn unary(&self, operation: Unary, parameters: [f32; 2]) -> Result<Tensor> {
        let op = operation.name();
        if self.rounds_gradient() && !matches!(derivative(operation), Zero) {
            return self.in_f32(|x| x.unary(operation, parameters));
        }
        if operation == Unary::Square && self.dtype() == DType::Bool {
            return self.to_dtype(DType::I32)?.unary(operation, parameters);
        }
        let dtype = match self.dtype() {
            dtype if operation.is_defined(compute_type(dtype)) => dtype,
            dtype if !dtype.is_float() && operation.is_defined(DType::F32) => DType::F32,
            dtype => {
                return Err(AutogradError::Argument {
                    op,
                    reason: format!("there is no such operation of {dtype}"),
                });
            }
        };
        let out_type = if operation.is_bool() {
            DType::Bool
        } else {
            dtype
        };
        let device = self.device();
        let out = device.alloc_typed(out_type, self.n_elements())?;
        let compute = compute_type(dtype);
        elementwise::unary(device, operation, compute, self.operand(), parameters, &out)?;
        let (x, from) = (self.input(), self.dtype());
        let add = move |pass: &mut crate::Backward<'_>, dx: &Tensor| {
            pass.add_tensor(&x, &dx.to_dtype(from)?)
        };
        let output = (out, self.shape());
        match derivative(operation) {
            _ if !(out_type.is_float() && from.is_float()) => {
                let constant = Tensor::from_buffer(device, output.0, output.1)?;
                Ok(constant.with_samples_of(self.samples()))
            }
            Zero => Tensor::of_rule(op, &[self], output, move |pass, dy, _| {
                add(pass, &dy.zeros_like()?)
            }),
            OfInput(slope) => {
                let x = self.clone();
                Tensor::of_rule(op, &[self], output, move |pass, dy, _| {
                    add(pass, &slope(dy, &x, parameters)?)
                })
            }
            OfOutput(slope) => Tensor::of_output_rule(op, &[self], output, move |pass, dy, y| {
                add(pass, &slope(dy, y.unwrap_or(dy), parameters)?)
            }),
        }
    }

    /// Computes x, and `slope` times x from zero down: `torch.nn.functional.leaky_relu`.
    ///
    /// # Errors
    /// As [`Tensor::unary`].
    #[doc = example!(x: "assert_eq!(x.neg()?.leaky_relu(0.5)?.to_vec::<f32>()?[0], -0.5);")]
    pub fn leaky_relu(&self, slope: f32) -> Result<Tensor> {
        self.unary(Unary::LeakyReLU, [slope, 0.0])
    }

    /// Computes x, and alpha (e^x - 1) from zero down: `torch.nn.functional.elu`.
    ///
    /// # Errors
    /// As [`Tensor::unary`].
    #[doc = example!(x: "assert_eq!(x.elu(1.0)?.to_vec::<f32>()?, x.to_vec::<f32>()?);")]
    pub fn elu(&self, alpha: f32) -> Result<Tensor> {
        self.unary(Unary::ELU, [alpha, 0.0])
    }

    /// Computes x within \[low, high\]; NaN stays. As `torch.clamp`: the gradient is 0 at a bound and
    /// beyond it.
    ///
    /// # Errors
    /// As [`Tensor::unary`].
    #[doc = example!(
        x: "assert_eq!(x.clamp(2.0, 5.0)?.to_vec::<f32>()?, [2.0, 2.0, 3.0, 4.0, 5.0, 5.0]);"
    )]
    pub fn clamp(&self, low: f32, high: f32) -> Result<Tensor> {
        self.unary(Unary::Clamp, [low, high])
    }
}

/// Defines methods without parameters.
macro_rules! methods {
    ($($(#[$documentation:meta])* $name:ident $variant:ident)+) => {
        impl Tensor {
            $(
                $(#[$documentation])*
                ///
                /// # Errors
                /// As [`Tensor::unary`].
                pub fn $name(&self) -> Result<Tensor> {
                    self.unary(Unary::$variant, [0.0; 2])
                }
            )+
        }
    };
}

methods! {
    /// Computes -x: `torch.neg`.
    neg Neg
    /// Computes the magnitude: `torch.abs`.
    abs Abs
    /// Computes x x: `torch.square`.
    square Square
    /// Computes -1, 0 or 1 by the sign, 0 of NaN: `torch.sign`.
    sign Sign
    /// Computes the largest whole number up to x: `torch.floor`.
    floor Floor
    /// Computes the least whole number from x on: `torch.ceil`.
    ceil Ceil
    /// Computes the nearest whole number, ties to even: `torch.round`.
    round Round
    /// Computes x without its fraction: `torch.trunc`.
    trunc Trunc
    /// Tells whether x is NaN: `torch.isnan`.
    isnan Isnan
    /// Tells whether x is neither infinite nor NaN: `torch.isfinite`.
    isfinite Isfinite
    /// Tells whether x is 0: `torch.logical_not`.
    logical_not LogicalNot
    /// Computes x with every bit changed: `torch.bitwise_not`.
    bitwise_not BitwiseNot
    /// Computes 1 / x: `torch.reciprocal`.
    reciprocal Reciprocal
    /// Computes the square root: `torch.sqrt`.
    sqrt Sqrt
    /// Computes 1 / sqrt(x): `torch.rsqrt`.
    rsqrt Rsqrt
    /// Computes e^x: `torch.exp`.
    exp Exp
    /// Computes 2^x: `torch.exp2`.
    exp2 Exp2
    /// Computes e^x - 1: `torch.expm1`.
    expm1 Expm1
    /// Computes the natural logarithm: `torch.log`.
    log Log
    /// Computes the logarithm to base 2: `torch.log2`.
    log2 Log2
    /// Computes the logarithm to base 10: `torch.log10`.
    log10 Log10
    /// Computes log(1 + x): `torch.log1p`.
    log1p Log1p
    /// Computes the sine: `torch.sin`.
    sin Sin
    /// Computes the cosine: `torch.cos`.
    cos Cos
    /// Computes the tangent: `torch.tan`.
    tan Tan
    /// Computes the inverse sine: `torch.asin`.
    asin Asin
    /// Computes the inverse cosine: `torch.acos`.
    acos Acos
    /// Computes the inverse tangent: `torch.atan`.
    atan Atan
    /// Computes the hyperbolic sine: `torch.sinh`.
    sinh Sinh
    /// Computes the hyperbolic cosine: `torch.cosh`.
    cosh Cosh
    /// Computes the error function: `torch.erf`.
    erf Erf
    /// Computes x tanh(softplus(x)): `torch.nn.functional.mish`.
    mish Mish
    /// Computes x clamp(x + 3, 0, 6) / 6: `torch.nn.functional.hardswish`.
    hardswish Hardswish
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input, message};

    /// The second derivative, by differentiating a recorded pass: the check differentiates the
    /// gradient once more by differences.
    fn check_twice(op: &str, x: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) {
        check(op, std::slice::from_ref(x), |x| f(&x[0]));
        check(op, std::slice::from_ref(x), |x| {
            let x = match x[0].requires_grad() {
                true => x[0].clone(),
                false => x[0].with_gradient(),
            };
            let y = crate::graph::tape::enable_grad(|| f(&x)?.square()?.sum())?;
            let mut slopes = y.gradients(&[&x], true)?;
            Ok(slopes.remove(0).expect("x is used"))
        });
    }

    #[test]
    fn derivatives_agree_with_finite_differences_twice() -> Result<()> {
        let x = input(1, &[3, 5]);
        // Away from corners and poles, within (-1, 1) for the inverse functions.
        let up = x.abs()?.add(0.5)?;
        let small = x.mul(0.5)?;
        for operation in Unary::ALL.iter().copied() {
            let parameters = match operation {
                Unary::LeakyReLU => [0.1, 0.0],
                Unary::ELU => [1.3, 0.0],
                Unary::Clamp => [-9.0, 9.0],
                _ => [0.0; 2],
            };
            let at = match operation {
                Unary::Asin | Unary::Acos | Unary::Tan => &small,
                Unary::Hardswish | Unary::Sin | Unary::Cos | Unary::Tanh => &x,
                _ => &up,
            };
            if matches!(derivative(operation), Zero) {
                continue;
            }
            check_twice(operation.name(), at, |x| x.unary(operation, parameters));
        }
        Ok(())
    }

    #[test]
    fn steps_have_no_slope() -> Result<()> {
        let x = input(1, &[3]).with_gradient();
        x.floor()?.sum()?.backward()?;
        assert_eq!(x.grad().expect("zeros").to_vec::<f32>()?, [0.0; 3]);
        Ok(())
    }

    #[test]
    fn a_type_without_a_formula_is_refused() {
        let text = message(input(1, &[3]).bitwise_not());
        assert_eq!(text, "bitwise_not: there is no such operation of f32");
    }
}
