//! The functions of one argument, their launches and their f64 references.

use hlx_core::arith::reference;
use hlx_core::{Binding, Buffer, Device, Launch, Shader, arith, groups_1d, push_bytes};
use rayon::prelude::*;

use hlx_core::multiversion;
use hlx_kernels::activation::{Activation, activation_forward};
use hlx_kernels::{KernelError, shader};

shader!(every, arith::every);
shader!(every_exp_log, arith::every_exp_log);
shader!(every_trigonometric, arith::every_trigonometric);

/// A function of one argument, as the device computes it.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name, as `--function` takes it.
    pub name: &'static str,
    body: Body,
    /// The function in f64, to less than 0.001 ulp of f32, for errors; where there is none, only
    /// the bits are compared.
    pub exact: Option<fn(f64) -> f64>,
}

/// What computes it.
#[derive(Clone, Copy, Debug)]
enum Body {
    /// A function of `functions.glsl`; its number in the shaders.
    Arithmetic(u32),
    /// A kernel over a buffer, which holds no subnormal: they go in as zeros.
    Kernel(Activation),
}

const fn function(name: &'static str, number: u32, exact: Option<fn(f64) -> f64>) -> Function {
    Function {
        name,
        body: Body::Arithmetic(number),
        exact,
    }
}

const fn kernel(name: &'static str, kind: Activation) -> Function {
    Function {
        name,
        body: Body::Kernel(kind),
        exact: None,
    }
}

/// Every function of one argument. `uniform` takes a random word; `pos0` stands for the flush of
/// an input too. The activations have no error in ulp: far left of zero their results are small
/// differences (GELU) or flushed early (SiLU).
pub const FUNCTIONS: [Function; 27] = [
    function("recip", 1, Some(|x| 1.0 / x)),
    function("sqrt", 2, Some(f64::sqrt)),
    function("rsqrt", 3, Some(exact_rsqrt)),
    function("exp", 4, Some(f64::exp)),
    function("log", 5, Some(|x| at_zero(x, f64::ln))),
    function("sigmoid", 6, Some(|x| 1.0 / (1.0 + (-x).exp()))),
    function("tanh", 7, Some(f64::tanh)),
    function("erf", 8, Some(reference::erf)),
    function("sin", 9, Some(f64::sin)),
    function("cos", 10, Some(f64::cos)),
    function("exp2", 13, Some(f64::exp2)),
    function("expm1", 14, Some(f64::exp_m1)),
    function("log2", 15, Some(|x| at_zero(x, f64::log2))),
    function("log10", 16, Some(|x| at_zero(x, f64::log10))),
    function("log1p", 17, Some(f64::ln_1p)),
    function("tan", 18, Some(f64::tan)),
    function("asin", 19, Some(f64::asin)),
    function("acos", 20, Some(f64::acos)),
    function("atan", 21, Some(f64::atan)),
    function("sinh", 22, Some(f64::sinh)),
    function("cosh", 23, Some(f64::cosh)),
    function("pos0", 11, Some(|x| x)),
    function("uniform", 12, None),
    kernel("gelu", Activation::GELU),
    kernel("gelu_tanh", Activation::GELUTanh),
    kernel("relu", Activation::ReLU),
    kernel("silu", Activation::SiLU),
];

/// Both zeros give +inf, as a subnormal of either sign does.
fn exact_rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt().abs()
}

/// A logarithm, -inf at both zeros.
fn at_zero(x: f64, log: fn(f64) -> f64) -> f64 {
    if x == 0.0 { f64::NEG_INFINITY } else { log(x) }
}

/// Computes the function of the floats whose bits are `first + i * stride` (modulo 2^32), for
/// each element `i` of `out`; `inputs` is scratch of the same length.
pub fn launch(
    device: &Device,
    function: &Function,
    first: u32,
    stride: u32,
    inputs: &Buffer,
    out: &Buffer,
) -> Result<(), KernelError> {
    match function.body {
        Body::Arithmetic(number) => launch_every(device, number, first, stride, out),
        Body::Kernel(kind) => {
            launch_every(device, 0, first, stride, inputs)?;
            activation_forward(device, kind, inputs, out)
        }
    }
}

/// The shader that holds a function; their push constants are alike.
fn shader_of(number: u32) -> &'static Shader {
    match number {
        13..=17 => &every_exp_log::SHADER,
        18.. => &every_trigonometric::SHADER,
        _ => &every::SHADER,
    }
}

fn launch_every(
    device: &Device,
    number: u32,
    first: u32,
    stride: u32,
    out: &Buffer,
) -> Result<(), KernelError> {
    /// Elements of a task of the CPU.
    const TASK: usize = 1 << 14;
    let push = every::Push {
        count: out.len() as u32,
        first,
        stride,
    };
    let launch = Launch {
        name: "arith_every",
        shader: shader_of(number),
        specialization: &[(0, number)],
        bindings: &[Binding::Write(out)],
        push: push_bytes(&push),
        groups: groups_1d(out.len().div_ceil(64)),
    };
    device.launch(launch, move |bindings| {
        let ([], [out]) = bindings.split::<0, 1>();
        out.par_chunks_mut(TASK)
            .enumerate()
            .for_each(|(task, out)| {
                let begin = first.wrapping_add((task * TASK) as u32 * stride);
                every_chunk(number, begin, stride, out);
            });
    })?;
    Ok(())
}

/// `out[i] = value of word i`. A macro, since a closure that is not inlined would be compiled for
/// the baseline.
macro_rules! each {
    ($first:ident, $stride:ident, $out:ident, |$x:ident| $value:expr) => {
        for (index, y) in $out.iter_mut().enumerate() {
            let $x = f32::from_bits($first.wrapping_add($stride.wrapping_mul(index as u32)));
            *y = $value;
        }
    };
}

multiversion! {
    fn every_chunk<A>(number: u32, first: u32, stride: u32, out: &mut [f32]) {
        match number {
            0 => each!(first, stride, out, |x| arith::flush(x)),
            1 => each!(first, stride, out, |x| arith::div(1.0, x)),
            2 => each!(first, stride, out, |x| arith::sqrt(x)),
            3 => each!(first, stride, out, |x| A::rsqrt(x)),
            4 => each!(first, stride, out, |x| A::exp(x)),
            5 => each!(first, stride, out, |x| A::log(x)),
            6 => each!(first, stride, out, |x| A::sigmoid(x)),
            7 => each!(first, stride, out, |x| A::tanh(x)),
            8 => each!(first, stride, out, |x| A::erf(x)),
            9 => each!(first, stride, out, |x| A::sin(x)),
            10 => each!(first, stride, out, |x| A::cos(x)),
            11 => each!(first, stride, out, |x| arith::pos0(arith::flush(x))),
            12 => each!(first, stride, out, |x| arith::uniform(x.to_bits())),
            13 => each!(first, stride, out, |x| A::exp2(x)),
            14 => each!(first, stride, out, |x| A::expm1(x)),
            15 => each!(first, stride, out, |x| A::log2(x)),
            16 => each!(first, stride, out, |x| A::log10(x)),
            17 => each!(first, stride, out, |x| A::log1p(x)),
            18 => each!(first, stride, out, |x| A::tan(x)),
            19 => each!(first, stride, out, |x| A::asin(x)),
            20 => each!(first, stride, out, |x| A::acos(x)),
            21 => each!(first, stride, out, |x| A::atan(x)),
            22 => each!(first, stride, out, |x| A::sinh(x)),
            23 => each!(first, stride, out, |x| A::cosh(x)),
            _ => out.fill(f32::NAN),
        }
    }
}
