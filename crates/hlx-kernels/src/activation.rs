//! Activations: `y = f(x)` and `dx = dy f'(x)`, an element at a time.
//!
//! The kinds are lines of `shaders/include/activations.txt`, which makes their ids, shaders and
//! names; their formulas are in `formulas.rs`, written a second time in
//! `shaders/include/activation.glsl`. Each is one chain of operations of HLX arithmetic, from the
//! inside out, with `fma` where it says so. `erf`, `exp`, `log`, `sigmoid`, `tanh` and `/` are HLX's.
//!
//! | kind | `y = f(x)` | `dx = dy * f'(x)` |
//! |---|---|---|
//! | GELU | `(0.5 x) (1 + erf(x / sqrt 2))` | `f' = fma(x, pdf, cdf)`, `cdf = 0.5 (1 + erf(x / sqrt 2))`, `pdf = exp((-0.5 x) x) / sqrt(2 pi)` |
//! | GELUTanh | `(0.5 x) (1 + t)`, `t = tanh((sqrt(2/pi) x) fma(0.044715, x^2, 1))` | `f' = fma(0.5, 1 + t, ((0.5 x) fma(-t, t, 1)) (sqrt(2/pi) fma(0.134145, x^2, 1)))` |
//! | ReLU | `x` where it is positive, +0 or NaN, else +0 | `dy` where x is positive or NaN, else +0 |
//! | SiLU | `x s`, `s = sigmoid(x)` | `f' = s fma(x, 1 - s, 1)` |
//! | Sigmoid | `sigmoid(x)` | `f' = e / (1 + e)^2`, `e = exp(-abs x)` |
//! | Tanh | `tanh(x)` | `f' = fma(-t, t, 1)`, `t = tanh(x)` |
//! | Softplus | `max(x, 0) + (log(u) + (e - (u - 1)) / u)`, `e = exp(-abs x)`, `u = 1 + e`; `x` above 20 | `dy sigmoid(x)`; `dy` above 20 |
//!
//! The derivatives of both GELUs clamp x to [-16, 16]: beyond, they are 0 or 1 to the last bit, and
//! `x^2` could overflow. Minus infinity gives NaN from GELU and SiLU, as in PyTorch.

pub(crate) mod formulas;
mod kinds;

use std::fmt;
use std::str::FromStr;

use hlx_core::{Binding, Buffer, Device, Shader};

use crate::error::KernelError;
use crate::map::{Arg, Map, chunks1, each1, each2};

shader!(in_place_shader, activation::backward_in_place);

/// Defines the kinds and what depends on them, from the table's lines.
macro_rules! define_kinds {
    ($($(#[$documentation:meta])* $name:ident $variant:ident $forward:ident $backward:ident;)+) => {
        /// A function that a layer may end with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Activation {
            $($(#[$documentation])* $variant,)+
        }

        impl Activation {
            /// Every kind; a kind's id in shaders is its place.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The kind's name in configurations.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)+
                }
            }

            /// One module a kind: a constant that picks the kind within one module would have
            /// software drivers compile all of them each time (measured with six kinds: 2.1 s a
            /// pipeline instead of 0.2 s).
            fn forward_shader(self) -> &'static Shader {
                match self {
                    $(Self::$variant => &kinds::$forward::SHADER,)+
                }
            }

            fn backward_shader(self) -> &'static Shader {
                match self {
                    $(Self::$variant => &kinds::$backward::SHADER,)+
                }
            }
        }

        multiversion! {
            pub(crate) fn forward_chunk<A>(kind: Activation, x: &[f32], y: &mut [f32]) {
                match kind {
                    $(Activation::$variant => each1(x, y, formulas::$forward::<A>),)+
                }
            }
        }

        multiversion! {
            pub(crate) fn backward_chunk<A>(
                kind: Activation,
                x: &[f32],
                dy: &[f32],
                dx: &mut [f32],
            ) {
                match kind {
                    $(Activation::$variant => each2(x, dy, dx, formulas::$backward::<A>),)+
                }
            }
        }
    };
}
crate::for_each_activation!(define_kinds);

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Activation {
    type Err = KernelError;

    /// Reads a kind's name.
    fn from_str(text: &str) -> Result<Self, KernelError> {
        let found = Self::ALL.iter().find(|kind| kind.name() == text);
        found.copied().ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
            let names = names.join(", ");
            KernelError::argument("activation")(format!(
                "kind is `{text}`, expected one of {names}"
            ))
        })
    }
}

/// Computes `y = f(x)`.
///
/// # Errors
/// A shape error if the lengths differ, or the device's error.
pub fn activation_forward(
    device: &Device,
    kind: Activation,
    x: &Buffer,
    y: &Buffer,
) -> Result<(), KernelError> {
    Map::new("activation_forward", kind.forward_shader()).each(
        device,
        [("x", x)],
        ("y", y),
        move |[x], y| forward_chunk(kind, x, y),
    )
}

/// Computes `dx = dy * f'(x)` from the input of the forward pass.
///
/// # Errors
/// As [`activation_forward`].
pub fn activation_backward(
    device: &Device,
    kind: Activation,
    x: &Buffer,
    dy: &Buffer,
    dx: &Buffer,
) -> Result<(), KernelError> {
    Map::new("activation_backward", kind.backward_shader()).each(
        device,
        [("x", x), ("dy", dy)],
        ("dx", dx),
        move |[x, dy], dx| backward_chunk(kind, x, dy, dx),
    )
}

/// Computes `x = dy * f'(x)`: the gradient takes the place of the input of the forward pass.
///
/// # Errors
/// As [`activation_forward`].
pub fn activation_backward_in_place(
    device: &Device,
    kind: Activation,
    x: &Buffer,
    dy: &Buffer,
) -> Result<(), KernelError> {
    let map = Map {
        specialization: &[(0, kind as u32)],
        ..Map::new("activation_backward", &in_place_shader::SHADER)
    };
    let args = [
        Arg::Each("dy", Binding::Read(dy)),
        Arg::Each("x", Binding::ReadWrite(x)),
    ];
    map.launch(device, &args, move |bindings| {
        let ([dy], [x]) = bindings.split::<1, 1>();
        chunks1(dy, x, |dy, x| {
            let of_input = x.to_vec();
            backward_chunk(kind, &of_input, dy, x);
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, normal, run_everywhere, values};

    /// The derivative by central differences of the f64 reference.
    fn slope(kind: Activation, x: f64) -> f64 {
        const STEP: f64 = 1e-5;
        if kind == Activation::ReLU {
            return if x > 0.0 { 1.0 } else { 0.0 };
        }
        (reference(kind, x + STEP) - reference(kind, x - STEP)) / (2.0 * STEP)
    }

    fn reference(kind: Activation, x: f64) -> f64 {
        match kind {
            Activation::GELU => 0.5 * x * (1.0 + erf_f64(x / 2.0_f64.sqrt())),
            Activation::GELUTanh => {
                let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
            Activation::ReLU => x.max(0.0),
            Activation::SiLU => x / (1.0 + (-x).exp()),
            Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Activation::Tanh => x.tanh(),
            Activation::Softplus if x > 20.0 => x,
            Activation::Softplus => x.exp().ln_1p(),
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
    fn a_gradient_in_place_is_that_beside_it() {
        for &kind in Activation::ALL {
            for n in [1, 34, 20_003] {
                let (x, dy) = (normal(7, n), normal(8, n));
                let got = run_everywhere("activation_backward", |device, mem| {
                    let (input, dy) = (mem.input(device, &x)?, mem.input(device, &dy)?);
                    let (dx, in_place) = (mem.output(device, n)?, mem.output(device, n)?);
                    activation_backward(device, kind, &input, &dy, &dx)?;
                    device.copy(&input, &in_place)?;
                    activation_backward_in_place(device, kind, &in_place, &dy)?;
                    Ok(vec![dx, in_place])
                });
                let [dx, in_place] = [&got[0], &got[1]]
                    .map(|values| values.iter().map(|x| x.to_bits()).collect::<Vec<u32>>());
                assert_eq!(dx, in_place, "{kind:?}");
            }
        }
    }

    #[test]
    fn forward_matches_the_reference() {
        for &kind in Activation::ALL {
            for n in [1, 31, 33, 5003] {
                let mut x = normal(6, n);
                x.iter_mut().step_by(3).for_each(|x| *x *= 4.0);
                let got = run_everywhere("activation_forward", |device, mem| {
                    let input = mem.input(device, &x)?;
                    let y = mem.output(device, n)?;
                    activation_forward(device, kind, &input, &y)?;
                    Ok(vec![y])
                });
                let want: Vec<f64> = x.iter().map(|x| reference(kind, (*x).into())).collect();
                assert_close(&format!("{kind:?}"), &got[0], &want, 2e-6, 1e-6);
            }
        }
    }

    #[test]
    fn backward_matches_finite_differences() {
        for &kind in Activation::ALL {
            for n in [1, 31, 33, 5003] {
                let (x, dy) = (normal(7, n), normal(8, n));
                let got = run_everywhere("activation_backward", |device, mem| {
                    let (input, upstream) = (mem.input(device, &x)?, mem.input(device, &dy)?);
                    let dx = mem.output(device, n)?;
                    activation_backward(device, kind, &input, &upstream, &dx)?;
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
        for &kind in Activation::ALL {
            let got = run_everywhere("activation", |device, mem| {
                let input = mem.input(device, &x)?;
                let upstream = mem.input(device, &vec![1.5; n])?;
                let (y, dx) = (mem.output(device, n)?, mem.output(device, n)?);
                activation_forward(device, kind, &input, &y)?;
                activation_backward(device, kind, &input, &upstream, &dx)?;
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
        let got = run_everywhere("relu", |device, mem| {
            let input = mem.input(device, &x)?;
            let upstream = mem.input(device, &[3.0; 8])?;
            let (y, dx) = (mem.output(device, 8)?, mem.output(device, 8)?);
            activation_forward(device, Activation::ReLU, &input, &y)?;
            activation_backward(device, Activation::ReLU, &input, &upstream, &dx)?;
            Ok(vec![y, dx])
        });
        let y: Vec<u32> = got[0].iter().map(|y| y.to_bits()).collect();
        assert_eq!([y[0], y[1], y[5], y[7]], [0; 4]);
        assert!(got[0][2].is_nan() && got[0][3].is_nan());
        assert_eq!([got[0][4], got[0][6]], [f32::INFINITY, 2.0]);
        assert_eq!(got[1], [0.0, 0.0, 3.0, 3.0, 3.0, 0.0, 3.0, 0.0]);
    }

    /// To the left `1 + exp(x)` would round to 1: the result keeps its leading digits.
    #[test]
    fn softplus_is_accurate_where_the_exponential_is_small_and_linear_above_20() {
        let x = [-80.0, -40.0, -17.5, -1.0, 0.0, 1.0, 19.9, 20.0, 20.5, 1e30];
        let got = run_everywhere("softplus", |device, mem| {
            let input = mem.input(device, &x)?;
            let upstream = mem.input(device, &[2.0; 10])?;
            let (y, dx) = (mem.output(device, 10)?, mem.output(device, 10)?);
            activation_forward(device, Activation::Softplus, &input, &y)?;
            activation_backward(device, Activation::Softplus, &input, &upstream, &dx)?;
            Ok(vec![y, dx])
        });
        let y: Vec<f64> = x
            .iter()
            .map(|&x| reference(Activation::Softplus, x.into()))
            .collect();
        let slopes = x.iter().map(|&x| 2.0 / (1.0 + (-f64::from(x)).exp()));
        assert_close("softplus", &got[0], &y, 4e-7, 0.0);
        assert_close(
            "softplus's slope",
            &got[1],
            &slopes.collect::<Vec<_>>(),
            4e-7,
            0.0,
        );
        assert_eq!(got[0][8..], [20.5, 1e30]);
        assert_eq!(got[1][8..], [2.0, 2.0]);
    }

    #[test]
    fn names_are_read_back_and_unknown_ones_refused() {
        for (id, &kind) in Activation::ALL.iter().enumerate() {
            assert_eq!(kind.to_string().parse::<Activation>().ok(), Some(kind));
            assert_eq!(kind as usize, id);
        }
        let text = "swish"
            .parse::<Activation>()
            .expect_err("unknown")
            .to_string();
        assert_eq!(
            text,
            "activation: kind is `swish`, expected one of gelu, gelu_tanh, relu, silu, sigmoid, \
             tanh, softplus"
        );
    }
}
