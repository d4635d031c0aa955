//! Ed25519 keys, and their files: PKCS#8 in PEM (RFC 8410), the public key beside it, as OpenSSL reads and writes them.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
    KeypairBytes,
};
use ed25519_dalek::{Signer as _, VerifyingKey};
use hlx_core::files;
use serde::{Deserialize, Serialize};

use crate::digest::Hex;
use crate::{ReceiptError, Result};

/// The bytes of a key's file at most.
const MOST_BYTES: u64 = 16 << 10;

/// A private key. Its memory is overwritten when it is dropped.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

/// A public key: written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Hex<32>", into = "Hex<32>")]
pub struct PublicKey(VerifyingKey);

/// The file of the public key beside a private one.
pub fn public_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

impl SigningKey {
    /// A new key.
    ///
    /// # Errors
    /// [`ReceiptError::Random`].
    pub fn random() -> Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| ReceiptError::Random(error.to_string()))?;
        Ok(Self::of_seed(&seed))
    }

    /// The key of a seed (RFC 8032).
    pub fn of_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs a message (RFC 8032, without a hash before it).
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }

    /// Writes the key to a new file that its user alone can read, and the public key beside it.
    ///
    /// # Errors
    /// [`ReceiptError::KeyFile`] where one of the files is there, and what the system says.
    pub fn create(&self, path: &Path) -> Result<()> {
        let beside = public_path(path);
        if fs::symlink_metadata(&beside).is_ok() {
            return Err(ReceiptError::key_file(&beside, "is there already"));
        }
        let wrong = |error: &dyn fmt::Display| ReceiptError::key_file(path, error.to_string());
        let bytes = KeypairBytes {
            secret_key: self.0.to_bytes(),
            public_key: None,
        };
        let private = bytes.to_pkcs8_pem(LineEnding::LF);
        let private = private.map_err(|error| wrong(&error))?;
        create(path, private.as_bytes(), 0o600)?;
        let written = create(&beside, self.public().to_pem()?.as_bytes(), 0o644);
        if written.is_err() {
            // Half a pair is worth nothing; that it cannot be removed is less than why it is removed.
            let _ = fs::remove_file(path);
        }
        written
    }

    /// Reads a private key.
    ///
    /// # Errors
    /// [`ReceiptError::KeyFile`] for a file that others can read, and for one that holds no private Ed25519 key.
    pub fn open(path: &Path) -> Result<Self> {
        let wrong = |reason: &str| ReceiptError::key_file(path, reason);
        let file = files::open(path).map_err(|error| wrong(&error.to_string()))?;
        let found = file.metadata().map_err(|error| wrong(&error.to_string()))?;
        let text = text_of(file).map_err(|reason| wrong(&reason))?;
        if VerifyingKey::from_public_key_pem(&text).is_ok() {
            return Err(wrong("holds a public key, expected a private one"));
        }
        if is_open(&found) {
            let reason = "other users can read this private key; `chmod 600` closes it";
            return Err(wrong(reason));
        }
        let key = ed25519_dalek::SigningKey::from_pkcs8_pem(&text);
        key.map(Self)
            .map_err(|_| wrong("holds no private Ed25519 key (PKCS#8 in PEM)"))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey of {}", self.public())
    }
}

impl PublicKey {
    /// Whether this key has signed a message. Keys of small order and signatures with another spelling are refused.
    pub fn has_signed(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature);
        self.0.verify_strict(message, &signature).is_ok()
    }

    /// The key in PEM.
    ///
    /// # Errors
    /// [`ReceiptError::Form`]; it is not expected to fail.
    pub fn to_pem(&self) -> Result<String> {
        let text = self.0.to_public_key_pem(LineEnding::LF);
        text.map_err(ReceiptError::form)
    }

    /// Reads the public key of a file, which may also hold a private one.
    ///
    /// # Errors
    /// [`ReceiptError::KeyFile`] for a file that holds no Ed25519 key, and as [`SigningKey::open`] for a private one.
    pub fn open(path: &Path) -> Result<Self> {
        let wrong = |reason: &str| ReceiptError::key_file(path, reason);
        let file = files::open(path).map_err(|error| wrong(&error.to_string()))?;
        let text = text_of(file).map_err(|reason| wrong(&reason))?;
        if text.contains("PRIVATE KEY") {
            return Ok(SigningKey::open(path)?.public());
        }
        match VerifyingKey::from_public_key_pem(&text) {
            Ok(key) => Ok(Self(key)),
            Err(_) => Err(wrong("holds no Ed25519 key (PEM)")),
        }
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(self.0.to_bytes()).fmt(f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl From<PublicKey> for Hex<32> {
    fn from(key: PublicKey) -> Self {
        Self(key.0.to_bytes())
    }
}

impl TryFrom<Hex<32>> for PublicKey {
    type Error = String;

    fn try_from(bytes: Hex<32>) -> Result<Self, String> {
        let key = VerifyingKey::from_bytes(&bytes.0);
        key.map(Self)
            .map_err(|_| format!("{bytes} is no Ed25519 key"))
    }
}

/// Writes a file that is not there yet.
fn create(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    let written = options.open(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => ReceiptError::key_file(path, "is there already"),
        _ => ReceiptError::key_file(path, error),
    })
}

fn text_of(file: File) -> Result<String, String> {
    let mut bytes = Vec::new();
    let n = file.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    let n = n.map_err(|error| error.to_string())?;
    if n as u64 > MOST_BYTES {
        return Err(format!("more than {MOST_BYTES} bytes, expected a key"));
    }
    String::from_utf8(bytes).map_err(|_| "is no text, expected PEM".to_owned())
}

/// Whether others than its user can read a file.
fn is_open(found: &fs::Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::mode(found) & 0o077 != 0;
    #[cfg(not(unix))]
    return found.is_symlink();
}
