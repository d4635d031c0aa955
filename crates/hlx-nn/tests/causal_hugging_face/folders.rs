//! Which files of a folder are read, and what is said of those that are not.

use hlx_nn::{CausalConfig, hugging_face_notes};
use serde_json::json;

use super::*;

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32\nsize 12345\n";
const INDEX: &str = "model.safetensors.index.json";

fn tensors(device: &Device, folder: &Path) -> Result<Vec<Vec<f32>>> {
    let model = import_hugging_face(device, folder)?;
    Ok(model.weights().download(model.weights().values())?)
}

fn refusal(device: &Device, folder: &Path) -> String {
    let error = import_hugging_face(device, folder).expect_err("refused");
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// Two parts and the index that names them.
fn write_parts(folder: &Path, tensors: &Tensors) -> Result {
    let (mut map, mut parts) = (BTreeMap::new(), [Tensors::new(), Tensors::new()]);
    for (at, (tensor, values)) in tensors.iter().enumerate() {
        map.insert(
            tensor,
            format!("model-0000{}-of-00002.safetensors", at % 2 + 1),
        );
        parts[at % 2].insert(tensor.clone(), values.clone());
    }
    for (at, part) in parts.iter().enumerate() {
        let path = folder.join(format!("model-0000{}-of-00002.safetensors", at + 1));
        write(&path, part, Dtype::F32)?;
    }
    fs::write(folder.join(INDEX), json!({"weight_map": map}).to_string())?;
    Ok(())
}

#[test]
fn a_whole_file_goes_before_an_old_index_of_parts() -> Result {
    let device = hlx_core::testing::cpu()?;
    let fixture = Fixture::read("llama3")?;
    let folder = model_folder(&fixture, "llama3", "whole")?;
    let expected = tensors(&device, &folder)?;
    assert_eq!(hugging_face_notes(&folder)?, [""; 0]);
    // The parts hold what the model was before.
    let mut old = made(&fixture, "llama3");
    old.values_mut().for_each(|(_, bytes)| bytes.fill(0));
    write_parts(&folder, &old)?;
    let lines = hugging_face_notes(&folder)?;
    let line =
        format!("`model.safetensors` is read, and the parts that `{INDEX}` names are left out");
    assert!(
        lines.len() == 1 && lines[0].starts_with(&line),
        "{lines:#?}"
    );
    assert_eq!(tensors(&device, &folder)?, expected);
    // An index of parts that are gone, of the whole file, or of nothing readable is no matter.
    fs::remove_file(folder.join("model-00001-of-00002.safetensors"))?;
    assert_eq!(tensors(&device, &folder)?, expected);
    fs::write(
        folder.join(INDEX),
        json!({"weight_map": {"a": "model.safetensors"}}).to_string(),
    )?;
    assert_eq!(hugging_face_notes(&folder)?, [""; 0]);
    fs::write(folder.join(INDEX), "{")?;
    assert_eq!(tensors(&device, &folder)?, expected);
    // Without the whole file the parts are the model.
    fs::remove_file(folder.join("model.safetensors"))?;
    write_parts(&folder, &made(&fixture, "llama3"))?;
    assert_eq!(tensors(&device, &folder)?, expected);
    let spare = folder.join("model-00003-of-00003.safetensors");
    fs::write(&spare, "of another index")?;
    let lines = hugging_face_notes(&folder)?;
    assert_eq!(
        lines,
        [format!(
            "`model-00003-of-00003.safetensors` is left out: `{INDEX}` does not name it"
        )]
    );
    assert_eq!(tensors(&device, &folder)?, expected);
    fs::remove_file(folder.join("model-00002-of-00002.safetensors"))?;
    let text = refusal(&device, &folder);
    assert!(
        text.ends_with("model-00002-of-00002.safetensors, which it names, is missing"),
        "{text}"
    );
    fs::remove_dir_all(&folder)?;
    Ok(())
}

#[test]
fn a_pointer_of_git_lfs_in_place_of_a_file_is_named() -> Result {
    let device = hlx_core::testing::cpu()?;
    let fixture = Fixture::read("llama3")?;
    let folder = model_folder(&fixture, "llama3", "pointer")?;
    let says = |name: &str| {
        let text = refusal(&device, &folder);
        let expected = format!("{name}: {}", hlx_core::files::IS_LFS_POINTER);
        assert!(text.ends_with(&expected), "{text}");
    };
    fs::write(folder.join("model.safetensors"), POINTER)?;
    says("model.safetensors");
    fs::remove_file(folder.join("model.safetensors"))?;
    write_parts(&folder, &made(&fixture, "llama3"))?;
    fs::write(folder.join("model-00002-of-00002.safetensors"), POINTER)?;
    says("model-00002-of-00002.safetensors");
    fs::write(folder.join(INDEX), POINTER)?;
    says(INDEX);
    fs::write(folder.join("config.json"), POINTER)?;
    says("config.json");
    fs::remove_dir_all(&folder)?;
    Ok(())
}

#[test]
fn a_folder_without_safetensors_says_what_it_has() -> Result {
    let device = hlx_core::testing::cpu()?;
    let fixture = Fixture::read("llama3")?;
    for (file, expected) in [
        (
            "pytorch_model.bin",
            "pytorch_model.bin can hold programs and is not read; load it once with",
        ),
        ("pytorch_model-00001-of-00002.bin", "can hold programs"),
        (
            "model.fp16.safetensors",
            "model.fp16.safetensors is a variant; name it model.safetensors",
        ),
        (
            "model-00001-of-00002.safetensors",
            "is a part of a model, and the list of the parts",
        ),
        (
            "consolidated.safetensors",
            "consolidated.safetensors has names of its own",
        ),
        (
            "model-q4.gguf",
            "model-q4.gguf is a model by itself; give its path in place of the folder's",
        ),
        (
            "adapter_model.safetensors",
            "adapter_model.safetensors is of an adapter; give the folder of its model",
        ),
        ("tf_model.h5", "tf_model.h5 is not read; load it once with"),
        (
            "notes.txt",
            "No such file: neither model.safetensors nor model.safetensors.index.json",
        ),
    ] {
        let folder = folder("other")?;
        fs::write(folder.join("config.json"), &fixture.config)?;
        fs::write(folder.join(file), "")?;
        let text = refusal(&device, &folder);
        assert!(text.contains(expected), "{file}: {text}");
        fs::remove_dir_all(&folder)?;
    }
    let folder = model_folder(&fixture, "llama3", "empty")?;
    write(
        &folder.join("model.safetensors"),
        &Tensors::new(),
        Dtype::F32,
    )?;
    assert!(refusal(&device, &folder).ends_with("has 0 tensors, too few for 2 layers"));
    fs::remove_dir_all(&folder)?;
    Ok(())
}

#[test]
fn a_file_of_the_inner_model_alone_is_read() -> Result {
    let device = hlx_core::testing::cpu()?;
    for (name, prefix) in [("gpt2", "transformer."), ("qwen2", "model.")] {
        let fixture = Fixture::read(name)?;
        let folder = model_folder(&fixture, name, "inner")?;
        let expected = tensors(&device, &folder)?;
        let inner = made(&fixture, name).into_iter();
        let inner: Tensors = inner
            .map(|(tensor, values)| (tensor.replacen(prefix, "", 1), values))
            .collect();
        write(&folder.join("model.safetensors"), &inner, Dtype::F32)?;
        assert_eq!(tensors(&device, &folder)?, expected, "{name}");
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// Queries, keys and values of one projection become three.
#[test]
fn a_packed_model_is_exported_as_gpt2_and_read_back_with_the_same_bits() -> Result {
    let sizes = TransformerConfig {
        vocabulary: 31,
        width: 24,
        n_layers: 2,
        n_heads: 3,
        feed_forward_width: 40,
        positions: 16,
        dropout: 0.1,
        attention_dropout: 0.2,
    };
    let ids: Vec<u32> = (0..18).map(|at| (at * 7 + 3) % 31).collect();
    let mut of_devices = Vec::new();
    for (number, device) in hlx_core::testing::own_devices().iter().enumerate() {
        let packed = Model::new(device, 7, |b| CausalLm::new(b, &sizes.into()))?;
        let folder = folder(&format!("packed-{number}"))?;
        export_hugging_face(packed.weights(), packed.config(), &folder)?;
        let read = import_hugging_face(device, &folder)?;
        let expected = CausalConfig {
            layout: ParameterLayout::Apart,
            ..sizes.into()
        };
        assert_eq!(read.config(), &expected);
        let text: serde_json::Value =
            serde_json::from_slice(&fs::read(folder.join("config.json"))?)?;
        assert_eq!(text["architectures"], json!(["GPT2LMHeadModel"]));
        assert_eq!(text["activation_function"], "gelu");
        assert_eq!(text["tie_word_embeddings"], false);
        let ids = Tensor::from_slice::<u32>(device, &ids, &[2, 9])?;
        let logits = |model: &CausalLm| -> Result<Vec<u32>> {
            let logits = model.forward(&ids, &Mode::eval())?.to_vec::<f32>()?;
            Ok(logits.into_iter().map(f32::to_bits).collect())
        };
        let found = logits(&read)?;
        assert_eq!(found, logits(&packed)?);
        of_devices.push(found);
        // Exported once more it is the same folder.
        let again = folder.join("again");
        export_hugging_face(read.weights(), read.config(), &again)?;
        for file in ["config.json", "model.safetensors"] {
            assert!(
                fs::read(folder.join(file))? == fs::read(again.join(file))?,
                "{file}"
            );
        }
        fs::remove_dir_all(folder)?;
    }
    assert!(of_devices.windows(2).all(|pair| pair[0] == pair[1]));
    Ok(())
}
