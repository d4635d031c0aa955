//! The methods of a tensor that start a backward pass.

use super::{Backward, BackwardPlan, Gradient};
use crate::error::AutogradError;
use crate::{DType, Result, Tensor, no_grad};

impl Tensor {
    /// Differentiates this scalar with respect to every leaf that it depends on; a leaf that
    /// holds a gradient is added to, as in PyTorch.
    ///
    /// What the graph saved is freed on the way; a second pass through it is an error.
    ///
    /// # Errors
    /// [`AutogradError::NotScalar`], [`AutogradError::NoGraph`], [`AutogradError::Freed`], and
    /// what the device reports.
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "x.square()?.sum()?.backward()?;",
        "assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);"
    )]
    pub fn backward(&self) -> Result<()> {
        self.differentiate(None, &BackwardPlan::default(), true)
    }

    /// Differentiates this scalar with sums of parameter gradients as the plan says; leaves that
    /// hold a gradient are overwritten unless the plan accumulates.
    ///
    /// # Errors
    /// As [`Tensor::backward`], [`AutogradError::Shards`] and
    /// [`AutogradError::SharedParameter`].
    #[doc = example!(
        x: "let (x, w) = (x.with_samples(0)?, Tensor::ones(&device, &[3], DType::F32)?.with_gradient());",
        "let plan = BackwardPlan { shards: 2, ..BackwardPlan::default() };",
        "x.mul(&w)?.sum()?.backward_with(&plan)?;",
        "assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [5.0, 7.0, 9.0]);"
    )]
    pub fn backward_with(&self, plan: &BackwardPlan) -> Result<()> {
        self.differentiate(None, plan, false)
    }

    /// Differentiates the sum of this tensor's elements weighted by `upstream`, a tensor of the
    /// same shape, and of the same type or f32, which is converted.
    ///
    /// # Errors
    /// As [`Tensor::backward_with`], and [`AutogradError::Shape`].
    #[doc = example!(
        x: "let w = x.with_gradient();",
        "w.mul(3.0)?.backward_from(&x, &BackwardPlan::default())?;",
        "assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [3.0, 6.0, 9.0, 12.0, 15.0, 18.0]);"
    )]
    pub fn backward_from(&self, upstream: &Tensor, plan: &BackwardPlan) -> Result<()> {
        let upstream = no_grad(|| self.upstream("backward_from", Some(upstream)))?;
        self.differentiate(Some(Gradient::shared(upstream.buffer()?)), plan, false)
    }

    /// Differentiates as [`Tensor::backward`], and records the pass on the tape: the gradients that
    /// it leaves in the leaves can be differentiated again (PyTorch's `create_graph=True`). Nothing
    /// that the graph saved is freed.
    ///
    /// # Errors
    /// As [`Tensor::backward`], and [`AutogradError::NoSecondDerivative`].
    #[doc = example!(
        "let x = Tensor::full(&device, &[], 2.0, DType::F32)?.with_gradient();",
        "x.pow(3.0)?.backward_recorded()?;",
        "let slope = x.grad().unwrap();",
        "assert_eq!(slope.gradients(&[&x], false)?[0].as_ref().unwrap().item::<f32>()?, 12.0);"
    )]
    pub fn backward_recorded(&self) -> Result<()> {
        Self::backward_of(&[(self, None)], true)
    }

    /// Differentiates several tensors in one pass, each weighted by its upstream gradient, or by one where
    /// it has one element, as `torch.autograd.backward`: a leaf that holds a gradient is added to. With
    /// `recorded` the pass is as [`Tensor::backward_recorded`].
    ///
    /// # Errors
    /// As [`Tensor::backward_from`] and [`Tensor::backward_recorded`].
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "let (one, two) = (x.sum()?, x.square()?.sum()?);",
        "Tensor::backward_of(&[(&one, None), (&two, None)], false)?;",
        "assert_eq!(x.grad().unwrap().to_vec::<f32>()?, [3.0, 5.0, 7.0, 9.0, 11.0, 13.0]);"
    )]
    pub fn backward_of(roots: &[(&Tensor, Option<&Tensor>)], recorded: bool) -> Result<()> {
        let plan = BackwardPlan::default();
        let mut pass = Self::pass_from(roots, &plan, true)?;
        pass.recorded = recorded;
        pass.start(roots)
    }

    /// As [`Tensor::backward_of`], with the sums of parameters' gradients as the plan says. A leaf that holds a
    /// gradient is added to, whether the plan accumulates or not.
    ///
    /// # Errors
    /// As [`Tensor::backward_from`].
    #[doc = example!(
        x: "let (x, w) = (x.with_samples(0)?, Tensor::ones(&device, &[3], DType::F32)?.with_gradient());",
        "let plan = BackwardPlan { shards: 2, ..BackwardPlan::default() };",
        "Tensor::backward_of_with(&[(&x.mul(&w)?.sum()?, None)], &plan)?;",
        "Tensor::backward_of_with(&[(&x.mul(&w)?.sum()?, None)], &plan)?;",
        "assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [10.0, 14.0, 18.0]);"
    )]
    pub fn backward_of_with(
        roots: &[(&Tensor, Option<&Tensor>)],
        plan: &BackwardPlan,
    ) -> Result<()> {
        Self::pass_from(roots, plan, true)?.start(roots)
    }

    /// Computes the gradients of this scalar by some tensors, leaves or not, and leaves the gradients
    /// of all leaves as they are, as `torch.autograd.grad`. With `recorded` the results can be
    /// differentiated again, and the graph stays. `None` where the scalar does not depend on a tensor.
    ///
    /// # Errors
    /// As [`Tensor::backward`] and [`Tensor::backward_recorded`].
    #[doc = example!(
        "let x = Tensor::full(&device, &[], 2.0, DType::F32)?.with_gradient();",
        "let slopes = x.pow(3.0)?.gradients(&[&x], false)?;",
        "assert_eq!(slopes[0].as_ref().unwrap().item::<f32>()?, 12.0);"
    )]
    pub fn gradients(&self, by: &[&Tensor], recorded: bool) -> Result<Vec<Option<Tensor>>> {
        Self::gradients_of(&[(self, None)], by, recorded)
    }

    /// As [`Tensor::gradients`], of the sum of several tensors, each weighted by its upstream gradient, or by
    /// one where it has one element.
    ///
    /// # Errors
    /// As [`Tensor::backward_of`].
    #[doc = example!(
        x: "let x = x.with_gradient();",
        "let y = x.square()?;",
        "let slopes = Tensor::gradients_of(&[(&y, Some(&y.detach()))], &[&x], false)?;",
        "assert_eq!(slopes[0].as_ref().unwrap().to_vec::<f32>()?[1], 16.0);"
    )]
    pub fn gradients_of(
        roots: &[(&Tensor, Option<&Tensor>)],
        by: &[&Tensor],
        recorded: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        let plan = BackwardPlan::default();
        let mut pass = Self::pass_from(roots, &plan, false)?;
        pass.recorded = recorded;
        let identities: Vec<_> = by.iter().map(|tensor| tensor.input().identity()).collect();
        let wanted = identities
            .iter()
            .flatten()
            .map(|&identity| (identity, None));
        pass.wanted = Some(wanted.collect());
        pass.start(roots)?;
        let reached = pass.wanted.take().unwrap_or_default();
        let of = |(identity, tensor): (&Option<usize>, &&Tensor)| {
            let gradient = identity.and_then(|identity| reached.get(&identity)?.as_ref());
            let Some(gradient) = gradient else {
                return Ok(None);
            };
            let gradient = gradient.tensor(tensor.device(), tensor.shape())?;
            let Some(leaf) = tensor.leaf().filter(|leaf| !leaf.hooks.is_empty()) else {
                return Ok(Some(gradient));
            };
            let apply = || leaf.hooks.apply(gradient);
            Ok(Some(match recorded {
                true => apply()?,
                false => crate::no_grad(apply)?,
            }))
        };
        identities.iter().zip(by).map(of).collect()
    }

    /// A pass that starts from some tensors.
    fn pass_from<'a>(
        roots: &[(&Tensor, Option<&Tensor>)],
        plan: &'a BackwardPlan,
        adds_to_filled: bool,
    ) -> Result<Backward<'a>> {
        let mut tensors = roots.iter().map(|(root, _)| root);
        let Some(root) = tensors.find(|root| root.requires_grad()) else {
            return Err(AutogradError::NoGraph);
        };
        Ok(Backward::new(root.device(), plan, adds_to_filled))
    }

    /// The gradient that a pass starts from, as a tensor of this one's type.
    fn upstream(&self, op: &'static str, given: Option<&Tensor>) -> Result<Tensor> {
        let Some(given) = given else {
            return self.unit_gradient();
        };
        self.same_device(op, [("the upstream gradient", Some(given))])?;
        if given.dtype() != self.dtype() {
            given.expect_type(op, "the upstream gradient", DType::F32)?;
        }
        if given.shape() != self.shape() {
            let expected = format!("{:?}", self.shape());
            return Err(given.shape_error(op, "the upstream gradient", expected));
        }
        given.to_dtype(self.dtype())
    }

    /// The gradient that a pass starts from: one.
    fn unit_gradient(&self) -> Result<Tensor> {
        if !self.requires_grad() {
            return Err(AutogradError::NoGraph);
        }
        if self.n_elements() != 1 {
            return Err(AutogradError::NotScalar {
                found: self.shape().to_vec(),
            });
        }
        Tensor::ones(self.device(), self.shape(), self.dtype())
    }

    fn differentiate(
        &self,
        upstream: Option<Gradient>,
        plan: &BackwardPlan,
        adds_to_filled: bool,
    ) -> Result<()> {
        if !self.requires_grad() {
            return Err(AutogradError::NoGraph);
        }
        let upstream = match upstream {
            Some(gradient) => gradient,
            None => Gradient::owned(self.unit_gradient()?.buffer()?),
        };
        let mut pass = Backward::new(self.device(), plan, adds_to_filled);
        pass.add(self, upstream)?;
        pass.run()
    }
}

impl Backward<'_> {
    /// Runs the pass from some tensors on; those that require no gradient are passed over.
    fn start(&mut self, roots: &[(&Tensor, Option<&Tensor>)]) -> Result<()> {
        const OP: &str = "backward";
        for (root, given) in roots.iter().filter(|(root, _)| root.requires_grad()) {
            let upstream = match self.recorded {
                true => root.upstream(OP, *given)?,
                false => no_grad(|| root.upstream(OP, *given))?,
            };
            self.add_tensor(root, &upstream)?;
        }
        self.run()
    }
}
