//! A base in NF4, as bitsandbytes writes it: what a folder of a few matrices becomes, and all that is done with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hlx_kernels::product::blocks::NF4_NUMBERS;
use hlx_train::opening::{Opened, Opening};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

use crate::common::Scratch;

/// Values of a block.
const BLOCK: usize = 64;

type Tensors = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// Writes the model of the folder `hub` with its layers' matrices in NF4, as the folder `base`.
pub fn write_base(place: &Scratch) {
    let from = place.join("hub");
    let to = place.join("base");
    fs::create_dir(&to).expect("made");
    for entry in fs::read_dir(&from).expect("there") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
    }
    let config = fs::read(from.join("config.json")).expect("there");
    let mut config: Value = serde_json::from_slice(&config).expect("JSON");
    config["quantization_config"] = json!({
        "quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_quant_storage": "uint8", "bnb_4bit_compute_dtype": "float32",
    });
    fs::write(to.join("config.json"), config.to_string()).expect("written");
    let bytes = fs::read(from.join("model.safetensors")).expect("there");
    let mut tensors = Tensors::new();
    for (name, view) in SafeTensors::deserialize(&bytes).expect("tensors").tensors() {
        match name.contains("_proj.") {
            true => quantise(&name, &view, &mut tensors),
            false => {
                let part = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
                tensors.insert(name, part);
            }
        }
    }
    write(&to, &tensors);
}

fn write(folder: &Path, tensors: &Tensors) {
    let views = tensors.iter().map(|(name, (dtype, shape, bytes))| {
        (
            name,
            TensorView::new(*dtype, shape.clone(), bytes).expect("a view"),
        )
    });
    let bytes = safetensors::serialize(views, None).expect("written");
    fs::write(folder.join("model.safetensors"), bytes).expect("written");
}

/// Adds a matrix in NF4: the nearest of the table's numbers, times the largest magnitude of a block.
fn quantise(name: &str, view: &TensorView<'_>, tensors: &mut Tensors) {
    let words = view.data().as_chunks::<4>().0.iter();
    let values: Vec<f32> = words.map(|&word| f32::from_le_bytes(word)).collect();
    let (mut places, mut scales) = (Vec::new(), Vec::new());
    for block in values.chunks(BLOCK) {
        let scale = block.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        places.extend(block.iter().map(|x| {
            let far = |place: &u8| (NF4_NUMBERS[usize::from(*place)] * scale - x).abs();
            (0..16)
                .min_by(|a, b| far(a).total_cmp(&far(b)))
                .unwrap_or(0)
        }));
        scales.push(scale);
    }
    let bytes: Vec<u8> = places
        .as_chunks::<2>()
        .0
        .iter()
        .map(|[a, b]| a << 4 | b)
        .collect();
    let floats = |values: &[f32]| -> (Dtype, Vec<usize>, Vec<u8>) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        (Dtype::F32, vec![values.len()], bytes.collect())
    };
    let state =
        json!({"quant_type": "nf4", "blocksize": BLOCK, "shape": view.shape(), "dtype": "float32"});
    let state = state.to_string().into_bytes();
    let part = |part: &str| format!("{name}.{part}");
    tensors.insert(part("absmax"), floats(&scales));
    tensors.insert(part("quant_map"), floats(&NF4_NUMBERS));
    tensors.insert(
        part("quant_state.bitsandbytes__nf4"),
        (Dtype::U8, vec![state.len()], state),
    );
    tensors.insert(name.to_owned(), (Dtype::U8, vec![bytes.len(), 1], bytes));
}

fn opened(place: &Scratch, name: &str, opening: Opening<'_>) -> Opened {
    let device = hlx_core::testing::cpu().expect("opens");
    hlx_train::model_folder::open_as(&device, &place.join(name), opening).expect("opens")
}

#[test]
fn a_folder_stays_in_its_blocks_and_has_the_values_of_a_widened_one() {
    let place = super::place("nf4", "nf4");
    // Of the layer's seven matrices, the one whose rows are no whole blocks is widened.
    let Opened::Half(model) = opened(&place, "base", Opening::default()) else {
        panic!("a model in blocks");
    };
    let parameters = model.parameters().iter();
    let in_blocks = parameters.filter(|one| one.tensor().is_ok_and(|one| one.is_of_blocks()));
    assert_eq!(in_blocks.count(), 6);

    // Brought in as it is stored, or widened: the values are the same, and the tensors are where they stay.
    place.succeeds(&["import", "base", "--out", "own"]);
    place.succeeds(&["import", "base", "--widen", "--out", "wide"]);
    let digests = |name: &str| -> (String, Option<String>) {
        let text = place.succeeds(&["digest", name, "--json"]);
        let found: Value = serde_json::from_str(&text).expect("JSON");
        let stored = found["stored"].as_str().map(str::to_owned);
        (found["parameters"].to_string(), stored)
    };
    let base = digests("base");
    assert!(base.1.is_some());
    assert_eq!(digests("own"), base);
    assert_eq!(digests("wide"), (base.0.clone(), None));

    // Files of other programs have no NF4.
    place.succeeds(&["export", "base", "--gguf", "--out", "wide.gguf"]);
    assert_eq!(digests("wide.gguf").0, base.0);
    place.succeeds(&["quantize", "base", "--to", "q8_0", "--out", "other.gguf"]);
    assert_ne!(digests("other.gguf").0, base.0);

    // The same text by every path; the widened one is the formula's.
    let text = |more: &[&str]| {
        let line = [
            "--prompt",
            "the river",
            "--max-tokens",
            "6",
            "--temperature",
            "0",
        ];
        place.succeeds(&[&["generate"], more, &line].concat())
    };
    assert_eq!(text(&["base"]), text(&["own"]));
    assert_eq!(
        text(&["base", "--arithmetic", "portable"]),
        text(&["wide", "--arithmetic", "portable"])
    );
}

#[test]
fn a_damaged_folder_is_refused_in_one_line() {
    let place = super::place("nf4-bad", "nf4");
    let bytes = fs::read(place.join("base").join("model.safetensors")).expect("there");
    let all = SafeTensors::deserialize(&bytes).expect("tensors").tensors();
    let of = |view: &TensorView<'_>| (view.dtype(), view.shape().to_vec(), view.data().to_vec());
    let all: Tensors = all
        .iter()
        .map(|(name, view)| (name.clone(), of(view)))
        .collect();
    let name = all.keys().find(|name| name.ends_with("q_proj.weight"));
    let name = name.expect("a matrix").clone();
    let part = |part: &str| format!("{name}.{part}");
    let lora = super::lora_over(&place);
    let refused = |change: &dyn Fn(&mut Tensors), expected: &str| {
        let mut tensors = all.clone();
        change(&mut tensors);
        write(&place.join("base"), &tensors);
        for line in [
            &["digest", "base"][..],
            &["import", "base", "--out", "own"],
            &["train", "config.toml", "--out", "bad", "--set", &lora],
        ] {
            let found = place.fails(line);
            assert_eq!(found.trim_end().lines().count(), 1, "{found}");
            assert!(found.contains(expected), "{line:?}: {found}");
        }
    };
    let with = |part: String, at: usize, value: f32| {
        move |tensors: &mut Tensors| {
            let (_, _, bytes) = tensors.get_mut(&part).expect("there");
            bytes[4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
        }
    };
    refused(
        &with(part("absmax"), 3, f32::INFINITY),
        &format!("{name} holds 64 NaN or infinite values"),
    );
    refused(
        &with(part("quant_map"), 2, f32::NAN),
        &format!("{name} holds "),
    );
    refused(
        &|tensors| _ = tensors.remove(&part("absmax")),
        &format!("the tensor {name}.absmax is missing"),
    );
    refused(
        &|tensors| {
            let (_, shape, bytes) = tensors.get_mut(&part("absmax")).expect("there");
            bytes.truncate(4 * 63);
            *shape = vec![63];
        },
        &format!("{name}.absmax has shape [63], expected [64]"),
    );
    let state = part("quant_state.bitsandbytes__nf4");
    refused(
        &|tensors| {
            let (_, shape, bytes) = tensors.get_mut(&state).expect("there");
            *bytes =
                br#"{"quant_type": "nf4", "blocksize": 64, "shape": [4611686018427387904, 4]}"#
                    .to_vec();
            *shape = vec![bytes.len()];
        },
        "which are no matrix of shape",
    );
}
