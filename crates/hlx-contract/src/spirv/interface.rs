//! Reads the interface of a module's entry point, and checks it.

use std::collections::BTreeMap;

use super::access::Accesses;
use super::constants;
use super::entry::{capabilities, entry_point, local_size};
use super::grammar::op;
use super::module::Module;
use super::reflect::Reflection;
use super::types::Types;
use super::variables::Variable;

/// Reads an entry point's interface, and checks it.
pub(super) fn reflect(module: &Module, types: &Types, entry: &str) -> Result<Reflection, String> {
    let function = entry_point(module, types, entry)?;
    let (constants, values) = constants::read(module, types)?;
    let mut reflection = Reflection {
        bindings: BTreeMap::new(),
        push_constants: Vec::new(),
        constants,
        capabilities: capabilities(module)?,
        local_size: local_size(module, function)?,
        shared: Vec::new(),
        values,
    };
    let accesses = Accesses::of(module, types);
    for instruction in &module.instructions {
        if instruction.opcode == op::Function {
            break;
        }
        if instruction.opcode == op::Variable {
            let id = instruction.ids.result;
            let named = |reason: String| instruction.fault(format!("%{id}: {reason}"));
            let variable = Variable { module, types, id };
            variable
                .read(instruction, &accesses, &mut reflection)
                .map_err(named)?;
        }
    }
    Ok(reflection)
}
