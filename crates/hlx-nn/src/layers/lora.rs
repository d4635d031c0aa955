//! Low-rank adapters (Hu and others 2021, LoRA): a frozen linear layer and a small trained addition.
//!
//! A [`ParameterBuilder`](crate::ParameterBuilder) that is given a [`LoraConfig`] declares, for every
//! [`Linear`](crate::Linear) layer that it names, two more parameters: `lora_A.weight` \[rank, in\] and
//! `lora_B.weight` \[out, rank\]. The layer computes `x Wᵀ + bias + (alpha / rank) (x Aᵀ) Bᵀ`. `A` begins as
//! PyTorch's linear layers do and `B` with zeros, so that an adapter changes nothing before it is trained.
//! [`Weights::freeze_all_but_lora`] freezes the rest.

use hlx_autograd::{Tensor, no_grad};
use hlx_kernels::product::of_floats;
use serde::{Deserialize, Serialize};

use crate::error::NnError;
use crate::parameters::matches;
use crate::{Init, Parameter, ParameterBuilder, Result, Weights};

/// The end of the names of the first factors.
pub(crate) const A: &str = ".lora_A.weight";
/// The end of the names of the second factors.
pub(crate) const B: &str = ".lora_B.weight";

/// More than the width of any layer, which no rank has to exceed; the factors of a larger one only take memory.
const MAX_RANK: usize = 1 << 16;

/// Which linear layers have an adapter, and its numbers, by PEFT's names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraConfig {
    /// The rank of the addition.
    pub rank: usize,
    /// The addition is scaled by this over the rank.
    pub alpha: f64,
    /// Patterns for the names of layers, such as `*.attention.qkv`; `*` stands for any letters.
    pub targets: Vec<String>,
}

impl LoraConfig {
    /// Fails for numbers out of range.
    ///
    /// # Errors
    /// [`NnError::Config`] with the number and what was expected.
    pub fn check(&self) -> Result<()> {
        let what = "lora";
        let fail = |reason: String| Err(NnError::Config { what, reason });
        if self.rank == 0 {
            return fail("rank is 0, expected at least 1".to_owned());
        }
        if self.rank > MAX_RANK {
            let found = self.rank;
            return fail(format!("rank is {found}, expected at most {MAX_RANK}"));
        }
        if !(self.alpha > 0.0 && self.alpha.is_finite()) {
            let found = self.alpha;
            return fail(format!("alpha is {found}, expected more than 0 and finite"));
        }
        if self.targets.is_empty() {
            return fail("targets is empty, expected patterns for names of layers".to_owned());
        }
        Ok(())
    }

    /// Whether a layer of this name has an adapter.
    fn has(&self, layer: &str) -> bool {
        self.targets.iter().any(|pattern| matches(pattern, layer))
    }

    fn scale(&self) -> f32 {
        (self.alpha / self.rank as f64) as f32
    }
}

/// The adapter of one linear layer.
#[derive(Clone, Debug)]
pub struct LowRank {
    /// \[rank, in\].
    pub a: Parameter,
    /// \[out, rank\].
    pub b: Parameter,
    scale: f32,
}

impl LowRank {
    /// Declares the adapter of a layer, if the builder's configuration names it.
    pub(super) fn declare(
        builder: &mut ParameterBuilder,
        input: usize,
        output: usize,
    ) -> Option<Self> {
        let config = builder.adapters::<LoraConfig>()?;
        builder.scope().filter(|layer| config.has(layer))?;
        let rank = config.rank;
        let init = Init::uniform_of(input);
        Some(Self {
            a: builder
                .parameter(&A[1..], &[rank, input], init)
                .of_product(),
            b: builder
                .parameter(&B[1..], &[output, rank], Init::Zeros)
                .of_product(),
            scale: config.scale(),
        })
    }

    /// Computes `residual + scale (x Aᵀ) Bᵀ`.
    pub(super) fn add_to(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor> {
        let inner = x.linear(&self.a.tensor()?, None)?.mul(self.scale)?;
        Ok(inner.linear_add(&self.b.tensor()?, None, residual)?)
    }
}

/// Whether a parameter belongs to an adapter.
pub(crate) fn is_of_adapter(name: &str) -> bool {
    name.ends_with(A) || name.ends_with(B)
}

impl ParameterBuilder {
    /// Gives the linear layers that a configuration names low-rank adapters: see [`LoraConfig`]. Call it
    /// before any layer is declared.
    pub fn with_lora(&mut self, config: LoraConfig) {
        self.set_adapters(config);
    }
}

impl Weights {
    /// As [`Weights::load_safetensors`], but leaves the parameters of adapters, which the file need not have,
    /// as they are.
    ///
    /// # Errors
    /// As [`Weights::load_safetensors`].
    pub fn load_base_safetensors(&self, bytes: &[u8]) -> Result<()> {
        self.load_some(bytes, |name| !is_of_adapter(name))
    }

    /// Freezes every parameter that is no adapter's.
    ///
    /// # Errors
    /// [`NnError::Config`] if there is no adapter.
    pub fn freeze_all_but_lora(&self) -> Result<()> {
        let base = self.select(|parameter| !is_of_adapter(parameter.name()));
        if base.indices().len() == self.parameters().len() {
            return Err(NnError::Config {
                what: "lora",
                reason: "targets name no linear layer of the model".to_owned(),
            });
        }
        self.requires_grad_(&base, false);
        Ok(())
    }

    /// Adds every adapter to the weight of its layer, `W + (alpha / rank) B A`, and sets its `B` to zero:
    /// the model computes the same as before, except for rounding.
    ///
    /// # Errors
    /// What the device reports.
    pub fn merge_lora(&self, config: &LoraConfig) -> Result<()> {
        let device = self.device();
        for (layer, a, b) in self.adapters() {
            let Some(weight) = self.get(&format!("{layer}.weight")) else {
                continue;
            };
            let merged = no_grad(|| -> Result<Tensor> {
                // Weights that stay are made in f32, whatever a step is computed in.
                let floats = of_floats(device);
                let [w, b, a] = [weight, b, a].map(|x| -> Result<Tensor> {
                    let x = x.tensor()?.detach();
                    Ok(Tensor::from_buffer(&floats, x.buffer()?, x.shape())?)
                });
                Ok(w?.add(&b?.matmul(&a?)?.mul(config.scale())?)?)
            })?;
            device.copy(&merged.buffer()?, &weight.tensor()?.detach().buffer()?)?;
            device.fill(&b.tensor()?.detach().buffer()?, 0)?;
        }
        Ok(())
    }

    /// Whether a layer has an adapter.
    pub fn has_lora(&self) -> bool {
        self.adapters().next().is_some()
    }

    /// The patterns among the targets that name no layer with an adapter, such as `lm_head` in a model whose output
    /// is tied to its embedding.
    pub fn unmatched_targets<'a>(&self, config: &'a LoraConfig) -> Vec<&'a str> {
        let targets = config.targets.iter().map(String::as_str);
        targets
            .filter(|pattern| !self.adapters().any(|(layer, ..)| matches(pattern, layer)))
            .collect()
    }

    /// The layers with adapters, and both factors of each.
    pub(crate) fn adapters(&self) -> impl Iterator<Item = (&str, &Parameter, &Parameter)> {
        self.parameters().iter().filter_map(|a| {
            let layer = a.name().strip_suffix(A)?;
            let b = self.get(&format!("{layer}{B}"))?;
            Some((layer, a, b))
        })
    }
}

#[cfg(test)]
mod tests;
