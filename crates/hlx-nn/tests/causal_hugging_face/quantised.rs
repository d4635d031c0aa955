//! Folders that GPTQ, AWQ and bitsandbytes have quantised: the values of each tensor, and what is refused.

use hlx_core::digest::sha256_hex;
use serde_json::{Map, Value, json};

use super::*;

const FOLDERS: [&str; 6] = ["gptq", "gptq_v2", "gptq_order", "awq", "nf4", "nf4_double"];

fn fixture(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/quantised");
    Path::new(folder).join(name)
}

#[test]
fn every_value_is_that_of_the_formula() -> Result {
    let device = hlx_core::testing::cpu()?;
    for name in FOLDERS {
        let expected = fs::read(fixture(&format!("{name}.json")))?;
        let expected: BTreeMap<String, String> = serde_json::from_slice(&expected)?;
        let model = import_hugging_face(&device, &fixture(name))?;
        let (weights, family) = (model.weights(), model.config().family());
        let tensors = hugging_face_tensors(weights, weights.values(), family)?;
        assert_eq!(tensors.len(), expected.len(), "{name}");
        for (tensor, _, values) in tensors {
            let bytes: Vec<u8> = values
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            assert_eq!(sha256_hex(&bytes), expected[&tensor], "{name}: {tensor}");
        }
    }
    // Without the groups of GPTQ's inputs they are consecutive.
    let folder = changed(
        "gptq",
        "consecutive",
        |_| {},
        |tensors| {
            tensors.retain(|name, _| !name.ends_with(".g_idx"));
        },
    )?;
    let values = |folder: &Path| -> Result<Vec<Vec<f32>>> {
        let weights = import_hugging_face(&device, folder)?;
        Ok(weights.weights().download(weights.weights().values())?)
    };
    assert!(values(&folder)? == values(&fixture("gptq"))?);
    fs::remove_dir_all(folder)?;
    Ok(())
}

#[test]
fn matrices_of_nf4_that_stay_have_the_values_of_widened_ones() -> Result {
    for name in ["nf4", "nf4_double"] {
        assert!(has_blocks(&fixture(name))?);
        for device in &hlx_core::testing::own_devices() {
            let device = &device.with_arithmetic(hlx_core::Arithmetic::Integer);
            let wide = import_hugging_face(device, &fixture(name))?;
            let own = import_in_blocks(device, &fixture(name))?;
            let mut n_blocks = 0;
            for (wide, own) in wide.weights().parameters().iter().zip(own.parameters()) {
                assert_eq!(wide.name(), own.name());
                let (wide, own) = (wide.tensor()?, own.tensor()?);
                let rows = own.shape()[0];
                let own = match own.is_of_blocks() {
                    true => {
                        n_blocks += 1;
                        let ids: Vec<u32> = (0..rows as u32).collect();
                        Tensor::from_slice::<u32>(device, &ids, &[rows])?.embedding(&own)?
                    }
                    false => own,
                };
                let bits = |tensor: &Tensor| -> Result<Vec<u32>> {
                    let values = tensor.detach().to_vec::<f32>()?;
                    Ok(values.into_iter().map(f32::to_bits).collect())
                };
                assert!(bits(&wide)? == bits(&own)?, "{name}");
            }
            // All matrices of the layer but the one whose rows are no whole blocks of 64.
            assert_eq!(n_blocks, 6, "{name}");
        }
    }
    for name in ["gptq", "awq"] {
        assert!(!has_blocks(&fixture(name))?);
    }
    // Another table, or blocks of 32 values, are widened.
    let folder = changed(
        "nf4",
        "table",
        |_| {},
        |tensors| {
            for (name, (_, _, bytes)) in tensors {
                if name.ends_with(".quant_map") {
                    bytes[4..8].copy_from_slice(&(-0.7_f32).to_le_bytes());
                }
            }
        },
    )?;
    assert!(!has_blocks(&folder)?);
    fs::remove_dir_all(folder)?;
    Ok(())
}

type Stored = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// A copy of a folder with another `quantization_config` and other tensors.
fn changed(
    name: &str,
    purpose: &str,
    config: impl FnOnce(&mut Map<String, Value>),
    tensors: impl FnOnce(&mut Stored),
) -> Result<PathBuf> {
    let folder = folder(&format!("quantised-{purpose}"))?;
    let mut all: Value = serde_json::from_slice(&fs::read(fixture(name).join("config.json"))?)?;
    config(
        all["quantization_config"]
            .as_object_mut()
            .ok_or("no object")?,
    );
    fs::write(folder.join("config.json"), all.to_string())?;
    let bytes = fs::read(fixture(name).join("model.safetensors"))?;
    let file = SafeTensors::deserialize(&bytes)?;
    let stored = file.tensors().into_iter();
    let stored = stored.map(|(name, view)| {
        let part = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
        (name, part)
    });
    let mut stored: Stored = stored.collect();
    tensors(&mut stored);
    let views = stored.iter().map(|(name, (dtype, shape, bytes))| {
        Ok((name, TensorView::new(*dtype, shape.clone(), bytes)?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    fs::write(
        folder.join("model.safetensors"),
        safetensors::serialize(views, None)?,
    )?;
    Ok(folder)
}

/// The line that a changed folder is refused with, from its last path on.
fn refusal(
    name: &str,
    config: impl FnOnce(&mut Map<String, Value>),
    tensors: impl FnOnce(&mut Stored),
) -> Result<String> {
    let folder = changed(name, "refused", config, tensors)?;
    let device = hlx_core::testing::cpu()?;
    let error = import_hugging_face(&device, &folder)
        .expect_err("refused")
        .to_string();
    assert_eq!(error.lines().count(), 1, "{error}");
    let line = error.replace(&format!("{}", folder.display()), "");
    fs::remove_dir_all(folder)?;
    Ok(line)
}

#[test]
fn what_is_not_read_is_named() -> Result {
    let stated = |name: &str, key: &str, value: Value| {
        refusal(
            name,
            |config| _ = config.insert(key.to_owned(), value),
            |_| {},
        )
    };
    let cases = [
        ("gptq", "bits", json!(8), "8, and only 4 is read"),
        (
            "gptq",
            "checkpoint_format",
            json!("marlin"),
            "\"marlin\", and only gptq or gptq_v2 is read",
        ),
        (
            "gptq",
            "dynamic",
            json!({"+:x": {"bits": 8}}),
            "{\"+:x\":{\"bits\":8}}, and only one kind for all matrices is read",
        ),
        (
            "awq",
            "version",
            json!("gemv"),
            "\"gemv\", and only gemm is read",
        ),
        (
            "awq",
            "zero_point",
            json!(false),
            "false, and only true is read",
        ),
        (
            "nf4",
            "bnb_4bit_quant_type",
            json!("fp4"),
            "\"fp4\", and only nf4 is read",
        ),
        (
            "nf4",
            "bnb_4bit_quant_storage",
            json!("bfloat16"),
            "\"bfloat16\", and only uint8 is read",
        ),
    ];
    for (name, key, value, expected) in cases {
        let line = stated(name, key, value)?;
        assert_eq!(
            line,
            format!("/config.json: `quantization_config.{key}` is {expected}")
        );
    }
    let line = refusal("gptq", |config| _ = config.remove("bits"), |_| {})?;
    assert_eq!(line, "/config.json: `quantization_config.bits` is missing");
    let eight = |config: &mut Map<String, Value>| {
        config.insert("load_in_4bit".into(), false.into());
        config.insert("_load_in_4bit".into(), false.into());
    };
    let line = refusal("nf4", eight, |_| {})?;
    assert_eq!(
        line,
        "/config.json: `quantization_config.load_in_4bit` is false, and only true is read"
    );
    // Other methods are the configuration's to refuse.
    let line = stated("gptq", "quant_method", json!("hqq"))?;
    assert!(
        line.starts_with("/config.json: `quantization_config` says that the weights are quantized"),
        "{line}"
    );
    Ok(())
}

const Q: &str = "model.layers.0.self_attn.q_proj";

#[test]
fn tensors_that_do_not_fit_each_other_are_refused() -> Result {
    let with = |name: &str, change: &dyn Fn(&mut Stored)| refusal(name, |_| {}, |all| change(all));
    let part = |end: &str| format!("{Q}.{end}");
    for end in ["qzeros", "scales"] {
        let line = with("awq", &|all| _ = all.remove(&part(end)))?;
        assert_eq!(line, format!(": the tensor {Q}.{end} is missing"));
    }
    let line = with("gptq", &|all| {
        let (_, shape, bytes) = all.get_mut(&part("qzeros")).expect("there");
        shape[0] = 1;
        bytes.truncate(32);
    })?;
    let shapes =
        "qweight, qzeros and scales of shapes [8, 64], [1, 8] and [4, 64] do not fit each other";
    assert_eq!(line, format!(": {Q}: {shapes}"));
    let line = with("gptq", &|all| {
        let (_, _, bytes) = all.get_mut(&part("g_idx")).expect("there");
        bytes[8] = 4;
    })?;
    assert_eq!(line, format!(": {Q}.g_idx names the group 4 of 4"));
    let line = with("gptq", &|all| {
        let (dtype, _, _) = all.get_mut(&part("qweight")).expect("there");
        *dtype = Dtype::F32;
    })?;
    assert_eq!(line, format!(": {Q}.qweight holds F32, expected [I32]"));
    let line = with("awq", &|all| {
        let (_, _, bytes) = all.get_mut(&part("scales")).expect("there");
        bytes[..2].copy_from_slice(&[0x00, 0x7c]);
    })?;
    assert!(
        line.starts_with(&format!(": {Q}.weight holds ")) && line.contains("infinite"),
        "{line}"
    );
    // A description of NF4 with other numbers.
    let state = "weight.quant_state.bitsandbytes__nf4";
    let described = |text: &str| {
        with("nf4", &|all| {
            let bytes = text.as_bytes().to_vec();
            all.insert(part(state), (Dtype::U8, vec![bytes.len()], bytes));
        })
    };
    let line = described("{")?;
    assert!(
        line.starts_with(&format!(": {Q}.{state} is no description: ")),
        "{line}"
    );
    let line = described(r#"{"quant_type": "fp4", "blocksize": 64, "shape": [64, 64]}"#)?;
    assert_eq!(
        line,
        format!(": {Q}.weight is of fp4, and only nf4 is read")
    );
    let huge = r#"{"quant_type": "nf4", "blocksize": 64, "shape": [9223372036854775807, 64]}"#;
    let line = described(huge)?;
    assert!(
        line.contains("2048 bytes, which are no matrix of shape [9223372036854775807, 64]"),
        "{line}"
    );
    let line = described(r#"{"quant_type": "nf4", "blocksize": 0, "shape": [64, 64]}"#)?;
    assert!(line.ends_with("in blocks of 0"), "{line}");
    let line = described(r#"{"quant_type": "nf4", "blocksize": 32, "shape": [64, 64]}"#)?;
    assert_eq!(
        line,
        format!(": {Q}.weight.absmax has shape [64], expected [128]")
    );
    let line = with("nf4_double", &|all| {
        _ = all.remove(&part("weight.nested_absmax"))
    })?;
    assert_eq!(
        line,
        format!(": the tensor {Q}.weight.nested_absmax is missing")
    );
    Ok(())
}
