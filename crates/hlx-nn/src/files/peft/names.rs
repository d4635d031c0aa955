//! Names and values that all of PEFT's files have: keys, tensors, modules.

use safetensors::tensor::SafeTensors;
use serde_json::{Map, Value};

use crate::Result;
use crate::error::NnError;

/// PEFT's file of an adapter's numbers.
pub const PEFT_CONFIG_FILE: &str = "adapter_config.json";

/// The output's layer.
pub(super) const HEAD: &str = "lm_head";

/// What PEFT's files put before every name.
pub(super) const PREFIX: &str = "base_model.model.";

/// Whether `target_modules` is a list with the output.
pub(super) fn names_head(keys: &Map<String, Value>) -> bool {
    let targets = keys.get("target_modules").and_then(Value::as_array);
    targets.is_some_and(|targets| targets.iter().any(|one| one == HEAD))
}

/// Whether a key's value is that of a key that is left out.
pub(super) fn is_neutral(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::Number(_) | Value::String(_) => false,
    }
}

/// By what the alpha of a module of several layers is multiplied, so that its scale is that of each layer.
pub(super) fn of_parts(parts: usize, rslora: bool) -> f64 {
    match rslora {
        true => (parts as f64).sqrt(),
        false => parts as f64,
    }
}

/// Fails unless a tensor of a file has a shape.
pub(super) fn expect(name: &str, shape: &[usize], expected: &[usize]) -> Result<()> {
    if shape == expected {
        return Ok(());
    }
    let reason = format!("{PREFIX}{name} has shape {shape:?}, expected {expected:?}");
    Err(NnError::mismatch("adapter", reason))
}

/// A tensor of a file and its shape.
pub(super) fn read(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<f32>, Vec<usize>)> {
    let name = format!("{PREFIX}{name}");
    let Ok(view) = file.tensor(&name) else {
        return Err(NnError::mismatch("adapter", format!("{name} is missing")));
    };
    let values = crate::parameters::as_f32(&name, &view)?;
    if let Some(reason) = crate::parameters::non_finite(&name, view.dtype(), view.data()) {
        return Err(NnError::mismatch("adapter", reason));
    }
    Ok((values, view.shape().to_vec()))
}
