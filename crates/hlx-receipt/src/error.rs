//! What can go wrong with receipts and keys: one line each.

use std::path::Path;

use thiserror::Error;

/// An error of a receipt or a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReceiptError {
    /// Bytes that are no receipt.
    #[error("the receipt is damaged: {0}")]
    Form(String),
    /// JSON of another kind.
    #[error("no receipt: its type is {0}, expected \"{kind}\"", kind = crate::format::KIND)]
    Kind(String),
    /// A version that is not known here.
    #[error("the receipt has version {0}, and this HLX knows version {known}", known = crate::format::VERSION)]
    Version(String),
    /// A signature that is not that of the key over the receipt.
    #[error("the signature is not that of the key {0} over this receipt")]
    Signature(String),
    /// A receipt of another key than the one expected.
    #[error("the receipt is signed by the key {found}, expected {expected}")]
    OtherKey {
        /// The receipt's key.
        found: String,
        /// The key that was given.
        expected: String,
    },
    /// Bytes that are no certificate of an audit, or one that contradicts itself.
    #[error("the certificate is damaged: {0}")]
    Certificate(String),
    /// A signature that is not that of the key over the certificate.
    #[error("the signature is not that of the key {0} over this certificate")]
    CertificateSignature(String),
    /// A certificate of another key than the one expected.
    #[error("the certificate is signed by the key {found}, expected {expected}")]
    CertificateKey {
        /// The certificate's key.
        found: String,
        /// The key that was given.
        expected: String,
    },
    /// What an audit is told to do and cannot.
    #[error("{0}")]
    Audit(String),
    /// A key's file.
    #[error("{path}: {reason}")]
    KeyFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system has no random numbers.
    #[error("no random numbers: {0}")]
    Random(String),
}

impl ReceiptError {
    pub(crate) fn form(reason: impl ToString) -> Self {
        Self::Form(reason.to_string())
    }

    pub(crate) fn certificate(reason: impl ToString) -> Self {
        Self::Certificate(reason.to_string())
    }

    pub(crate) fn key_file(path: &Path, reason: impl ToString) -> Self {
        Self::KeyFile {
            path: path.display().to_string(),
            reason: reason.to_string(),
        }
    }
}
