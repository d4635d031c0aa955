//! Writes the first inputs of every corpus: `cargo run -p fuzz-targets --bin seeds`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use hlx_contract::{Encoded, own_shader, pipeline_example};
use hlx_core::Context;
use hlx_nn::{Model, OptimizerState, Transformer, save_model};
use hlx_store::{Dtype, Store};
use hlx_train::run::{Progress, State};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let corpus = root.join("fuzz/corpus");
    for (name, _) in fuzz_targets::TARGETS {
        fs::create_dir_all(corpus.join(name))?;
    }
    let seed = |target: &str, name: &str, bytes: &[u8]| -> std::io::Result<PathBuf> {
        let path = corpus.join(target).join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    };
    for module in [
        "hlx-core/spv/examples/vector_add",
        "hlx-kernels/spv/elementwise/scale",
    ] {
        let bytes = fs::read(root.join(format!("crates/{module}.spv")))?;
        seed("spirv", &module.replace('/', "-"), &bytes)?;
    }
    contracts(&seed)?;
    run_files(&root, &seed)?;
    Ok(())
}

type Seed<'a> = &'a dyn Fn(&str, &str, &[u8]) -> std::io::Result<PathBuf>;

fn contracts(seed: Seed<'_>) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("hlx-seeds-{}", std::process::id()));
    let store = Store::open(&folder)?;
    let pipeline = pipeline_example(&store, 4)?;
    seed("contract_json", "pipeline", pipeline.to_json()?.as_bytes())?;
    seed("contract_binary", "pipeline", &pipeline.to_bytes()?)?;
    for kernel in &pipeline.kernels {
        seed("contract_json", &kernel.name, kernel.to_json()?.as_bytes())?;
        seed("contract_binary", &kernel.name, &kernel.to_bytes()?)?;
    }
    let shader = own_shader("elementwise/binary").ok_or("no shader")?;
    seed("contract_json", "shader", shader.to_json()?.as_bytes())?;
    seed("contract_binary", "shader", &shader.to_bytes()?)?;
    let tensor = store.put_tensor(Dtype::F32, &[2, 3], &[1; 24])?;
    seed(
        "store_object",
        "tensor",
        &fs::read(store.object_path(&tensor))?,
    )?;
    let bytes = store.put_bytes(b"some bytes")?;
    seed(
        "store_object",
        "bytes",
        &fs::read(store.object_path(&bytes))?,
    )?;
    fs::remove_dir_all(folder)?;
    Ok(())
}

fn run_files(root: &Path, seed: Seed<'_>) -> Result<(), Box<dyn Error>> {
    let sizes = fuzz_targets::model_sizes();
    let model = Model::new(&Context::cpu()?, 1, |b| Transformer::new(b, &sizes))?;
    let folder = std::env::temp_dir().join(format!("hlx-seeds-{}", std::process::id()));
    save_model(&folder, &model)?;
    seed(
        "safetensors",
        "model",
        &fs::read(folder.join("model.safetensors"))?,
    )?;
    seed(
        "model_config",
        "tiny",
        &fs::read(folder.join("config.json"))?,
    )?;
    fs::remove_dir_all(folder)?;
    let optimizer = OptimizerState {
        optimizer: "sgd".to_owned(),
        step: 0,
        tensors: Vec::new(),
    };
    let state = State::new(Progress::default(), optimizer);
    seed("state", "fresh", &state.to_bytes()?)?;
    let text = fs::read(root.join("configs/ascii-specialist.toml"))?;
    seed("config", "ascii-specialist", &text)?;
    seed(
        "corpus",
        "pairs",
        b"{\"input\": \"a\", \"output\": \"b\"}\n{\"input\": \"c\", \"output\": \"\\u00e9\"}\n",
    )?;
    seed("corpus", "text", b"some text\nof two lines\n")?;
    seed("arguments", "override", b"train.max_steps=40")?;
    seed(
        "arguments",
        "handle",
        format!("sha256:{}", "0f".repeat(32)).as_bytes(),
    )?;
    Ok(())
}
