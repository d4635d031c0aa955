//! What the ranks of a run know and strangers do not.
//!
//! Two ranks prove it to each other before either believes a word of the other ([`crate::secure`]). It is never
//! printed, logged or given on a command line.

mod file;
pub(crate) mod private;

use std::ffi::OsString;
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{RankError, Result};

/// The variables: the secret itself, or the file that holds it.
const SECRET: &str = "HLX_SECRET";
const SECRET_FILE: &str = "HLX_SECRET_FILE";
/// The variable that allows addresses of other hosts without a secret.
const ALLOW: &str = "HLX_ALLOW_NO_SECRET";
/// The fewest bytes of a secret, and the most.
const SHORTEST: usize = 16;
const LONGEST: usize = 4096;
const ADVICE: &str = "`openssl rand -hex 32` prints a good one";

/// A secret, as the key that is made from it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Draws a secret from the operating system's random numbers.
    ///
    /// # Errors
    /// [`RankError::Start`] with the system's message.
    pub fn random() -> Result<Self> {
        let mut key = [0; 32];
        let failed = |error| RankError::start("random numbers of the system", error);
        getrandom::fill(&mut key).map_err(failed)?;
        Ok(Self(key))
    }

    /// The key of a user's secret.
    fn of_bytes(bytes: &[u8]) -> Self {
        Self(digest(&[b"hlx-ranks secret", bytes]))
    }

    /// What everybody knows, where the user has chosen to do without a secret.
    fn known_to_all() -> Self {
        Self::of_bytes(b"")
    }

    /// The secret of one run among those of the same user.
    pub(crate) fn of_run(&self, run: &str) -> Self {
        Self(digest(&[&self.0, run.as_bytes()]))
    }

    /// What shows that somebody knows the secret, without telling it.
    pub(crate) fn proof(&self, what: &str) -> [u8; 32] {
        digest(&[b"hlx-ranks proof", &self.0, what.as_bytes()])
    }

    pub(crate) fn key(&self) -> &[u8; 32] {
        &self.0
    }

    /// The secret as text, for the environment of a process that this one starts.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The secret of a text that [`Secret::to_text`] has made.
    pub fn from_text(text: &str) -> Option<Self> {
        let digits = text.bytes().map(|digit| char::from(digit).to_digit(16));
        let digits = digits.collect::<Option<Vec<u32>>>()?;
        let (pairs, []) = digits.as_chunks::<2>() else {
            return None;
        };
        let bytes = pairs.iter().map(|[high, low]| (high * 16 + low) as u8);
        let key = bytes.collect::<Vec<u8>>().try_into().ok()?;
        Some(Self(key))
    }
}

/// The digest of parts, each with its length: no two lists of parts have the same bytes.
fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What the user has said about strangers.
#[derive(Debug)]
pub(crate) enum Trust {
    /// Ranks prove this secret.
    Secret(Secret),
    /// Whoever reaches a port may be a rank: the user has said that nobody else does.
    Everybody(Secret),
    /// Nothing was said: no address of another host is used.
    ThisHost,
}

impl Trust {
    /// Reads the variables.
    ///
    /// # Errors
    /// [`RankError::Start`] for a secret that is too short, for a file that is missing or that others can read, and
    /// for variables that exclude each other.
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let given = match (set(SECRET), set(SECRET_FILE)) {
            (Some(_), Some(_)) => {
                let name = format!("{SECRET} and {SECRET_FILE}");
                return Err(RankError::start(name, "set only one of them"));
            }
            (Some(secret), None) => Some((SECRET.to_owned(), secret.into_encoded_bytes())),
            (None, Some(path)) => {
                let name = format!("{SECRET_FILE} {:?}", path.to_string_lossy());
                let bytes = file::read(path.as_ref(), LONGEST);
                let bytes = bytes.map_err(|reason| RankError::start(&name, reason))?;
                Some((name, bytes))
            }
            (None, None) => None,
        };
        if let Some((name, bytes)) = given {
            return checked(&name, &bytes).map(Self::Secret);
        }
        match set(ALLOW) {
            None => Ok(Self::ThisHost),
            Some(value) if value == "1" => Ok(Self::Everybody(Secret::known_to_all())),
            Some(value) => {
                let name = format!("{ALLOW} {:?}", value.to_string_lossy());
                Err(RankError::start(name, "expected 1 or nothing"))
            }
        }
    }

    /// The secret, and whether addresses of other hosts may be used.
    ///
    /// # Errors
    /// [`RankError::Start`] if this user's secret on this machine cannot be read or made.
    pub fn settle(self) -> Result<(Secret, bool)> {
        match self {
            Self::Secret(secret) | Self::Everybody(secret) => Ok((secret, true)),
            Self::ThisHost => {
                let (folder, made) = file::of_user();
                let failed = |reason: String| {
                    let advice = format!("{reason}; set {SECRET} on all ranks instead");
                    RankError::start(format!("a secret in {}", folder.display()), advice)
                };
                Ok((made.map_err(failed)?, false))
            }
        }
    }

    /// Why an address of another host is not used, and what to do.
    pub fn advice() -> String {
        format!(
            "is not of this machine alone, and ranks there need a secret: set {SECRET}, or {SECRET_FILE}, to the \
             same on all hosts ({ADVICE}), or {ALLOW}=1 where only trusted machines reach these"
        )
    }
}

/// The secret of a user's bytes, without the spaces and the end of the line around them.
fn checked(name: &str, bytes: &[u8]) -> Result<Secret> {
    let bytes = bytes.trim_ascii();
    if !(SHORTEST..=LONGEST).contains(&bytes.len()) {
        let n = bytes.len();
        let reason = format!("{n} bytes, expected {SHORTEST} to {LONGEST}: {ADVICE}");
        return Err(RankError::start(name, reason));
    }
    Ok(Secret::of_bytes(bytes))
}

#[cfg(test)]
mod tests;
