//! Muon (Jordan et al. 2024): momentum made orthogonal, for parameters that are matrices.
//!
//! As `torch.optim.Muon`, in f32 throughout (PyTorch's iteration is in bf16). For a matrix of `M` rows
//! and `N` columns:
//!
//! - `m = fma(1 - mu, g - m, m)`; `u = m`, or by Nesterov `u = fma(mu, m - g, g)`;
//! - `x = u / max(norm(u), eps)`, the norm as [`crate::reduce::global_norm`];
//! - as often as [`NewtonSchulz::steps`] says, with `(a, b, c)` its coefficients: `S = x x^T` if
//!   `M <= N`, else `x^T x`; `T = fma(c, S S, b S)`; `x = fma(1, T x, a x)`, or `fma(1, x T, a x)`.
//!   Products are [`matmul`](fn@crate::product::matmul)'s chains;
//! - `p = fma(-lr, x, (1 - lr lambda) p)`.
//!
//! A matrix is computed whole by one device: its products do not split.

use hlx_core::{Binding, Buffer, DType, Device};

use super::formulas::{combine_chunk, muon_apply_chunk, muon_direction_chunk};
use super::frame::{Step, Update};
use crate::elementwise::{Binary, Unary, binary, unary};
use crate::error::{KernelError, check_len};
use crate::layout::{Layout, Operand};
use crate::map::{Arg, Map, chunks1};
use crate::product::floats::{MatMul, matmul};
use crate::reduce::global_norm;

shader!(optimizer::{muon_direction, muon_apply, combine});

/// How a matrix is made nearly orthogonal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewtonSchulz {
    /// Iterations.
    pub steps: u32,
    /// `a`, `b` and `c` of the quintic.
    pub coefficients: [f32; 3],
    /// The least norm that a matrix is divided by.
    pub epsilon: f32,
}

impl Default for NewtonSchulz {
    /// PyTorch's: 5 steps of (3.4445, -4.7750, 2.0315), epsilon 1e-7.
    fn default() -> Self {
        Self {
            steps: 5,
            coefficients: [3.4445, -4.7750, 2.0315],
            epsilon: 1e-7,
        }
    }
}

/// Updates one matrix of `rows` by `cols` elements and its `momentum` (zeros before the first step).
///
/// The numbers of `update` have `beta1` equal to the momentum, and the factor that PyTorch takes from
/// the matrix's shape as their step factor.
///
/// # Errors
/// A shape error if the lengths differ, or the device's error.
pub fn muon_step(
    device: &Device,
    update: &Update<'_>,
    momentum: &Buffer,
    [rows, cols]: [usize; 2],
    nesterov: bool,
    iteration: &NewtonSchulz,
) -> Result<(), KernelError> {
    check_len("muon_step", "params", update.params, [rows, cols])?;
    if rows * cols == 0 {
        return Ok(());
    }
    let direction = device.alloc_shape(&[rows, cols])?;
    let step = Step::new("muon_direction", &muon_direction::SHADER).variant(nesterov);
    let written = [("direction", &direction), ("momentum", momentum)];
    step.launch(device, update, written, move |n, grads, [out, momentum]| {
        muon_direction_chunk(n, nesterov, grads, out, momentum);
    })?;
    let orthogonal = orthogonalize(device, &direction, [rows, cols], iteration)?;
    let apply = Step::new("muon_apply", &muon_apply::SHADER);
    let along = Update {
        grads: &orthogonal,
        ..*update
    };
    apply.launch(
        device,
        &along,
        [("params", update.params)],
        |n, o, [params]| {
            muon_apply_chunk(n, o, params);
        },
    )
}

/// Returns a nearly orthogonal matrix by Newton and Schulz's iteration: see the module.
fn orthogonalize(
    device: &Device,
    direction: &Buffer,
    [rows, cols]: [usize; 2],
    iteration: &NewtonSchulz,
) -> Result<Buffer, KernelError> {
    let [a, b, c] = iteration.coefficients;
    let (n, short) = (rows * cols, rows.min(cols));
    let (x, product) = (device.alloc(n)?, device.alloc(n)?);
    let (gram, square) = (
        device.alloc_shape(&[short, short])?,
        device.alloc_shape(&[short, short])?,
    );
    normalize(device, direction, iteration.epsilon, &x)?;
    let wide = rows <= cols;
    let gram_shape = MatMul {
        trans_a: !wide,
        trans_b: wide,
        ..MatMul::new(short, short, rows.max(cols))
    };
    for _ in 0..iteration.steps {
        matmul(device, &x, &x, None, &gram, &gram_shape)?;
        let square_shape = MatMul::new(short, short, short);
        matmul(device, &gram, &gram, None, &square, &square_shape)?;
        combine(device, c, &square, b, &gram)?;
        let (left, right) = if wide { (&gram, &x) } else { (&x, &gram) };
        matmul(
            device,
            left,
            right,
            None,
            &product,
            &MatMul::new(rows, cols, short),
        )?;
        combine(device, 1.0, &product, a, &x)?;
    }
    Ok(x)
}

/// Computes `out = x / max(norm(x), epsilon)`.
fn normalize(device: &Device, x: &Buffer, epsilon: f32, out: &Buffer) -> Result<(), KernelError> {
    let (norm, divisor) = (device.alloc(1)?, device.alloc(1)?);
    global_norm(device, x, &norm)?;
    let one = Layout::contiguous(&[1])?;
    let of_norm = Operand::new(&norm, &one);
    let bounds = [epsilon, f32::INFINITY];
    unary(device, Unary::Clamp, DType::F32, of_norm, bounds, &divisor)?;
    let all = Layout::contiguous(&[x.len()])?;
    let (x, divisor) = (Operand::new(x, &all), Operand::new(&divisor, &one));
    binary(device, Binary::Div, DType::F32, x, divisor, out)
}

/// Computes `y = fma(alpha, x, beta y)` in place.
fn combine(
    device: &Device,
    alpha: f32,
    x: &Buffer,
    beta: f32,
    y: &Buffer,
) -> Result<(), KernelError> {
    let map = Map {
        specialization: &[(0, alpha.to_bits()), (1, beta.to_bits())],
        ..Map::new("muon_combine", &combine::SHADER)
    };
    let args = [
        Arg::Each("x", Binding::Read(x)),
        Arg::Each("y", Binding::ReadWrite(y)),
    ];
    map.launch(device, &args, move |bindings| {
        let ([x], [y]) = bindings.split::<1, 1>();
        chunks1(x, y, |x, y| combine_chunk(alpha, beta, x, y));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::Hyper;
    use crate::testing::{assert_close, normal, run_everywhere};

    /// Row-major matrices in f64.
    #[derive(Clone)]
    struct Matrix(usize, usize, Vec<f64>);

    impl Matrix {
        fn times(&self, other: &Self) -> Self {
            let (rows, inner, cols) = (self.0, self.1, other.1);
            let at = |i: usize| {
                let (row, col) = (i / cols, i % cols);
                (0..inner)
                    .map(|k| self.2[row * inner + k] * other.2[k * cols + col])
                    .sum()
            };
            Self(rows, cols, (0..rows * cols).map(at).collect())
        }

        fn transposed(&self) -> Self {
            let at = |i: usize| self.2[(i % self.0) * self.1 + i / self.0];
            Self(self.1, self.0, (0..self.0 * self.1).map(at).collect())
        }

        fn plus(&self, factor: f64, other: &Self, other_factor: f64) -> Self {
            let terms = self.2.iter().zip(&other.2);
            let sums = terms.map(|(a, b)| factor * a + other_factor * b).collect();
            Self(self.0, self.1, sums)
        }
    }

    /// torch.optim.Muon's iteration in f64.
    fn reference(x: &Matrix, iteration: &NewtonSchulz) -> Matrix {
        let [a, b, c] = iteration.coefficients.map(f64::from);
        let turned = x.0 > x.1;
        let mut x = if turned { x.transposed() } else { x.clone() };
        let norm = x.2.iter().map(|v| v * v).sum::<f64>().sqrt();
        x = x.plus(1.0 / norm.max(f64::from(iteration.epsilon)), &x, 0.0);
        for _ in 0..iteration.steps {
            let gram = x.times(&x.transposed());
            let update = gram.plus(b, &gram.times(&gram), c);
            x = x.plus(a, &update.times(&x), 1.0);
        }
        if turned { x.transposed() } else { x }
    }

    #[test]
    fn three_steps_follow_torch_in_f64() {
        const HYPER: Hyper = Hyper {
            learning_rate: 0.02,
            step_factor: 1.5,
            momentum: 0.95,
            beta1: 0.95,
            weight_decay: 0.1,
            ..BASE
        };
        let iteration = NewtonSchulz::default();
        for ([rows, cols], nesterov) in [([24, 40], true), ([33, 17], false), ([1, 5], true)] {
            let n = rows * cols;
            let initial = normal(1, n);
            let got = run_everywhere("muon_step", |device, mem| {
                let (params, clip) = (mem.input(device, &initial)?, mem.input(device, &[0.5])?);
                let momentum = mem.input(device, &vec![0.0; n])?;
                let hyper = mem.input_u32(device, &HYPER.to_words())?;
                for step in 0..3 {
                    let grads = mem.input(device, &normal(10 + step, n))?;
                    let update = Update::new(&params, &grads, &hyper, &clip);
                    muon_step(
                        device,
                        &update,
                        &momentum,
                        [rows, cols],
                        nesterov,
                        &iteration,
                    )?;
                }
                Ok(vec![params, momentum])
            });
            let exact = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
            let mut params = Matrix(rows, cols, exact(&initial));
            let mut momentum = Matrix(rows, cols, vec![0.0; n]);
            for step in 0..3 {
                let grads = Matrix(rows, cols, exact(&normal(10 + step, n)));
                momentum = momentum.plus(0.95, &grads, 0.05 * 0.5);
                let direction = match nesterov {
                    true => grads.plus(0.05 * 0.5, &momentum, 0.95),
                    false => momentum.clone(),
                };
                let orthogonal = reference(&direction, &iteration);
                params = params.plus(1.0 - 0.02 * 0.1, &orthogonal, -0.02 * 1.5);
            }
            assert_close("muon params", &got[0], &params.2, 2e-5, 2e-5);
            assert_close("muon momentum", &got[1], &momentum.2, 1e-5, 1e-6);
        }
    }

    const BASE: Hyper = Hyper {
        step: 1,
        learning_rate: 0.0,
        step_factor: 1.0,
        momentum: 0.0,
        dampening: 0.0,
        weight_decay: 0.0,
        beta1: 0.0,
        beta2: 0.0,
        epsilon: 0.0,
        clip_value: f64::INFINITY,
    };

    #[test]
    fn a_gradient_of_zeros_moves_no_matrix_and_an_empty_one_is_none() {
        let got = run_everywhere("muon_step", |device, mem| {
            let (params, clip) = (mem.input(device, &[1.0; 6])?, mem.input(device, &[1.0])?);
            let (momentum, grads) = (mem.input(device, &[0.0; 6])?, mem.input(device, &[0.0; 6])?);
            let hyper = mem.input_u32(device, &BASE.to_words())?;
            let update = Update::new(&params, &grads, &hyper, &clip);
            muon_step(
                device,
                &update,
                &momentum,
                [2, 3],
                true,
                &NewtonSchulz::default(),
            )?;
            Ok(vec![params, momentum])
        });
        assert_eq!(got, [vec![1.0; 6], vec![0.0; 6]]);
        let device = hlx_core::testing::cpu().expect("the CPU device opens");
        let empty = device.alloc(0).expect("memory");
        let (hyper, clip) = (
            device.buffer_of::<u32>(&BASE.to_words()),
            device.buffer_of(&[1.0]),
        );
        let (hyper, clip) = (hyper.expect("memory"), clip.expect("memory"));
        let update = Update::new(&empty, &empty, &hyper, &clip);
        let done = muon_step(
            &device,
            &update,
            &empty,
            [0, 3],
            true,
            &NewtonSchulz::default(),
        );
        done.expect("nothing to do");
    }
}
