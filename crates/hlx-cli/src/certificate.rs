//! Files of certificates.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_core::files;
use hlx_receipt::MOST_CERTIFICATE_BYTES;

/// Reads a certificate's file, which may be a stranger's.
///
/// # Errors
/// The file and the system's message; a file that is too large.
pub fn certificate_bytes(path: &Path) -> Result<Vec<u8>> {
    let named = || path.display().to_string();
    let file = files::open(path).with_context(named)?;
    let mut bytes = Vec::new();
    let most = MOST_CERTIFICATE_BYTES as u64;
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .with_context(named)?;
    ensure!(
        bytes.len() <= MOST_CERTIFICATE_BYTES,
        "{}: more than {most} bytes, expected a certificate",
        path.display()
    );
    Ok(bytes)
}
