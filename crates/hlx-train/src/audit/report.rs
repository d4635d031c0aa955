//! What audits and checks of certificates found, in JSON, and the files of certificates.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use hlx_core::files;
use hlx_receipt::{Audit, Certificate, MOST_CERTIFICATE_BYTES};
use serde_json::{Value, json};

use super::{Fault, Outcome};
use crate::receipts::Verdict;

/// What is said of a certificate that is of the folder's run.
pub const OF_THIS_RUN: &str = "the certificate is of this run";

/// What an audit found, and the certificate that was written of it.
pub fn report(audit: &Audit, outcome: &Outcome, written: Option<(&Path, &Certificate)>) -> Value {
    let (other, difference) = match &outcome.fault {
        None => (None, None),
        Some(Fault::OtherState(path)) => (Some(path.display().to_string()), None),
        Some(Fault::Steps(difference)) => (None, Some(difference)),
    };
    json!({
        "kind": "audit",
        "equal": outcome.fault.is_none(),
        "audit": outcome.fault.is_none().then_some(audit),
        "other_state": other,
        "difference": difference,
        "certificate": written.map(|(path, certificate)| json!({
            "file": path.display().to_string(), "sha256": certificate.sha256, "key": certificate.key,
        })),
    })
}

/// What a check of a certificate found.
pub fn report_of_check(verdict: &Verdict, certificate: Option<&Certificate>) -> Value {
    json!({
        "kind": "audit check",
        "equal": verdict.valid,
        "message": verdict.message,
        "checks": verdict.checks,
        "audit": certificate.map(|found| &found.audit),
        "sha256": certificate.map(|found| found.sha256),
    })
}

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
