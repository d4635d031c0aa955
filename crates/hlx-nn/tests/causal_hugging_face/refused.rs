//! Configurations and files that are refused.

use super::*;

/// What a change of the configuration is answered with, without the folder's path.
fn refusal(change: impl Fn(&mut serde_json::Map<String, serde_json::Value>)) -> Result<String> {
    let fixture = Fixture::read("llama3")?;
    let folder = folder("refused")?;
    let mut keys: serde_json::Map<_, _> = serde_json::from_str(&fixture.config)?;
    change(&mut keys);
    let text = serde_json::to_string(&keys)?;
    fs::write(folder.join("config.json"), text)?;
    let error = read_hugging_face_config(&folder)
        .expect_err("refused")
        .to_string();
    fs::remove_dir_all(&folder)?;
    assert_eq!(error.lines().count(), 1, "{error}");
    Ok(error
        .split_once("config.json: ")
        .ok_or("no path")?
        .1
        .to_owned())
}

#[test]
fn configurations_that_would_give_other_results_are_refused_by_name() -> Result {
    use serde_json::json;
    let text = refusal(|keys| {
        keys.insert("architectures".into(), json!(["OPTForCausalLM"]));
    })?;
    assert!(text.starts_with("the architecture OPTForCausalLM is not known; known are GPT2LM"));
    let text = refusal(|keys| {
        keys.insert("residual_multiplier".into(), json!(0.22));
    })?;
    let expected = "the key `residual_multiplier` is not known, and may change the result";
    assert_eq!(text, expected);
    let text = refusal(|keys| {
        keys.insert("num_hidden_layers".into(), json!(1_u64 << 60));
    })?;
    let expected = format!(
        "`num_hidden_layers` is {}, expected at most 16384",
        1_u64 << 60
    );
    assert_eq!(text, expected);
    let text = refusal(|keys| {
        keys.insert("vocab_size".into(), json!(1_u64 << 60));
    })?;
    assert!(text.ends_with("expected at most 16777216"), "{text}");
    let text = refusal(|keys| {
        keys.insert("hidden_act".into(), json!("relu"));
    })?;
    assert_eq!(
        text,
        "`hidden_act` is relu, expected silu or gelu_pytorch_tanh"
    );
    let text = refusal(|keys| {
        keys["rope_parameters"]["rope_type"] = json!("wide");
    })?;
    let expected = "`rope_scaling` is of the type wide, expected default, linear, dynamic, llama3, \
                    longrope or yarn";
    assert_eq!(text, expected);
    let text = refusal(|keys| {
        keys["rope_parameters"] = json!({"rope_type": "longrope", "short_factor": [1.0, 1.0]});
    })?;
    assert_eq!(text, "`rope_parameters.long_factor` is missing");
    let text = refusal(|keys| {
        keys["rope_parameters"]["spread"] = json!([1.0]);
    })?;
    let expected = "the key `rope_parameters.spread` is not known, and may change the result";
    assert_eq!(text, expected);
    let text = refusal(|keys| {
        keys.remove("hidden_size");
    })?;
    assert_eq!(text, "`hidden_size` is missing");
    let text = refusal(|keys| {
        keys.insert("num_key_value_heads".into(), json!(4));
    })?;
    let expected = "causal model: n_kv_heads is 4, expected a divisor of the 6 query heads";
    assert_eq!(text, expected);
    let text = refusal(|keys| {
        keys.insert("num_hidden_layers".into(), json!("two"));
    })?;
    assert_eq!(
        text,
        "`num_hidden_layers` is \"two\", expected a whole number"
    );
    Ok(())
}

#[test]
fn files_that_are_broken_or_of_another_model_are_refused() -> Result {
    let device = hlx_core::testing::cpu()?;
    let fixture = Fixture::read("llama3")?;
    let folder = model_folder(&fixture, "llama3", "broken")?;
    let path = folder.join("model.safetensors");
    let refused = || {
        let error = import_hugging_face(&device, &folder)
            .expect_err("refused")
            .to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        let (_, reason) = error.split_once(": ").expect("a path");
        reason.to_owned()
    };
    let whole = made(&fixture, "llama3");
    let with = |change: &dyn Fn(&mut Tensors)| -> Result<String> {
        let mut tensors = whole.clone();
        change(&mut tensors);
        write(&path, &tensors, Dtype::F32)?;
        Ok(refused())
    };
    let up = "model.layers.1.mlp.up_proj.weight";
    let text = with(&|tensors| {
        tensors.remove(up);
    })?;
    assert_eq!(text, format!("the tensor {up} is missing"));
    let text = with(&|tensors| {
        tensors.get_mut(up).expect("there").0 = vec![24, 36];
    })?;
    assert_eq!(text, format!("{up} has shape [24, 36], expected [36, 24]"));
    let text = with(&|tensors| {
        tensors.insert("model.extra".to_owned(), (vec![1], vec![0; 4]));
    })?;
    assert_eq!(text, "the tensor model.extra is no part of the model");
    // The file's type is the one that is looked at: an infinity of f16 is no large number.
    let mut diverged = whole.clone();
    let (_, bytes) = diverged.get_mut(up).expect("there");
    bytes[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
    bytes[12..16].copy_from_slice(&f32::NEG_INFINITY.to_le_bytes());
    write(&path, &diverged, Dtype::F32)?;
    let expected = format!("{up} holds 2 NaN or infinite values");
    assert_eq!(refused(), expected);
    for dtype in [Dtype::F16, Dtype::BF16] {
        let narrow = |value| match dtype {
            Dtype::F16 => f16::from_f32(value).to_le_bytes(),
            _ => bf16::from_f32(value).to_le_bytes(),
        };
        let mut halves = diverged.clone();
        for (_, bytes) in halves.values_mut() {
            let words = bytes.as_chunks::<4>().0.iter();
            *bytes = words
                .flat_map(|&word| narrow(f32::from_le_bytes(word)))
                .collect();
        }
        write(&path, &halves, dtype)?;
        assert_eq!(refused(), expected, "{dtype:?}");
    }
    write(&path, &whole, Dtype::F32)?;
    let bytes = fs::read(&path)?;
    fs::write(&path, &bytes[..bytes.len() - 1])?;
    let (size, short) = (bytes.len(), bytes.len() - 1);
    let expected = format!("the header tells of {size} bytes, and the file has {short}");
    assert_eq!(refused(), expected);
    // Sizes that the files do not have are found before there is memory for them.
    fs::write(&path, &bytes)?;
    let config = fs::read_to_string(folder.join("config.json"))?;
    let mut keys: serde_json::Map<_, _> = serde_json::from_str(&config)?;
    keys["vocab_size"] = serde_json::json!(1 << 24);
    keys["hidden_size"] = serde_json::json!(1 << 20);
    fs::write(folder.join("config.json"), serde_json::to_string(&keys)?)?;
    let expected = "model.embed_tokens.weight has shape [43, 24], expected [16777216, 1048576]";
    assert_eq!(refused(), expected);
    keys["num_hidden_layers"] = serde_json::json!(100);
    fs::write(folder.join("config.json"), serde_json::to_string(&keys)?)?;
    let text = refused();
    assert!(text.ends_with("tensors, too few for 100 layers"), "{text}");
    fs::write(folder.join("config.json"), config)?;
    for (shape, offsets) in [
        ("[4294967296,4294967296]", "[0,0]"),
        ("[0,9223372036854775808,2]", "[0,0]"),
        ("[4611686018427387903]", "[0,18446744073709551612]"),
        ("[2]", "[8,0]"),
        ("[1]", "[4,8]"),
    ] {
        let entry = format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}"#);
        let header = format!(r#"{{"model.embed_tokens.weight":{entry}}}"#);
        let length = (header.len() as u64).to_le_bytes();
        fs::write(&path, [&length, header.as_bytes(), &[0; 8]].concat())?;
        assert_eq!(refused().lines().count(), 1);
    }
    fs::write(&path, u64::MAX.to_le_bytes())?;
    let expected = "the header has 18446744073709551615 bytes, and the file has 8";
    assert_eq!(refused(), expected);
    fs::write(&path, [3, 0, 0])?;
    assert_eq!(refused(), "the file has no header");
    let mut scribbled = bytes.clone();
    scribbled[8] = b'?';
    fs::write(&path, scribbled)?;
    assert!(
        refused().starts_with("the header is broken: "),
        "{}",
        refused()
    );
    fs::remove_file(&path)?;
    assert!(
        refused().contains("No such file") || cfg!(windows),
        "{}",
        refused()
    );
    fs::remove_dir_all(&folder)?;
    Ok(())
}
