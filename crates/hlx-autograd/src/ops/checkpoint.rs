//! Recomputation: what an operation saves for its backward pass is computed again instead.

use std::fmt::Display;

use crate::counters;
use crate::error::AutogradError;
use crate::graph::tape::{Rule, enable_grad, noting};
use crate::reuse::{self, Results};
use crate::{Result, Tensor};

/// The operation's name.
const OP: &str = "checkpoint";

/// What the backward pass computes again of what [`Tensor::checkpoint_with`] is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recompute {
    /// All of it: nothing is saved.
    All,
    /// All but attention, whose work grows with the square of the sequence: its output \[B, T, H, D\] and two
    /// numbers per query and head are saved.
    AllButAttention,
}

impl Tensor {
    /// Applies `body` to this tensor and saves nothing of what it computes: the backward pass computes it
    /// once more, to the same bits, and differentiates that. PyTorch: `torch.utils.checkpoint.checkpoint`.
    ///
    /// What `body` reads besides, such as parameters, gets its gradients. `body` must compute the same each
    /// time and change nothing outside; random numbers draw from [`counter`](crate::counter). There is no second
    /// derivative.
    ///
    /// # Errors
    /// Those of `body`.
    #[doc = example!(
        x: "let (x, w) = (x.with_gradient(), Tensor::ones(&device, &[4, 3], DType::F32)?.with_gradient());",
        "let weight = w.clone();",
        "let y = x.checkpoint(move |x| x.linear(&weight, None)?.square())?;",
        "y.sum()?.backward()?;",
        "assert_eq!(x.grad().unwrap().to_vec::<f32>()?[..3], [48.0; 3]);",
        "assert_eq!(w.grad().unwrap().to_vec::<f32>()?[..3], [132.0, 174.0, 216.0]);"
    )]
    pub fn checkpoint<E: From<AutogradError> + Display>(
        &self,
        body: impl Fn(&Tensor) -> Result<Tensor, E> + Send + 'static,
    ) -> Result<Tensor, E> {
        self.checkpoint_with(Recompute::All, body)
    }

    /// As [`Tensor::checkpoint`], and saves what `recompute` leaves out.
    ///
    /// # Errors
    /// Those of `body`.
    #[doc = example!(
        "let q = Tensor::randn(&device, &[1, 4, 2, 8], 1)?.with_gradient();",
        "let y = q.checkpoint_with(Recompute::AllButAttention, |q| {",
        "    q.attention(q, q, &AttentionSpec::causal())",
        "})?;",
        "y.sum()?.backward()?;",
        "let again = q.grad().unwrap().to_vec::<f32>()?;",
        "q.zero_grad();",
        "q.attention(&q, &q, &AttentionSpec::causal())?.sum()?.backward()?;",
        "assert_eq!(q.grad().unwrap().to_vec::<f32>()?, again);"
    )]
    pub fn checkpoint_with<E: From<AutogradError> + Display>(
        &self,
        recompute: Recompute,
        body: impl Fn(&Tensor) -> Result<Tensor, E> + Send + 'static,
    ) -> Result<Tensor, E> {
        let run = || counters::first(|| noting(|| body(self)));
        let (((y, outside), counters), results) = match recompute {
            Recompute::All => (reuse::plain(run), Results::new()),
            Recompute::AllButAttention => reuse::first(run),
        };
        let y = y?;
        let x = self.clone();
        let inputs: Vec<&Tensor> = [self].into_iter().chain(&outside).collect();
        // The operations of the second time have the newest numbers of the tape, and their inputs the
        // old ones: the pass goes on with them next, and in the order of a tape that had them.
        let rule = || {
            Rule::Once(Box::new(move |pass, dy| {
                let run = || enable_grad(|| body(&x));
                let again = reuse::second(results, || counters::second(counters, run));
                let again = again.map_err(|error| AutogradError::Argument {
                    op: OP,
                    reason: error.to_string(),
                })?;
                pass.add(&again, dy)
            }))
        };
        let place = Self::place(OP, &inputs, (y.shape(), y.n_elements()), rule)?;
        Ok(y.at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackwardPlan, DType, no_grad};
    use hlx_core::Device;

    /// A residual block of two products, as a tensor and its parameters' gradients.
    fn gradients(device: &Device, recompute: bool, plan: &BackwardPlan) -> Result<Vec<Vec<f32>>> {
        let values =
            |n: usize, step: f32| -> Vec<f32> { (0..n).map(|i| (i as f32 * step).sin()).collect() };
        let leaf = |shape: &[usize], step| -> Result<Tensor> {
            let n = shape.iter().product();
            Ok(Tensor::from_slice(device, &values(n, step), shape)?.with_gradient())
        };
        let x = leaf(&[4, 5, 6], 0.7)?;
        let (a, b) = (leaf(&[9, 6], 0.3)?, leaf(&[6, 9], 0.9)?);
        let body = |a: Tensor, b: Tensor| {
            move |x: &Tensor| -> Result<Tensor> {
                let inner = x.linear(&a, None)?.gelu()?;
                inner.linear_add(&b, None, x)
            }
        };
        let mut y = x.with_samples(0)?.mul(2.0)?;
        for _ in 0..2 {
            let block = body(a.clone(), b.clone());
            y = match recompute {
                true => y.checkpoint(block)?,
                false => block(&y)?,
            };
        }
        let weights = Tensor::from_slice(device, &values(120, 0.11), y.shape())?;
        y.mul(&weights)?.sum()?.backward_with(plan)?;
        let gradient = |leaf: &Tensor| leaf.grad().expect("a gradient").to_vec();
        [&x, &a, &b].into_iter().map(gradient).collect()
    }

    #[test]
    fn recomputed_blocks_have_the_bits_of_saved_ones() -> Result<()> {
        for device in hlx_core::testing::devices() {
            for shards in [1, 2] {
                let plan = BackwardPlan {
                    shards,
                    ..BackwardPlan::default()
                };
                let saved = gradients(device, false, &plan)?;
                assert_eq!(saved, gradients(device, true, &plan)?, "{}", device.info());
                assert!(saved.iter().flatten().any(|&g| g != 0.0));
            }
        }
        Ok(())
    }

    #[test]
    fn an_input_changed_after_the_forward_pass_is_an_error() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let w = Tensor::ones(&device, &[3], DType::F32)?.with_gradient();
        let mut x = Tensor::ones(&device, &[2, 3], DType::F32)?;
        let weight = w.clone();
        let y = x.checkpoint(move |x| x.mul(&weight))?;
        no_grad(|| x.add_(1.0).map(|_| ()))?;
        let error = y.sum()?.backward().expect_err("refused").to_string();
        assert!(error.contains("was changed in place"), "{error}");
        Ok(())
    }
}
