//! Activations: GELU (exact and by tanh), ReLU, SiLU, sigmoid, tanh; forward and backward.
//!
//! Each element on its own, in HLX arithmetic; every line below is one chain of operations, from
//! the inside out, with `fma` where it says so. `erf`, `exp`, `sigmoid`, `tanh` and `/` are
//! HLX's.
//!
//! | kind | `y = f(x)` | `dx = dy * f'(x)` |
//! |---|---|---|
//! | Gelu | `(0.5 x) (1 + erf(x / sqrt 2))` | `f' = fma(x, pdf, cdf)`, `cdf = 0.5 (1 + erf(x / sqrt 2))`, `pdf = exp((-0.5 x) x) / sqrt(2 pi)` |
//! | GeluTanh | `(0.5 x) (1 + t)`, `t = tanh((sqrt(2/pi) x) fma(0.044715, x^2, 1))` | `f' = fma(0.5, 1 + t, ((0.5 x) fma(-t, t, 1)) (sqrt(2/pi) fma(0.134145, x^2, 1)))` |
//! | Relu | `x` where it is positive, +0 or NaN, else +0 | `dy` where x is positive or NaN, else +0 |
//! | Silu | `x s`, `s = sigmoid(x)` | `f' = s fma(x, 1 - s, 1)` |
//! | Sigmoid | `sigmoid(x)` | `f' = e / (1 + e)^2`, `e = exp(-abs x)` |
//! | Tanh | `tanh(x)` | `f' = fma(-t, t, 1)`, `t = tanh(x)` |
//!
//! The derivatives of both GELUs see x within [-16, 16]: beyond, they are 0 or 1 to the last bit,
//! and `x^2` could overflow. Minus infinity gives NaN from GELU and SiLU, as in PyTorch.

use hlx_core::arith::{FloatOps, abs, add, div, sub};
use hlx_core::{Binding, Buffer, Context, Shader};

use crate::error::KernelError;
use crate::map::{Arg, Map, chunks1, chunks2, each1, each2};

shader!(gelu_forward_shader, "activation/gelu_forward");
shader!(gelu_backward_shader, "activation/gelu_backward");
shader!(gelu_tanh_forward_shader, "activation/gelu_tanh_forward");
shader!(gelu_tanh_backward_shader, "activation/gelu_tanh_backward");
shader!(relu_forward_shader, "activation/relu_forward");
shader!(relu_backward_shader, "activation/relu_backward");
shader!(silu_forward_shader, "activation/silu_forward");
shader!(silu_backward_shader, "activation/silu_backward");
shader!(sigmoid_forward_shader, "activation/sigmoid_forward");
shader!(sigmoid_backward_shader, "activation/sigmoid_backward");
shader!(tanh_forward_shader, "activation/tanh_forward");
shader!(tanh_backward_shader, "activation/tanh_backward");

/// The functions that a feed-forward layer may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x Phi(x)` by the error function: `torch.nn.GELU()`.
    Gelu,
    /// Its approximation by tanh: `torch.nn.GELU(approximate="tanh")`.
    GeluTanh,
    /// `max(x, 0)`: `torch.nn.ReLU()`.
    Relu,
    /// `x sigmoid(x)`: `torch.nn.SiLU()`.
    Silu,
    /// `1 / (1 + exp(-x))`: `torch.nn.Sigmoid()`.
    Sigmoid,
    /// `torch.nn.Tanh()`.
    Tanh,
}

impl Activation {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Gelu,
        Self::GeluTanh,
        Self::Relu,
        Self::Silu,
        Self::Sigmoid,
        Self::Tanh,
    ];

    /// One module a kind: a constant that picks the kind within one module would have software
    /// drivers compile all six each time (measured: 2.1 s a pipeline instead of 0.2 s).
    fn forward_shader(self) -> &'static Shader {
        match self {
            Self::Gelu => &gelu_forward_shader::SHADER,
            Self::GeluTanh => &gelu_tanh_forward_shader::SHADER,
            Self::Relu => &relu_forward_shader::SHADER,
            Self::Silu => &silu_forward_shader::SHADER,
            Self::Sigmoid => &sigmoid_forward_shader::SHADER,
            Self::Tanh => &tanh_forward_shader::SHADER,
        }
    }

    fn backward_shader(self) -> &'static Shader {
        match self {
            Self::Gelu => &gelu_backward_shader::SHADER,
            Self::GeluTanh => &gelu_tanh_backward_shader::SHADER,
            Self::Relu => &relu_backward_shader::SHADER,
            Self::Silu => &silu_backward_shader::SHADER,
            Self::Sigmoid => &sigmoid_backward_shader::SHADER,
            Self::Tanh => &tanh_backward_shader::SHADER,
        }
    }
}

/// Computes `y = f(x)`.
///
/// # Errors
/// A shape error if the lengths differ, or the device's error.
pub fn activation_forward(
    ctx: &Context,
    kind: Activation,
    x: &Buffer,
    y: &Buffer,
) -> Result<(), KernelError> {
    let map = Map {
        name: "activation_forward",
        shader: kind.forward_shader(),
        specialization: &[],
        pairs: true,
        parameters: &[0],
    };
    let args = [
        Arg::Each("x", Binding::Read(x)),
        Arg::Each("y", Binding::Write(y)),
    ];
    map.launch(ctx, &args, move |bindings| {
        let ([x], [y]) = bindings.split::<1, 1>();
        chunks1(x, y, |x, y| forward_chunk(kind, x, y));
    })
}

/// Computes `dx = dy * f'(x)` from the input of the forward pass.
///
/// # Errors
/// As [`activation_forward`].
pub fn activation_backward(
    ctx: &Context,
    kind: Activation,
    x: &Buffer,
    dy: &Buffer,
    dx: &Buffer,
) -> Result<(), KernelError> {
    let map = Map {
        name: "activation_backward",
        shader: kind.backward_shader(),
        specialization: &[],
        pairs: true,
        parameters: &[0],
    };
    let args = [
        Arg::Each("x", Binding::Read(x)),
        Arg::Each("dy", Binding::Read(dy)),
        Arg::Each("dx", Binding::Write(dx)),
    ];
    map.launch(ctx, &args, move |bindings| {
        let (inputs, [dx]) = bindings.split::<2, 1>();
        chunks2(inputs, dx, |x, dy, dx| backward_chunk(kind, x, dy, dx));
    })
}

/// 1 / sqrt(2)
const INV_SQRT_2: f32 = std::f32::consts::FRAC_1_SQRT_2;
/// 1 / sqrt(2 pi)
const INV_SQRT_2_PI: f32 = 0.398_942_3;
/// sqrt(2 / pi)
const SQRT_2_OVER_PI: f32 = 0.797_884_6;
/// The cubic term of GELU's tanh.
const GELU_CUBIC: f32 = 0.044_715;
/// Three times that, of its derivative.
const GELU_CUBIC_3: f32 = 0.134_145;

multiversion! {
    pub(crate) fn forward_chunk<A>(kind: Activation, x: &[f32], y: &mut [f32]) {
        match kind {
            Activation::Gelu => each1(x, y, gelu::<A>),
            Activation::GeluTanh => each1(x, y, gelu_tanh::<A>),
            Activation::Relu => each1(x, y, relu),
            Activation::Silu => each1(x, y, |x| A::mul(x, A::sigmoid(x))),
            Activation::Sigmoid => each1(x, y, A::sigmoid),
            Activation::Tanh => each1(x, y, A::tanh),
        }
    }
}

multiversion! {
    pub(crate) fn backward_chunk<A>(kind: Activation, x: &[f32], dy: &[f32], dx: &mut [f32]) {
        match kind {
            Activation::Gelu => each2(x, dy, dx, |x, dy| A::mul(dy, gelu_slope::<A>(within_16(x)))),
            Activation::GeluTanh => each2(x, dy, dx, |x, dy| A::mul(dy, gelu_tanh_slope::<A>(within_16(x)))),
            Activation::Relu => each2(x, dy, dx, |x, dy| if x <= 0.0 { 0.0 } else { dy }),
            Activation::Silu => each2(x, dy, dx, |x, dy| A::mul(dy, silu_slope::<A>(x))),
            Activation::Sigmoid => each2(x, dy, dx, |x, dy| A::mul(dy, sigmoid_slope::<A>(x))),
            Activation::Tanh => each2(x, dy, dx, |x, dy| A::mul(dy, tanh_slope::<A>(x))),
        }
    }
}

#[inline(always)]
fn gelu<A: FloatOps>(x: f32) -> f32 {
    A::mul(A::mul(0.5, x), add(1.0, A::erf(A::mul(x, INV_SQRT_2))))
}

#[inline(always)]
fn gelu_slope<A: FloatOps>(x: f32) -> f32 {
    let cdf = A::mul(0.5, add(1.0, A::erf(A::mul(x, INV_SQRT_2))));
    let pdf = A::mul(INV_SQRT_2_PI, A::exp(A::mul(A::mul(-0.5, x), x)));
    A::fma(x, pdf, cdf)
}

#[inline(always)]
fn gelu_inner<A: FloatOps>(x: f32, x_squared: f32) -> f32 {
    A::mul(
        A::mul(SQRT_2_OVER_PI, x),
        A::fma(GELU_CUBIC, x_squared, 1.0),
    )
}

#[inline(always)]
fn gelu_tanh<A: FloatOps>(x: f32) -> f32 {
    A::mul(
        A::mul(0.5, x),
        add(1.0, A::tanh(gelu_inner::<A>(x, A::mul(x, x)))),
    )
}

#[inline(always)]
fn gelu_tanh_slope<A: FloatOps>(x: f32) -> f32 {
    let x_squared = A::mul(x, x);
    let t = A::tanh(gelu_inner::<A>(x, x_squared));
    let sech_squared = A::fma(-t, t, 1.0);
    let inner_slope = A::mul(SQRT_2_OVER_PI, A::fma(GELU_CUBIC_3, x_squared, 1.0));
    let right = A::mul(A::mul(A::mul(0.5, x), sech_squared), inner_slope);
    A::fma(0.5, add(1.0, t), right)
}

/// Within [-16, 16]; NaN stays.
#[inline(always)]
fn within_16(x: f32) -> f32 {
    x.clamp(-16.0, 16.0)
}

/// NaN compares false, and so passes; -0 does not.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x <= 0.0 { 0.0 } else { x }
}

#[inline(always)]
fn silu_slope<A: FloatOps>(x: f32) -> f32 {
    let s = A::sigmoid(x);
    A::mul(s, A::fma(x, sub(1.0, s), 1.0))
}

#[inline(always)]
fn sigmoid_slope<A: FloatOps>(x: f32) -> f32 {
    let e = A::exp(-abs(x));
    let one_plus = add(1.0, e);
    div(e, A::mul(one_plus, one_plus))
}

#[inline(always)]
fn tanh_slope<A: FloatOps>(x: f32) -> f32 {
    let t = A::tanh(x);
    A::fma(-t, t, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, normal, run_everywhere, values};

    /// The derivative by central differences of the f64 reference.
    fn slope(kind: Activation, x: f64) -> f64 {
        const STEP: f64 = 1e-5;
        if kind == Activation::Relu {
            return if x > 0.0 { 1.0 } else { 0.0 };
        }
        (reference(kind, x + STEP) - reference(kind, x - STEP)) / (2.0 * STEP)
    }

    fn reference(kind: Activation, x: f64) -> f64 {
        match kind {
            Activation::Gelu => 0.5 * x * (1.0 + erf_f64(x / 2.0_f64.sqrt())),
            Activation::GeluTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
            Activation::Relu => x.max(0.0),
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Tanh => x.tanh(),
        }
    }

    /// erf by its Maclaurin series, to f64's precision for |x| up to 5; 1 beyond 6.
    fn erf_f64(x: f64) -> f64 {
        if x.abs() > 5.0 {
            return x.signum();
        }
        let (mut term, mut total) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            total += term / f64::from(2 * n + 1);
        }
        total * 2.0 / std::f64::consts::PI.sqrt()
    }

    #[test]
    fn forward_matches_the_reference() {
        for kind in Activation::ALL {
            for n in [1, 31, 33, 5003] {
                let mut x = normal(6, n);
                x.iter_mut().step_by(3).for_each(|x| *x *= 4.0);
                let got = run_everywhere("activation_forward", |ctx, mem| {
                    let input = mem.input(ctx, &x)?;
                    let y = mem.output(ctx, n)?;
                    activation_forward(ctx, kind, &input, &y)?;
                    Ok(vec![y])
                });
                let want: Vec<f64> = x.iter().map(|x| reference(kind, (*x).into())).collect();
                assert_close(&format!("{kind:?}"), &got[0], &want, 2e-6, 1e-6);
            }
        }
    }

    #[test]
    fn backward_matches_finite_differences() {
        for kind in Activation::ALL {
            for n in [1, 31, 33, 5003] {
                let (x, dy) = (normal(7, n), normal(8, n));
                let got = run_everywhere("activation_backward", |ctx, mem| {
                    let (input, upstream) = (mem.input(ctx, &x)?, mem.input(ctx, &dy)?);
                    let dx = mem.output(ctx, n)?;
                    activation_backward(ctx, kind, &input, &upstream, &dx)?;
                    Ok(vec![dx])
                });
                let want: Vec<f64> = x
                    .iter()
                    .zip(&dy)
                    .map(|(x, dy)| f64::from(*dy) * slope(kind, (*x).into()))
                    .collect();
                assert_close(&format!("{kind:?}"), &got[0], &want, 1e-5, 2e-6);
            }
        }
    }

    /// Large, tiny and special values: equal bits everywhere, and no NaN from a finite input.
    #[test]
    fn edges_are_finite_and_equal_everywhere() {
        let mut x = values(9, 2000);
        x.extend([
            f32::MAX,
            f32::MIN,
            f32::MIN_POSITIVE,
            16.0,
            -16.0,
            88.8,
            -88.8,
            0.0,
            -0.0,
        ]);
        let n = x.len();
        for kind in Activation::ALL {
            let got = run_everywhere("activation", |ctx, mem| {
                let input = mem.input(ctx, &x)?;
                let upstream = mem.input(ctx, &vec![1.5; n])?;
                let (y, dx) = (mem.output(ctx, n)?, mem.output(ctx, n)?);
                activation_forward(ctx, kind, &input, &y)?;
                activation_backward(ctx, kind, &input, &upstream, &dx)?;
                Ok(vec![y, dx])
            });
            for (i, input) in x.iter().enumerate().filter(|(_, x)| x.is_finite()) {
                assert!(got[0][i].is_finite(), "{kind:?}({input}) = {}", got[0][i]);
                assert!(got[1][i].is_finite(), "{kind:?}'({input}) = {}", got[1][i]);
            }
        }
    }

    #[test]
    fn relu_has_the_written_rule_for_zeros_and_nan() {
        let x = [
            0.0,
            -0.0,
            f32::NAN,
            -f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            2.0,
            -2.0,
        ];
        let got = run_everywhere("relu", |ctx, mem| {
            let input = mem.input(ctx, &x)?;
            let upstream = mem.input(ctx, &[3.0; 8])?;
            let (y, dx) = (mem.output(ctx, 8)?, mem.output(ctx, 8)?);
            activation_forward(ctx, Activation::Relu, &input, &y)?;
            activation_backward(ctx, Activation::Relu, &input, &upstream, &dx)?;
            Ok(vec![y, dx])
        });
        let y: Vec<u32> = got[0].iter().map(|y| y.to_bits()).collect();
        assert_eq!([y[0], y[1], y[5], y[7]], [0; 4]);
        assert!(got[0][2].is_nan() && got[0][3].is_nan());
        assert_eq!([got[0][4], got[0][6]], [f32::INFINITY, 2.0]);
        assert_eq!(got[1], [0.0, 0.0, 3.0, 3.0, 3.0, 0.0, 3.0, 0.0]);
    }
}
