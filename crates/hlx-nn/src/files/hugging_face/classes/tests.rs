//! The tables of keys against what the classes of `transformers` read (`make_class_keys.py`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::harmless::is_harmless;
use super::*;

#[derive(Deserialize)]
struct Listed {
    fields: Map<String, Value>,
    used: Vec<String>,
    aliases: BTreeMap<String, String>,
}

/// The lists of each class by the version of `transformers`.
fn listed() -> BTreeMap<String, BTreeMap<String, Listed>> {
    let text = include_str!("../../../../tests/fixtures/class_keys.json");
    serde_json::from_str(text).expect("the fixture")
}

/// Whether a class has a key that changes its result, though it neither reads it here nor has its value.
fn passes_by(class: &Class, key: &str) -> bool {
    let read_elsewhere = match key {
        // Stored, and given to no attention.
        "attn_logit_softcapping" => class.architecture == Architecture::Gemma3,
        _ => false,
    };
    class.reads(key) || is_harmless(key, &Value::Null) || read_elsewhere
}

#[test]
fn every_key_that_a_class_of_transformers_reads_is_read_or_without_effect() {
    let listed = listed();
    assert_eq!(listed.len(), CLASSES.len());
    for class in &CLASSES {
        let versions = &listed[class.name];
        assert_eq!(versions.len(), 2, "{}", class.name);
        for (version, keys) in versions {
            let declared = keys
                .fields
                .keys()
                .chain(&keys.used)
                .chain(keys.aliases.keys())
                .chain(keys.aliases.values());
            for key in declared {
                assert!(passes_by(class, key), "{} of {version}: {key}", class.name);
            }
        }
    }
}

#[test]
fn no_key_is_read_that_no_version_of_the_class_reads() {
    // Rotary positions are of all configurations, and so is an attribute that a scaling looks for.
    let common = [
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "original_max_position_embeddings",
    ];
    // Read out of what the constructor does not name, or by a class that takes the place of this one.
    let unnamed = [
        ("gemma3_text", "sliding_window_pattern"),
        ("gemma3_text", "rope_local_base_freq"),
        ("mistral", "layer_types"),
        ("gemma2", "use_bidirectional_attention"),
    ];
    let listed = listed();
    for class in &CLASSES {
        let versions = listed[class.name].values();
        let named: Vec<&String> = versions
            .flat_map(|keys| {
                keys.fields
                    .keys()
                    .chain(&keys.used)
                    .chain(keys.aliases.keys())
                    .chain(keys.aliases.values())
            })
            .collect();
        let common: &[&str] = match class.architecture {
            Architecture::Gpt2 => &[],
            _ => &common,
        };
        let keys: &[&str] = match class.architecture {
            Architecture::Gpt2 => &GPT2,
            _ => &DECODER,
        };
        for key in keys.iter().chain(class.own) {
            let is_named = named.iter().any(|name| *name == key);
            let is_known = common.contains(key) || unnamed.contains(&(class.kind, *key));
            // Every configuration of older versions has the tie.
            let is_tie = *key == "tie_word_embeddings";
            assert!(is_named || is_known || is_tie, "{}: {key}", class.name);
        }
    }
}

#[test]
fn a_missing_key_is_what_the_class_of_transformers_has() {
    let listed = listed();
    for class in CLASSES
        .iter()
        .filter(|class| class.architecture != Architecture::Gpt2)
    {
        let newest = &listed[class.name]["transformers 5.24"].fields;
        let number = |key: &str| {
            newest
                .get(key)
                .and_then(Value::as_u64)
                .map(|one| one as usize)
        };
        assert_eq!(
            class.kv_heads,
            number("num_key_value_heads"),
            "{}",
            class.name
        );
        assert_eq!(class.head_width, number("head_dim"), "{}", class.name);
        assert_eq!(class.window, number("sliding_window"), "{}", class.name);
        let eps = newest["rms_norm_eps"].as_f64().expect("a number");
        assert_eq!(class.norm_eps, eps as f32, "{}", class.name);
        let tied = crate::CausalConfig::of_family(class.architecture).tied_output;
        assert_eq!(json!(tied), newest["tie_word_embeddings"], "{}", class.name);
        if class.architecture == Architecture::Gemma2 {
            let caps = ["attn_logit_softcapping", "final_logit_softcapping"];
            let caps = caps.map(|cap| newest[cap].as_f64().map(|cap| cap as f32));
            assert_eq!(class.soft_caps, caps);
        }
        let older = &listed[class.name]["transformers 4.57"].fields;
        assert_eq!(
            older["rope_theta"].as_f64(),
            Some(class.theta),
            "{}",
            class.name
        );
    }
}
