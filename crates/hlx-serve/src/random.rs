//! Random numbers.

use crate::error::ApiError;

/// 64 bits of the operating system.
pub(crate) fn random_word() -> Result<u64, ApiError> {
    getrandom::u64().map_err(|error| ApiError::internal(format!("no random numbers: {error}")))
}
