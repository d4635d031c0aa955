//! Low-rank adapters: added to a model, merged into it, and written alone.

use std::path::PathBuf;

use hlx_nn::{
    CausalLm, LoraConfig, Model, PEFT_CONFIG_FILE, PEFT_FILE, import_over, peft_config,
    read_peft_config,
};
use hlx_train::model_folder::{FolderKind, NewFolder};
use pyo3::prelude::*;

use super::held::{Held, PyLanguageModel};
use crate::error::{of_anyhow, of_nn, value_error};
use crate::wait::run_as;

/// The configuration of adapters, from the JSON of a [`LoraConfig`]: targets and modules are names of PEFT's, or HLX's
/// patterns.
fn config_of(held: &Held, config: &str) -> PyResult<LoraConfig> {
    /// PEFT's word for every linear layer except the output.
    const ALL: &str = "all-linear";
    let model = held.source.model().config();
    let given: LoraConfig = serde_json::from_str(config)
        .map_err(|error| value_error(format!("add_adapter: {error}")))?;
    given.check().map_err(of_nn)?;
    let are_names = |names: &[String]| !names.iter().any(|name| name.contains(['*', '.']));
    let (targets, modules) = (&given.targets, &given.modules_to_save);
    let (by_target, by_module) = (are_names(targets), are_names(modules));
    if model.family().is_none() {
        let anywhere = |names: &[String], are_names: bool| -> Vec<String> {
            let names = names.iter();
            match are_names {
                true => names.map(|name| format!("*.{name}")).collect(),
                false => names.cloned().collect(),
            }
        };
        return Ok(LoraConfig {
            targets: anywhere(targets, by_target),
            modules_to_save: anywhere(modules, by_module),
            ..given
        });
    }
    let names_head = |name: &&String| "lm_head".ends_with(name.as_str());
    if let Some(name) = modules.iter().find(names_head)
        && model.tied_output
    {
        return Err(value_error(format!(
            "add_adapter: modules_to_save names {name}, and the model's output is tied to its embedding; name that"
        )));
    }
    let by_list = by_target && targets[..] != [ALL];
    let numbers = serde_json::json!({
        "peft_type": "LORA", "r": given.rank, "lora_alpha": given.alpha,
        "target_modules": if by_list { serde_json::json!(targets) } else { ALL.into() },
        "modules_to_save": if by_module { modules.clone() } else { Vec::new() },
    });
    let read = read_peft_config(numbers.to_string().as_bytes(), model).map_err(of_nn)?;
    Ok(LoraConfig {
        targets: if by_target {
            read.targets
        } else {
            given.targets
        },
        modules_to_save: if by_module {
            read.modules_to_save
        } else {
            given.modules_to_save
        },
        ..given
    })
}

/// Fails for a target that names no layer.
fn check_targets(adapted: &Model<CausalLm>, lora: &LoraConfig) -> PyResult<()> {
    match adapted.weights().unmatched_targets(lora)[..] {
        [first, ..] => Err(value_error(format!(
            "add_adapter: {first} names no linear layer of the model"
        ))),
        [] => Ok(()),
    }
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

    /// Gives the layers that a configuration names adapters, the first factors drawn by a seed, and freezes all else.
    fn add_adapter(&self, py: Python<'_>, config: &str, seed: u64) -> PyResult<()> {
        let held = self.held();
        if held.lora.is_some() {
            return Err(value_error(
                "add_adapter: the model has adapters; merge them first",
            ));
        }
        let lora = config_of(&held, config)?;
        let device = held.device()?;
        if let Some(path) = held.path_of_blocks() {
            let config = held.source.model().config().clone();
            let adapted = run_as(py, of_nn, || {
                import_over(&device, &path, seed, |b| {
                    b.with_lora(lora.clone());
                    CausalLm::new(b, &config)
                })
            })?;
            check_targets(&adapted, &lora)?;
            self.replace(held.with_model(adapted, Some(lora)));
            return Ok(());
        }
        let model = held.whole("add_adapter")?;
        let adapted = run_as(py, of_nn, || {
            let adapted = Model::new(&device, seed, |b| {
                b.with_lora(lora.clone());
                CausalLm::new(b, model.config())
            })?;
            let weights = adapted.weights();
            weights.freeze_all_but_lora(&lora)?;
            weights.load_base_safetensors(&model.weights().to_safetensors()?)?;
            Ok(adapted)
        })?;
        check_targets(&adapted, &lora)?;
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
            let wide = match model.weights().base() {
                Some(_) => {
                    let wide = Model::zeroed(&device, |b| {
                        b.with_lora(lora.clone());
                        CausalLm::new(b, model.config())
                    })?;
                    model.weights().widen_into(wide.weights())?;
                    Some(wide)
                }
                None => None,
            };
            let weights = wide.as_ref().map_or(model.weights(), Model::weights);
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
                (PEFT_FILE, weights.lora_to_safetensors(lora, family)?),
                (
                    PEFT_CONFIG_FILE,
                    peft_config(lora, weights, family)?.into_bytes(),
                ),
            ];
            new.write(&own, &[])
        })
    }
}
