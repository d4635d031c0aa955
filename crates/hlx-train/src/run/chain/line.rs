//! A line of a chain: its digest is proved, and that it follows the line before.

use anyhow::{Result, anyhow, bail, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use sha2::{Digest, Sha256};

use super::VERSION;
use super::record::{ChainRecord, Origin, SEAL};

/// Bytes of a line's end: the seal, 64 digits and `"}`.
const SEALED_BYTES: usize = SEAL.len() + 64 + 2;

/// What to do about a chain that has lost something.
pub const WAY_OUT: &str =
    "; restore the file from a copy, or train the run again: it has the same bits";

/// What of a record is proved against the one before.
#[derive(Deserialize)]
pub struct Link {
    pub step: u64,
    #[serde(default)]
    pub origin: Option<Origin>,
    losses: Vec<IgnoredAny>,
    norms: Vec<IgnoredAny>,
    previous: String,
}

impl Link {
    pub fn of(record: &ChainRecord) -> Self {
        Self {
            step: record.step,
            origin: record.origin.clone(),
            losses: vec![IgnoredAny; record.losses.len()],
            norms: vec![IgnoredAny; record.norms.len()],
            previous: record.previous.clone(),
        }
    }
}

/// Reads a line and proves its digest.
pub fn unseal(line: &[u8]) -> Result<(ChainRecord, String)> {
    let (body, digest) = proved(line)?;
    let body = [body, b"}"].concat();
    let record = serde_json::from_slice(&body).map_err(|error| anyhow!("is no record: {error}"))?;
    Ok((record, digest))
}

/// A line's bytes without its digest and the end, and the digest, which is theirs.
pub fn proved(line: &[u8]) -> Result<(&[u8], String)> {
    let sealed = line.len().checked_sub(SEALED_BYTES);
    let (body, end) = sealed
        .and_then(|at| line.split_at_checked(at))
        .ok_or_else(|| anyhow!("is no record of a chain: it is too short{WAY_OUT}"))?;
    let stated = end
        .strip_prefix(SEAL.as_bytes())
        .and_then(|end| end.strip_suffix(b"\"}"))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .ok_or_else(|| anyhow!("is damaged: it does not end in its digest{WAY_OUT}"))?;
    let mut hash = Sha256::new();
    hash.update(body);
    hash.update(b"}");
    let digest = hex(&hash.finalize());
    ensure!(
        digest == stated,
        "is damaged: its SHA-256 is {digest}, it says {stated}{WAY_OUT}"
    );
    Ok((body, digest))
}

/// Digits of a digest.
fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// Fails unless a record may follow another, or be the first.
pub fn check_follows(before: Option<(u64, &str)>, link: &Link) -> Result<()> {
    let Link {
        step,
        origin,
        losses,
        norms,
        previous,
    } = link;
    let Some((from, digest)) = before else {
        let Some(origin) = origin else {
            bail!("is not the first record of a chain: records before it are missing{WAY_OUT}");
        };
        ensure!(
            (1..=VERSION).contains(&origin.version),
            "is of version {} of the format, expected 1 to {VERSION}: a newer HLX reads it",
            origin.version
        );
        ensure!(previous.is_empty(), "names a record before it, {previous}");
        return Ok(());
    };
    ensure!(
        previous == digest,
        "names {previous} as the record before it, which is {digest}: records are missing or replaced{WAY_OUT}"
    );
    ensure!(
        *step > from && origin.is_none(),
        "is of step {step} behind a record of step {from}"
    );
    let expected = step - from;
    for (what, found) in [("losses", losses.len()), ("norms", norms.len())] {
        ensure!(
            found as u64 == expected,
            "holds {found} {what} of steps {} to {step}, expected {expected}",
            from + 1
        );
    }
    Ok(())
}
