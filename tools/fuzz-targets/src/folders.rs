//! Readers of folders: adapters beside their model, a preparation that continues, HLX's own model configurations;
//! and of files with several tensors.

use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::OnceLock;

use hlx_nn::{CausalLm, Model, ParameterBuilder, Weights, peft_config};
use hlx_text::{PrepareOptions, Tokenizer, prepare};
use hlx_train::model_folder::open_as;
use hlx_train::opening::Opening;
use hlx_train::task::Sizes;
use serde_json::Value;

use crate::files::cpu;
use crate::models::{causal_sizes, folder_of_model, lora};
use crate::scratch;

/// Opens a model folder with an adapter: any bytes as its numbers beside whole tensors, and as its tensors beside
/// whole numbers.
pub fn adapter_folder(data: &[u8]) {
    let adapter = scratch("adapter");
    let model = folder_of_model("adapter-base");
    static WRITTEN: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let [numbers, tensors] = WRITTEN.get_or_init(written_adapter);
    for files in [[data, &tensors[..]], [numbers, data]] {
        for (name, bytes) in ["adapter_config.json", "adapter_model.safetensors"]
            .iter()
            .zip(files)
        {
            fs::write(adapter.join(name), bytes).expect("written");
        }
        let opening = Opening {
            adapter: Some(&adapter),
            ..Opening::default()
        };
        let _ = open_as(cpu(), &model, opening);
    }
}

/// An adapter's files: its numbers and its tensors.
pub fn written_adapter() -> [Vec<u8>; 2] {
    let sizes = causal_sizes("llama2");
    let declare = |b: &mut ParameterBuilder| {
        b.with_lora(lora());
        CausalLm::new(b, &sizes)
    };
    let model = Model::new(cpu(), 1, declare).expect("a model");
    let weights: &Weights = model.weights();
    let numbers = peft_config(&lora(), weights, sizes.family()).expect("JSON");
    let tensors = weights.lora_to_safetensors(&lora(), sizes.family());
    [numbers.into_bytes(), tensors.expect("safetensors")]
}

/// Reads the sizes of a checkpoint's model, of any kind, and declares it; large ones that are within their
/// bounds are not declared, as they only take memory. What it is written as is read again.
pub fn sizes(data: &[u8]) {
    let digits = data.split(|byte| !byte.is_ascii_digit()).map(<[u8]>::len);
    let is_small = digits.max().unwrap_or(0) <= 4;
    if let Ok(sizes) = Sizes::from_bytes(data) {
        let written = sizes.to_bytes().expect("JSON");
        assert_eq!(Sizes::from_bytes(&written).expect("its own bytes"), sizes);
        let refused = sizes.validate().is_err();
        if refused || is_small {
            let declared = sizes.declare(&mut ParameterBuilder::new());
            assert!(declared.is_err() || !refused, "a model of refused sizes");
        }
    }
}

fn preparation(name: &str) -> PrepareOptions {
    let folder = scratch(name);
    let input = folder.join("input.txt");
    fs::write(&input, "some text\nof two lines\n").expect("written");
    PrepareOptions {
        threads: 1,
        ..PrepareOptions::new(vec![input], folder.join("out"))
    }
}

/// The file in which a preparation stores how far it is.
const PROGRESS: &str = "progress.json";

/// What a preparation leaves that was stopped before its end.
pub fn stopped_preparation() -> Vec<u8> {
    let options = preparation("prepare-stopped");
    let _ = fs::remove_dir_all(&options.out);
    let stopped = prepare(&options, &Tokenizer::bytes(), |_| ControlFlow::Break(()));
    stopped.expect_err("stopped");
    fs::read(options.out.join(PROGRESS)).expect("written")
}

/// Continues with a preparation whose state is any bytes, and with one whose state names the right work: what is
/// written is whole.
pub fn prepare_state(data: &[u8]) {
    static WORK: OnceLock<Value> = OnceLock::new();
    go_on(data);
    let Ok(Value::Object(mut state)) = serde_json::from_slice(data) else {
        return;
    };
    let work = WORK.get_or_init(|| {
        let whole: Value = serde_json::from_slice(&stopped_preparation()).expect("JSON");
        whole["work"].clone()
    });
    state.insert("work".to_owned(), work.clone());
    go_on(Value::Object(state).to_string().as_bytes());
}

fn go_on(state: &[u8]) {
    let options = preparation("prepare-stopped");
    let _ = fs::remove_dir_all(&options.out);
    fs::create_dir_all(&options.out).expect("made");
    fs::write(options.out.join(PROGRESS), state).expect("written");
    let done = prepare(&options, &Tokenizer::bytes(), |_| ControlFlow::Continue(()));
    if let Ok(shards) = done {
        shards.verify().expect("whole");
    }
}

fn file_of(target: &str, data: &[u8]) -> PathBuf {
    let path = scratch(target).join("file");
    fs::write(&path, data).expect("written");
    path
}

/// Reads the tensors of a safetensors file; what they are written as is read again.
pub fn tensors(data: &[u8]) {
    let path = file_of("tensors", data);
    if let Ok(read) = hlx_io::load_safetensors(cpu(), &path) {
        let again = hlx_io::save_safetensors(&path, &read)
            .and_then(|()| hlx_io::load_safetensors(cpu(), &path));
        assert!(again.expect("its own bytes").keys().eq(read.keys()));
    }
}

/// Reads the arrays of an archive.
pub fn npz(data: &[u8]) {
    let _ = hlx_io::load_npz(cpu(), &file_of("npz", data));
}
