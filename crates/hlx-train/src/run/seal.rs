//! JSON files that state the SHA-256 of their own bytes, so that a flipped bit is found.

use anyhow::{Result, ensure};
use hlx_core::digest::sha256_hex;
use serde::Serialize;

/// What precedes a file's seal.
const SEAL: &[u8] = b"\"seal\": \"";

/// A value with a member `seal`.
pub(super) trait Sealed: Serialize {
    /// The seal: 64 hexadecimal digits, or empty.
    fn seal_mut(&mut self) -> &mut String;
}

/// Fills in the seal, the SHA-256 of the file's bytes with an empty seal, and returns the bytes.
pub(super) fn seal<T: Sealed>(value: &mut T) -> Result<Vec<u8>> {
    value.seal_mut().clear();
    *value.seal_mut() = sha256_hex(&to_bytes(value)?);
    to_bytes(value)
}

fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Fails unless the file's bytes have the digest that they state; a file without a seal (HLX
/// before the chain) has none to check.
pub(super) fn check(bytes: &[u8], stated: &str) -> Result<()> {
    let mut places = bytes.windows(SEAL.len());
    let Some(at) = places.rposition(|window| window == SEAL) else {
        ensure!(
            stated.is_empty(),
            "is damaged: its seal is not where it was written"
        );
        return Ok(());
    };
    let (before, rest) = bytes.split_at(at + SEAL.len());
    let after = rest.get(stated.len()..).unwrap_or_default();
    let found = sha256_hex(&[before, after].concat());
    ensure!(
        found == stated,
        "is damaged: its SHA-256 is {found}, it says {stated}"
    );
    Ok(())
}
