//! Optimizer steps, and the factor that clips a gradient.
//!
//! The formulas are torch.optim's (Adam without amsgrad), Lion's those of its paper. Each element on
//! its own, in HLX arithmetic; `g` is first multiplied by `clip` and held within the value's limit:
//!
//! | step | chain |
//! |---|---|
//! | SGD | `d = fma(lambda, p, g)`; with momentum `m = fma(mu, m, (1 - dampening) d)`, without dampening at first; `d = m`, or by Nesterov `d = fma(mu, m, d)`; `p = fma(-lr, d, p)` |
//! | Adam | `g = fma(lambda, p, g)`, then as below |
//! | AdamW | `p = (1 - lr lambda) p`, then as below |
//! | both | `m = fma(1 - beta1, g - m, m)`; `v = fma((1 - beta2) g, g, beta2 v)`; `p = fma(-lr / (1 - beta1^t), m / fma(sqrt v, 1 / sqrt(1 - beta2^t), eps), p)` |
//! | Adagrad | `g = fma(lambda, p, g)`; `s = fma(g, g, s)`; `p = fma(-lr, g / (sqrt s + eps), p)` |
//! | RMSprop | `g = fma(lambda, p, g)`; `s = fma((1 - alpha) g, g, alpha s)`; `r = s`, or centered `mean = fma(1 - alpha, g - mean, mean)`, `r = max(fma(-mean, mean, s), 0)`; `d = g / (sqrt r + eps)`; with momentum `m = fma(mu, m, d)`, `d = m`; `p = fma(-lr, d, p)` |
//! | Lion | `u = sign(fma(1 - beta1, g - m, m))`; `m = fma(1 - beta2, g - m, m)`; `p = fma(-lr, u, (1 - lr lambda) p)` |
//! | Muon | [`muon`] |
//! | AdamW in 8 bits | [`eight_bit`] |
//! | Adafactor | [`adafactor`] |
//! | average | `e = fma(1 - beta1, p - e, e)` |
//!
//! The numbers of the step ([`Hyper`], a row per group of parameters) and the clip factor lie in
//! device buffers, so that a recorded step can be replayed with the next step's numbers. A negative clip
//! factor ([`guarded_factor`]) skips a step: it writes nothing. One launch
//! updates parameters of several groups: a table names the row of each block of 64 elements.

pub mod adafactor;
pub mod eight_bit;
mod formulas;
mod frame;
mod hyper;
pub mod muon;

use hlx_core::arith::{add, div};
use hlx_core::{Buffer, Device};

use self::formulas::{
    adagrad_chunk, adam_chunk, average_chunk, lion_chunk, rmsprop_centered_chunk,
    rmsprop_centered_momentum_chunk, rmsprop_chunk, rmsprop_momentum_chunk, sgd_chunk,
    sgd_momentum_chunk,
};
use self::frame::UpdateKernel;
pub use self::frame::{Groups, SKIPPED, Update};
pub use self::hyper::{HYPER_LEN, Hyper, power};
use crate::error::Result;
use crate::kernel::Kernel;

shader!(optimizer::{
    sgd, sgd_momentum, adam, adagrad, rmsprop, rmsprop_momentum, rmsprop_centered,
    rmsprop_centered_momentum, lion, average, clip_factor, guarded_factor,
});

/// Updates the parameters by stochastic gradient descent: `torch.optim.SGD` without momentum.
///
/// # Errors
/// A shape error if the lengths differ, or the device's error; so for all steps.
pub fn sgd_step(device: &Device, update: &Update<'_>) -> Result<()> {
    let step = UpdateKernel::new("sgd_step", &sgd::SHADER);
    let written = [("params", update.params)];
    step.launch(device, update, written, |n, g, [p]| sgd_chunk(n, g, p))
}

/// Updates the parameters and their `momentum` (zeros before the first step): `torch.optim.SGD`
/// with momentum, by Nesterov's rule if `nesterov`.
pub fn sgd_momentum_step(
    device: &Device,
    update: &Update<'_>,
    momentum: &Buffer,
    nesterov: bool,
) -> Result<()> {
    let step = UpdateKernel::new("sgd_step", &sgd_momentum::SHADER).variant(nesterov);
    let written = [("params", update.params), ("momentum", momentum)];
    step.launch(device, update, written, move |n, g, [p, m]| {
        sgd_momentum_chunk(n, nesterov, g, p, m);
    })
}

/// Updates the parameters and the moments `m` and `v` (zeros before the first step):
/// `torch.optim.Adam`, with weight decay added to the gradient.
pub fn adam_step(device: &Device, update: &Update<'_>, m: &Buffer, v: &Buffer) -> Result<()> {
    adam(device, false, update, [m, v])
}

/// Updates the parameters and the moments `m` and `v`: `torch.optim.AdamW`, with weight decay that
/// shrinks the parameters (Loshchilov and Hutter, 2019).
pub fn adamw_step(device: &Device, update: &Update<'_>, m: &Buffer, v: &Buffer) -> Result<()> {
    adam(device, true, update, [m, v])
}

fn adam(device: &Device, decoupled: bool, update: &Update<'_>, [m, v]: [&Buffer; 2]) -> Result<()> {
    let name = if decoupled { "adamw_step" } else { "adam_step" };
    let step = UpdateKernel::new(name, &adam::SHADER).variant(decoupled);
    let written = [("params", update.params), ("m", m), ("v", v)];
    step.launch(device, update, written, move |n, g, [p, m, v]| {
        adam_chunk(n, decoupled, g, p, m, v);
    })
}

/// Updates the parameters and the sum of their squared gradients: `torch.optim.Adagrad`, whose rate
/// the caller divides by `1 + (t - 1) lr_decay`.
pub fn adagrad_step(device: &Device, update: &Update<'_>, sum: &Buffer) -> Result<()> {
    let step = UpdateKernel::new("adagrad_step", &adagrad::SHADER);
    let written = [("params", update.params), ("sum", sum)];
    step.launch(device, update, written, |n, g, [p, s]| {
        adagrad_chunk(n, g, p, s)
    })
}

/// Updates the parameters and the mean `square` of their squared gradients, `momentum` and the
/// `mean` of the gradients if given (zeros before the first step): `torch.optim.RMSprop`, alpha
/// being beta2, centered with `mean`.
pub fn rmsprop_step(
    device: &Device,
    update: &Update<'_>,
    square: &Buffer,
    momentum: Option<&Buffer>,
    mean: Option<&Buffer>,
) -> Result<()> {
    let step = |shader| UpdateKernel::new("rmsprop_step", shader);
    let (params, square) = (("params", update.params), ("square", square));
    match (momentum, mean) {
        (None, None) => {
            let step = step(&rmsprop::SHADER);
            step.launch(device, update, [params, square], |n, g, [p, s]| {
                rmsprop_chunk(n, g, p, s);
            })
        }
        (Some(momentum), None) => {
            let step = step(&rmsprop_momentum::SHADER);
            let written = [params, square, ("momentum", momentum)];
            step.launch(device, update, written, |n, g, [p, s, m]| {
                rmsprop_momentum_chunk(n, g, p, s, m);
            })
        }
        (None, Some(mean)) => {
            let step = step(&rmsprop_centered::SHADER);
            let written = [params, square, ("mean", mean)];
            step.launch(device, update, written, |n, g, [p, s, mean]| {
                rmsprop_centered_chunk(n, g, p, s, mean);
            })
        }
        (Some(momentum), Some(mean)) => {
            let step = step(&rmsprop_centered_momentum::SHADER);
            let written = [params, square, ("momentum", momentum), ("mean", mean)];
            step.launch(device, update, written, |n, g, [p, s, m, mean]| {
                rmsprop_centered_momentum_chunk(n, g, p, s, m, mean);
            })
        }
    }
}

/// Updates the parameters and the mean `m` of their gradients (zeros before the first step): Lion
/// (Chen et al. 2023, algorithm 2).
pub fn lion_step(device: &Device, update: &Update<'_>, m: &Buffer) -> Result<()> {
    let step = UpdateKernel::new("lion_step", &lion::SHADER);
    let written = [("params", update.params), ("m", m)];
    step.launch(device, update, written, |n, g, [p, m]| {
        lion_chunk(n, g, p, m)
    })
}

/// Moves an exponential moving average of parameters: `update.params` is the average and
/// `update.grads` the parameters, `1 - beta1` their weight. PyTorch:
/// `torch.optim.swa_utils.get_ema_multi_avg_fn(beta1)`.
pub fn average_step(device: &Device, update: &Update<'_>) -> Result<()> {
    let step = UpdateKernel::new("average_step", &average::SHADER);
    let written = [("params", update.params)];
    step.launch(device, update, written, |n, p, [e]| average_chunk(n, p, e))
}

/// Computes `out[0] = min(1, max_norm / (norm[0] + 1e-6))`, NaN for a norm of NaN:
/// `torch.nn.utils.clip_grad_norm_`.
///
/// # Errors
/// A shape error, or the device's error.
pub fn clip_factor(device: &Device, norm: &Buffer, out: &Buffer, max_norm: f32) -> Result<()> {
    let push = push!(clip_factor => max_norm);
    Kernel::new("clip_factor", &clip_factor::SHADER)
        .read("norm", norm, 1)?
        .write("out", out, 1)?
        .launch(device, push, 1, move |[norm], [out]| {
            out[0] = factor(norm[0], max_norm);
        })
}

fn factor(norm: f32, max_norm: f32) -> f32 {
    let ratio = div(max_norm, add(norm, 1e-6));
    if ratio >= 1.0 { 1.0 } else { ratio }
}

/// Values that a step must find finite.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Where they lie.
    pub words: Buffer,
    /// How many runs of neighbours there are.
    pub runs: usize,
    /// Values of a run.
    pub run: usize,
    /// Words from the beginning of a run to that of the next.
    pub stride: usize,
}

/// As [`clip_factor`], but -1, which skips the step, where the norm or a watched value is NaN or
/// infinite. A `max_norm` of infinity clips nothing.
///
/// # Errors
/// A shape error, or the device's error.
pub fn guarded_factor(
    device: &Device,
    norm: &Buffer,
    watched: &Watched,
    out: &Buffer,
    max_norm: f32,
) -> Result<()> {
    let (words, runs) = (&watched.words, watched.runs);
    let (run, stride) = (watched.run, watched.stride);
    let kernel = Kernel::new("guarded_factor", &guarded_factor::SHADER)
        .read("norm", norm, 1)?
        .reads([words])
        .write("out", out, 1)?;
    let needed = runs
        .saturating_sub(1)
        .saturating_mul(stride)
        .saturating_add(run);
    // Without a distance there may be any number of runs, all in one place.
    let fits = needed <= words.len() && (runs <= 1 || stride > 0);
    check_that!("guarded_factor", fits =>
        "watched has {found} words, expected {runs} runs of {run}, {stride} apart",
        found = words.len())?;
    let push = push!(guarded_factor => max_norm, runs, run, stride);
    kernel.launch(device, push, 1, move |[norm, watched], [out]| {
        let is_finite = |i: usize| {
            watched[i * stride..i * stride + run]
                .iter()
                .all(|x| x.is_finite())
        };
        let finite = norm[0].is_finite() && (0..runs).all(is_finite);
        out[0] = if finite {
            factor(norm[0], max_norm)
        } else {
            -1.0
        };
    })
}

#[cfg(test)]
mod tests;
