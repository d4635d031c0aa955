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

use crate::error::{KernelError, Result};
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
    fn from_str(text: &str) -> Result<Self> {
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
pub fn activation_forward(device: &Device, kind: Activation, x: &Buffer, y: &Buffer) -> Result<()> {
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
) -> Result<()> {
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
) -> Result<()> {
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
mod tests;
