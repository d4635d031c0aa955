//! Writes the first inputs of every corpus: `cargo run -p fuzz-targets --bin seeds`.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use hlx_autograd::{DType, Tensor};
use hlx_contract::{Encoded, own_shader, pipeline_example};
use hlx_core::Device;
use hlx_nn::{CausalLm, Model, OptimizerState, export_hugging_face, peft_config, save_model};
use hlx_store::{Dtype, Store};
use hlx_text::{BpeTrainer, Document, ShardOptions, ShardWriter, Tokenizer, WordCounts};
use hlx_train::run::{Monitor, Progress, State};
use hlx_train::task::Sizes;

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
    texts(&seed)?;
    models(&seed)?;
    ranks(&seed)?;
    for (name, bytes) in fuzz_targets::gguf_seeds() {
        seed("gguf", name, bytes)?;
    }
    for (target, [numbers, tensors]) in fuzz_targets::quantised_seeds() {
        seed(target, "numbers", numbers)?;
        seed(target, "tensors", tensors)?;
    }
    for (name, bytes) in fuzz_targets::receipt_seeds()? {
        seed("receipt", name, &bytes)?;
    }
    for (name, bytes) in fuzz_targets::request_seeds() {
        seed("requests", name, &bytes)?;
    }
    Ok(())
}

/// What strangers and other processes send to a rank: the first byte is the reader.
fn ranks(seed: Seed<'_>) -> Result<(), Box<dyn Error>> {
    let length = |length: u64| [&[5, 0], &length.to_le_bytes()[..]].concat();
    let block = [
        &[5, 0],
        &12_u64.to_le_bytes()[..],
        &4_u64.to_le_bytes(),
        b"four",
    ]
    .concat();
    let inputs: [(&str, &[u8]); 17] = [
        ("answer_short", b"\x00220 ready\r\n"),
        ("answer_long", &[0; 80]),
        ("first_unchanged", b"\x01"),
        ("first_of_version_1", b"\x01hlx-meet-1 - 3 1 host 1.2.3.4:5 and more until it is long enough\n"),
        ("first_of_version_2", b"\x01HLXRANK2 and then anything else, until it is as long as a proof"),
        ("record_longest", b"\x02\xff\xff and more"),
        ("record_shortest", b"\x02\x00\x00\x10\x000123456789abcdef"),
        ("lines", b"\x034 2 host 1.2.3.4:5 [::1]:6\nLife 1 3\nData 18446744073709551616 3\nhost 1.2.3.4:5"),
        ("places", b"\x03 1.2.3.4:5\nho\x1b[2Jst 1.2.3.4:5\nhost 1.2.3.4:99999\nhost"),
        ("life_signs", b"\x04\x01\x01\x03\x01\x02\x00\x00\x00\x09\x00the \x1b[2Jend\x02\x01"),
        ("life_sign_long", b"\x04\x03\x01\x02\x00\x00\x00\xff\xff"),
        ("length_2_63", &length(1 << 63)),
        ("length_2_40", &length(1 << 40)),
        ("length_2_24", &length(1 << 24)),
        ("gathered", &block),
        ("blocks", b"\x06\x02\x01\x00\x00\x00\x00\x00\x00\x00a\xff\xff\xff\xff\xff\xff\xff\xff"),
        (
            "variables",
            b"\x07RANK=1\nWORLD_SIZE=4\nLOCAL_RANK=1\nMASTER_ADDR=no\x1bde\nMASTER_PORT=65535\n\
              TORCHELASTIC_USE_AGENT_STORE=True",
        ),
    ];
    for (name, bytes) in inputs {
        seed("ranks_wire", name, bytes)?;
    }
    for (name, bytes) in fuzz_targets::memory_seeds() {
        seed("ranks_memory", name, &bytes)?;
    }
    Ok(())
}

fn models(seed: Seed<'_>) -> Result<(), Box<dyn Error>> {
    let device = Device::cpu()?;
    let folder = std::env::temp_dir().join(format!("hlx-seeds-{}", std::process::id()));
    let lora = fuzz_targets::lora();
    for preset in ["gpt2", "gemma3", "qwen3_moe"] {
        let sizes = fuzz_targets::causal_sizes(preset);
        let model = Model::new(&device, 1, |b| CausalLm::new(b, &sizes))?;
        export_hugging_face(model.weights(), &sizes, &folder)?;
        seed(
            "hugging_face_config",
            preset,
            &fs::read(folder.join("config.json"))?,
        )?;
    }
    let sizes = fuzz_targets::causal_sizes("llama2");
    let model = Model::new(&device, 1, |b| CausalLm::new(b, &sizes))?;
    export_hugging_face(model.weights(), &sizes, &folder)?;
    let tensors = fs::read(folder.join("model.safetensors"))?;
    seed("hugging_face_files", "single", &tensors)?;
    let part = "model-00001-of-00001.safetensors";
    let names = model.weights().parameters().iter();
    let map: serde_json::Map<_, _> = names
        .map(|one| (one.name().to_owned(), part.into()))
        .collect();
    let index = serde_json::json!({"metadata": {"total_size": 1}, "weight_map": map});
    seed("hugging_face_files", "index", index.to_string().as_bytes())?;
    fs::remove_dir_all(&folder)?;
    let settings = r#"{"bos_token": "t", "eos_token": {"content": "r"}, "eos_token_id": [1, 3],
        "chat_template": "{{ bos_token }}{{ messages[0].content }}"}"#;
    seed("tokenizer_config", "settings", settings.as_bytes())?;
    for (preset, name) in [("llama2", "peft"), ("gpt2", "peft_gpt2")] {
        let sizes = fuzz_targets::causal_sizes(preset);
        let adapted = Model::new(&device, 1, |b| {
            b.with_lora(lora.clone());
            CausalLm::new(b, &sizes)
        })?;
        let (weights, family) = (adapted.weights(), sizes.family());
        seed(
            "adapters",
            name,
            &weights.lora_to_safetensors(&lora, family)?,
        )?;
        let text = peft_config(&lora, weights, family)?;
        seed("adapters", &format!("{name}_config"), text.as_bytes())?;
    }
    seed("adapters", "lora", &serde_json::to_vec(&lora)?)?;
    let mut monitor = Monitor::default();
    monitor.step(true);
    monitor.evaluation(300, 1.25, 0.0);
    seed("monitor", "best", &monitor.to_bytes()?)?;
    seed("monitor", "fresh", &Monitor::default().to_bytes()?)?;
    let array = folder.with_extension("npy");
    hlx_io::save_npy(
        &array,
        &Tensor::from_slice::<u32>(&device, &[1, 2, 3, 4, 5, 6], &[2, 3])?,
    )?;
    seed("npy", "ids", &fs::read(&array)?)?;
    fs::remove_file(array)?;
    folders(&device, seed)
}

fn folders(device: &Device, seed: Seed<'_>) -> Result<(), Box<dyn Error>> {
    let [numbers, tensors] = fuzz_targets::written_adapter();
    seed("adapter_folder", "numbers", &numbers)?;
    seed("adapter_folder", "tensors", &tensors)?;
    seed(
        "prepare_state",
        "stopped",
        &fuzz_targets::stopped_preparation(),
    )?;
    let tensors = [("a", DType::F32), ("b", DType::BF16), ("c", DType::U8)];
    let tensors = tensors.map(|(name, dtype)| {
        let tensor = Tensor::ones(device, &[2, 3], dtype)?;
        Ok::<_, hlx_autograd::AutogradError>((name.to_owned(), tensor))
    });
    let mut tensors = tensors.into_iter().collect::<Result<BTreeMap<_, _>, _>>()?;
    seed("tensors", "three", &hlx_io::to_safetensors(&tensors)?)?;
    // NumPy has no bf16.
    tensors.remove("b");
    let archive = std::env::temp_dir().join(format!("hlx-seeds-{}.npz", std::process::id()));
    hlx_io::save_npz(&archive, &tensors)?;
    seed("npz", "two", &fs::read(&archive)?)?;
    fs::remove_file(archive)?;
    let causal = fuzz_targets::causal_sizes("qwen3_moe");
    let own = fuzz_targets::model_sizes().into();
    for (name, sizes) in [("causal", causal), ("transformer", own)] {
        seed("sizes", name, &Sizes::Language(Box::new(sizes)).to_bytes()?)?;
    }
    Ok(())
}

fn texts(seed: Seed<'_>) -> Result<(), Box<dyn Error>> {
    seed("token_file", "nanogpt", &[1, 0, 2, 0, 80, 196])?;
    let mut header = [0_u32; 256];
    header[..3].copy_from_slice(&[20_240_520, 1, 2]);
    let header: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    seed(
        "token_file",
        "llm_c",
        &[&header[..], &[1, 0, 2, 0]].concat(),
    )?;
    let folder = std::env::temp_dir().join(format!("hlx-seeds-{}", std::process::id()));
    let mut writer = ShardWriter::create(&folder, ShardOptions::new(300))?;
    writer.add(&Document::new((0..64).collect()))?;
    writer.add(&Document::new(vec![299]))?;
    writer.finish()?;
    for name in ["index.json", "shard-00000.starts"] {
        seed("shard_index", name, &fs::read(folder.join(name))?)?;
    }
    fs::remove_dir_all(folder)?;
    let mut counts = WordCounts::default();
    counts.add("the river of the light rivers");
    let trainer = BpeTrainer {
        vocabulary_size: 264,
        ..BpeTrainer::default()
    };
    let trained = trainer.train(counts, |_, _| ControlFlow::Continue(()))?;
    seed("tokenizer", "bpe", trained.to_json().as_bytes())?;
    let characters = Tokenizer::characters_of("the river")?;
    seed("tokenizer", "characters", characters.to_json().as_bytes())?;
    let lines = "{\"text\": \"a\"}\n{\"input\": \"b\", \"output\": \"c\"}\n\
                 {\"messages\": [{\"role\": \"user\", \"content\": \"d\"}]}\n";
    seed("prepare", "lines", lines.as_bytes())?;
    seed("prepare", "text", b"some text\nof two lines\n")?;
    seed(
        "prepare",
        "gzip",
        &[
            31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 75, 4, 0, 67, 190, 183, 232, 1, 0, 0, 0,
        ],
    )?;
    let template = "{% for m in messages %}{% if m.role == 'user' %}{{ m.content.strip() }}{% else %}\
                    {% generation %}{{ m.content | tojson }}{% endgeneration %}{% endif %}{% endfor %}";
    seed("chat_template", "blocks", template.as_bytes())?;
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
    let model = Model::new(&Device::cpu()?, 1, |b| CausalLm::new(b, &sizes.into()))?;
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
