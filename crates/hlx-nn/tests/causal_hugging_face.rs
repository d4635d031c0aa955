//! Every architecture against `transformers`: tiny random models, their logits and gradients.
//!
//! The references are `fixtures/causal/*.safetensors`, made by `fixtures/make_causal.py`; neither PyTorch
//! nor `transformers` is needed here. Weights are made on both sides from names and a counter.

#[path = "causal_hugging_face/circulating.rs"]
mod circulating;
#[path = "causal_hugging_face/configs.rs"]
mod configs;
#[path = "causal_hugging_face/folders.rs"]
mod folders;
#[path = "causal_hugging_face/quantised.rs"]
mod quantised;
#[path = "causal_hugging_face/refused.rs"]
mod refused;
#[path = "causal_hugging_face/tied.rs"]
mod tied;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use half::{bf16, f16};
use hlx_autograd::{BackwardPlan, Tensor};
use hlx_core::Device;
use hlx_nn::{
    CausalInput, CausalLm, CausalModel, Mode, Model, Module, ParameterLayout, TransformerConfig,
    export_hugging_face, has_blocks, hugging_face_tensors, import_hugging_face, import_in_blocks,
    read_hugging_face_config,
};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

/// Tolerance of a logit, as a part of the largest.
const LOGIT_TOLERANCE: f32 = 1e-4;
/// Tolerance of a gradient, as a part of the largest of its tensor.
const GRADIENT_TOLERANCE: f32 = 1e-4;

type Error = Box<dyn std::error::Error>;
type Result<T = ()> = std::result::Result<T, Error>;

const NAMES: [&str; 10] = [
    "gpt2",
    "llama2",
    "llama3",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "gemma2",
    "gemma3",
];

/// What `make_causal.py` wrote for a model.
struct Fixture {
    values: BTreeMap<String, (Vec<usize>, Vec<u32>)>,
    config: String,
    tensors: BTreeMap<String, Vec<usize>>,
}

impl Fixture {
    fn read(name: &str) -> Result<Self> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/causal");
        let bytes = fs::read(format!("{folder}/{name}.safetensors"))?;
        let (_, metadata) = SafeTensors::read_metadata(&bytes)?;
        let named = metadata.metadata().as_ref().ok_or("no metadata")?;
        let file = SafeTensors::deserialize(&bytes)?;
        let words = |view: &TensorView<'_>| {
            let words = view.data().as_chunks::<4>().0.iter();
            words.map(|&word| u32::from_le_bytes(word)).collect()
        };
        let values = file.tensors().into_iter();
        let values = values.map(|(name, view)| (name, (view.shape().to_vec(), words(&view))));
        Ok(Self {
            values: values.collect(),
            config: named["config"].clone(),
            tensors: serde_json::from_str(&named["tensors"])?,
        })
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.values[name]
            .1
            .iter()
            .map(|&word| f32::from_bits(word))
            .collect()
    }

    fn ids(&self, device: &Device, name: &str) -> Result<Tensor> {
        let (shape, words) = &self.values[name];
        // -100, where a position counts nothing, becomes IGNORE_INDEX.
        let ignored = hlx_autograd::IGNORE_INDEX;
        let words: Vec<u32> = words
            .iter()
            .map(|&word| if word > 1 << 31 { ignored } else { word })
            .collect();
        Ok(Tensor::from_slice::<u32>(device, &words, shape)?)
    }
}

/// The weights of `make_causal.py`.
fn weights(name: &str, shape: &[usize], around_zero: bool) -> Vec<f32> {
    let seed = name.bytes().fold(0x811c_9dc5_u32, |state, byte| {
        (state ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let is_gain = shape.len() == 1 && name.ends_with(".weight") && !around_zero;
    let is_table = ["embed", "wte", "wpe"]
        .iter()
        .any(|part| name.contains(part));
    let scale = if is_table { 2.0 } else { 0.5 };
    let value = |index: u32| {
        let mut x = index.wrapping_mul(0x9e37_79b1).wrapping_add(seed);
        x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
        x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
        x ^= x >> 16;
        let unit = (x >> 8) as f32 / 16_777_216.0 - 0.5;
        if is_gain {
            1.0 + unit * scale
        } else {
            unit * scale
        }
    };
    let count: usize = shape.iter().product();
    (0..count as u32).map(value).collect()
}

/// Named tensors of a type with this many bytes per element.
type Tensors = BTreeMap<String, (Vec<usize>, Vec<u8>)>;

fn made(fixture: &Fixture, name: &str) -> Tensors {
    made_of(&fixture.tensors, name)
}

fn made_of(tensors: &BTreeMap<String, Vec<usize>>, name: &str) -> Tensors {
    let bytes = |tensor: &str, shape: &[usize]| {
        let values = weights(tensor, shape, name.starts_with("gemma"));
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    tensors
        .iter()
        .map(|(tensor, shape)| (tensor.clone(), (shape.clone(), bytes(tensor, shape))))
        .collect()
}

fn write(path: &Path, tensors: &Tensors, dtype: Dtype) -> Result {
    let mut views = Vec::new();
    for (name, (shape, bytes)) in tensors {
        views.push((name.as_str(), TensorView::new(dtype, shape.clone(), bytes)?));
    }
    fs::write(path, safetensors::serialize(views, None)?)?;
    Ok(())
}

/// An empty folder of a test.
fn folder(name: &str) -> Result<PathBuf> {
    // Tests run beside each other.
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let unique = format!("hlx-causal-{}-{number}-{name}", std::process::id());
    let folder = std::env::temp_dir().join(unique);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A folder with the model of a fixture, as the hub has it.
fn model_folder(fixture: &Fixture, name: &str, purpose: &str) -> Result<PathBuf> {
    let folder = folder(&format!("{name}-{purpose}"))?;
    fs::write(folder.join("config.json"), &fixture.config)?;
    write(
        &folder.join("model.safetensors"),
        &made(fixture, name),
        Dtype::F32,
    )?;
    Ok(folder)
}

fn assert_near(name: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let largest = expected
        .iter()
        .fold(0.0_f32, |largest, x| largest.max(x.abs()));
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / largest;
        assert!(
            error <= tolerance,
            "{name}[{at}]: {found}, expected {expected} ({error:e})"
        );
    }
}

fn check(device: &Device, name: &str) -> Result {
    let fixture = Fixture::read(name)?;
    let folder = model_folder(&fixture, name, &format!("on-{}", device.is_cpu()))?;
    let model = import_hugging_face(device, &folder)?;
    fs::remove_dir_all(&folder)?;
    let ids = fixture.ids(device, "ids")?.with_samples(0)?;
    let targets = fixture.ids(device, "targets")?;
    let mode = Mode::eval();
    let logits = model.logits(&CausalInput::new(&ids), &mode)?;
    assert_near(
        name,
        &logits.to_vec::<f32>()?,
        &fixture.floats("logits"),
        LOGIT_TOLERANCE,
    );
    let counted = fixture.values["targets"]
        .1
        .iter()
        .filter(|&&id| id < 1 << 31);
    let scale = Tensor::from_slice(device, &[1.0 / counted.count() as f32], &[1])?;
    let loss = logits.cross_entropy_scaled(&targets, &scale, 0.0)?;
    assert_near(name, &loss.to_vec::<f32>()?, &fixture.floats("loss"), 1e-5);
    loss.backward_with(&BackwardPlan::default())?;
    model.weights().check_gradients()?;
    let weights = model.weights();
    let gradients = hugging_face_tensors(weights, weights.gradients()?, model.config().family())?;
    assert_eq!(gradients.len(), fixture.tensors.len());
    for (tensor, _, found) in gradients {
        let expected = fixture.floats(&format!("gradient.{tensor}"));
        let stride = (found.len() / 96).max(1);
        let sampled: Vec<f32> = found.iter().copied().step_by(stride).collect();
        let label = format!("{name} {tensor}");
        assert_near(&label, &sampled, &expected, GRADIENT_TOLERANCE);
        let norm = found
            .iter()
            .map(|&x| f64::from(x).powi(2))
            .sum::<f64>()
            .sqrt() as f32;
        let expected = fixture.floats(&format!("norm.{tensor}"));
        assert_near(&label, &[norm], &expected, GRADIENT_TOLERANCE);
    }
    Ok(())
}

#[test]
fn logits_and_gradients_are_those_of_transformers() -> Result {
    for device in hlx_core::testing::devices() {
        for name in NAMES {
            check(device, name)?;
        }
    }
    Ok(())
}

/// Writes a fixture's model, imports it, exports it, and compares the tensors bit by bit.
#[test]
fn an_exported_folder_has_the_tensors_that_were_imported() -> Result {
    let device = hlx_core::testing::cpu()?;
    for name in NAMES {
        let fixture = Fixture::read(name)?;
        let from = model_folder(&fixture, name, "imported")?;
        let model = import_hugging_face(&device, &from)?;
        let to = folder(&format!("{name}-exported"))?;
        export_hugging_face(model.weights(), model.config(), &to)?;
        let bytes = fs::read(to.join("model.safetensors"))?;
        let found = SafeTensors::deserialize(&bytes)?;
        let expected = made(&fixture, name);
        assert_eq!(found.len(), expected.len(), "{name}");
        for (tensor, (shape, bytes)) in &expected {
            let view = found.tensor(tensor)?;
            assert_eq!(
                (view.shape(), view.data()),
                (&shape[..], &bytes[..]),
                "{name} {tensor}"
            );
        }
        assert_eq!(&read_hugging_face_config(&to)?, model.config(), "{name}");
        fs::remove_dir_all(&from)?;
        fs::remove_dir_all(&to)?;
    }
    Ok(())
}

#[test]
fn sharded_files_of_16_bits_give_the_rounded_model() -> Result {
    let device = hlx_core::testing::cpu()?;
    let fixture = Fixture::read("qwen3")?;
    let folder = folder("sharded")?;
    fs::write(folder.join("config.json"), &fixture.config)?;
    // bf16: the upper halves of the words.
    let halves = |bytes: &[u8]| {
        bytes
            .as_chunks::<4>()
            .0
            .iter()
            .flat_map(|b| [b[2], b[3]])
            .collect()
    };
    let all = made(&fixture, "qwen3").into_iter();
    let all: Tensors = all
        .map(|(n, (shape, bytes))| (n, (shape, halves(&bytes))))
        .collect();
    let (mut map, mut shards) = (BTreeMap::new(), [Tensors::new(), Tensors::new()]);
    for (at, (tensor, values)) in all.iter().enumerate() {
        let file = format!("model-0000{}-of-00002.safetensors", at % 2 + 1);
        map.insert(tensor.clone(), file);
        shards[at % 2].insert(tensor.clone(), values.clone());
    }
    for (at, shard) in shards.iter().enumerate() {
        let path = folder.join(format!("model-0000{}-of-00002.safetensors", at + 1));
        write(&path, shard, Dtype::BF16)?;
    }
    let index = folder.join("model.safetensors.index.json");
    fs::write(
        &index,
        serde_json::json!({"metadata": {}, "weight_map": map}).to_string(),
    )?;
    let model = import_hugging_face(&device, &folder)?;
    for (parameter, values) in model
        .weights()
        .parameters()
        .iter()
        .zip(model.weights().download(model.weights().values())?)
    {
        let expected = all[parameter.name()].1.as_chunks::<2>().0.iter();
        let expected = expected.map(|&[low, high]| f32::from_le_bytes([0, 0, low, high]));
        assert!(values.into_iter().eq(expected), "{}", parameter.name());
    }
    map.insert(
        "model.norm.weight".to_owned(),
        "model-00003-of-00002.safetensors".to_owned(),
    );
    fs::write(&index, serde_json::json!({"weight_map": map}).to_string())?;
    let error = import_hugging_face(&device, &folder).expect_err("a shard is missing");
    assert!(
        error
            .to_string()
            .contains("model-00003-of-00002.safetensors"),
        "{error}"
    );
    fs::remove_dir_all(&folder)?;
    Ok(())
}
