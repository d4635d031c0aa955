//! Readers of folders that GPTQ, AWQ and bitsandbytes have quantised.

use std::fs;

use hlx_nn::{import_hugging_face, import_in_blocks};

use crate::files::cpu;
use crate::scratch;

/// A folder's configuration and its tensors.
type Folder = [&'static [u8]; 2];

macro_rules! folder {
    ($name:literal) => {
        [
            include_bytes!(concat!(
                "../../../crates/hlx-nn/tests/fixtures/quantised/",
                $name,
                "/config.json"
            )),
            include_bytes!(concat!(
                "../../../crates/hlx-nn/tests/fixtures/quantised/",
                $name,
                "/model.safetensors"
            )),
        ]
    };
}

/// With the order of the inputs, `desc_act`.
const GPTQ: Folder = folder!("gptq_order");
const AWQ: Folder = folder!("awq");
/// Doubly quantised.
const NF4: Folder = folder!("nf4_double");

/// Reads any bytes as the configuration beside whole tensors, and as the tensors beside the whole configuration: all values, and
/// blocks where there are some.
fn read(name: &str, whole: Folder, data: &[u8]) {
    let folder = scratch(name);
    for files in [[data, whole[1]], [whole[0], data]] {
        for (name, bytes) in ["config.json", "model.safetensors"].iter().zip(files) {
            fs::write(folder.join(name), bytes).expect("written");
        }
        let _ = import_hugging_face(cpu(), &folder);
        let _ = import_in_blocks(cpu(), &folder);
    }
}

/// Reads a folder of GPTQ.
pub fn gptq(data: &[u8]) {
    read("gptq", GPTQ, data);
}

/// Reads a folder of AWQ.
pub fn awq(data: &[u8]) {
    read("awq", AWQ, data);
}

/// Reads a folder of bitsandbytes in NF4.
pub fn nf4(data: &[u8]) {
    read("nf4", NF4, data);
}

/// The folders that the targets begin with, by the targets' names.
pub fn quantised_seeds() -> [(&'static str, [&'static [u8]; 2]); 3] {
    [("gptq", GPTQ), ("awq", AWQ), ("nf4", NF4)]
}
