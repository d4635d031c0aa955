//! A writer that digests and counts what goes through it.

use std::io::{self, Write};

use sha2::{Digest as _, Sha256};

/// Writes to another writer, and digests it.
pub struct Hashed<W> {
    out: W,
    hasher: Sha256,
    n_bytes: u64,
}

impl<W: Write> Hashed<W> {
    /// Begins an empty digest.
    pub fn new(out: W) -> Self {
        Self {
            out,
            hasher: Sha256::new(),
            n_bytes: 0,
        }
    }

    /// The writer, the digest in hexadecimal, and the number of bytes.
    pub fn finish(self) -> (W, String, u64) {
        (self.out, hex(&self.hasher.finalize()), self.n_bytes)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        self.n_bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The digest of bytes in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
