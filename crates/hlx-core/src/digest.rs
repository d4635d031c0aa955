//! SHA-256 over tensors: how HLX proves that bits are equal.

use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::bytes::little_endian;
use crate::bytes::to_hex;
use crate::files;

/// The bits that every NaN is read as: payloads differ between devices.
pub const CANONICAL_NAN: u32 = 0x7fc0_0000;

/// Returns the word's bits, every NaN as [`CANONICAL_NAN`].
pub fn canonical_bits(value: f32) -> u32 {
    if value.is_nan() {
        CANONICAL_NAN
    } else {
        value.to_bits()
    }
}

/// Hashes named tensors in the order they are added: name, shape, then the words, all
/// little-endian, lengths first, so that no two lists of tensors share a byte string.
#[derive(Clone, Default)]
pub struct TensorHasher(Sha256);

impl TensorHasher {
    /// Starts an empty hash.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor: its name, its shape and its values.
    pub fn add(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        self.begin(name, shape);
        self.values(values);
    }

    /// Adds a tensor's name and shape; [`TensorHasher::values`] adds its values, in one call or several.
    pub fn begin(&mut self, name: &str, shape: &[usize]) {
        self.0.update((name.len() as u64).to_le_bytes());
        self.0.update(name.as_bytes());
        self.0.update((shape.len() as u64).to_le_bytes());
        for &extent in shape {
            self.0.update((extent as u64).to_le_bytes());
        }
    }

    /// Adds values of the tensor that was begun last.
    pub fn values(&mut self, values: &[f32]) {
        let mut words = [0; 1 << 12];
        for chunk in values.chunks(words.len()) {
            let words = &mut words[..chunk.len()];
            for (word, &value) in words.iter_mut().zip(chunk) {
                *word = canonical_bits(value);
            }
            self.0.update(little_endian(words));
        }
    }

    /// Adds bytes of the tensor that was begun last, for elements that are no f32: little-endian.
    pub fn elements(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest as 64 hexadecimal digits.
    pub fn finish(self) -> String {
        to_hex(&self.0.finalize())
    }
}

/// Returns the SHA-256 of bytes as 64 hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

/// Returns the SHA-256 of a regular file as 64 hexadecimal digits; no more than a MiB of it is in memory.
///
/// # Errors
/// As [`files::open`]; the system's.
pub fn sha256_of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut hash) = (files::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(to_hex(&hash.finalize())),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Returns the digest of one tensor's values alone.
pub fn tensor_digest(values: &[f32]) -> String {
    let mut hasher = TensorHasher::new();
    hasher.add("", &[values.len()], values);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(b"abc"), abc);
    }

    #[test]
    fn nan_payloads_do_not_count_and_signs_of_zero_do() {
        let quiet = f32::from_bits(0x7fc0_1234);
        assert_eq!(tensor_digest(&[quiet]), tensor_digest(&[f32::NAN]));
        assert_ne!(tensor_digest(&[0.0]), tensor_digest(&[-0.0]));
    }

    #[test]
    fn values_may_come_in_parts_and_bytes_from_a_file() {
        let values: Vec<f32> = (0..10_000).map(|n| n as f32).collect();
        let mut hasher = TensorHasher::new();
        hasher.begin("", &[values.len()]);
        values.chunks(777).for_each(|part| hasher.values(part));
        assert_eq!(hasher.finish(), tensor_digest(&values));
        let path = std::env::temp_dir().join(format!("hlx-digest-{}", std::process::id()));
        let bytes = vec![7; (1 << 20) + 5];
        std::fs::write(&path, &bytes).expect("written");
        let found = sha256_of_file(&path);
        std::fs::remove_file(&path).expect("removed");
        assert_eq!(found.expect("read"), sha256_hex(&bytes));
    }

    #[test]
    fn names_and_shapes_count() {
        let digest = |name: &str, shape: &[usize]| {
            let mut hasher = TensorHasher::new();
            hasher.add(name, shape, &[1.0, 2.0]);
            hasher.finish()
        };
        assert_ne!(digest("a", &[2]), digest("b", &[2]));
        assert_ne!(digest("a", &[2]), digest("a", &[1, 2]));
    }
}
