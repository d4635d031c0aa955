//! PEFT's `rank_pattern` and `alpha_pattern`: each layer's own numbers out of those of the modules.

use fancy_regex::{Regex, escape};
use serde_json::{Map, Value};

use super::names::of_parts;
use crate::files::hugging_face::Place;
use crate::layers::lora::{LoraConfig, is, pattern};

/// The entries of a key: the expression as it is written, compiled, and its number.
pub(super) struct Patterns(Vec<(String, Regex, f64)>);

impl Patterns {
    /// Reads a key.
    ///
    /// # Errors
    /// A value that is no object of numbers, and a key that is no regular expression.
    pub fn read(keys: &Map<String, Value>, name: &str) -> Result<Self, String> {
        let entries = match keys.get(name) {
            None | Some(Value::Null) => return Ok(Self(Vec::new())),
            Some(Value::Object(entries)) => entries,
            Some(found) => return Err(format!("`{name}` is {found}, expected an object")),
        };
        let read = |(key, value): (&String, &Value)| {
            let number = value.as_f64();
            let number =
                number.ok_or_else(|| format!("`{name}`: {key} is {value}, expected a number"))?;
            let compiled = pattern(key).map_err(|reason| {
                format!("`{name}`: `{key}` is no regular expression: {reason}")
            })?;
            Ok((key.clone(), compiled, number))
        };
        Ok(Self(
            entries.iter().map(read).collect::<Result<_, String>>()?,
        ))
    }

    /// The first entry that describes a module.
    fn of(&self, module: &str) -> Option<(&str, f64)> {
        let own = self.0.iter().find(|(_, pattern, _)| is(pattern, module));
        own.map(|(key, _, number)| (key.as_str(), *number))
    }
}

/// Gives the layers that are adapted the numbers of their modules. A module of several layers that names itself in both keys
/// is one that HLX has written: each layer has its part of the rank.
pub(super) fn apply(
    lora: &mut LoraConfig,
    [ranks, alphas]: [&Patterns; 2],
    layers: &[(String, Place)],
) -> Result<(), String> {
    let adapted: Vec<&(String, Place)> = layers
        .iter()
        .filter(|(layer, _)| lora.targets.contains(layer))
        .collect();
    let (mut own_ranks, mut own_alphas) = (Vec::new(), Vec::new());
    for (layer, place) in &adapted {
        let module = &place.name;
        let (rank, alpha) = (ranks.of(module), alphas.of(module));
        if rank.is_none() && alpha.is_none() {
            continue;
        }
        let whole = rank.map_or(lora.rank as f64, |(_, rank)| rank);
        let is_whole = whole.fract() == 0.0 && (1.0..=u32::MAX.into()).contains(&whole);
        if !is_whole {
            return Err(format!(
                "`rank_pattern`: {module} has rank {whole}, expected a whole number of at least 1"
            ));
        }
        let mut numbers = (whole as usize, alpha.map_or(lora.alpha, |(_, alpha)| alpha));
        let parts = adapted
            .iter()
            .filter(|(_, one)| one.name == *module)
            .count();
        let names_itself =
            |found: Option<(&str, f64)>| found.is_some_and(|(key, _)| key == module.as_str());
        if parts > 1 && numbers.0.is_multiple_of(parts) && names_itself(rank) && names_itself(alpha)
        {
            numbers.0 /= parts;
            numbers.1 /= of_parts(parts, lora.rslora);
        }
        if numbers.0 != lora.rank {
            own_ranks.push((escape(layer).into_owned(), numbers.0));
        }
        if numbers.1 != lora.alpha {
            own_alphas.push((escape(layer).into_owned(), numbers.1));
        }
    }
    lora.rank_pattern = own_ranks.into_iter().collect();
    lora.alpha_pattern = own_alphas.into_iter().collect();
    Ok(())
}
