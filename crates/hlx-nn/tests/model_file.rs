//! Model files: what is written returns, and what is damaged is named.

use std::fs;
use std::path::{Path, PathBuf};

use hlx_nn::{
    CONFIG_FILE, CausalLm, MODEL_FILE, Model, Result, TransformerConfig, load_model, save_model,
};

fn config() -> TransformerConfig {
    TransformerConfig {
        vocabulary: 11,
        width: 8,
        n_layers: 1,
        n_heads: 2,
        feed_forward_width: 16,
        positions: 5,
        dropout: 0.0,
        attention_dropout: 0.0,
    }
}

/// A folder of its own for each test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hlx-nn-{name}-{}", std::process::id()));
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn saved(folder: &Path, config: &TransformerConfig) -> Result<Model<CausalLm>> {
    let model = Model::new(&hlx_core::testing::cpu()?, 3, |b| {
        CausalLm::new(b, &(*config).into())
    })?;
    save_model(folder, &model)?;
    Ok(model)
}

/// The message of a load that must fail, without the folder's path.
fn message(folder: &Path) -> String {
    let device = hlx_core::testing::cpu().expect("the CPU device opens");
    let error = load_model(&device, folder)
        .expect_err("refused")
        .to_string();
    error.replace(&format!("{}/", folder.display()), "")
}

#[test]
fn a_saved_model_returns_with_its_digest() -> Result<()> {
    let folder = Folder::new("return");
    let model = saved(&folder.0, &config())?;
    let loaded = load_model(&hlx_core::testing::cpu()?, &folder.0)?;
    assert_eq!(loaded.config(), model.config());
    assert_eq!(loaded.weights().digest()?, model.weights().digest()?);
    save_model(&folder.0, &loaded)?;
    let files = fs::read_dir(&folder.0)
        .expect("the folder is there")
        .count();
    assert_eq!(files, 2, "nothing but the two files is left");
    Ok(())
}

#[test]
fn truncated_and_missing_files_are_named() -> Result<()> {
    let folder = Folder::new("truncated");
    saved(&folder.0, &config())?;
    let path = folder.0.join(MODEL_FILE);
    let bytes = fs::read(&path).expect("the file is there");
    let too_few = |length: usize| {
        format!("model.safetensors: has {length} bytes, too few for the 832 parameters")
    };
    for length in [0, 7, 100, bytes.len() - 1] {
        fs::write(&path, &bytes[..length]).expect("writes");
        let text = message(&folder.0);
        let expected = match length {
            0..832 => too_few(length),
            _ => "model.safetensors: safetensors: ".to_owned(),
        };
        assert!(text.starts_with(&expected), "{length}: {text}");
    }
    fs::remove_file(&path).expect("removes");
    assert!(message(&folder.0).starts_with("model.safetensors: No such file"));
    fs::write(folder.0.join(CONFIG_FILE), "{\"vocabulary\": 11").expect("writes");
    let text = message(&folder.0);
    assert!(text.starts_with("config.json: EOF while parsing"), "{text}");
    Ok(())
}

#[test]
fn weights_of_another_model_are_named() -> Result<()> {
    let (folder, other) = (Folder::new("mine"), Folder::new("other"));
    type Change = fn(&mut TransformerConfig);
    let cases: [(Change, &str); 3] = [
        (
            |config| config.n_layers = 2,
            "blocks.1.attention.out.bias is no parameter of it",
        ),
        (
            |config| config.vocabulary = 12,
            "token_embedding.weight has shape [12, 8], expected [11, 8]",
        ),
        (
            |config| config.feed_forward_width = 9,
            "blocks.0.feed_forward.up.weight has shape [9, 8], expected [16, 8]",
        ),
    ];
    for (change, expected) in cases {
        let mut changed = config();
        change(&mut changed);
        saved(&other.0, &changed)?;
        saved(&folder.0, &config())?;
        fs::copy(other.0.join(MODEL_FILE), folder.0.join(MODEL_FILE)).expect("copies");
        assert_eq!(
            message(&folder.0),
            format!("model.safetensors: model: {expected}")
        );
    }
    fs::copy(other.0.join(CONFIG_FILE), folder.0.join(CONFIG_FILE)).expect("copies");

    let mut deeper = config();
    deeper.n_layers = 2;
    let text = serde_json::to_string(&deeper).expect("serialises");
    saved(&folder.0, &config())?;
    fs::write(folder.0.join(CONFIG_FILE), text).expect("writes");
    let text = message(&folder.0);
    assert_eq!(
        text,
        "model.safetensors: model: blocks.1.attention_norm.weight is missing"
    );
    Ok(())
}

#[test]
fn weights_that_are_not_finite_are_named() -> Result<()> {
    let folder = Folder::new("finite");
    let model = saved(&folder.0, &config())?;
    let bias = model.weights().get("blocks.0.attention.out.bias");
    let place = bias.expect("it is there").tensor()?.detach().buffer()?;
    let values = [0.0, f32::INFINITY, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    model.weights().device().upload(&place, &values)?;
    save_model(&folder.0, &model)?;
    assert_eq!(
        message(&folder.0),
        "model.safetensors: model: blocks.0.attention.out.bias holds 1 NaN or infinite value"
    );
    Ok(())
}

#[test]
fn an_unknown_key_of_the_configuration_is_named() -> Result<()> {
    let folder = Folder::new("key");
    saved(&folder.0, &config())?;
    let path = folder.0.join(CONFIG_FILE);
    let text = fs::read_to_string(&path).expect("the file is there");
    fs::write(&path, text.replace("n_layers", "layers")).expect("writes");
    let text = message(&folder.0);
    assert!(
        text.starts_with("config.json: unknown field `layers`"),
        "{text}"
    );
    Ok(())
}
