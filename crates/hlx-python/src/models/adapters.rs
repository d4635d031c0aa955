//! Low-rank adapters: added to a model, merged into it, and written alone.

use std::path::PathBuf;

use hlx_nn::{
    CausalLm, LoraConfig, Model, PEFT_CONFIG_FILE, PEFT_FILE, peft_config, read_peft_config,
};
use hlx_train::model_folder::{FolderKind, NewFolder};
use pyo3::prelude::*;

use super::held::{Held, PyLanguageModel};
use crate::error::{of_anyhow, of_nn, value_error};
use crate::wait::run_as;

/// The configuration of adapters: targets are names of PEFT's, or HLX's patterns.
fn config_of(held: &Held, rank: usize, alpha: f64, targets: Vec<String>) -> PyResult<LoraConfig> {
    let model = held.source.model().config();
    let are_patterns = targets.iter().any(|target| target.contains(['*', '.']));
    let lora = match model.family() {
        Some(_) if !are_patterns => {
            let numbers = serde_json::json!({
                "peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": targets,
            });
            read_peft_config(numbers.to_string().as_bytes(), model).map_err(of_nn)?
        }
        _ => LoraConfig {
            rank,
            alpha,
            targets: targets
                .into_iter()
                .map(|target| match are_patterns {
                    true => target,
                    false => format!("*.{target}"),
                })
                .collect(),
        },
    };
    lora.check().map_err(of_nn)?;
    Ok(lora)
}

fn no_adapters(operation: &str) -> PyErr {
    value_error(format!("{operation}: the model has no adapters"))
}

#[pymethods]
impl PyLanguageModel {
    /// Whether layers have adapters.
    #[getter]
    fn has_adapter(&self) -> bool {
        self.held().lora.is_some()
    }

    /// The adapters' numbers in JSON.
    #[getter]
    fn adapter_config(&self) -> PyResult<Option<String>> {
        let text = self.held().lora.as_ref().map(serde_json::to_string);
        text.transpose()
            .map_err(|error| value_error(error.to_string()))
    }

    /// Gives the layers that are named adapters, the first factors drawn by a seed, and freezes all else.
    fn add_adapter(
        &self,
        py: Python<'_>,
        rank: usize,
        alpha: f64,
        targets: Vec<String>,
        seed: u64,
    ) -> PyResult<()> {
        let held = self.held();
        let model = held.whole("add_adapter")?;
        if held.lora.is_some() {
            return Err(value_error(
                "add_adapter: the model has adapters; merge them first",
            ));
        }
        let lora = config_of(&held, rank, alpha, targets)?;
        let device = held.device()?;
        let adapted = run_as(py, of_nn, || {
            let adapted = Model::new(&device, seed, |b| {
                b.with_lora(lora.clone());
                CausalLm::new(b, model.config())
            })?;
            let weights = adapted.weights();
            weights.freeze_all_but_lora()?;
            weights.load_base_safetensors(&model.weights().to_safetensors()?)?;
            Ok(adapted)
        })?;
        if let [first, ..] = adapted.weights().unmatched_targets(&lora)[..] {
            let text = format!("add_adapter: {first} names no linear layer of the model");
            return Err(value_error(text));
        }
        self.replace(held.with_model(adapted, Some(lora)));
        Ok(())
    }

    /// Adds the adapters to the weights of their layers.
    fn merge_adapter(&self, py: Python<'_>) -> PyResult<()> {
        let held = self.held();
        let model = held.whole("merge_adapter")?;
        let lora = held
            .lora
            .as_ref()
            .ok_or_else(|| no_adapters("merge_adapter"))?;
        let device = held.device()?;
        let merged = run_as(py, of_nn, || {
            let weights = model.weights();
            weights.merge_lora(lora)?;
            let merged = Model::zeroed(&device, |b| CausalLm::new(b, model.config()))?;
            merged
                .weights()
                .load_safetensors(&weights.base_to_safetensors()?)?;
            Ok(merged)
        })?;
        self.replace(held.with_model(merged, None));
        Ok(())
    }

    /// Writes the adapters as the library PEFT does.
    fn save_adapter(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let held = self.held();
        let model = held.whole("save_adapter")?;
        let lora = held
            .lora
            .as_ref()
            .ok_or_else(|| no_adapters("save_adapter"))?;
        run_as(py, of_anyhow, || {
            let read: Vec<PathBuf> = held.folder.iter().cloned().collect();
            let new = NewFolder::at(&folder, FolderKind::Adapter, &read)?;
            let (weights, family) = (model.weights(), model.config().family());
            let own = [
                (PEFT_FILE, weights.lora_to_safetensors(family)?),
                (
                    PEFT_CONFIG_FILE,
                    peft_config(lora, weights, family)?.into_bytes(),
                ),
            ];
            new.write(&own, &[])
        })
    }
}
