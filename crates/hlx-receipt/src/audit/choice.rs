//! Which stretches are recomputed: a function of a seed and of the digest of the run's last record.
//!
//! Draw i is the first 8 bytes, as a little-endian number, of the SHA-256 of
//!
//! ```text
//! "hlx.audit/1" | SHA-256 of the seed's UTF-8 | digest of the last record | n | i
//! ```
//!
//! with the digests as 32 bytes each, and n (the number of stretches) and i as 8 bytes, little-endian. The stretches
//! stand in a list in their order. For j = 0, 1, .. the next draw below the largest multiple of n - j that fits into 64
//! bits (others are passed over) gives r, the draw modulo n - j; the entries j and j + r change places. The first
//! K entries are
//! the choice.

use crate::digest::{Hex, Sha256};
use crate::{ReceiptError, Result};

/// The bytes of a seed at most.
pub const MOST_SEED_BYTES: usize = 256;
/// What each draw begins with.
const DOMAIN: &[u8] = b"hlx.audit/1";

/// Checks a seed: any text that is not empty and on one line.
///
/// # Errors
/// [`ReceiptError::Audit`].
pub fn check_seed(seed: &str) -> Result<()> {
    let wrong = |reason: String| Err(ReceiptError::Audit(format!("the seed {reason}")));
    match seed.len() {
        0 => wrong("is empty, expected a number or any other text".to_owned()),
        n if n > MOST_SEED_BYTES => {
            wrong(format!("has {n} bytes, expected at most {MOST_SEED_BYTES}"))
        }
        _ if seed.chars().any(char::is_control) => wrong("has a control character".to_owned()),
        _ => Ok(()),
    }
}

/// A seed that nobody could know: 32 hexadecimal digits.
///
/// # Errors
/// [`ReceiptError::Random`].
pub fn random_seed() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| ReceiptError::Random(error.to_string()))?;
    Ok(Hex(bytes).to_string())
}

/// Chooses `k` of `n` stretches; their numbers, from 0, in increasing order.
///
/// # Errors
/// [`ReceiptError::Audit`] for a `k` that is 0 or above `n`, and as [`check_seed`].
pub fn choose(seed: &str, head: &Sha256, n: u64, k: u64) -> Result<Vec<u64>> {
    check_seed(seed)?;
    if k == 0 || k > n {
        let reason = format!("{k} stretches cannot be chosen of {n}: expected 1 to {n}");
        return Err(ReceiptError::Audit(reason));
    }
    let front = [
        DOMAIN,
        &Sha256::of(seed.as_bytes()).0,
        &head.0,
        &n.to_le_bytes(),
    ]
    .concat();
    let mut draws = (0_u64..).map(|i| {
        let digest = Sha256::of(&[&front[..], &i.to_le_bytes()].concat());
        let mut first = [0; 8];
        first.copy_from_slice(&digest.0[..8]);
        u64::from_le_bytes(first)
    });
    let mut list: Vec<u64> = (0..n).collect();
    for at in 0..k {
        let left = n - at;
        // The largest multiple is 2^64 - (2^64 mod left).
        let passed_over = (u64::MAX % left + 1) % left;
        let draw = draws.find(|&draw| draw <= u64::MAX - passed_over);
        let other = at + draw.unwrap_or(0) % left;
        list.swap(at as usize, other as usize);
    }
    list.truncate(k as usize);
    list.sort_unstable();
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_those_that_were_published() {
        let head = Sha256::of(b"head");
        let chosen = |seed, n, k| choose(seed, &head, n, k).expect("is chosen");
        assert_eq!(chosen("7", 9, 9), (0..9).collect::<Vec<_>>());
        assert_eq!(chosen("7", 100, 5), PUBLISHED);
        assert_ne!(chosen("8", 100, 5), PUBLISHED);
        let other = choose("7", &Sha256::of(b"other"), 100, 5).expect("is chosen");
        assert_ne!(other, PUBLISHED);
    }

    /// By `hashlib` of Python, written from the description above.
    const PUBLISHED: [u64; 5] = [9, 20, 21, 27, 83];

    #[test]
    fn each_stretch_is_chosen_equally_often() {
        let head = Sha256::of(b"head");
        let mut found = [0_u32; 7];
        for seed in 0..7_000 {
            for at in choose(&seed.to_string(), &head, 7, 3).expect("is chosen") {
                found[at as usize] += 1;
            }
        }
        // 3,000 each; the standard deviation is 41.
        assert!(
            found.iter().all(|n| (2_800..3_200).contains(n)),
            "{found:?}"
        );
    }

    #[test]
    fn what_cannot_be_chosen_has_a_line() {
        let head = Sha256::of(b"head");
        let error = |seed: &str, n, k| choose(seed, &head, n, k).expect_err("fails").to_string();
        assert_eq!(
            error("7", 3, 4),
            "4 stretches cannot be chosen of 3: expected 1 to 3"
        );
        assert!(error("7", 3, 0).starts_with("0 stretches"));
        assert!(error("", 3, 1).starts_with("the seed is empty"));
        assert!(error("a\nb", 3, 1).starts_with("the seed has a control character"));
        assert!(error(&"a".repeat(257), 3, 1).starts_with("the seed has 257 bytes"));
    }
}
