//! Adapters of GPT-2 against the library PEFT: its matrices are \[in, out\], and queries, keys and values are one
//! module (`tests/fixtures/make_lora_gpt2.py`).

use std::collections::HashMap;
use std::fs;

use hlx_autograd::{Tensor, no_grad};
use hlx_core::Device;
use hlx_nn::{
    Architecture, CausalConfig, CausalInput, CausalLm, CausalModel, LoraConfig, Mode, Model,
    NnError, Parameter, Result, Weights, hugging_face_tensors, import_hugging_face, peft_config,
    read_peft_config,
};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

const FIXTURE: &[u8] = include_bytes!("fixtures/lora_gpt2.safetensors");

const FAMILY: Option<Architecture> = Some(Architecture::Gpt2);

/// What the script wrote beside the tensors.
fn metadata() -> HashMap<String, String> {
    let (_, metadata) = SafeTensors::read_metadata(FIXTURE).expect("reads");
    metadata.metadata().clone().expect("there")
}

/// A tensor's shape and its words as f32.
fn values(file: &SafeTensors<'_>, name: &str) -> (Vec<usize>, Vec<f32>) {
    let view = file.tensor(name).expect(name);
    let words = view.data().as_chunks::<4>().0.iter();
    let values = words.map(|&word| f32::from_le_bytes(word)).collect();
    (view.shape().to_vec(), values)
}

fn fixture(name: &str) -> Vec<f32> {
    values(&SafeTensors::deserialize(FIXTURE).expect("reads"), name).1
}

/// The fixture's tensors of a prefix as a file.
fn file_of(prefix: &str) -> Vec<u8> {
    let file = SafeTensors::deserialize(FIXTURE).expect("reads");
    let tensors = file.tensors().into_iter();
    let own = tensors.filter_map(|(name, view)| {
        let name = name.strip_prefix(prefix)?.to_owned();
        let view = TensorView::new(Dtype::F32, view.shape().to_vec(), view.data());
        Some((name, view.expect("a view")))
    });
    safetensors::serialize(own, None).expect("writes")
}

fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        let tolerance = 1e-5 * expected.abs().max(1.0);
        let error = (found - expected).abs();
        assert!(error <= tolerance, "{what}: {found} {expected}");
    }
}

fn logits(model: &Model<CausalLm>) -> Result<Vec<f32>> {
    let words: Vec<u32> = fixture("ids").iter().map(|id| id.to_bits()).collect();
    let ids = Tensor::from_slice::<u32>(model.weights().device(), &words, &[2, 6])?;
    let logits = no_grad(|| model.logits(&CausalInput::new(&ids), &Mode::eval()))?;
    Ok(logits.to_vec::<f32>()?)
}

#[test]
fn an_adapter_of_peft_computes_what_peft_computes() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("hlx-lora-gpt2-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("made");
    fs::write(folder.join("config.json"), &metadata()["config"]).expect("written");
    fs::write(folder.join("model.safetensors"), file_of("base.")).expect("written");
    for device in hlx_core::testing::devices() {
        let base = import_hugging_face(device, &folder)?;
        assert_close("plain", &logits(&base)?, &fixture("plain"));
        let lora = read_peft_config(metadata()["adapter_config"].as_bytes(), base.config())?;
        assert_eq!((lora.rank, lora.alpha), (2, 5.0));
        let adapted = Model::zeroed(device, |b| {
            b.with_lora(lora.clone());
            CausalLm::new(b, base.config())
        })?;
        let weights = adapted.weights();
        weights.load_base_safetensors(&base.weights().to_safetensors()?)?;
        weights.load_lora(&file_of("adapter."), &lora, FAMILY)?;
        let found = logits(&adapted)?;
        assert_close("logits", &found, &fixture("logits"));

        // What is written has other factors, with the same products, and computes the same.
        let written = weights.lora_to_safetensors(&lora, FAMILY)?;
        for adapter in factors(weights, "") {
            device.fill(&adapter.tensor()?.detach().buffer()?, 0)?;
        }
        assert_close("plain", &logits(&adapted)?, &fixture("plain"));
        weights.load_lora(&written, &lora, FAMILY)?;
        assert_eq!(logits(&adapted)?, found);

        weights.merge_lora(&lora)?;
        assert_close("merged", &logits(&adapted)?, &fixture("logits"));
        let tensors = hugging_face_tensors(weights, weights.values(), FAMILY)?;
        let merged = tensors.iter().filter_map(|(name, _, values)| {
            let name = format!("merged.{name}");
            let file = SafeTensors::deserialize(FIXTURE).expect("reads");
            file.tensor(&name).is_ok().then_some((name, values))
        });
        let merged: Vec<_> = merged.collect();
        assert_eq!(merged.len(), 4);
        for (name, values) in merged {
            assert_close(&name, values, &fixture(&name));
        }
    }
    fs::remove_dir_all(&folder).expect("removed");
    Ok(())
}

/// The factors of all adapters, or those of one kind.
fn factors<'a>(weights: &'a Weights, kind: &'a str) -> impl Iterator<Item = &'a Parameter> {
    let all = weights.parameters().iter();
    all.filter(move |one| one.name().contains(".lora_") && one.name().contains(kind))
}

/// A GPT-2 with adapters of rank 2, and every factor with values of its own.
fn gpt2(device: &Device, targets: &[&str]) -> Result<(Model<CausalLm>, LoraConfig)> {
    let sizes = CausalConfig {
        vocabulary: 11,
        width: 6,
        n_layers: 1,
        n_heads: 2,
        n_kv_heads: 2,
        head_width: 3,
        feed_forward_width: 8,
        max_positions: 5,
        ..CausalConfig::preset("gpt2").expect("a preset")
    };
    let lora = LoraConfig {
        rank: 2,
        alpha: 3.0,
        targets: targets.iter().map(|&target| target.to_owned()).collect(),
        ..LoraConfig::default()
    };
    let model = Model::new(device, 5, |b| {
        b.with_lora(lora.clone());
        CausalLm::new(b, &sizes)
    })?;
    for (number, b) in factors(model.weights(), ".lora_B").enumerate() {
        let n: usize = b.shape().iter().product();
        let values: Vec<f32> = (0..n)
            .map(|i| ((i + 7 * number + 1) as f32).sin())
            .collect();
        device.upload(&b.tensor()?.detach().buffer()?, &values)?;
    }
    Ok((model, lora))
}

/// Queries, keys and values of GPT-2 are one module: its adapter has theirs as blocks.
#[test]
fn adapters_of_one_module_are_joined_and_taken_apart() -> Result<()> {
    const MODULE: &str = "base_model.model.transformer.h.0.attn.c_attn";
    let device = hlx_core::testing::cpu()?;
    for (targets, n_layers) in [
        (&["*_proj"][..], 3),
        (&["*.q_proj", "*.v_proj"], 2),
        (&["*.k_proj"], 1),
    ] {
        let (model, lora) = gpt2(&device, targets)?;
        let bytes = model.weights().lora_to_safetensors(&lora, FAMILY)?;
        let file = SafeTensors::deserialize(&bytes).expect("reads");
        let (a_shape, a) = values(&file, &format!("{MODULE}.lora_A.weight"));
        let (b_shape, b) = values(&file, &format!("{MODULE}.lora_B.weight"));
        let whole = 2 * n_layers;
        assert_eq!(
            (&a_shape[..], &b_shape[..]),
            (&[whole, 6][..], &[18, whole][..])
        );
        // The product is that of each layer's own factors.
        for (part, name) in ["q", "k", "v"].into_iter().enumerate() {
            let own = |end: &str| {
                let name = format!("model.layers.0.self_attn.{name}_proj.{end}.weight");
                model
                    .weights()
                    .get(&name)
                    .map(|one| Ok::<_, NnError>(one.tensor()?.detach().to_vec::<f32>()?))
            };
            let factors = own("lora_A").zip(own("lora_B"));
            let factors = factors
                .map(|(a, b)| Ok::<_, NnError>((a?, b?)))
                .transpose()?;
            for (row, column) in (0..6).flat_map(|row| (0..6).map(move |column| (row, column))) {
                let joined: f32 = (0..whole)
                    .map(|k| b[(6 * part + row) * whole + k] * a[k * 6 + column])
                    .sum();
                let apart = factors.as_ref().map_or(0.0, |(a, b)| {
                    (0..2).map(|k| b[2 * row + k] * a[6 * k + column]).sum()
                });
                assert_eq!(joined, apart, "{name} {row} {column}");
            }
        }
        let text = peft_config(&lora, model.weights(), FAMILY).expect("JSON");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(json["fan_in_fan_out"], true);
        let module = "transformer.h.0.attn.c_attn";
        if n_layers > 1 {
            assert_eq!(json["rank_pattern"][module], whole);
            assert_eq!(json["alpha_pattern"][module], 3.0 * n_layers as f64);
        } else {
            assert_eq!(json["rank_pattern"], serde_json::json!({}));
        }

        // Read again it is the same, bit for bit.
        if n_layers == 3 {
            let read = read_peft_config(text.as_bytes(), model.config())?;
            assert_eq!((read.rank, read.alpha, read.targets.len()), (2, 3.0, 6));
        }
        let digest = model.weights().digest()?;
        for adapter in factors(model.weights(), "") {
            device.fill(&adapter.tensor()?.detach().buffer()?, 0)?;
        }
        assert_ne!(model.weights().digest()?, digest);
        model.weights().load_lora(&bytes, &lora, FAMILY)?;
        assert_eq!(model.weights().digest()?, digest);
    }
    Ok(())
}

#[test]
fn an_adapter_that_the_layers_cannot_express_is_refused() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let (all, lora) = gpt2(&device, &["*_proj"])?;
    let bytes = all.weights().lora_to_safetensors(&lora, FAMILY)?;
    let refused = |targets: &[&str], bytes: &[u8]| -> Result<String> {
        let (model, lora) = gpt2(&device, targets)?;
        let digest = model.weights().digest()?;
        let error = model.weights().load_lora(bytes, &lora, FAMILY);
        assert_eq!(model.weights().digest()?, digest, "nothing is written");
        Ok(error.expect_err("refused").to_string())
    };
    let two = [
        "*.q_proj",
        "*.v_proj",
        "*.o_proj",
        "*.up_proj",
        "*.down_proj",
    ];
    assert_eq!(
        refused(&two, &bytes)?,
        "adapter: base_model.model.transformer.h.0.attn.c_attn.lora_A.weight has shape [6, 6], \
         expected [2, 6]"
    );
    // One word outside of the blocks.
    let file = SafeTensors::deserialize(&bytes).expect("reads");
    let name = "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight";
    let last_of_first_row = file.tensor(name).expect(name).data()[20..].as_ptr() as usize;
    let at = last_of_first_row - bytes.as_ptr() as usize;
    let mut changed = bytes.clone();
    changed[at..at + 4].copy_from_slice(&1.0_f32.to_le_bytes());
    assert_eq!(
        refused(&["*_proj"], &changed)?,
        "adapter: base_model.model.transformer.h.0.attn.c_attn of rank 6 is not made of 3 adapters \
         of rank 2"
    );
    changed[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    assert!(refused(&["*_proj"], &changed)?.starts_with("adapter: base_model"));
    Ok(())
}

#[test]
fn keys_that_change_an_adapters_result_are_refused_by_name() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let (model, _) = gpt2(&device, &["*_proj"])?;
    let base = serde_json::json!({
        "peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "lora_dropout": 0.1,
        "target_modules": ["c_attn", "mlp.c_proj"], "modules_to_save": null, "use_dora": false,
        "loftq_config": {}, "megatron_core": "megatron.core", "init_lora_weights": true,
    });
    let read = |key: &str, value: serde_json::Value| {
        let mut keys = base.clone();
        keys[key] = value;
        read_peft_config(keys.to_string().as_bytes(), model.config())
    };
    let found = read("r", 4.into())?;
    let layer = |name: &str| format!("model.layers.0.{name}_proj");
    let expected = ["self_attn.q", "self_attn.k", "self_attn.v", "mlp.down"].map(layer);
    assert_eq!(found.targets, expected);
    for (key, value, expected) in [
        (
            "use_dora",
            "yes".into(),
            "`use_dora` is \"yes\", expected true or false",
        ),
        (
            "modules_to_save",
            serde_json::json!(["wpe", "score"]),
            "`modules_to_save` names score, which the model does not have",
        ),
        (
            "modules_to_save",
            "wpe".into(),
            "`modules_to_save` is \"wpe\", expected a list of names",
        ),
        (
            "bias",
            "all".into(),
            "`bias` is \"all\", which is not known here",
        ),
        ("r", "4".into(), "`r` is missing or no number"),
        ("r", 0.into(), "lora: rank is 0, expected at least 1"),
        (
            "r",
            65_537.into(),
            "lora: rank is 65537, expected at most 65536",
        ),
        ("peft_type", "IA3".into(), "`peft_type` is not LORA"),
        (
            "rank_pattern",
            serde_json::json!({"c_attn": 2.5}),
            "`rank_pattern`: transformer.h.0.attn.c_attn has rank 2.5, expected a whole number of at least 1",
        ),
        (
            "rank_pattern",
            serde_json::json!(["c_attn"]),
            "`rank_pattern` is [\"c_attn\"], expected an object",
        ),
        (
            "alpha_pattern",
            serde_json::json!({"c_(attn": 2}),
            "`alpha_pattern`: `c_(attn` is no regular expression: Parsing error at position 7: \
             Opening parenthesis without closing parenthesis",
        ),
        (
            "target_modules",
            serde_json::json!(["attn"]),
            "`target_modules` names attn, which the model does not have",
        ),
        (
            "target_modules",
            "attn".into(),
            "`target_modules` and the keys beside it leave no module of the model",
        ),
        (
            "target_modules",
            "attn(".into(),
            "`target_modules`: `attn(` is no regular expression: Parsing error at position 5: \
             Opening parenthesis without closing parenthesis",
        ),
    ] {
        let error = read(key, value).expect_err(key).to_string();
        assert_eq!(error, format!("adapter_config.json: {expected}"));
    }
    Ok(())
}
