//! What several tests need: the fixtures, and the bytes that their maker made too.
#![allow(dead_code, reason = "each test uses a part")]

use std::path::PathBuf;

use hlx_core::digest::sha256_hex;
use hlx_gguf::BlockKind;

pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Any bytes of blocks, as `make_gguf.py` makes them: no scale is an infinity or NaN.
pub fn bytes_of(kind: BlockKind, n_blocks: usize) -> Vec<u8> {
    let size = kind.block_bytes();
    let mut bytes = Vec::new();
    for at in 0..(n_blocks * size).div_ceil(32) {
        let hex = sha256_hex(format!("{} {at}", kind.name()).as_bytes());
        let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("digits");
        bytes.extend((0..32).map(byte));
    }
    bytes.truncate(n_blocks * size);
    for block in bytes.chunks_exact_mut(size) {
        for &place in kind.halves() {
            block[place + 1] &= 0xbf;
        }
    }
    bytes
}

/// A folder of one test, removed with it.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Self {
        let name = format!("hlx-gguf-{test}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
