//! Muon on every device, against f64.

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
    let transposes = x.0 > x.1;
    let mut x = if transposes {
        x.transposed()
    } else {
        x.clone()
    };
    let norm = x.2.iter().map(|v| v * v).sum::<f64>().sqrt();
    x = x.plus(1.0 / norm.max(f64::from(iteration.epsilon)), &x, 0.0);
    for _ in 0..iteration.steps {
        let gram = x.times(&x.transposed());
        let update = gram.plus(b, &gram.times(&gram), c);
        x = x.plus(a, &update.times(&x), 1.0);
    }
    if transposes { x.transposed() } else { x }
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
