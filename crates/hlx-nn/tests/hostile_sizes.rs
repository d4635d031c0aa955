//! Sizes that no model has: refused by their configuration, before anything is allocated for them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hlx_core::Device;
use hlx_nn::{
    CausalConfig, ClassifierConfig, ClassifierKind, Positions, RopeScaling, Rotary,
    TransformerConfig, load_language_model, load_model, read_language_model_config, save_model,
};
use serde_json::{Value, json};

/// Numbers that a hostile file may have in the place of a size.
const HOSTILE: [u64; 5] = [0, 1 << 31, 1 << 40, 1 << 53, u64::MAX];

/// Keys whose value may be any of them: a window that is longer than the model's positions hides nothing.
const BOUNDLESS: [&str; 1] = ["/window"];

/// The places of all whole numbers of a JSON value, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Number(number) if number.is_u64() => found.push(at.to_owned()),
        Value::Object(keys) => {
            for (key, value) in keys {
                places(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(values) => {
            for (number, value) in values.iter().enumerate() {
                places(value, &format!("{at}/{number}"), found);
            }
        }
        _ => {}
    }
}

/// Puts each hostile number in the place of each number of a configuration, which must be refused at once.
fn refuses_each(whole: &Value, check: &dyn Fn(Value) -> Result<(), String>) {
    check(whole.clone()).expect("good as it is");
    let mut found = Vec::new();
    places(whole, "", &mut found);
    assert!(found.len() > 3, "{found:?}");
    for place in found {
        for number in HOSTILE {
            if BOUNDLESS.contains(&place.as_str()) && number > 0 {
                continue;
            }
            let mut changed = whole.clone();
            *changed.pointer_mut(&place).expect("a place") = json!(number);
            let start = Instant::now();
            let checked = check(changed);
            // A layer may be dense, and full, whose number is 0.
            let is_layer = place.contains("_layers/") && number == 0;
            assert!(checked.is_err() || is_layer, "{place} {number}");
            let line = checked.err().unwrap_or_default();
            assert!(!line.contains('\n'), "{line}");
            let time = start.elapsed();
            assert!(time < Duration::from_secs(1), "{place} {number}: {time:?}");
        }
    }
}

fn causal() -> CausalConfig {
    let mut config = CausalConfig::preset("qwen3_moe").expect("a preset");
    config.window = Some(4);
    config.n_layers = 6;
    config.full_layers = vec![1];
    config.positions = Positions::Rotary(Rotary {
        scaling: Some(RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original: 8192,
        }),
        ..Rotary::plain(10_000.0)
    });
    let experts = config.experts.as_mut().expect("a mixture");
    experts.dense_layers = vec![2];
    config
}

#[test]
fn a_configuration_has_no_size_without_an_upper_bound() {
    let parsed = |error: serde_json::Error| error.to_string();
    let config = serde_json::to_value(causal()).expect("JSON");
    refuses_each(&config, &|value| {
        let config: CausalConfig = serde_json::from_value(value).map_err(parsed)?;
        config.validate().map_err(|error| error.to_string())
    });
    let config = serde_json::to_value(TransformerConfig::tiny()).expect("JSON");
    refuses_each(&config, &|value| {
        let config: TransformerConfig = serde_json::from_value(value).map_err(parsed)?;
        config.validate().map_err(|error| error.to_string())
    });
    let classifier = ClassifierConfig {
        kind: ClassifierKind::Cnn,
        input: [1, 28, 28],
        classes: 10,
        channels: vec![8, 16],
        hidden: vec![64],
        dropout: 0.0,
        batch_norm: true,
    };
    let config = serde_json::to_value(classifier).expect("JSON");
    refuses_each(&config, &|value| {
        let config: ClassifierConfig = serde_json::from_value(value).map_err(parsed)?;
        config.validate().map_err(|error| error.to_string())
    });
}

#[test]
fn sizes_within_their_bounds_do_not_overflow_their_products() {
    let mut wide = causal();
    (wide.width, wide.feed_forward_width, wide.n_layers) = (1 << 24, 1 << 24, 1 << 14);
    wide.experts = None;
    let line = wide.validate().expect_err("refused").to_string();
    assert!(line.contains("make about"), "{line}");
    let mut table = CausalConfig::preset("gpt2").expect("a preset");
    table.positions = Positions::Sinusoidal;
    (table.max_positions, table.width) = (1 << 20, 1 << 20);
    let line = table.validate().expect_err("refused").to_string();
    assert!(line.contains("table of sinusoidal positions"), "{line}");
    let image = ClassifierConfig {
        kind: ClassifierKind::Mlp,
        input: [1 << 16; 3],
        classes: 2,
        channels: Vec::new(),
        hidden: vec![1 << 16],
        dropout: 0.0,
        batch_norm: false,
    };
    let line = image.validate().expect_err("refused").to_string();
    assert!(line.contains("make about"), "{line}");
}

/// A folder of its own with a small model of HLX, removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(device: &Device) -> Self {
        let name = format!("hlx-hostile-sizes-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let sizes = TransformerConfig {
            vocabulary: 16,
            width: 8,
            n_layers: 1,
            n_heads: 2,
            feed_forward_width: 8,
            positions: 8,
            ..TransformerConfig::tiny()
        };
        let model = hlx_nn::Model::new(device, 1, |b| hlx_nn::CausalLm::new(b, &sizes.into()));
        save_model(&folder, &model.expect("a model")).expect("written");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_model_folder_with_hostile_sizes_names_its_file_and_takes_no_memory() {
    let device = hlx_core::testing::cpu().expect("the CPU device opens");
    let folder = Folder::new(&device);
    let path = folder.0.join("config.json");
    let whole: Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    for (key, number) in [
        ("n_layers", 1_u64 << 40),
        ("positions", 1 << 31),
        ("vocabulary", 1 << 62),
    ] {
        let mut changed = whole.clone();
        changed[key] = json!(number);
        fs::write(&path, changed.to_string()).expect("written");
        let lines = [
            load_model(&device, &folder.0)
                .expect_err("refused")
                .to_string(),
            load_language_model(&device, &folder.0)
                .expect_err("refused")
                .to_string(),
            read_language_model_config(&folder.0)
                .expect_err("refused")
                .to_string(),
        ];
        for line in lines {
            let expected = format!("{key} is {number}, expected at most ");
            assert!(
                line.contains("config.json: ") && line.contains(&expected),
                "{line}"
            );
        }
    }
    // Sizes within the bounds, of a model that is not in the file: terabytes.
    let mut changed = whole.clone();
    (changed["width"], changed["n_layers"]) = (json!(1 << 14), json!(1 << 10));
    changed["n_heads"] = json!(1 << 7);
    fs::write(&path, changed.to_string()).expect("written");
    let line = load_model(&device, &folder.0)
        .expect_err("refused")
        .to_string();
    assert!(line.contains("bytes, too few for the "), "{line}");
    let line = load_language_model(&device, &folder.0)
        .expect_err("refused")
        .to_string();
    assert!(line.contains("model.safetensors: has "), "{line}");
}
