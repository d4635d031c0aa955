//! The words and numbers of the format.

/// What receipts say in `type`.
pub const KIND: &str = "hlx.receipt";
/// The format's number.
pub const VERSION: u32 = 1;
/// What signatures say in `algorithm`.
pub const ALGORITHM: &str = "Ed25519";
/// The bytes of a receipt at most.
pub const MOST_BYTES: usize = 64 << 20;
