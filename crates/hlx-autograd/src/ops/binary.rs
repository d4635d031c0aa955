//! Binary operations: arithmetic, comparisons, logic and bits over broadcast operands.
//!
//! Types are promoted as in PyTorch. The derivatives are made of operations, so that they can be
//! differentiated again.

use std::sync::Arc;

use hlx_kernels::activation::activation_forward;
use hlx_kernels::elementwise::{self, Binary};

use super::frame::{broadcast, compute_type, promoted};
use super::scalar::Operand;
use crate::graph::saved::{Again, Origin, takes_origins};
use crate::graph::saved_tensor::SavedTensor;
use crate::graph::tape::gradients_enabled;
use crate::{AutogradError, DType, Result, Tensor};

/// The gradient of an operand from dy, the operands and the output; in the place of one that it does
/// not read stands dy.
type Slope = fn(&Tensor, &[Tensor; 2], &Tensor) -> Result<Tensor>;

/// What the slope of an operand reads besides dy.
#[derive(Clone, Copy)]
enum Derivative {
    /// Nothing: dy times a number.
    Scaled(f32),
    /// The first operand.
    OfFirst(Slope),
    /// The second operand.
    OfSecond(Slope),
    /// Both operands.
    Of(Slope),
    /// Both operands and the output.
    OfOutput(Slope),
}

impl Derivative {
    fn reads(self, side: usize) -> bool {
        match self {
            Scaled(_) => false,
            OfFirst(_) => side == 0,
            OfSecond(_) => side == 1,
            Of(_) | OfOutput(_) => true,
        }
    }
}

use Derivative::{Of, OfFirst, OfOutput, OfSecond, Scaled};

/// The derivatives by both operands; `None` for operations that no gradient passes.
fn derivatives(operation: Binary) -> Option<[Derivative; 2]> {
    Some(match operation {
        Binary::Add => [Scaled(1.0), Scaled(1.0)],
        Binary::Sub => [Scaled(1.0), Scaled(-1.0)],
        Binary::Mul => [
            OfSecond(|dy, [_, b], _| dy.mul(b)),
            OfFirst(|dy, [a, _], _| dy.mul(a)),
        ],
        Binary::Div => [
            OfSecond(|dy, [_, b], _| dy.div(b)),
            Of(|dy, [a, b], _| dy.neg()?.mul(a.div(b)?.div(b)?)),
        ],
        Binary::Remainder => [
            Scaled(1.0),
            Of(|dy, [a, b], _| dy.neg()?.mul(a.floor_divide(b)?)),
        ],
        Binary::Maximum => [
            Of(|dy, [a, b], _| share(dy, a, b, a.lt(b)?)),
            Of(|dy, [a, b], _| share(dy, a, b, b.lt(a)?)),
        ],
        Binary::Minimum => [
            Of(|dy, [a, b], _| share(dy, a, b, a.gt(b)?)),
            Of(|dy, [a, b], _| share(dy, a, b, b.gt(a)?)),
        ],
        Binary::Pow => [Of(power_base_slope), OfOutput(power_exponent_slope)],
        Binary::Atan2 => [
            Of(|dy, [a, b], _| angle_slope(dy, b, [a, b])),
            Of(|dy, [a, b], _| angle_slope(dy, &a.neg()?, [a, b])),
        ],
        _ => return None,
    })
}

/// dy b a^(b - 1), and 0 for an exponent of 0.
fn power_base_slope(dy: &Tensor, [a, b]: &[Tensor; 2], _: &Tensor) -> Result<Tensor> {
    if !gradients_enabled() {
        let slope = dy.mul(b.mul(a.pow(b.sub(1.0)?)?)?)?;
        return slope.where_(&b.ne(0.0)?, 0.0);
    }
    // In a pass that is recorded a choice is made before the power, as one behind it would multiply 0 by an
    // infinite slope; and an exponent of 0 has a slope of its own where the base has a reciprocal.
    let pole = a.abs()?.gt(0.0)?.logical_not()?;
    let flat = b.eq(0.0)?.logical_and(pole)?;
    let power = a.masked_fill(&flat, 1.0)?.pow(b.sub(1.0)?)?;
    dy.mul(b.mul(power)?)?.masked_fill(&flat, 0.0)
}

/// dy y log a, and 0 for a base of 0 and an exponent of at least 0.
fn power_exponent_slope(dy: &Tensor, [a, b]: &[Tensor; 2], y: &Tensor) -> Result<Tensor> {
    let flat = a.eq(0.0)?.logical_and(b.ge(0.0)?)?;
    if !gradients_enabled() {
        let slope = dy.mul(y.mul(a.log()?)?)?;
        return slope.where_(&flat.logical_not()?, 0.0);
    }
    let slope = dy.mul(y.mul(a.masked_fill(&flat, 1.0)?.log()?)?)?;
    slope.masked_fill(&flat, 0.0)
}

/// The derivative of an angle: dy c / (a^2 + b^2), and 0 at the origin, as in PyTorch.
fn angle_slope(dy: &Tensor, c: &Tensor, [a, b]: [&Tensor; 2]) -> Result<Tensor> {
    let square = a.square()?.add(b.square()?)?;
    let origin = square.eq(0.0)?;
    // A recorded pass divides by no 0: what is chosen behind a quotient is multiplied by its slope.
    let divisor = match gradients_enabled() {
        true => square.masked_fill(&origin, 1.0)?,
        false => square,
    };
    let slope = c.div(&divisor)?.masked_fill(&origin, 0.0)?;
    dy.mul(slope)
}

/// The gradient of an operand unless the other one was chosen: half where both are equal, and all of it
/// beside NaN, as in PyTorch.
fn share(dy: &Tensor, a: &Tensor, b: &Tensor, is_other: Tensor) -> Result<Tensor> {
    let share = dy.mul(0.5)?.where_(&a.eq(b)?, dy)?;
    share.masked_fill(&is_other, 0.0)
}

impl Tensor {
    /// Computes `f(a, b)` over the broadcast operands, in the type to which PyTorch promotes them.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if the shapes do not broadcast or there is no formula for the type,
    /// [`AutogradError::Device`], and what the device reports.
    #[doc = example!(
        x: "assert_eq!(x.binary(Binary::Maximum, 4.0)?.to_vec::<f32>()?, [4.0, 4.0, 4.0, 4.0, 5.0, 6.0]);"
    )]
    pub fn binary(&self, operation: Binary, other: impl Operand) -> Result<Tensor> {
        let dense = |x: &Tensor| x.dtype() == DType::F32 && x.layout().is_contiguous();
        if let (Binary::Mul, Some(factor)) = (operation, other.as_f32())
            && dense(self)
        {
            return self.times(factor);
        }
        let op = operation.name();
        let other = other.beside(self)?;
        let dtype = promoted(self, &other);
        let (operation, dtype) = of_types(operation, dtype)?;
        let out_type = if operation.is_bool() {
            DType::Bool
        } else {
            dtype
        };
        let derivatives = derivatives(operation).filter(|_| out_type.is_float());
        if derivatives.is_some() && self.rounds_gradient_beside(&other) {
            let [a, b] = [self, &other].map(|x| x.to_dtype(DType::F32));
            return a?.binary(operation, b?)?.to_dtype(dtype);
        }
        let [a, b] = broadcast(
            op,
            [("the left operand", self), ("the right operand", &other)],
        )?;
        let device = self.device();
        let out = device.alloc_typed(out_type, a.n_elements())?;
        let kernel = match operation {
            Binary::Add => Some(elementwise::add as fn(&_, &_, &_, &_) -> _),
            Binary::Sub => Some(elementwise::sub as fn(&_, &_, &_, &_) -> _),
            Binary::Mul => Some(elementwise::mul as fn(&_, &_, &_, &_) -> _),
            _ => None,
        };
        match kernel.filter(|_| dense(&a) && dense(&b) && !out.is_empty()) {
            Some(kernel) => kernel(device, &a.buffer()?, &b.buffer()?, &out)?,
            None => {
                let compute = compute_type(dtype);
                elementwise::binary(device, operation, compute, a.operand(), b.operand(), &out)?;
            }
        }
        let shape = a.shape().to_vec();
        let Some(derivatives) = derivatives else {
            let samples = a.samples();
            let constant = Tensor::from_buffer(device, out, &shape)?;
            return Ok(constant.with_samples_of(samples));
        };
        let again = match operation {
            Binary::Mul if takes_origins(device) && dense(&a) && dense(&b) => {
                gated_again([self, &other], [&a, &b])?
            }
            _ => None,
        };
        let y = Self::differentiable_binary(op, [a, b], (out, &shape), derivatives)?;
        Ok(match again {
            Some(again) => y.with_recipe(again),
            None => y,
        })
    }

    /// Puts the output of a binary operation on the tape, with the operands that its derivatives read.
    fn differentiable_binary(
        op: &'static str,
        operands: [Tensor; 2],
        (out, shape): (hlx_core::Buffer, &[usize]),
        derivatives: [Derivative; 2],
    ) -> Result<Tensor> {
        let inputs = [operands[0].input(), operands[1].input()];
        let types = [operands[0].dtype(), operands[1].dtype()];
        let wanted = |side: usize| inputs[side].requires_grad();
        let reads_output =
            (0..2).any(|side| wanted(side) && matches!(derivatives[side], OfOutput(_)));
        let read = |operand: usize| (0..2).any(|by| wanted(by) && derivatives[by].reads(operand));
        let save = |operand: usize| match op == Binary::Mul.name() {
            true => SavedTensor::of(&operands[operand]),
            false => Ok(SavedTensor::Whole(operands[operand].clone())),
        };
        let save = |operand: usize| read(operand).then(|| save(operand)).transpose();
        let saved = [save(0)?, save(1)?];
        let places = inputs.clone();
        let rule = move |pass: &mut crate::Backward<'_>, dy: &Tensor, y: Option<&Tensor>| {
            let of = |operand: &Option<SavedTensor>| match operand {
                Some(operand) => operand.tensor(),
                None => Ok(dy.clone()),
            };
            let values = [of(&saved[0])?, of(&saved[1])?];
            for side in 0..2 {
                if !places[side].requires_grad() {
                    continue;
                }
                let dx = match derivatives[side] {
                    Scaled(1.0) => dy.clone(),
                    Scaled(factor) => dy.mul(factor)?,
                    OfFirst(slope) | OfSecond(slope) | Of(slope) | OfOutput(slope) => {
                        slope(dy, &values, y.unwrap_or(dy))?
                    }
                };
                pass.add_tensor(&places[side], &dx.to_dtype(types[side])?)?;
            }
            Ok(())
        };
        let [a, b] = &operands;
        match reads_output {
            true => Tensor::of_output_rule(op, &[a, b], (out, shape), rule),
            false => Tensor::of_rule(op, &[a, b], (out, shape), rule),
        }
    }
}

/// How the product of an activation's result with another tensor is computed again, without that result; `broadcast` are the
/// operands as they are multiplied.
fn gated_again([gate, up]: [&Tensor; 2], broadcast: [&Tensor; 2]) -> Result<Option<Again>> {
    let Some(again) = gate.recipe() else {
        return Ok(None);
    };
    let Some(Origin::Activation { kind, x }) = &again.origin else {
        return Ok(None);
    };
    if gate.shape() != broadcast[0].shape() || up.shape() != broadcast[1].shape() {
        return Ok(None);
    }
    let (device, kind) = (up.device().clone(), *kind);
    let values = up.buffer()?;
    let exact = up.save_values(&values);
    let [x, up] = [(**x).clone(), up.save_activation(&values)?];
    let source = match &again.source {
        Some(Origin::Activation { x, .. }) => Some(Origin::Gated {
            kind,
            x: x.clone(),
            up: Box::new(exact),
        }),
        _ => None,
    };
    let origin = Origin::Gated {
        kind,
        x: Box::new(x.clone()),
        up: Box::new(up.clone()),
    };
    let recipe = Arc::new(move || {
        let (x, up) = (x.values()?, up.values()?);
        let [active, y] = [device.alloc(x.len())?, device.alloc(x.len())?];
        activation_forward(&device, kind, &x, &active)?;
        elementwise::mul(&device, &active, &up, &y)?;
        Ok(y)
    });
    Ok(Some(Again {
        recipe,
        origin: Some(origin),
        source,
    }))
}

/// The operation and the type in which it is computed: division of integers is one of floats, and
/// sums and products of truth values are "or" and "and".
fn of_types(operation: Binary, dtype: DType) -> Result<(Binary, DType)> {
    let refused = |reason: &str| {
        Err(AutogradError::Argument {
            op: operation.name(),
            reason: format!("{reason} of {dtype}"),
        })
    };
    match (operation, dtype) {
        (Binary::Div | Binary::Atan2, dtype) if !dtype.is_float() => Ok((operation, DType::F32)),
        (Binary::Add | Binary::Maximum, DType::Bool) => Ok((Binary::LogicalOr, dtype)),
        (Binary::Mul | Binary::Minimum, DType::Bool) => Ok((Binary::LogicalAnd, dtype)),
        (Binary::BitwiseAnd, DType::Bool) => Ok((Binary::LogicalAnd, dtype)),
        (Binary::BitwiseOr, DType::Bool) => Ok((Binary::LogicalOr, dtype)),
        (Binary::BitwiseXor, DType::Bool) => Ok((Binary::LogicalXor, dtype)),
        (operation, DType::Bool) if !operation.is_bool() => refused("there is no such operation"),
        (operation, dtype) if !operation.is_defined(compute_type(dtype)) => {
            refused("there is no such operation")
        }
        _ => Ok((operation, dtype)),
    }
}

/// Defines a method for every operation.
macro_rules! methods {
    ($($(#[$documentation:meta])* $name:ident $variant:ident $is_bool:literal
       [$($f32:ident)?] [$($i32:ident)?] [$($u32:ident)?];)+) => {
        impl Tensor {
            $(
                $(#[$documentation])*
                /// The operands broadcast; a number may be the other one.
                ///
                /// # Errors
                /// As [`Tensor::binary`].
                pub fn $name(&self, other: impl Operand) -> Result<Tensor> {
                    self.binary(Binary::$variant, other)
                }
            )+
        }
    };
}
hlx_kernels::for_each_binary!(methods);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input, message};

    #[test]
    fn derivatives_agree_with_finite_differences() -> Result<()> {
        let (a, b) = (input(1, &[3, 1, 5]), input(2, &[4, 5]));
        // Away from poles and corners.
        let (up, away) = (a.abs()?.add(0.5)?, b.abs()?.add(2.5)?);
        check("add", &[a.clone(), b.clone()], |x| x[0].add(&x[1]));
        check("sub", &[a.clone(), b.clone()], |x| x[0].sub(&x[1]));
        check("mul", &[a.clone(), b.clone()], |x| x[0].mul(&x[1]));
        check("div", &[a.clone(), away.clone()], |x| x[0].div(&x[1]));
        check("pow", &[up.clone(), b.clone()], |x| x[0].pow(&x[1]));
        check("atan2", &[a.clone(), away.clone()], |x| x[0].atan2(&x[1]));
        check("maximum", &[up.clone(), away.clone()], |x| {
            x[0].maximum(&x[1])
        });
        check("minimum", &[up.clone(), away], |x| x[0].minimum(&x[1]));
        check("mul", &[up], |x| x[0].mul(3.0)?.sub(&x[0])?.div(2.0));
        Ok(())
    }

    #[test]
    fn a_square_is_added_to_itself() {
        check("mul", &[input(3, &[7])], |x| x[0].mul(&x[0]));
        check("add", &[input(1, &[7])], |x| x[0].add(&x[0])?.add(&x[0]));
    }

    #[test]
    fn types_are_promoted_as_in_pytorch() -> Result<()> {
        let device = &hlx_core::testing::devices()[0];
        let of = |dtype| Tensor::ones(device, &[2], dtype);
        for (a, b, expected) in [
            (DType::F16, DType::I32, DType::F16),
            (DType::F16, DType::BF16, DType::F32),
            (DType::U8, DType::I8, DType::I32),
            (DType::Bool, DType::U8, DType::U8),
            (DType::Bool, DType::Bool, DType::Bool),
        ] {
            assert_eq!(of(a)?.add(&of(b)?)?.dtype(), expected, "{a} and {b}");
        }
        assert_eq!(of(DType::F16)?.add(1.0)?.dtype(), DType::F16);
        assert_eq!(of(DType::U8)?.add(1.0)?.dtype(), DType::F32);
        assert_eq!(of(DType::I32)?.div(&of(DType::I32)?)?.dtype(), DType::F32);
        assert_eq!(of(DType::I32)?.lt(&of(DType::F32)?)?.dtype(), DType::Bool);
        let text = message(of(DType::Bool)?.sub(&of(DType::Bool)?));
        assert_eq!(text, "sub: there is no such operation of bool");
        Ok(())
    }

    #[test]
    fn unfitting_shapes_are_refused() {
        let text = message(input(1, &[3, 5]).add(input(2, &[5, 3])));
        assert_eq!(text, "add: shapes [3, 5] and [5, 3] do not broadcast");
    }
}
