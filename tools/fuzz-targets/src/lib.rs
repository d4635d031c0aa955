//! Every reader of files and arguments, on any bytes: none may panic or take endless time.
//!
//! A target is a plain function, so that libFuzzer runs it (`fuzz/`) and an ordinary test replays
//! the corpora. Readers return errors, which are ignored here; where a value comes back, what
//! must hold of it is asserted.

mod contracts;
mod files;
mod folders;
mod gguf;
mod models;
mod quantised;
mod ranks;
mod receipts;
mod requests;
mod sizes;
mod text;
mod tokens;

use std::path::PathBuf;

pub use files::model_sizes;
pub use folders::{stopped_preparation, written_adapter};
pub use gguf::gguf_seeds;
pub use models::{causal_sizes, lora};
pub use quantised::quantised_seeds;
pub use ranks::memory_seeds;
pub use receipts::receipt_seeds;
pub use requests::request_seeds;

/// A target: its name, which is also its folder in `fuzz/corpus`, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 41] = [
    ("spirv", contracts::spirv),
    ("contract_json", contracts::json),
    ("contract_binary", contracts::binary),
    ("store_object", files::store_object),
    ("safetensors", files::safetensors),
    ("model_config", files::model_config),
    ("checkpoint", files::checkpoint),
    ("chain", files::chain),
    ("metrics", files::metrics),
    ("state", text::state),
    ("manifest", text::manifest),
    ("config", text::config),
    ("corpus", text::corpus),
    ("idx", text::idx),
    ("arguments", text::arguments),
    ("token_file", tokens::token_file),
    ("shard_index", tokens::shard_index),
    ("tokenizer", tokens::tokenizer),
    ("prepare", tokens::prepared),
    ("chat_template", tokens::chat_template),
    ("hugging_face_config", models::hugging_face_config),
    ("hugging_face_files", models::hugging_face_files),
    ("tokenizer_config", models::tokenizer_config),
    ("adapters", models::adapters),
    ("gguf", gguf::gguf),
    ("gptq", quantised::gptq),
    ("awq", quantised::awq),
    ("nf4", quantised::nf4),
    ("monitor", models::monitor),
    ("npy", models::npy),
    ("npz", folders::npz),
    ("tensors", folders::tensors),
    ("sizes", folders::sizes),
    ("prepare_state", folders::prepare_state),
    ("adapter_folder", folders::adapter_folder),
    ("ranks_wire", ranks::wire),
    ("ranks_memory", ranks::memory),
    ("receipt", receipts::receipt),
    ("requests", requests::requests),
    ("printable", text::printable),
    ("layouts", sizes::layouts),
];

/// Returns the target of this name.
pub fn target(name: &str) -> Option<fn(&[u8])> {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.map(|(_, body)| *body)
}

/// A folder of this process and target, made once and used again.
fn scratch(target: &str) -> PathBuf {
    let name = format!("hlx-fuzz-{target}-{}", std::process::id());
    let fast = PathBuf::from("/dev/shm");
    let base = if fast.is_dir() {
        fast
    } else {
        std::env::temp_dir()
    };
    let folder = base.join(name);
    let _ = std::fs::create_dir_all(&folder);
    folder
}
