//! Functions: parameters, calls, and that every value is computed before its use.

use std::collections::{HashMap, HashSet};

use super::control_flow::ControlFlow;
use super::grammar::op;
use super::module::{Function, Instruction, Module};
use super::rules::{Rules, check_wide};
use super::types::{Type, Types};

/// Checks every function of a module, and that none calls itself.
pub(super) fn check(module: &Module, types: &Types, glsl: Option<u32>) -> Result<(), String> {
    let rules = Rules {
        module,
        types,
        glsl,
    };
    for function in &module.functions {
        let definition = &module.instructions[function.definition];
        let flow = ControlFlow::read(module, function);
        let checker = Checker {
            module,
            types,
            function,
            flow: &flow.map_err(|reason| definition.fault(reason))?,
            places: places(function),
        };
        checker.check_head()?;
        for (block, range) in function.blocks.iter().enumerate() {
            for instruction in &module.instructions[range.clone()] {
                let named = |reason| instruction.fault(reason);
                checker.check_uses(block, instruction).map_err(named)?;
                let wide = (op::IAddCarry..=op::SMulExtended).contains(&instruction.opcode);
                let checked = match wide {
                    true => check_wide(types, module, instruction),
                    false => rules.check(instruction),
                };
                checked.map_err(named)?;
            }
        }
    }
    check_calls(module)
}

/// Checks the constants that are computed from others.
pub(super) fn check_constants(module: &Module, types: &Types) -> Result<(), String> {
    let rules = Rules {
        module,
        types,
        glsl: None,
    };
    let computed = |i: &&Instruction| i.opcode == op::SpecConstantOp;
    for instruction in module.instructions.iter().filter(computed) {
        let (result, used) = (instruction.ids.result_type, &instruction.ids.used);
        let constant = used.iter().all(|&id| super::types::is_constant(module, id));
        let inner = instruction.words[2] as u16;
        let checked = match inner {
            _ if !constant => Err("an operand is no constant".to_owned()),
            op::CompositeExtract => {
                let whole = types.of_value(module, used[0]);
                let part = whole.and_then(|whole| rules.part(whole, &instruction.words[4..]));
                match part {
                    Ok(part) if part == result => Ok(()),
                    Ok(part) => Err(format!("the part has type %{part}")),
                    Err(reason) => Err(reason),
                }
            }
            _ => rules.arithmetic(inner, result, used),
        };
        checked.map_err(|reason| instruction.fault(reason))?;
    }
    Ok(())
}

/// The block of every instruction of a function; parameters count as the first block's.
fn places(function: &Function) -> HashMap<usize, usize> {
    let parameters = function.parameters.iter().map(|&index| (index, 0));
    let blocks = function.blocks.iter().enumerate();
    blocks
        .flat_map(|(block, range)| range.clone().map(move |index| (index, block)))
        .chain(parameters)
        .collect()
}

struct Checker<'a> {
    module: &'a Module,
    types: &'a Types,
    function: &'a Function,
    flow: &'a ControlFlow,
    places: HashMap<usize, usize>,
}

impl Checker<'_> {
    fn check_head(&self) -> Result<(), String> {
        let definition = &self.module.instructions[self.function.definition];
        let named = |reason: String| definition.fault(reason);
        let Type::Function { result, parameters } =
            self.types.get(definition.words[3]).map_err(named)?
        else {
            return Err(named("its type is no function type".to_owned()));
        };
        let found = self.function.parameters.iter();
        let found: Vec<u32> = found
            .map(|&index| self.module.instructions[index].ids.result_type)
            .collect();
        if *result != definition.ids.result_type || *parameters != found {
            return Err(named("it is not what its type says".to_owned()));
        }
        Ok(())
    }

    fn check_uses(&self, block: usize, instruction: &Instruction) -> Result<(), String> {
        match instruction.opcode {
            op::Phi => return self.check_phi(block, instruction),
            op::Variable => self.check_variable(block, instruction)?,
            op::Return | op::ReturnValue => self.check_return(instruction)?,
            _ => {}
        }
        // Labels and functions are not values; the instructions that use them are checked elsewhere.
        let values = match instruction.opcode {
            op::Branch | op::SelectionMerge | op::LoopMerge | op::Label => &[],
            op::BranchConditional | op::Switch => &instruction.ids.used[..1],
            op::FunctionCall => &instruction.ids.used[1..],
            op::ExtInst => &instruction.ids.used[1..],
            op::Line => &[],
            _ => &instruction.ids.used[..],
        };
        values
            .iter()
            .try_for_each(|&id| self.check_value(id, block, instruction.index))
    }

    /// A value is a constant, a global variable, or computed before `index` on every way there.
    fn check_value(&self, id: u32, block: usize, index: usize) -> Result<(), String> {
        self.types.of_value(self.module, id)?;
        let definition = self.module.definition(id).index;
        let first = self
            .module
            .functions
            .first()
            .map_or(usize::MAX, |f| f.definition);
        if definition < first {
            return Ok(());
        }
        let Some(&home) = self.places.get(&definition) else {
            return Err(format!("%{id} belongs to another function"));
        };
        let before = if home == block {
            definition < index
        } else {
            self.flow.dominates(home, block) || !self.flow.is_reachable(block)
        };
        if before {
            return Ok(());
        }
        Err(format!("%{id} is not computed on every way here"))
    }

    fn check_phi(&self, block: usize, instruction: &Instruction) -> Result<(), String> {
        let range = self.function.blocks[block].start + 1..instruction.index;
        let plain = |i: &Instruction| matches!(i.opcode, op::Phi | op::Line | op::NoLine | op::Nop);
        if !self.module.instructions[range].iter().all(plain) {
            return Err("it is not at the start of its block".to_owned());
        }
        let expected = self.flow.predecessors(block);
        let mut seen = HashSet::new();
        for pair in instruction.ids.used.chunks_exact(2) {
            let parent = self
                .flow
                .block(pair[1])
                .filter(|parent| expected.contains(parent));
            let Some(parent) = parent.filter(|&parent| seen.insert(parent)) else {
                return Err(format!("%{} does not lead here, or does twice", pair[1]));
            };
            if self.types.of_value(self.module, pair[0])? != instruction.ids.result_type {
                return Err(format!("%{} has another type", pair[0]));
            }
            self.check_value(pair[0], parent, self.function.blocks[parent].end)?;
        }
        let storable = self.types.is_storable(instruction.ids.result_type);
        if seen.len() == expected.len() && storable {
            return Ok(());
        }
        Err(format!(
            "{} blocks lead here, it names {}",
            expected.len(),
            seen.len()
        ))
    }

    fn check_variable(&self, block: usize, instruction: &Instruction) -> Result<(), String> {
        let range = self.function.blocks[block].start + 1..instruction.index;
        let plain =
            |i: &Instruction| matches!(i.opcode, op::Variable | op::Line | op::NoLine | op::Nop);
        if block == 0 && self.module.instructions[range].iter().all(plain) {
            return Ok(());
        }
        Err("it is not at the start of its function".to_owned())
    }

    fn check_return(&self, instruction: &Instruction) -> Result<(), String> {
        let result = self.module.instructions[self.function.definition]
            .ids
            .result_type;
        let void = *self.types.get(result)? == Type::Void;
        let fits = match instruction.ids.used.first() {
            None => void,
            Some(&id) => self.types.of_value(self.module, id)? == result && !void,
        };
        if fits {
            return Ok(());
        }
        Err("it does not return what the function's type says".to_owned())
    }
}

/// No function calls itself, through others or at once.
fn check_calls(module: &Module) -> Result<(), String> {
    let calls = calls(module);
    let mut left: HashMap<u32, usize> = calls.iter().map(|(&id, list)| (id, list.len())).collect();
    let mut callers: HashMap<u32, Vec<u32>> = HashMap::new();
    for (&caller, list) in &calls {
        for &callee in list {
            callers.entry(callee).or_default().push(caller);
        }
    }
    // Functions that call only what is done are done.
    let mut ready: Vec<u32> = left
        .iter()
        .filter(|entry| *entry.1 == 0)
        .map(|e| *e.0)
        .collect();
    let mut done = 0;
    while let Some(id) = ready.pop() {
        done += 1;
        for caller in callers.get(&id).into_iter().flatten() {
            if let Some(count) = left.get_mut(caller) {
                *count -= 1;
                if *count == 0 {
                    ready.push(*caller);
                }
            }
        }
    }
    if done == calls.len() {
        return Ok(());
    }
    Err("a function calls itself".to_owned())
}

/// The functions that each function calls, by their ids.
pub(super) fn calls(module: &Module) -> HashMap<u32, HashSet<u32>> {
    let of = |function: &Function| {
        let range = function.definition..function.blocks.last().map_or(0, |block| block.end);
        let called = module.instructions[range]
            .iter()
            .filter(|i| i.opcode == op::FunctionCall);
        called.map(|i| i.ids.used[0]).collect()
    };
    let id = |function: &Function| module.instructions[function.definition].ids.result;
    module.functions.iter().map(|f| (id(f), of(f))).collect()
}
