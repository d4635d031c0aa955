//! The reader of SPIR-V that all of HLX uses; `rspirv` parses.
//!
//! - [`read`] and [`read_declarations`] return a module's instructions with their ids;
//! - [`interface`] returns what a launch must bind: storage buffers and push constants;
//! - [`with_float_controls`] adds the float-control modes that a device supports;
//! - [`arithmetic`] finds what HLX's arithmetic forbids in a shader (docs/numerics.md);
//! - [`join`] makes modules of the functions of others;
//! - [`push_constants`] lays a shader's push-constant block out as words.
//!
//! Modules may come from outside: every function returns an error for malformed words and none
//! panics. This crate knows no device; contracts' validator (`hlx-contract`) builds on it.

pub mod arithmetic;
mod entry;
mod float_controls;
mod interface;
pub mod join;
mod read;
mod types;

pub use entry::rename_entry;
pub use float_controls::{FloatControls, with_float_controls};
pub use interface::{Interface, PushConstant, PushScalar, interface, push_constants};
pub use read::{
    Accept, HEADER_WORDS, Ids, Instruction, MAGIC, read, read_accepted, read_declarations, string,
    words,
};
pub use rspirv::spirv;

/// Words that are no SPIR-V module, or not of the part of SPIR-V that HLX reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpirvError(pub String);

impl From<String> for SpirvError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}
