//! The finite-difference checker: every derivative of an operation against differences in f64.

use hlx_core::arith::philox4x32;

use crate::Result;
use crate::error::AutogradError;
use crate::graph::backward::BackwardPlan;
use crate::graph::tape::no_grad;
use crate::graph::tensor::Tensor;

/// The step and the tolerances of [`gradcheck`].
#[derive(Clone, Debug)]
pub struct GradCheck {
    /// The step h. The forward pass is f32, so that the noise of a difference is about
    /// 1e-7 / h times the root of the number of outputs; the five-point formula's own error is
    /// h^4 / 30 times the fifth derivative.
    pub step: f32,
    /// The tolerance as a part of the largest derivative of the same input.
    pub relative: f64,
    /// The tolerance added to it.
    pub absolute: f64,
    /// Chooses the random upstream gradient.
    pub seed: u32,
}

impl Default for GradCheck {
    fn default() -> Self {
        Self {
            step: 1.0 / 64.0,
            relative: 1e-3,
            absolute: 5e-4,
            seed: 1,
        }
    }
}

/// Compares each input's gradient with finite differences of a random projection of the output:
/// L = sum of r_i y_i, with r_i uniform in [-1, 1) and the sum in f64.
///
/// Every element of every input is moved by ±h and ±2h (the five-point formula), so leave the
/// inputs small. `operation` must be a pure function of its inputs.
///
/// # Errors
/// [`AutogradError::GradCheck`] for the first derivative that differs, and whatever the
/// operation reports.
#[doc = example!(x: "gradcheck(\"square\", &[x], |x| x[0].square(), &GradCheck::default())?;")]
pub fn gradcheck(
    op: &str,
    inputs: &[Tensor],
    operation: impl Fn(&[Tensor]) -> Result<Tensor>,
    options: &GradCheck,
) -> Result<()> {
    let leaves: Vec<Tensor> = inputs.iter().map(Tensor::with_gradient).collect();
    let output = operation(&leaves)?;
    let upstream = uniform(options.seed, output.n_elements());
    let weights = Tensor::from_slice(output.device(), &upstream, output.shape())?;
    output.backward_from(&weights, &BackwardPlan::default())?;
    for (input, leaf) in leaves.iter().enumerate() {
        let found = match leaf.grad() {
            Some(gradient) => gradient.to_vec::<f32>()?,
            None => vec![0.0; leaf.n_elements()],
        };
        let loss = |values: &[f32]| -> Result<f64> {
            let mut moved = inputs.to_vec();
            moved[input] = Tensor::from_slice(leaf.device(), values, leaf.shape())?;
            let y = no_grad(|| operation(&moved))?.to_vec::<f32>()?;
            Ok(y.iter()
                .zip(&upstream)
                .map(|(y, r)| f64::from(*y) * f64::from(*r))
                .sum())
        };
        let expected = differences(&leaf.to_vec::<f32>()?, options.step, loss)?;
        compare(op, input, &found, &expected, options)?;
    }
    Ok(())
}

/// The derivative of `loss` by each element: (-f(x+2h) + 8 f(x+h) - 8 f(x-h) + f(x-2h)) / 12h.
fn differences(
    values: &[f32],
    step: f32,
    loss: impl Fn(&[f32]) -> Result<f64>,
) -> Result<Vec<f64>> {
    let mut moved = values.to_vec();
    let mut derivatives = Vec::with_capacity(values.len());
    for (element, &value) in values.iter().enumerate() {
        let mut at = |steps: f32| {
            moved[element] = value + steps * step;
            let result = loss(&moved);
            moved[element] = value;
            result
        };
        let near = at(1.0)? - at(-1.0)?;
        let far = at(2.0)? - at(-2.0)?;
        derivatives.push((8.0 * near - far) / (12.0 * f64::from(step)));
    }
    Ok(derivatives)
}

fn compare(
    op: &str,
    input: usize,
    found: &[f32],
    expected: &[f64],
    options: &GradCheck,
) -> Result<()> {
    let largest = expected
        .iter()
        .fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let tolerance = options.relative * largest + options.absolute;
    for (element, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let found = f64::from(found);
        let distance = (found - expected).abs();
        if distance.is_nan() || distance > tolerance {
            let op = op.to_owned();
            return Err(AutogradError::GradCheck {
                op,
                input,
                element,
                found,
                expected,
                tolerance,
            });
        }
    }
    Ok(())
}

/// `n` values in [-1, 1).
fn uniform(seed: u32, n: usize) -> Vec<f32> {
    let word = |i: usize| philox4x32([i as u32, 0, 0, 0], [seed, 0x6772_6164])[0];
    (0..n)
        .map(|i| (word(i) >> 8) as f32 / 8_388_608.0 - 1.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::input;

    /// An operation whose derivative is wrong: y = x, dx = 2 dy.
    fn wrong(x: &Tensor) -> Result<Tensor> {
        let input = x.clone();
        Tensor::from_operation("wrong", &[x], x.buffer()?, x.shape(), move |pass, dy| {
            let dy = dy.buffer()?;
            let doubled = pass.device().alloc(dy.len())?;
            hlx_kernels::elementwise::scale(pass.device(), &dy, 2.0, &doubled)?;
            pass.add(&input, crate::Gradient::owned(doubled))
        })
    }

    #[test]
    fn a_wrong_derivative_is_found() {
        let result = gradcheck(
            "wrong",
            &[input(1, &[3])],
            |x| wrong(&x[0]),
            &GradCheck::default(),
        );
        assert!(matches!(
            result,
            Err(AutogradError::GradCheck {
                input: 0,
                element: 0,
                ..
            })
        ));
    }
}
