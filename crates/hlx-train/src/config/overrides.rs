//! Values that replace those of a configuration file.

use std::str::FromStr;

use anyhow::{Result, bail};
use toml::{Table, Value};

use super::toml_value;

/// One `--set key=value`: a dotted key and its new value.
#[derive(Clone, Debug)]
pub struct Override {
    pub(super) key: String,
    pub(super) value: Value,
    /// As it was given.
    pub(super) text: String,
}

impl std::fmt::Display for Override {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Override {
    /// Sets a key to a text, whatever it looks like.
    pub fn text(key: &str, value: &str) -> Self {
        Self {
            key: key.to_owned(),
            value: Value::String(value.to_owned()),
            text: format!("{key}={value}"),
        }
    }

    /// Sets a key to a value.
    ///
    /// # Errors
    /// One line with the key: one of which a part is empty, and a value that a configuration has no place for.
    pub fn value(key: &str, value: &serde_json::Value) -> Result<Self> {
        if key.split('.').any(str::is_empty) {
            bail!("`{key}`: the key is empty");
        }
        Ok(Self {
            key: key.to_owned(),
            value: toml_value::of_json(key, value)?,
            text: format!("{key}={value}"),
        })
    }
}

impl FromStr for Override {
    type Err = String;

    /// Reads `train.max_steps=40`. The value is TOML; what is not TOML is taken as a string, so
    /// that `train.schedule=linear` needs no quotes.
    fn from_str(text: &str) -> Result<Self, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not key=value"))?;
        let key = key.trim().to_owned();
        if key.split('.').any(str::is_empty) {
            return Err(format!("`{text}`: the key is empty"));
        }
        let value = value.trim();
        let parsed = Table::from_str(&format!("value = {value}"))
            .ok()
            .filter(|table| table.len() == 1)
            .and_then(|mut table| table.remove("value"))
            .unwrap_or_else(|| Value::String(value.to_owned()));
        Ok(Self {
            key,
            value: parsed,
            text: text.to_owned(),
        })
    }
}
