//! Modules made at run time of the functions of others.
//!
//! A [`Library`] is a compiled module, whose functions an [`Assembler`] copies into a new one, with
//! everything that they reach; what is written around them, the assembler writes instruction by
//! instruction. Modules come from HLX's own compiler: a library is trusted to be valid.

mod assembler;
mod import;
mod library;

pub use assembler::{Assembler, Imported, Loop};
pub use library::Library;

/// The id of a type, a value or a block.
pub type Id = u32;
