//! Reductions along dimensions: extremes, products, spreads, norms, truth values, places.
//!
//! They are made of a kernel each where one is needed (`hlx_kernels::reduce_axes`), and of other
//! operations, so that they can be differentiated again. No dimension named means all.

use hlx_kernels::Layout;
use hlx_kernels::reduce_axes::{Reduction, reduce};

use super::reduce::{reduced_axes, shape_without};
use super::scan::products_before;
use crate::graph::tape::gradients_enabled;
use crate::samples::Samples;
use crate::{AutogradError, Backward, DType, Result, Tensor};

impl Tensor {
    /// Launches a reduction; the reduced dimensions stay in the result with extent 1 and is off the tape.
    pub(super) fn reduced(&self, reduction: Reduction, axes: &[usize]) -> Result<Tensor> {
        let reduced = shape_without(self.shape(), axes, true);
        let dtype = reduction.output_dtype(self.dtype());
        let device = self.device();
        let out = device.alloc_typed(dtype, Layout::count(&reduced)?)?;
        reduce(device, reduction, self.operand(), axes, &out)?;
        let samples = self
            .samples()
            .moved(|axis| (!axes.contains(&axis)).then_some(axis));
        Ok(Tensor::from_buffer(device, out, &reduced)?.with_samples_of(samples))
    }

    /// A sum or product of integers as i32, to which PyTorch's i64 is narrowed; u32 stays.
    pub(super) fn signed(&self, of: DType) -> Result<Tensor> {
        match of {
            DType::U32 => Ok(self.clone()),
            _ => self.to_dtype(DType::I32),
        }
    }

    /// Drops the reduced dimensions unless `keepdim` is set.
    pub(super) fn with_keepdim(self, axes: &[usize], keepdim: bool) -> Result<Tensor> {
        match keepdim {
            true => Ok(self),
            false => self.without_axes(axes),
        }
    }

    /// Computes the largest element along dimensions, NaN if one is; its gradient is shared evenly
    /// among equal ones. As `torch.amax`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if a dimension does not exist or is named twice, a kernel error for
    /// a maximum of no elements.
    #[doc = example!(x: "assert_eq!(x.amax(&[0], false)?.to_vec::<f32>()?, [4.0, 5.0, 6.0]);")]
    pub fn amax(&self, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        self.extreme("amax", Reduction::Max, dims, keepdim)
    }

    /// Computes the smallest element along dimensions, as `torch.amin`; see [`Tensor::amax`].
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    #[doc = example!(x: "assert_eq!(x.amin(&[1], false)?.to_vec::<f32>()?, [1.0, 4.0]);")]
    pub fn amin(&self, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        self.extreme("amin", Reduction::Min, dims, keepdim)
    }

    fn extreme(
        &self,
        op: &'static str,
        reduction: Reduction,
        dims: &[isize],
        keepdim: bool,
    ) -> Result<Tensor> {
        if self.is_half() {
            return self.in_f32(|x| x.extreme(op, reduction, dims, keepdim));
        }
        let axes = reduced_axes(op, dims, self.rank())?;
        let value = self.reduced(reduction, &axes)?;
        let value = match self.dtype().is_float() {
            true => value.on_the_tape(op, self, {
                let (x, axes) = (self.clone(), axes.clone());
                move |dy, y| {
                    let chosen = x.eq(y)?.to_dtype(x.dtype())?;
                    let among: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
                    let share = dy.div(chosen.sum_dim_or_same(&among)?)?;
                    chosen.mul(share)
                }
            })?,
            false => value.to_dtype(self.dtype())?,
        };
        value.with_keepdim(&axes, keepdim)
    }

    /// Sums along named dimensions which stay with extent 1; none named is no sum.
    fn sum_dim_or_same(&self, dims: &[isize]) -> Result<Tensor> {
        match dims.is_empty() {
            true => Ok(self.clone()),
            false => self.sum_dim(dims, true),
        }
    }

    /// This value, off the tape so far, as the output of a reduction of `x`: `slope(dy, y)` computes
    /// the gradient of x. The dimensions are still there.
    fn on_the_tape(
        self,
        op: &'static str,
        x: &Tensor,
        slope: impl Fn(&Tensor, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        let (place, samples) = (x.input(), self.samples());
        let output = (self.buffer()?, self.shape());
        let y = Tensor::of_output_rule(op, &[x], output, move |pass, dy, y| {
            pass.add_tensor(&place, &slope(dy, y.unwrap_or(dy))?)
        })?;
        Ok(y.with_samples_of(samples))
    }

    /// Computes the product along dimensions, as `torch.prod`; a factor of 0 leaves the others the
    /// gradient that is due to it. Types as for [`Tensor::sum`].
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if a dimension does not exist or is named twice.
    #[doc = example!(x: "assert_eq!(x.prod(&[1], false)?.to_vec::<f32>()?, [6.0, 120.0]);")]
    pub fn prod(&self, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        if self.is_half() {
            return self.in_f32(|x| x.prod(dims, keepdim));
        }
        let axes = reduced_axes("prod", dims, self.rank())?;
        let value = self.reduced(Reduction::Prod, &axes)?;
        let value = match self.dtype().is_float() {
            true => value.on_the_tape("prod", self, {
                let (x, axes) = (self.clone(), axes.clone());
                move |dy, _| match gradients_enabled() {
                    true => smooth_product_slope(&x, &axes, dy),
                    false => product_slope(&x, &axes, dy),
                }
            })?,
            false => value.signed(self.dtype())?,
        };
        value.with_keepdim(&axes, keepdim)
    }

    /// Tells whether an element along dimensions is other than 0, as `torch.any`.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] if a dimension does not exist or is named twice.
    #[doc = example!(
        x: "assert!(bool::from(x.gt(5.0)?.any(&[], false)?.item::<hlx_core::Bool>()?));"
    )]
    pub fn any(&self, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        let axes = reduced_axes("any", dims, self.rank())?;
        self.reduced(Reduction::Any, &axes)?
            .with_keepdim(&axes, keepdim)
    }

    /// Tells whether all elements along dimensions are other than 0, as `torch.all`.
    ///
    /// # Errors
    /// As [`Tensor::any`].
    #[doc = example!(
        x: "assert!(bool::from(x.gt(0.0)?.all(&[], false)?.item::<hlx_core::Bool>()?));"
    )]
    pub fn all(&self, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        let axes = reduced_axes("all", dims, self.rank())?;
        self.reduced(Reduction::All, &axes)?
            .with_keepdim(&axes, keepdim)
    }

    /// Computes the place of the largest element along a dimension, or in the flattened tensor: the
    /// first of equal ones, a NaN before all. As `torch.argmax`, with u32 places.
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    #[doc = example!(x: "assert_eq!(x.argmax(Some(1), false)?.to_vec::<u32>()?, [2, 2]);")]
    pub fn argmax(&self, dim: Option<isize>, keepdim: bool) -> Result<Tensor> {
        let axes = reduced_axes("argmax", dim.as_slice(), self.rank())?;
        self.reduced(Reduction::ArgMax, &axes)?
            .with_keepdim(&axes, keepdim)
    }

    /// Computes the place of the smallest element, as `torch.argmin`; see [`Tensor::argmax`].
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    #[doc = example!(x: "assert_eq!(x.argmin(None, false)?.to_vec::<u32>()?, [0]);")]
    pub fn argmin(&self, dim: Option<isize>, keepdim: bool) -> Result<Tensor> {
        let axes = reduced_axes("argmin", dim.as_slice(), self.rank())?;
        self.reduced(Reduction::ArgMin, &axes)?
            .with_keepdim(&axes, keepdim)
    }

    /// Computes the variance along dimensions: the sum of the squared distances from the mean, over
    /// n - `correction`, or over 0 if that is negative. As `torch.var`, whose correction is 1 by default.
    ///
    /// # Errors
    /// As [`Tensor::sum_dim`].
    #[doc = example!(x: "assert_eq!(x.var(&[1], 1, false)?.to_vec::<f32>()?, [1.0, 1.0]);")]
    pub fn var(&self, dims: &[isize], correction: impl Into<f64>, keepdim: bool) -> Result<Tensor> {
        let correction = correction.into();
        if self.is_half() {
            return self.in_f32(|x| x.var(dims, correction, keepdim));
        }
        let axes = reduced_axes("var", dims, self.rank())?;
        let count: usize = axes.iter().map(|&axis| self.shape()[axis]).product();
        let distances = self.sub(self.mean_dim(dims, true)?)?;
        let sum = distances.square()?.sum_dim(dims, keepdim)?;
        sum.div((count as f64 - correction).max(0.0) as f32)
    }

    /// Computes the standard deviation along dimensions, the root of [`Tensor::var`], as `torch.std`. The
    /// gradient at 0 is 0.
    ///
    /// # Errors
    /// As [`Tensor::sum_dim`].
    #[doc = example!(x: "assert_eq!(x.std(&[1], 1, false)?.to_vec::<f32>()?, [1.0, 1.0]);")]
    pub fn std(&self, dims: &[isize], correction: impl Into<f64>, keepdim: bool) -> Result<Tensor> {
        let correction = correction.into();
        if self.is_half() {
            return self.in_f32(|x| x.std(dims, correction, keepdim));
        }
        self.var(dims, correction, keepdim)?.root()
    }

    /// Computes the p-norm along dimensions, as `torch.linalg.vector_norm`: for p = 2 the root of the
    /// sum of squares, for infinity the largest magnitude, for 0 the count of elements other than 0.
    /// The gradient of an element that is 0 is 0, and so is that of a norm that is 0.
    ///
    /// # Errors
    /// [`AutogradError::Argument`] for p NaN, and as [`Tensor::sum_dim`].
    #[doc = example!(x: "assert_eq!(x.norm(1.0, &[1], false)?.to_vec::<f32>()?, [6.0, 15.0]);")]
    pub fn norm(&self, p: f32, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        // An error names this operation.
        reduced_axes("norm", dims, self.rank())?;
        if p.is_nan() {
            return Err(AutogradError::Argument {
                op: "norm",
                reason: "p is NaN, expected a number".to_owned(),
            });
        }
        if self.is_half() {
            return self.in_f32(|x| x.norm(p, dims, keepdim));
        }
        if p == 0.0 {
            return self.ne(0.0)?.to_dtype(DType::F32)?.sum_dim(dims, keepdim);
        }
        if p.is_infinite() {
            let magnitudes = self.abs()?;
            return match p > 0.0 {
                true => magnitudes.amax(dims, keepdim),
                false => magnitudes.amin(dims, keepdim),
            };
        }
        if p == 1.0 {
            return self.abs()?.sum_dim(dims, keepdim);
        }
        if p == 2.0 {
            return self.sum_of_squares(dims, keepdim)?.root();
        }
        let sum = self.abs()?.raised(p)?.sum_dim(dims, keepdim)?;
        sum.raised(1.0 / p)
    }

    /// x of at least 0 to a power, with a slope of 0 at 0, where the power's is infinite or no number, or
    /// gets lost in a product with such a one.
    fn raised(&self, p: f32) -> Result<Tensor> {
        if !(gradients_enabled() && self.requires_grad()) {
            return self.pow(p);
        }
        let zero = self.detach().eq(0.0)?;
        let of_zero = if p > 0.0 { 0.0 } else { f32::INFINITY };
        let power = self.masked_fill(&zero, 1.0)?.pow(p)?;
        power.masked_fill(&zero, of_zero)
    }

    /// The sum of squares along dimensions, each square rounded: of f32 in one launch, to the bits of
    /// the squares' sum.
    fn sum_of_squares(&self, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        let axes = reduced_axes("norm", dims, self.rank())?;
        if self.dtype() != DType::F32 || axes.is_empty() {
            return self.square()?.sum_dim(dims, keepdim);
        }
        let sum = self.reduced(Reduction::SumOfSquares, &axes)?;
        let (x, samples) = (self.clone(), self.samples());
        let output = (sum.buffer()?, sum.shape());
        let rule = move |pass: &mut Backward<'_>, dy: &Tensor, _: Option<&Tensor>| {
            let dy = dy.expand_with("norm", x.shape(), samples)?;
            pass.add_tensor(&x, &dy.mul(x.mul(2.0)?)?)
        };
        let squares = Tensor::of_rule("norm", &[self], output, rule)?;
        squares
            .with_samples_of(sum.samples())
            .with_keepdim(&axes, keepdim)
    }

    /// The square root with a slope of 0 at 0, where the root's is infinite.
    fn root(&self) -> Result<Tensor> {
        let zero = self.detach().eq(0.0)?;
        self.masked_fill(&zero, 1.0)?
            .sqrt()?
            .masked_fill(&zero, 0.0)
    }

    /// Computes log(sum exp(x)) along dimensions from the distances to the largest element, as
    /// `torch.logsumexp`.
    ///
    /// # Errors
    /// As [`Tensor::amax`].
    #[doc = example!(
        "let x = Tensor::zeros(&device, &[4], DType::F32)?;",
        "assert!((x.logsumexp(&[0], false)?.item::<f32>()? - 1.386_294_4).abs() < 1e-6);"
    )]
    pub fn logsumexp(&self, dims: &[isize], keepdim: bool) -> Result<Tensor> {
        if self.is_half() {
            return self.in_f32(|x| x.logsumexp(dims, keepdim));
        }
        let axes = reduced_axes("logsumexp", dims, self.rank())?;
        if self.n_elements() == 0 {
            // No largest element; the sum of nothing is 0, and its logarithm negative infinity.
            return Tensor::log(&self.exp()?.sum_dim(dims, keepdim)?);
        }
        let top = self.detach().amax(dims, true)?;
        let top = top.where_(&top.isfinite()?, 0.0)?;
        let sum = self.sub(&top)?.exp()?.sum_dim(dims, true)?;
        sum.log()?.add(&top)?.with_keepdim(&axes, keepdim)
    }
}

/// The gradient of a product: that of a factor is the product of the others, which is only by way of
/// a division where no other factor is 0.
fn product_slope(x: &Tensor, axes: &[usize], dy: &Tensor) -> Result<Tensor> {
    let dims: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
    let is_zero = x.eq(0.0)?;
    let others = x.masked_fill(&is_zero, 1.0)?;
    let product = match dims.is_empty() {
        true => others.clone(),
        false => others.prod(&dims, true)?,
    };
    let zeros = is_zero.to_dtype(DType::F32)?.sum_dim_or_same(&dims)?;
    let at_others = product.div(&others)?.where_(&zeros.eq(0.0)?, 0.0)?;
    let at_zeros = product.expand_with("prod", x.shape(), Samples::None)?;
    let at_zeros = at_zeros.where_(&zeros.eq(1.0)?, 0.0)?;
    dy.mul(at_zeros.where_(&is_zero, &at_others)?)
}

/// As [`product_slope`], and right wherever it is differentiated again: a line that holds a 0 has no
/// quotient, and no choice by whether a factor is 0. The product of the other factors is that of those before
/// it times that of those behind it.
fn smooth_product_slope(x: &Tensor, axes: &[usize], dy: &Tensor) -> Result<Tensor> {
    let dims: Vec<isize> = axes.iter().map(|&axis| axis as isize).collect();
    let is_zero = x.eq(0.0)?;
    if dims.is_empty() || x.n_elements() == 0 {
        return product_slope(x, axes, dy);
    }
    let has_zero = is_zero.any(&dims, true)?;
    let nonzero = x.masked_fill(&is_zero, 1.0)?;
    let quotient = nonzero.prod(&dims, true)?.div(&nonzero)?;
    // Lines without a 0 are products of ones here, which neither overflow nor count.
    let others = others_in_lines(&x.where_(&has_zero, 1.0)?, axes)?;
    dy.mul(others.where_(&has_zero, quotient)?)
}

/// For each element the product of the others along axes.
fn others_in_lines(x: &Tensor, axes: &[usize]) -> Result<Tensor> {
    let others = (0..x.rank()).filter(|axis| !axes.contains(axis));
    let order: Vec<isize> = others
        .chain(axes.iter().copied())
        .map(|axis| axis as isize)
        .collect();
    let mut back = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        back[from.unsigned_abs()] = to as isize;
    }
    let permuted = x.permute(&order)?;
    let n: usize = axes.iter().map(|&axis| x.shape()[axis]).product();
    let lines = permuted.reshape(&[x.n_elements() / n, n])?;
    let behind = products_before(&lines.flip(&[1])?, 1)?.flip(&[1])?;
    let others = products_before(&lines, 1)?.mul(behind)?;
    others.reshape(permuted.shape())?.permute(&back)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::test_support::{check, input, message};

    fn of(values: &[f32], shape: &[usize]) -> Tensor {
        let device = hlx_core::testing::devices()[0].clone();
        Tensor::from_slice(&device, values, shape).expect("uploads")
    }

    #[test]
    fn derivatives_agree_with_finite_differences() {
        let x = [input(1, &[2, 3, 4])];
        check("amax", &x, |x| x[0].amax(&[1], false));
        check("amin", &x, |x| x[0].amin(&[0, -1], true));
        check("prod", &x, |x| x[0].prod(&[1], false));
        check("var", &x, |x| x[0].var(&[-1], 1, false));
        check("std", &x, |x| x[0].std(&[0, 2], 0, true));
        check("var", &x, |x| x[0].var(&[1], 0.5, true));
        check("norm", &x, |x| x[0].norm(2.0, &[1], false));
        check("norm", &x, |x| x[0].norm(3.0, &[1], false));
        check("norm", &x, |x| x[0].norm(1.0, &[], false));
        check("logsumexp", &x, |x| x[0].logsumexp(&[1], false));
    }

    #[test]
    fn equal_extremes_share_and_zeros_have_the_others() -> Result<()> {
        let x = of(&[1.0, 3.0, 3.0], &[3]).with_gradient();
        x.amax(&[], false)?.backward()?;
        assert_eq!(x.grad().expect("one").to_vec::<f32>()?, [0.0, 0.5, 0.5]);
        let x = of(&[2.0, 0.0, 3.0, 0.0, 0.0, 4.0], &[2, 3]).with_gradient();
        x.prod(&[1], false)?.sum()?.backward()?;
        assert_eq!(
            x.grad().expect("one").to_vec::<f32>()?,
            [0.0, 6.0, 0.0, 0.0, 0.0, 0.0]
        );
        let x = of(&[0.0, 0.0], &[2]).with_gradient();
        x.norm(2.0, &[], false)?.backward()?;
        assert_eq!(x.grad().expect("one").to_vec::<f32>()?, [0.0, 0.0]);
        Ok(())
    }

    #[test]
    fn a_norm_has_the_bits_of_the_root_of_the_sum_of_squares() -> Result<()> {
        for device in hlx_core::testing::devices() {
            let x = Tensor::randn(device, &[9, 600], 4)?;
            for (dims, expected) in [(&[1][..], &[9, 1][..]), (&[0], &[1, 600]), (&[], &[1, 1])] {
                let leaves = [x.with_gradient(), x.with_gradient()];
                let norm = leaves[0].norm(2.0, dims, true)?;
                let root = leaves[1].square()?.sum_dim(dims, true)?.sqrt()?;
                assert_eq!(norm.shape(), expected);
                assert!(norm.equal(&root)?);
                norm.sum()?.backward()?;
                root.sum()?.backward()?;
                let [one, two] = leaves.map(|leaf| leaf.grad().expect("a gradient"));
                assert!(one.equal(&two)?);
            }
        }
        Ok(())
    }

    #[test]
    fn places_and_truths() -> Result<()> {
        let x = of(&[1.0, 5.0, 5.0, 0.0, -2.0, f32::NAN], &[2, 3]);
        assert_eq!(x.argmax(Some(1), false)?.to_vec::<u32>()?, [1, 2]);
        assert_eq!(x.argmin(None, false)?.to_vec::<u32>()?, [5]);
        assert_eq!(
            x.any(&[0], false)?.to_string(),
            "tensor([True, True, True], dtype=bool)"
        );
        assert_eq!(x.all(&[], false)?.to_string(), "tensor(False, dtype=bool)");
        let text = message(of(&[], &[0]).amax(&[], false));
        assert!(text.contains("no elements to reduce"), "{text}");
        Ok(())
    }
}
