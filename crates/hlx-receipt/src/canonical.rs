//! Canonical JSON: the JSON Canonicalization Scheme of RFC 8785, by the crate `serde_json_canonicalizer`.

use serde::Serialize;

use crate::{ReceiptError, Result};

/// The canonical bytes of a value: members sorted by the UTF-16 code units of their names, no white space, numbers as
/// ECMAScript writes doubles.
///
/// # Errors
/// A number that is not finite, and a map whose keys are no strings.
pub fn canonical(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json_canonicalizer::to_vec(value).map_err(ReceiptError::form)
}
