//! Several affine maps of one input, which an RMS norm may come before.

use hlx_core::{Arithmetic, Buffer};
use hlx_kernels::norm::Norm;
use hlx_kernels::product::{Matrices, Operand, Prologue, Role, can_fuse};

use super::affine::{Affine, residual_epilogue, samples_behind};
use super::few_rows::{few_rows_product, multiplied};
use crate::graph::tape::wants_gradient;
use crate::{Result, Tensor};

const OP: &str = "linears";

impl Tensor {
    /// Computes y_i = x W_iᵀ + b_i for each of several `maps`, a weight \[N_i, K\] and a bias \[N_i\] each: \[.., K\] to
    /// \[.., N_i\], to the bits of [`linear`](Tensor::linear). With a `norm`, its gain \[K\] and what is added under the
    /// root, x is [normalised](Tensor::rms_norm) first.
    ///
    /// Of few rows and where no gradient is wanted, the norm is computed within the products; weights without biases
    /// that lie side by side in memory are one product then, and the results views of it.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape).
    #[doc = example!(
        x: "let (gain, weight) = (Tensor::ones(&device, &[3], DType::F32)?, Tensor::eye(&device, 3)?);",
        "let y = x.linears(Some((&gain, 1e-5)), &[(&weight, None), (&weight, None)])?;",
        "assert_eq!(y[1].to_vec::<f32>()?, x.rms_norm(&[3], Some(&gain), 1e-5)?.to_vec::<f32>()?);"
    )]
    pub fn linears(
        &self,
        norm: Option<(&Tensor, f32)>,
        maps: &[(&Tensor, Option<&Tensor>)],
    ) -> Result<Vec<Tensor>> {
        let (_, k) = self.rows_and_columns(OP)?;
        let names = ["a weight", "a bias"];
        let affine = maps.iter().map(|&map| Affine::new(OP, names, map, self, k));
        let affine = affine.collect::<Result<Vec<_>>>()?;
        check_gain(OP, self, norm)?;
        if self.is_fused(norm, &affine, None) {
            return few_rows(self, norm, &affine, true);
        }
        if self.makes_digits(norm, &affine, None) {
            let x = self.signal(norm)?;
            let map = |map: &Affine<'_>| self.mapped(map, &x, None);
            return affine.iter().map(map).collect();
        }
        let x = &self.normalised(norm)?;
        maps.iter()
            .map(|(weight, bias)| x.linear(weight, *bias))
            .collect()
    }

    /// The norm of a tensor, where there is one.
    pub(super) fn normalised(&self, norm: Option<(&Tensor, f32)>) -> Result<Tensor> {
        match norm {
            Some((gain, eps)) => self.rms_norm(gain.shape(), Some(gain), eps),
            None => Ok(self.clone()),
        }
    }

    /// Whether products of a tensor are launched with what comes before and behind them: of few rows, and where no
    /// gradient is wanted.
    pub(super) fn is_fused(
        &self,
        norm: Option<(&Tensor, f32)>,
        maps: &[Affine<'_>],
        residual: Option<&Tensor>,
    ) -> bool {
        // Else rows are made ready once, for several maps.
        let (device, rows) = (self.device(), self.rows());
        let fuses = |map: &Affine<'_>| match map.weight.in_blocks() {
            Some(blocks) => blocks.fuses(device, rows),
            None => !map.weight.is_of_blocks(),
        };
        can_fuse(device, rows) && maps.iter().all(fuses) && self.is_final(norm, maps, residual)
    }

    /// Whether products of a tensor read digits that are made of it at once, for several maps: where no gradient is wanted.
    pub(super) fn makes_digits(
        &self,
        norm: Option<(&Tensor, f32)>,
        maps: &[Affine<'_>],
        residual: Option<&Tensor>,
    ) -> bool {
        self.device().product_arithmetic() == Arithmetic::Integer
            && self.is_final(norm, maps, residual)
    }

    /// Whether there are products, and none of what they read wants a gradient.
    pub(super) fn is_final(
        &self,
        norm: Option<(&Tensor, f32)>,
        maps: &[Affine<'_>],
        residual: Option<&Tensor>,
    ) -> bool {
        let parameters = maps.iter().flat_map(Affine::parameters);
        let others = norm.map(|(gain, _)| gain).into_iter().chain(residual);
        let mut read = parameters.chain(others).chain([self]);
        let is_empty = self.rows() == 0 || maps.iter().any(|map| map.n == 0);
        !is_empty && !wants_gradient(&mut read)
    }

    /// The rows of the last dimension; none where it is empty.
    fn rows(&self) -> usize {
        let columns = self.shape().last().copied().unwrap_or(1);
        self.n_elements().checked_div(columns).unwrap_or(0)
    }

    /// A tensor's rows, or their norm's, as products read them.
    pub(super) fn signal(&self, norm: Option<(&Tensor, f32)>) -> Result<Operand> {
        let (device, rows) = (self.device(), self.rows());
        let columns = self.n_elements() / rows;
        match norm {
            Some((gain, eps)) => {
                let norm = Norm::rms(rows, columns, eps);
                Ok(Operand::of_norm(
                    device,
                    &norm,
                    &self.buffer()?,
                    &gain.buffer()?,
                )?)
            }
            None => {
                let of = Matrices::rows(1, rows, columns);
                self.product_operand(Role::Signal, of, || self.buffer())
            }
        }
    }

    /// What a map makes of rows that an operand was made of, shaped as the tensor's, and a residual added.
    pub(super) fn mapped(
        &self,
        map: &Affine<'_>,
        x: &Operand,
        residual: Option<&Tensor>,
    ) -> Result<Tensor> {
        let device = self.device();
        let mut shape = self.shape().to_vec();
        shape[self.rank() - 1] = map.n;
        let y = device.alloc_shape(&[self.rows(), map.n])?;
        let added = residual.map(Tensor::buffer).transpose()?;
        map.forward(device, x, &y, residual_epilogue(added.as_ref()))?;
        let y = Self::from_buffer(device, y, &shape)?;
        Ok(y.with_samples_of(samples_behind(self)))
    }
}

/// Checks the gain of the norm of x for operation `op`.
pub(super) fn check_gain(op: &'static str, x: &Tensor, norm: Option<(&Tensor, f32)>) -> Result<()> {
    let Some((gain, _)) = norm else {
        return Ok(());
    };
    x.same_device(op, [("the gain", Some(gain))])?;
    gain.expect_shape(op, "the gain", &x.shape()[x.rank() - 1..])
}

/// The maps of the norm of x, of few rows: one product where the weights lie side by side and the results may be
/// views, `joined`, else one each.
pub(super) fn few_rows(
    x: &Tensor,
    norm: Option<(&Tensor, f32)>,
    maps: &[Affine<'_>],
    joined: bool,
) -> Result<Vec<Tensor>> {
    let gain = norm.map(|(gain, _)| gain.buffer()).transpose()?;
    let gain = gain.as_ref().zip(norm);
    let prologue = gain.map(|(gain, (_, eps))| Prologue::RmsNorm { gain, eps });
    // Digits of several weights do not lie side by side.
    let joined = joined && x.device().product_arithmetic() != Arithmetic::Integer;
    let window = if joined { side_by_side(maps)? } else { None };
    let Some(weights) = window else {
        let product = |map: &Affine<'_>| few_rows_product(x, prologue, map, None);
        return maps.iter().map(product).collect();
    };
    let k = x.shape()[x.rank() - 1];
    let of = Matrices::rows(1, weights.len() / k, k);
    let all = multiplied(x, prologue, &Operand::Floats(weights, of), None, None)?;
    let mut first = 0;
    let parts = maps.iter().map(|map| {
        first += map.n;
        all.narrow(-1, first - map.n, map.n)
    });
    parts.collect()
}

/// The weights of several maps as one \[all N, K\], if they lie so in memory and have no biases.
fn side_by_side(maps: &[Affine<'_>]) -> Result<Option<Buffer>> {
    let [first, rest @ ..] = maps else {
        return Ok(None);
    };
    if rest.is_empty() || maps.iter().any(|map| map.bias.is_some()) {
        return Ok(None);
    }
    let mut window = first.weight.buffer()?;
    for map in rest {
        let (next, held) = (map.weight.buffer()?, window.len());
        match window.through(&next) {
            Some(longer) if longer.len() == held + next.len() => window = longer,
            _ => return Ok(None),
        }
    }
    Ok(Some(window))
}
