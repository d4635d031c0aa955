//! Which variables a module loads from and stores to, through chains of pointers and calls.

use std::collections::{HashMap, HashSet};

use super::grammar::op;
use super::module::Module;
use super::types::{Type, Types};

/// How a variable is accessed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    pub reads: bool,
    pub writes: bool,
}

/// The accesses of a module by variable.
pub(super) struct Accesses(HashMap<u32, Access>);

impl Accesses {
    /// Collects them from every function.
    pub fn of(module: &Module, types: &Types) -> Self {
        let mut found: HashMap<u32, Access> = HashMap::new();
        let roots = Roots::of(module);
        for instruction in &module.instructions {
            let used = &instruction.ids.used;
            let touched: &[(u32, bool, bool)] = match instruction.opcode {
                op::Load => &[(used[0], true, false)],
                op::Store => &[(used[0], false, true)],
                op::CopyMemory => &[(used[0], false, true), (used[1], true, false)],
                op::AtomicLoad => &[(used[0], true, false)],
                op::AtomicStore => &[(used[0], false, true)],
                op::AtomicExchange..=op::AtomicXor => &[(used[0], true, true)],
                _ => &[],
            };
            for &(pointer, reads, writes) in touched {
                let Ok(kind) = types.of_value(module, pointer) else {
                    continue;
                };
                if !matches!(types.get(kind), Ok(Type::Pointer { .. })) {
                    continue;
                }
                for variable in roots.variables(module, pointer) {
                    let access = found.entry(variable).or_default();
                    access.reads |= reads;
                    access.writes |= writes;
                }
            }
        }
        Self(found)
    }

    /// How a variable is accessed.
    pub fn of_variable(&self, id: u32) -> Access {
        self.0.get(&id).copied().unwrap_or_default()
    }
}

/// The arguments that calls pass for each parameter.
struct Roots(HashMap<u32, Vec<u32>>);

impl Roots {
    fn of(module: &Module) -> Self {
        let mut arguments: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut parameters: HashMap<u32, Vec<u32>> = HashMap::new();
        for function in &module.functions {
            let ids = function
                .parameters
                .iter()
                .map(|&i| module.instructions[i].ids.result);
            parameters.insert(
                module.instructions[function.definition].ids.result,
                ids.collect(),
            );
        }
        for call in module
            .instructions
            .iter()
            .filter(|i| i.opcode == op::FunctionCall)
        {
            let given = &call.ids.used[1..];
            let taken = parameters
                .get(&call.ids.used[0])
                .map_or(&[][..], Vec::as_slice);
            for (&parameter, &argument) in taken.iter().zip(given) {
                let list = arguments.entry(parameter).or_default();
                if !list.contains(&argument) {
                    list.push(argument);
                }
            }
        }
        Self(arguments)
    }

    /// The variables that a pointer may point to.
    fn variables(&self, module: &Module, pointer: u32) -> Vec<u32> {
        let (mut found, mut seen, mut open) = (Vec::new(), HashSet::new(), vec![pointer]);
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let definition = module.definition(id);
            match definition.opcode {
                op::Variable => found.push(id),
                op::AccessChain | op::InBoundsAccessChain => open.push(definition.ids.used[0]),
                op::FunctionParameter => open.extend(self.0.get(&id).into_iter().flatten()),
                _ => {}
            }
        }
        found
    }
}
