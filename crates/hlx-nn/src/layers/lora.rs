//! Low-rank adapters (Hu and others 2021, LoRA): a frozen linear layer and a small trained addition.
//!
//! A [`ParameterBuilder`](crate::ParameterBuilder) that is given a [`LoraConfig`] declares, for every
//! [`Linear`](crate::Linear) layer that it names, two more parameters: `lora_A.weight` \[rank, in\] and
//! `lora_B.weight` \[out, rank\]. The layer computes `x Wᵀ + bias + scale (x Aᵀ) Bᵀ`, where the scale is alpha over the
//! rank or over its root. `A` begins as PyTorch's linear layers do and `B` with zeros, so that an adapter changes
//! nothing before it is trained. [`Weights::freeze_all_but_lora`](crate::Weights::freeze_all_but_lora) freezes the rest.
//!
//! A weight-decomposed adapter (Liu and others 2024, DoRA) has a third parameter, `lora_magnitude_vector` \[out\]. With
//! `n` the norms of the rows of `W + scale B A`, which no gradient passes, the layer computes
//! `(x Wᵀ + scale (x Aᵀ) Bᵀ) · (magnitude / n) + bias`. The magnitudes begin as the norms of the rows of `W`.

mod config;
mod expressions;
mod over_base;
mod rules;
mod weights;

use hlx_autograd::{Tensor, no_grad};
use hlx_kernels::product::of_floats;

pub use self::config::{LoraConfig, NamePatterns};
pub(crate) use self::expressions::{expression, is, pattern};
pub(crate) use self::rules::LoraRules;
pub(crate) use self::weights::Adapter;
use crate::{Init, Mode, Parameter, ParameterBuilder, Result};

/// The end of the names of the first factors.
pub(crate) const A: &str = ".lora_A.weight";
/// The end of the names of the second factors.
pub(crate) const B: &str = ".lora_B.weight";
/// The end of the names of magnitudes.
pub(crate) const MAGNITUDE: &str = ".lora_magnitude_vector";

/// The adapter of one linear layer.
#[derive(Clone, Debug)]
pub struct LowRank {
    /// \[rank, in\].
    pub a: Parameter,
    /// \[out, rank\].
    pub b: Parameter,
    /// \[out\], of a weight-decomposed adapter.
    pub magnitude: Option<Parameter>,
    scale: f32,
}

impl LowRank {
    /// Declares the adapter of a layer, if the builder's configuration names it.
    pub(super) fn declare(
        builder: &mut ParameterBuilder,
        input: usize,
        output: usize,
    ) -> Option<Self> {
        let rules = builder.adapters::<LoraRules>()?;
        let layer = builder.scope().filter(|layer| rules.has(layer))?;
        let (rank, scale) = (rules.rank(layer), rules.scale(layer));
        let init = Init::uniform_of(input);
        Some(Self {
            a: builder
                .parameter(&A[1..], &[rank, input], init)
                .of_product(),
            b: builder
                .parameter(&B[1..], &[output, rank], Init::Zeros)
                .of_product(),
            magnitude: rules
                .config
                .dora
                .then(|| builder.parameter(&MAGNITUDE[1..], &[output], Init::Ones)),
            scale,
        })
    }

    /// Computes `residual + scale (x Aᵀ) Bᵀ`.
    fn add_to(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let inner = x.linear(&self.a.tensor()?, None)?.mul(self.scale)?;
        Ok(inner.linear_add(&self.b.tensor()?, None, residual)?)
    }

    /// Computes the layer of a weight and a bias with this adapter, and adds a residual: in the sum of the product before
    /// the adapter's part, or behind all of a weight-decomposed one.
    pub(super) fn apply(
        &self,
        x: &Tensor,
        (weight, bias): (&Tensor, Option<&Tensor>),
        residual: Option<&Tensor>,
        mode: &Mode,
    ) -> Result<Tensor> {
        let Some(magnitude) = &self.magnitude else {
            let y = match residual {
                Some(residual) => x.linear_add(weight, bias, residual)?,
                None => x.linear(weight, bias)?,
            };
            return self.add_to(x, &y);
        };
        let norms = match mode.norms() {
            Some(held) => held.of(magnitude.name(), || self.norms(weight))?,
            None => self.norms(weight)?,
        };
        let y = self.add_to(x, &x.linear(weight, None)?)?;
        let y = y.with_magnitudes(&magnitude.tensor()?, &norms)?;
        let y = match bias {
            Some(bias) => y.add(bias)?,
            None => y,
        };
        match residual {
            Some(residual) => Ok(residual.add(&y)?),
            None => Ok(y),
        }
    }

    /// The norms of the rows of the weight with the factors' product added.
    fn norms(&self, weight: &Tensor) -> Result<Tensor> {
        let factors = [&self.a.tensor()?, &self.b.tensor()?];
        let norms = row_norms(&adapted_weight(weight, factors, self.scale)?)?;
        Ok(Tensor::from_buffer(
            weight.device(),
            norms.buffer()?,
            norms.shape(),
        )?)
    }
}

/// Computes `W + scale (B A)` in f32, in the `portable` arithmetic, whatever a step is computed in.
fn adapted_weight(weight: &Tensor, factors: [&Tensor; 2], scale: f32) -> Result<Tensor> {
    let floats = of_floats(weight.device());
    no_grad(|| {
        let [w, a, b] = [weight, factors[0], factors[1]].map(|x| -> Result<Tensor> {
            let x = x.detach();
            let x = x.values_apart()?;
            Ok(Tensor::from_buffer(&floats, x.buffer()?, x.shape())?)
        });
        Ok(w?.add(&b?.matmul(&a?)?.mul(scale)?)?)
    })
}

/// The norms of a matrix's rows: the root of the sum of the squares, at least the smallest normal number, so that a row of
/// zeros has zeros as its products.
fn row_norms(matrix: &Tensor) -> Result<Tensor> {
    no_grad(|| {
        let norms = matrix.norm(2.0, &[1], false)?;
        Ok(norms.clamp(f32::MIN_POSITIVE, f32::MAX)?)
    })
}

/// Whether a parameter belongs to an adapter.
pub(crate) fn is_of_adapter(name: &str) -> bool {
    [A, B, MAGNITUDE].iter().any(|end| name.ends_with(end))
}

impl ParameterBuilder {
    /// Gives the linear layers that a configuration names low-rank adapters: see [`LoraConfig`]. Call it
    /// before any layer is declared. A pattern that [`LoraConfig::check`] refuses names no layer.
    pub fn with_lora(&mut self, config: LoraConfig) {
        self.set_adapters(LoraRules::new(config));
    }
}

#[cfg(test)]
mod tests;
