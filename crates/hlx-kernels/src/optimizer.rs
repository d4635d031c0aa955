//! Optimizer steps: SGD with momentum, Adam, AdamW, and the factor that clips a gradient.
//!
//! The formulas are torch.optim's (SGD with dampening 0 and without Nesterov; Adam without
//! amsgrad). Each element on its own, in HLX arithmetic, `g` first multiplied by `clip`:
//!
//! | step | chain |
//! |---|---|
//! | SGD | `d = fma(lambda, p, clip g)`; with momentum `m = fma(mu, m, d)`, `d = m`; `p = fma(-lr, d, p)` |
//! | Adam | `g = fma(lambda, p, clip g)`, then as below |
//! | AdamW | `g = clip g`, `p = (1 - lr lambda) p`, then as below |
//! | both | `m = fma(1 - beta1, g - m, m)`; `v = fma((1 - beta2) g, g, beta2 v)`; `p = fma(-lr / (1 - beta1^t), m / fma(sqrt v, 1 / sqrt(1 - beta2^t), eps), p)` |
//!
//! The numbers of the step ([`Hyper`]) and the clip factor lie in device buffers, so that a
//! recorded step can be replayed with the next step's numbers.

use hlx_core::arith::{add, div, sqrt, sub};
use hlx_core::{Binding, Buffer, Context, Launch, push_bytes};
use rayon::prelude::*;

use crate::error::{KernelError, check_len};
use crate::map::{Arg, CHUNK, Map};

shader!(sgd_shader, "optimizer/sgd");
shader!(sgd_momentum_shader, "optimizer/sgd_momentum");
shader!(adam_shader, "optimizer/adam");
shader!(clip_shader, "optimizer/clip_factor");

/// Words of the buffer that holds a [`Hyper`].
pub const HYPER_LEN: usize = 10;

/// The numbers of one optimizer step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hyper {
    /// The step's number, from 1 (for the bias corrections of Adam).
    pub step: u64,
    /// lr
    pub learning_rate: f64,
    /// mu of SGD; 0 for none.
    pub momentum: f64,
    /// lambda
    pub weight_decay: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// eps
    pub epsilon: f64,
}

impl Default for Hyper {
    /// PyTorch's defaults of Adam, at step 1, without weight decay.
    fn default() -> Self {
        Self {
            step: 1,
            learning_rate: 1e-3,
            momentum: 0.0,
            weight_decay: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
        }
    }
}

impl Hyper {
    /// Returns the words that the steps read, f32 bits to be uploaded with `upload_u32`.
    ///
    /// Computed in f64 from the five operations that IEEE 754 rounds correctly, so equal on
    /// every machine, and rounded once to f32 (a subnormal result becomes zero).
    pub fn to_words(&self) -> [u32; HYPER_LEN] {
        let correction1 = 1.0 - power(self.beta1, self.step);
        let correction2 = 1.0 - power(self.beta2, self.step);
        [
            -self.learning_rate,
            self.momentum,
            self.weight_decay,
            1.0 - self.learning_rate * self.weight_decay,
            1.0 - self.beta1,
            self.beta2,
            1.0 - self.beta2,
            -self.learning_rate / correction1,
            1.0 / correction2.sqrt(),
            self.epsilon,
        ]
        .map(|value| {
            let rounded = value as f32;
            if rounded.is_subnormal() {
                0
            } else {
                rounded.to_bits()
            }
        })
    }
}

/// `base^exponent` by squaring: `f64::powi` promises no bits.
fn power(base: f64, mut exponent: u64) -> f64 {
    let (mut square, mut result) = (base, 1.0);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= square;
        }
        square *= square;
        exponent >>= 1;
    }
    result
}

/// The words of a [`Hyper`], as the CPU twins read them.
#[derive(Clone, Copy)]
struct Numbers {
    clip: f32,
    negative_rate: f32,
    momentum: f32,
    weight_decay: f32,
    keep: f32,
    one_minus_beta1: f32,
    beta2: f32,
    one_minus_beta2: f32,
    negative_step: f32,
    inverse_root: f32,
    epsilon: f32,
}

impl Numbers {
    fn new(hyper: &[f32], clip: &[f32]) -> Self {
        Self {
            clip: clip[0],
            negative_rate: hyper[0],
            momentum: hyper[1],
            weight_decay: hyper[2],
            keep: hyper[3],
            one_minus_beta1: hyper[4],
            beta2: hyper[5],
            one_minus_beta2: hyper[6],
            negative_step: hyper[7],
            inverse_root: hyper[8],
            epsilon: hyper[9],
        }
    }
}

/// Updates `params` (and `momentum`, zeros before the first step) by stochastic gradient descent:
/// `torch.optim.SGD`.
///
/// `hyper` holds [`Hyper::to_words`], `clip` one factor that multiplies the gradients.
///
/// # Errors
/// A shape error if the lengths differ, or the device's error; so for all steps.
pub fn sgd_step(
    ctx: &Context,
    params: &Buffer,
    grads: &Buffer,
    momentum: Option<&Buffer>,
    hyper: &Buffer,
    clip: &Buffer,
) -> Result<(), KernelError> {
    let mut args = vec![
        Arg::Each("grads", Binding::Read(grads)),
        Arg::Whole("hyper", hyper, HYPER_LEN),
        Arg::Whole("clip", clip, 1),
        Arg::Each("params", Binding::ReadWrite(params)),
    ];
    let shader = match momentum {
        None => &sgd_shader::SHADER,
        Some(momentum) => {
            args.push(Arg::Each("momentum", Binding::ReadWrite(momentum)));
            &sgd_momentum_shader::SHADER
        }
    };
    let map = Map {
        name: "sgd_step",
        shader,
        specialization: &[],
        pairs: false,
        parameters: &[],
    };
    if momentum.is_none() {
        return map.launch(ctx, &args, |bindings| {
            let ([grads, hyper, clip], [params]) = bindings.split::<3, 1>();
            let numbers = Numbers::new(hyper, clip);
            params
                .par_chunks_mut(CHUNK)
                .zip(grads.par_chunks(CHUNK))
                .for_each(|(params, grads)| sgd_chunk(numbers, grads, params));
        });
    }
    map.launch(ctx, &args, |bindings| {
        let ([grads, hyper, clip], [params, momentum]) = bindings.split::<3, 2>();
        let numbers = Numbers::new(hyper, clip);
        params
            .par_chunks_mut(CHUNK)
            .zip(momentum.par_chunks_mut(CHUNK))
            .zip(grads.par_chunks(CHUNK))
            .for_each(|((params, momentum), grads)| {
                sgd_momentum_chunk(numbers, grads, params, momentum);
            });
    })
}

/// Updates `params` and the moments `m` and `v` (zeros before the first step): `torch.optim.Adam`,
/// with weight decay added to the gradient.
#[allow(clippy::too_many_arguments)] // Every one is a buffer of the step.
pub fn adam_step(
    ctx: &Context,
    params: &Buffer,
    grads: &Buffer,
    m: &Buffer,
    v: &Buffer,
    hyper: &Buffer,
    clip: &Buffer,
) -> Result<(), KernelError> {
    adam(
        ctx,
        "adam_step",
        false,
        [params, m, v],
        [grads, hyper, clip],
    )
}

/// Updates `params` and the moments `m` and `v`: `torch.optim.AdamW`, with weight decay that
/// shrinks the parameters (Loshchilov and Hutter, 2019).
#[allow(clippy::too_many_arguments)] // Every one is a buffer of the step.
pub fn adamw_step(
    ctx: &Context,
    params: &Buffer,
    grads: &Buffer,
    m: &Buffer,
    v: &Buffer,
    hyper: &Buffer,
    clip: &Buffer,
) -> Result<(), KernelError> {
    adam(
        ctx,
        "adamw_step",
        true,
        [params, m, v],
        [grads, hyper, clip],
    )
}

fn adam(
    ctx: &Context,
    name: &'static str,
    decoupled: bool,
    [params, m, v]: [&Buffer; 3],
    [grads, hyper, clip]: [&Buffer; 3],
) -> Result<(), KernelError> {
    let map = Map {
        name,
        shader: &adam_shader::SHADER,
        specialization: &[(0, u32::from(decoupled))],
        pairs: false,
        parameters: &[],
    };
    let args = [
        Arg::Each("grads", Binding::Read(grads)),
        Arg::Whole("hyper", hyper, HYPER_LEN),
        Arg::Whole("clip", clip, 1),
        Arg::Each("params", Binding::ReadWrite(params)),
        Arg::Each("m", Binding::ReadWrite(m)),
        Arg::Each("v", Binding::ReadWrite(v)),
    ];
    map.launch(ctx, &args, move |bindings| {
        let ([grads, hyper, clip], [params, m, v]) = bindings.split::<3, 3>();
        let numbers = Numbers::new(hyper, clip);
        params
            .par_chunks_mut(CHUNK)
            .zip(m.par_chunks_mut(CHUNK))
            .zip(v.par_chunks_mut(CHUNK))
            .zip(grads.par_chunks(CHUNK))
            .for_each(|(((params, m), v), grads)| {
                adam_chunk(numbers, decoupled, grads, params, m, v);
            });
    })
}

/// Computes `out[0] = min(1, max_norm / (norm[0] + 1e-6))`, NaN for a norm of NaN:
/// `torch.nn.utils.clip_grad_norm_`.
///
/// # Errors
/// A shape error, or the device's error.
pub fn clip_factor(
    ctx: &Context,
    norm: &Buffer,
    out: &Buffer,
    max_norm: f32,
) -> Result<(), KernelError> {
    check_len("clip_factor", "norm", norm, 1)?;
    check_len("clip_factor", "out", out, 1)?;
    let push = clip_shader::Push { max_norm };
    let launch = Launch {
        name: "clip_factor",
        shader: &clip_shader::SHADER,
        specialization: &[],
        bindings: &[Binding::Read(norm), Binding::Write(out)],
        push: push_bytes(&push),
        groups: [1, 1, 1],
    };
    ctx.launch(launch, move |bindings| {
        let ([norm], [out]) = bindings.split::<1, 1>();
        let ratio = div(max_norm, add(norm[0], 1e-6));
        out[0] = if ratio >= 1.0 { 1.0 } else { ratio };
    })?;
    Ok(())
}

multiversion! {
    fn sgd_chunk<A>(numbers: Numbers, grads: &[f32], params: &mut [f32]) {
        for (p, g) in params.iter_mut().zip(grads) {
            let d = A::fma(numbers.weight_decay, *p, A::mul(numbers.clip, *g));
            *p = A::fma(numbers.negative_rate, d, *p);
        }
    }
}

multiversion! {
    fn sgd_momentum_chunk<A>(n: Numbers, grads: &[f32], params: &mut [f32], momentum: &mut [f32]) {
        for ((p, m), g) in params.iter_mut().zip(momentum).zip(grads) {
            *m = A::fma(n.momentum, *m, A::fma(n.weight_decay, *p, A::mul(n.clip, *g)));
            *p = A::fma(n.negative_rate, *m, *p);
        }
    }
}

multiversion! {
    fn adam_chunk<A>(
        n: Numbers,
        decoupled: bool,
        grads: &[f32],
        params: &mut [f32],
        m: &mut [f32],
        v: &mut [f32],
    ) {
        for (((p, m), v), g) in params.iter_mut().zip(m).zip(v).zip(grads) {
            let clipped = A::mul(n.clip, *g);
            let g = if decoupled { clipped } else { A::fma(n.weight_decay, *p, clipped) };
            let kept = if decoupled { A::mul(n.keep, *p) } else { *p };
            *m = A::fma(n.one_minus_beta1, sub(g, *m), *m);
            *v = A::fma(A::mul(n.one_minus_beta2, g), g, A::mul(n.beta2, *v));
            let denominator = A::fma(sqrt(*v), n.inverse_root, n.epsilon);
            *p = A::fma(n.negative_step, div(*m, denominator), kept);
        }
    }
}

#[cfg(test)]
mod tests;
