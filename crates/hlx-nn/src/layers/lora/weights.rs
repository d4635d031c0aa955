//! Adapters among the weights of a model: what is trained, read and merged.

use hlx_autograd::{Tensor, no_grad};

use super::config::{LoraConfig, refused};
use super::rules::{LoraRules, saves};
use super::{A, B, MAGNITUDE, adapted_weight, is_of_adapter, row_norms};
use crate::parameters::matches;
use crate::{Parameter, Result, Weights};

/// The adapter of a layer.
#[derive(Clone, Copy)]
pub(crate) struct Adapter<'a> {
    /// The layer's name.
    pub layer: &'a str,
    pub a: &'a Parameter,
    pub b: &'a Parameter,
    pub magnitude: Option<&'a Parameter>,
}

impl Weights {
    /// As [`Weights::load_safetensors`], but leaves the factors of adapters, which the file need not have,
    /// as they are. Magnitudes of weight-decomposed adapters become the norms of the rows that are read.
    ///
    /// # Errors
    /// As [`Weights::load_safetensors`].
    pub fn load_base_safetensors(&self, bytes: &[u8]) -> Result<()> {
        self.load_some(bytes, |name| !is_of_adapter(name))?;
        for adapter in self.adapters() {
            if let Some(weight) = self.weight_of(adapter.layer) {
                let weight = weight.tensor()?.detach();
                self.set_magnitude(adapter, &weight)?;
            }
        }
        Ok(())
    }

    /// The weight of a layer.
    fn weight_of(&self, layer: &str) -> Option<&Parameter> {
        self.get(&format!("{layer}.weight"))
    }

    /// Sets the magnitude of an adapter, if it has one, to the norms of a matrix's rows.
    pub(crate) fn set_magnitude(&self, adapter: Adapter<'_>, matrix: &Tensor) -> Result<()> {
        let Some(magnitude) = adapter.magnitude else {
            return Ok(());
        };
        let norms = row_norms(matrix)?.buffer()?;
        let place = magnitude.tensor()?.detach().buffer()?;
        Ok(self.device().copy(&norms, &place)?)
    }

    /// Freezes every parameter that is no adapter's and in no module that the configuration trains as a whole.
    ///
    /// # Errors
    /// [`NnError::Config`](crate::NnError::Config) if there is no adapter, for a pattern of ranks or alphas that names no
    /// layer with an adapter, and for one of `modules_to_save` that names no module.
    pub fn freeze_all_but_lora(&self, config: &LoraConfig) -> Result<()> {
        let layers: Vec<&str> = self.adapters().map(|adapter| adapter.layer).collect();
        if layers.is_empty() {
            return Err(refused("targets name no linear layer of the model"));
        }
        let rules = LoraRules::new(config.clone());
        if let Some((key, pattern)) = rules.unused_pattern(&layers) {
            return Err(refused(format!(
                "{key}: `{pattern}` names no layer with an adapter"
            )));
        }
        let parameters = self.parameters().iter();
        let modules = parameters.filter_map(module_of).collect::<Vec<_>>();
        let names_none = |pattern: &&String| !modules.iter().any(|one| saves(pattern, one));
        if let Some(pattern) = config.modules_to_save.iter().find(names_none) {
            return Err(refused(format!(
                "modules_to_save: `{pattern}` names no module of the model"
            )));
        }
        let base = self.select(|one| {
            !is_of_adapter(one.name()) && !module_of(one).is_some_and(|module| rules.saves(module))
        });
        self.requires_grad_(&base, false);
        Ok(())
    }

    /// Adds every adapter to the weight of its layer, `W + scale B A`, with the rows of a weight-decomposed one at their
    /// magnitudes, and sets its `B` to zero: the model computes the same as before, except for rounding.
    ///
    /// # Errors
    /// What the device reports.
    pub fn merge_lora(&self, config: &LoraConfig) -> Result<()> {
        let device = self.device();
        let rules = LoraRules::new(config.clone());
        for adapter in self.adapters() {
            let Some(weight) = self.weight_of(adapter.layer) else {
                continue;
            };
            let weight = weight.tensor()?.detach();
            let factors = [&adapter.a.tensor()?, &adapter.b.tensor()?];
            let mut merged = adapted_weight(&weight, factors, rules.scale(adapter.layer))?;
            if let Some(magnitude) = adapter.magnitude {
                merged = no_grad(|| -> Result<Tensor> {
                    let rows = magnitude.tensor()?.detach();
                    let rows = Tensor::from_buffer(merged.device(), rows.buffer()?, rows.shape())?;
                    let factors = rows.div(&row_norms(&merged)?)?;
                    Ok(merged.mul(&factors.unsqueeze(1)?)?)
                })?;
            }
            device.copy(&merged.buffer()?, &weight.buffer()?)?;
            device.fill(&adapter.b.tensor()?.detach().buffer()?, 0)?;
            self.set_magnitude(adapter, &merged)?;
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
            .filter(|pattern| !self.adapters().any(|one| matches(pattern, one.layer)))
            .collect()
    }

    /// The layers with adapters, in the order of declaration.
    pub(crate) fn adapters(&self) -> impl Iterator<Item = Adapter<'_>> {
        self.parameters().iter().filter_map(|a| {
            let layer = a.name().strip_suffix(A)?;
            Some(Adapter {
                layer,
                a,
                b: self.get(&format!("{layer}{B}"))?,
                magnitude: self.get(&format!("{layer}{MAGNITUDE}")),
            })
        })
    }

    /// The parameters of the modules that a configuration trains as a whole, in the order of declaration.
    pub(crate) fn saved_modules(&self, config: &LoraConfig) -> Vec<&Parameter> {
        let rules = LoraRules::new(config.clone());
        let is_saved = |one: &&Parameter| {
            !is_of_adapter(one.name()) && module_of(one).is_some_and(|module| rules.saves(module))
        };
        self.parameters().iter().filter(is_saved).collect()
    }
}

/// The module whose parameter this is.
pub(super) fn module_of(parameter: &Parameter) -> Option<&str> {
    let name = parameter.name();
    (!is_of_adapter(name)).then(|| name.rsplit_once('.').map_or(name, |(module, _)| module))
}
