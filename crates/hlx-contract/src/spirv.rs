//! SPIR-V that comes from outside: validated before any driver sees it, and reflected.
//!
//! Drivers assume that a module is valid: one that is not may crash the process or corrupt its
//! memory. [`validate`] therefore accepts a closed part of SPIR-V 1.0 to 1.5, compute shaders over storage buffers,
//! and checks all of it: header and words, ids and their order, types and constants, block
//! layouts, structured control flow, dominance, the operands of every instruction, capabilities,
//! the entry point. What it does not know, it refuses by name. `docs/contracts.md` has the list.
//!
//! Two things show only at run time: indexes computed by the shader (robust buffer access bounds
//! those into storage buffers) and loops without end (the driver resets the device).

mod access;
mod annotations;
mod constants;
mod control_flow;
mod dominance;
mod entry;
mod extended;
mod functions;
mod grammar;
mod interface;
mod layout;
mod module;
mod reflect;
mod rules;
mod structure;
#[cfg(test)]
mod tests;
mod types;
mod variables;

pub use constants::ConstantInfo;
pub use layout::ScalarKind;
pub use reflect::{BindingInfo, Reflection};

use grammar::op;
use module::Module;
use types::Types;

/// Validates a module and returns the interface of its entry point.
///
/// # Errors
/// The first fault, with the number and name of its instruction.
pub fn validate(words: &[u32], entry_point: &str) -> Result<Reflection, String> {
    let module = Module::parse(words)?;
    let types = Types::read(&module)?;
    annotations::check(&module, &types)?;
    functions::check_constants(&module, &types)?;
    let imports = module
        .instructions
        .iter()
        .filter(|i| i.opcode == op::ExtInstImport);
    let glsl = imports.map(|i| i.ids.result).next();
    functions::check(&module, &types, glsl)?;
    interface::reflect(&module, &types, entry_point)
}
