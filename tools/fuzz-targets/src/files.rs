//! Readers that take a path: the bytes are written to a file first.

use std::fs;
use std::sync::OnceLock;

use hlx_core::Device;
use hlx_nn::{CausalLm, Model, TransformerConfig, load_model, save_model};
use hlx_store::{Handle, Store};
use hlx_train::run::{Chain, Checkpoint, read_metrics};

use crate::scratch;

/// Reads an object of the content store, under the handle that its bytes have.
pub fn store_object(data: &[u8]) {
    let Ok(store) = Store::open(scratch("store")) else {
        return;
    };
    let hex = hlx_core::digest::sha256_hex(data);
    let handle: Handle = format!("sha256:{hex}").parse().expect("a handle");
    let path = store.object_path(&handle);
    let written = path.parent().map(fs::create_dir_all);
    if !matches!(written, Some(Ok(()))) || fs::write(&path, data).is_err() {
        return;
    }
    let bytes = store.get_bytes(&handle);
    let tensor = store.get_tensor(&handle);
    assert!(
        bytes.is_err() || tensor.is_err(),
        "an object is bytes or a tensor"
    );
    let verified = store.verify(&handle).is_ok();
    assert!(verified || (bytes.is_err() && tensor.is_err()));
    let _ = fs::remove_file(path);
}

/// The CPU device, opened once.
pub(crate) fn cpu() -> &'static Device {
    static CPU: OnceLock<Device> = OnceLock::new();
    CPU.get_or_init(|| Device::cpu().expect("the CPU device"))
}

/// The sizes of a model of some thousand parameters, which the targets read and write.
pub fn model_sizes() -> TransformerConfig {
    TransformerConfig {
        width: 8,
        n_layers: 1,
        n_heads: 1,
        feed_forward_width: 8,
        positions: 8,
        ..TransformerConfig::tiny()
    }
}

/// A folder with a whole model in it.
fn model_folder(name: &str) -> std::path::PathBuf {
    let folder = scratch(name);
    if !folder.join("config.json").is_file() {
        let model =
            Model::new(cpu(), 1, |b| CausalLm::new(b, &model_sizes().into())).expect("a model");
        save_model(&folder, &model).expect("written");
    }
    folder
}

/// Reads a model's tensors.
pub fn safetensors(data: &[u8]) {
    let folder = model_folder("safetensors");
    if fs::write(folder.join("model.safetensors"), data).is_ok() {
        let _ = load_model(cpu(), &folder);
    }
}

/// Reads a model's sizes, be they as large as they like: the file of its weights is small.
pub fn model_config(data: &[u8]) {
    let folder = model_folder("model");
    if fs::write(folder.join("config.json"), data).is_ok() {
        let _ = load_model(cpu(), &folder);
    }
}

/// Opens a checkpoint whose list of digests is any bytes.
pub fn checkpoint(data: &[u8]) {
    let folder = scratch("checkpoint");
    let written = fs::write(folder.join("digests.json"), data)
        .and_then(|()| fs::write(folder.join("state.bin"), b"state"));
    if written.is_ok() {
        let _ = Checkpoint::open(&folder);
    }
}

/// Reads a run's chain.
pub fn chain(data: &[u8]) {
    let path = scratch("chain").join("chain.jsonl");
    if fs::write(&path, data).is_ok() {
        let _ = Chain::read(&path);
        let _ = Chain::read_until(&path, 10);
    }
}

/// Reads a run's metrics.
pub fn metrics(data: &[u8]) {
    let path = scratch("metrics").join("metrics.jsonl");
    if fs::write(&path, data).is_ok() {
        let _ = read_metrics(&path);
    }
}
