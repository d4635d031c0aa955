//! `hlx import`, `hlx logits` and `hlx export`, from a Hugging Face folder and back to one.

mod common;

use std::collections::BTreeMap;
use std::fs;

use common::{SMALL_MODEL, Scratch};
use hlx_autograd::Tensor;
use hlx_io::{load_npy, load_safetensors, save_npy};
use hlx_nn::{CausalLm, Mode, Model, Module, Result, export_hugging_face};

const IDS: [u32; 6] = [1, 2, 3, 30, 20, 10];

/// A small GPT-2, whose files have other tensors than the module, written as a Hugging Face folder.
fn exported(place: &Scratch) -> Result<Model<CausalLm>> {
    let config = common::small_gpt2();
    let model = Model::new(&hlx_core::testing::cpu()?, 5, |b| CausalLm::new(b, &config))?;
    export_hugging_face(model.weights(), &config, &place.join("hub"))?;
    fs::write(place.join("hub/tokenizer.json"), "{}").expect("written");
    Ok(model)
}

#[test]
fn a_model_is_imported_computed_and_exported() -> Result<()> {
    let place = Scratch::new("hugging-face");
    let model = exported(&place)?;
    let device = model.weights().device().clone();
    let printed = place.succeeds(&["import", "hub", "--out", "mine"]);
    let n_parameters = model.weights().n_elements();
    assert_eq!(printed, format!("{n_parameters} parameters in mine\n"));

    let ids = Tensor::from_slice::<u32>(&device, &IDS, &[2, 3])?;
    save_npy(&place.join("ids.npy"), &ids).expect("written");
    let targets = Tensor::from_slice(&device, &[2_i32, 3, -100, 20, 10, 5], &[2, 3])?;
    save_npy(&place.join("targets.npy"), &targets).expect("written");
    let expected = model.forward(&ids, &Mode::eval())?.to_vec::<f32>()?;
    let mut printed = Vec::new();
    for name in ["mine", "hub"] {
        let inputs = [
            "logits",
            name,
            "--ids",
            "ids.npy",
            "--targets",
            "targets.npy",
        ];
        let outputs = [
            "--out",
            "l.npy",
            "--gradients",
            "g.safetensors",
            "--device",
            "cpu",
        ];
        printed.push(place.succeeds(&[&inputs[..], &outputs].concat()));
        let logits = load_npy(&device, &place.join("l.npy")).expect("read");
        assert_eq!(logits.shape(), [2, 3, 31]);
        assert_eq!(logits.to_vec::<f32>()?, expected);
    }
    assert!(
        printed[0].starts_with("loss 3.") && printed[0] == printed[1],
        "{printed:?}"
    );
    let gradients = load_safetensors(&device, &place.join("g.safetensors")).expect("read");
    let packed = &gradients["transformer.h.0.attn.c_attn.weight"];
    assert_eq!(packed.shape(), [12, 36]);
    assert_eq!(gradients.len(), 16);
    place.succeeds(&["logits", "mine", "--ids", "ids.npy", "--out", "l2.npy"]);

    place.succeeds(&["export", "mine", "again"]);
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        let read = |folder: &str| fs::read(place.join(&format!("{folder}/{name}"))).expect("there");
        assert_eq!(read("again"), read("hub"), "{name}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_read_is_said_in_one_line() -> Result<()> {
    let place = Scratch::new("hugging-face-refused");
    let model = exported(&place)?;
    let device = model.weights().device().clone();
    let refused = |arguments: &[&str]| place.fails(arguments);
    let error = refused(&["import", "hub", "--out", "hub"]);
    assert_eq!(error, "error: hub: is the folder that is read");
    let error = refused(&["export", "hub", "hub"]);
    assert_eq!(error, "error: hub: is the folder that is read");
    let error = refused(&["logits", "nothing", "--ids", "ids.npy", "--out", "l.npy"]);
    let expected = "error: nothing: holds neither a run nor a model's config.json";
    assert_eq!(error, expected);
    let logits = |ids: &Tensor| {
        save_npy(&place.join("ids.npy"), ids).expect("written");
        refused(&["logits", "hub", "--ids", "ids.npy", "--out", "l.npy"])
    };
    let error = logits(&Tensor::from_slice::<u32>(&device, &[1, 31], &[1, 2])?);
    let expected = "error: ids: number 1 is outside of the vocabulary of 31";
    assert_eq!(error, expected);
    let error = logits(&Tensor::from_slice::<u32>(&device, &[1; 9], &[1, 9])?);
    let expected = "error: causal model: ids has shape [1, 9], expected [batch, time] with at most \
                    8 positions";
    assert_eq!(error, expected);
    let error = logits(&Tensor::ones(&device, &[1, 2], hlx_autograd::DType::F32)?);
    let expected = "error: ids: shape [1, 2] of f32, expected whole numbers of [batch, time]";
    assert_eq!(error, expected);
    let mut keys: BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&fs::read(place.join("hub/config.json")).expect("there"))
            .expect("an object");
    keys.insert("quantization_config".to_owned(), serde_json::json!({}));
    let text = serde_json::to_string(&keys).expect("written");
    fs::write(place.join("hub/config.json"), text).expect("written");
    let error = refused(&["import", "hub"]);
    let expected = "error: hub/config.json: `quantization_config` says that the weights are quantized, and \
                    only those in f32, f16 and bf16 are read; take the folder of the model before it \
                    was quantized";
    assert_eq!(error, expected);
    Ok(())
}

/// A folder is read several times by one command, and under several names.
#[test]
fn a_line_about_a_folder_is_printed_once() {
    let place = Scratch::exported("hugging-face-line", SMALL_MODEL);
    let ids =
        Tensor::from_slice::<u32>(&hlx_core::testing::cpu().expect("opens"), &[5, 9], &[1, 2]);
    save_npy(&place.join("ids.npy"), &ids.expect("made")).expect("written");
    let config = fs::read_to_string(place.join("hub/config.json")).expect("there");
    let config = config.replacen('{', "{ \"mlp_bias\": true,", 1);
    place.write("hub/config.json", &config);
    let tuned = SMALL_MODEL.replace("architecture = \"qwen3\"", "config = \"hub\"");
    let is_size = |line: &&str| {
        let sizes = ["width", "n_", "feed", "positions"];
        sizes.iter().any(|size| line.starts_with(size))
    };
    let lines: Vec<&str> = tuned.lines().filter(|line| !is_size(line)).collect();
    place.write("tune.toml", &lines.join("\n"));
    for verb in [
        "import hub --out imported",
        "logits hub --ids ids.npy --out l.npy",
        "generate hub --prompt river --max-tokens 2",
        "train tune.toml --out tuned --set train.init_from=hub",
    ] {
        let arguments: Vec<&str> = verb.split(' ').collect();
        let (code, _, printed) = common::status(&place, &arguments);
        assert_eq!(code, 0, "{verb}: {printed}");
        let line = "hub/config.json: `mlp_bias` is left out: it is no key of Qwen3ForCausalLM, and changes nothing there";
        assert_eq!(printed.matches(line).count(), 1, "{verb}: {printed}");
    }
}

#[test]
fn a_run_of_hlxs_own_transformer_is_exported_with_its_logits() -> Result<()> {
    let place = Scratch::new("own-exported");
    let train = ["train", "config.toml", "--out", "run"];
    place.succeeds(&[&train[..], &["--set", "train.max_steps=2"]].concat());
    place.succeeds(&["export", "run", "hub"]);
    let device = hlx_core::testing::cpu()?;
    let ids = Tensor::from_slice::<u32>(&device, &IDS, &[2, 3])?;
    save_npy(&place.join("ids.npy"), &ids).expect("written");
    let logits = ["run", "hub"].map(|model| {
        let arguments = ["logits", model, "--ids", "ids.npy", "--out", "l.npy"];
        place.succeeds(&arguments);
        let logits = load_npy(&device, &place.join("l.npy")).expect("read");
        logits.to_vec::<f32>().expect("downloaded")
    });
    assert_eq!(logits[0], logits[1]);
    Ok(())
}
