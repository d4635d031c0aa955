//! What differs between the layers of a `config.json`: windows and experts.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::classes::Class;
use super::keys::Keys;
use crate::{Architecture, CausalConfig, ExpertsConfig};

/// The experts, of a class that has them.
pub(super) fn experts_of(keys: &Keys, class: &Class) -> Result<Option<ExpertsConfig>, String> {
    let mixtral = class.architecture == Architecture::Mixtral;
    if !mixtral && class.architecture != Architecture::Qwen3Moe {
        return Ok(None);
    }
    keys.only("router_jitter_noise", &json!(0.0))?;
    // Each class has one of the names and knows the other; what comes by the other name is set last.
    let names = match mixtral {
        true => ["num_experts", "num_local_experts"],
        false => ["num_local_experts", "num_experts"],
    };
    let [other, own] = [keys.count(names[0])?, keys.count(names[1])?];
    keys.settle((names[0], other), (names[1], own));
    let n_experts = match other {
        Some(n_experts) => n_experts,
        None => keys.need(names[1])?,
    };
    let per_token = keys.need("num_experts_per_tok")?;
    // What `transformers` takes where the key is missing.
    let balance_coefficient = keys.number("router_aux_loss_coef")?.unwrap_or(0.001) as f32;
    if mixtral {
        return Ok(Some(ExpertsConfig {
            n_experts,
            per_token,
            width: keys.need("intermediate_size")?,
            renormalised: true,
            balance_coefficient,
            dense_layers: Vec::new(),
        }));
    }
    let named = keys.counts("mlp_only_layers")?.unwrap_or_default();
    let named: BTreeSet<usize> = named.into_iter().collect();
    let step = keys.count("decoder_sparse_step")?.unwrap_or(1);
    if step == 0 {
        return Err("`decoder_sparse_step` is 0, expected at least 1".to_owned());
    }
    let dense = |layer: &usize| named.contains(layer) || !(layer + 1).is_multiple_of(step);
    Ok(Some(ExpertsConfig {
        n_experts,
        per_token,
        width: keys.need("moe_intermediate_size")?,
        renormalised: keys.truth("norm_topk_prob")?.unwrap_or(false),
        balance_coefficient,
        dense_layers: (0..keys.need("num_hidden_layers")?).filter(dense).collect(),
    }))
}

/// With the window, and the layers without.
pub(super) fn with_windows(
    keys: &Keys,
    config: CausalConfig,
    class: &Class,
) -> Result<CausalConfig, String> {
    let window = window_of(keys, class)?;
    let n_layers = config.n_layers;
    let derived = full_by_rule(keys, class, n_layers)?;
    let full_layers = match keys.texts("layer_types")? {
        Some(types) => {
            let listed = full_by_list(&types, n_layers, window.is_some())?;
            settle_rule(keys, class, &listed, &derived, window.is_some());
            listed
        }
        None => derived,
    };
    if class.architecture == Architecture::Gemma3 {
        settle_noted_pattern(keys, &full_layers, n_layers);
    }
    let windowed = full_layers.len() < n_layers;
    if class.is_gemma() && windowed && window.is_none() {
        return Err("`sliding_window` is null, and there are layers with a window".to_owned());
    }
    let window = window.filter(|_| windowed);
    Ok(CausalConfig {
        full_layers: if window.is_some() {
            full_layers
        } else {
            Vec::new()
        },
        window,
        window_rotary: config.window_rotary.filter(|_| window.is_some()),
        ..config
    })
}

fn window_of(keys: &Keys, class: &Class) -> Result<Option<usize>, String> {
    let usual = match keys.is_stated("sliding_window") {
        true => None,
        false => class.window,
    };
    let window = keys.count("sliding_window")?.or(usual);
    if class.reads("use_sliding_window") {
        let used = keys.truth("use_sliding_window")?.unwrap_or(false);
        return Ok(window.filter(|_| used));
    }
    if window.is_some() && keys.look("use_sliding_window") == Some(&Value::Bool(false)) {
        keys.note(format!(
            "`use_sliding_window` is false and left out: {} has a window unless `sliding_window` is null",
            class.name
        ));
    }
    Ok(window)
}

/// The layers without a window, without a list of them.
fn full_by_rule(keys: &Keys, class: &Class, n_layers: usize) -> Result<Vec<usize>, String> {
    let all = 0..n_layers;
    Ok(match class.architecture {
        Architecture::Qwen2 | Architecture::Qwen3 => {
            let first_windowed = keys.count("max_window_layers")?.unwrap_or(28);
            all.take(first_windowed).collect()
        }
        Architecture::Gemma2 => all.skip(1).step_by(2).collect(),
        Architecture::Gemma3 => {
            let pattern = keys.count("sliding_window_pattern")?.unwrap_or(6);
            if pattern == 0 {
                return Err("`sliding_window_pattern` is 0, expected at least 1".to_owned());
            }
            full_by_pattern(pattern, n_layers)
        }
        _ => Vec::new(),
    })
}

/// The last of each `pattern` layers has no window.
fn full_by_pattern(pattern: usize, n_layers: usize) -> Vec<usize> {
    let is_full = |layer: &usize| (layer + 1).is_multiple_of(pattern);
    (0..n_layers).filter(is_full).collect()
}

/// The layers that `layer_types` gives no window.
fn full_by_list(types: &[String], n_layers: usize, has_window: bool) -> Result<Vec<usize>, String> {
    if types.len() != n_layers {
        let found = types.len();
        return Err(format!(
            "`layer_types` names {found} layers, expected {n_layers}"
        ));
    }
    let mut full_layers = Vec::new();
    for (layer, kind) in types.iter().enumerate() {
        match kind.as_str() {
            // Older versions have the short name.
            "full_attention" | "attention" => full_layers.push(layer),
            "sliding_attention" if has_window => {}
            "sliding_attention" => {
                return Err(
                    "`layer_types` has sliding_attention, and the other keys give no window"
                        .to_owned(),
                );
            }
            other => {
                return Err(format!(
                    "`layer_types` has {other}, expected full_attention or sliding_attention"
                ));
            }
        }
    }
    Ok(full_layers)
}

/// Says that the list is taken, where a stated rule gives other layers.
fn settle_rule(keys: &Keys, class: &Class, listed: &[usize], derived: &[usize], has_window: bool) {
    let rules = ["max_window_layers", "sliding_window_pattern"];
    for rule in rules {
        if has_window && class.reads(rule) && keys.is_stated(rule) {
            keys.settle(("layer_types", Some(listed)), (rule, Some(derived)));
        }
    }
}

/// Newer versions write the pattern under a name that they do not read, beside the list.
fn settle_noted_pattern(keys: &Keys, full_layers: &[usize], n_layers: usize) {
    const NAME: &str = "_sliding_window_pattern";
    let noted = keys.look(NAME).and_then(Value::as_u64);
    let noted = noted.and_then(|pattern| usize::try_from(pattern).ok());
    let noted = noted.filter(|&pattern| pattern > 0 && !keys.is_stated("layer_types"));
    if let Some(pattern) = noted {
        let derived = full_by_pattern(pattern, n_layers);
        let taken = ("sliding_window_pattern", Some(full_layers));
        keys.settle(taken, (NAME, Some(&derived[..])));
    }
}
