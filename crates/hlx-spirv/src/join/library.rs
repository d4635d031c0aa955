//! A compiled module, by its definitions.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use rspirv::dr::{self, Operand};
use rspirv::spirv::{Decoration, Op, StorageClass};

use super::Id;
use crate::{SpirvError, read};

/// A compiled module whose functions go into others.
#[derive(Debug)]
pub struct Library {
    pub(super) module: dr::Module,
    /// Unique in the process.
    pub(super) uid: u64,
    /// Where types, constants and global variables are defined.
    globals: HashMap<Id, usize>,
    functions: HashMap<Id, usize>,
    names: HashMap<Id, String>,
    decorations: HashMap<Id, Vec<usize>>,
    glsl: Option<Id>,
}

impl Library {
    /// Reads a module.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read(words: &[u32]) -> Result<Self, SpirvError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        read(words)?;
        let module = dr::load_words(words).map_err(|state| SpirvError(state.to_string()))?;
        let mut found = Self {
            uid: NEXT.fetch_add(1, Ordering::Relaxed),
            globals: HashMap::new(),
            functions: HashMap::new(),
            names: HashMap::new(),
            decorations: HashMap::new(),
            glsl: None,
            module: dr::Module::new(),
        };
        for (at, instruction) in module.types_global_values.iter().enumerate() {
            found
                .globals
                .extend(instruction.result_id.map(|id| (id, at)));
        }
        for (at, function) in module.functions.iter().enumerate() {
            found.functions.extend(function.def_id().map(|id| (id, at)));
        }
        for instruction in &module.debug_names {
            if let [Operand::IdRef(id), Operand::LiteralString(name)] = &instruction.operands[..] {
                found.names.insert(*id, name.clone());
            }
        }
        for (at, instruction) in module.annotations.iter().enumerate() {
            if let Some(Operand::IdRef(id)) = instruction.operands.first() {
                found.decorations.entry(*id).or_default().push(at);
            }
        }
        found.glsl = module.ext_inst_imports.iter().find_map(|import| {
            let is_glsl = import.operands == [Operand::from("GLSL.std.450")];
            import.result_id.filter(|_| is_glsl)
        });
        found.module = module;
        Ok(found)
    }

    /// The function of a name in GLSL, of which there must be one.
    pub fn function(&self, name: &str) -> Option<Id> {
        let is_it = |found: &str| {
            found
                .split_once('(')
                .is_some_and(|(found, _)| found == name)
        };
        let mut found = self.functions.keys().filter(|id| is_it(self.name(**id)));
        found.next().copied().filter(|_| found.next().is_none())
    }

    /// The words of parameters that a function and those that it calls read: the push constants
    /// from the second word on, after the count that every frame has first.
    ///
    /// # Errors
    /// What else of the frame they read: its buffers, the number of the thread.
    pub fn parameters(&self, function: Id) -> Result<u32, SpirvError> {
        let (mut waiting, mut seen) = (vec![function], HashSet::from([function]));
        let mut words = 0;
        while let Some(function) = waiting.pop() {
            let body = self.body(function).ok_or_else(|| self.fault(function))?;
            for instruction in body.all_inst_iter() {
                if let Some(word) = self.parameter(instruction)? {
                    words = words.max(word + 1);
                    continue;
                }
                for id in instruction.operands.iter().filter_map(Operand::id_ref_any) {
                    if self.functions.contains_key(&id) && seen.insert(id) {
                        waiting.push(id);
                    }
                    let global = self.global(id);
                    if global.is_some_and(|global| global.class.opcode == Op::Variable) {
                        return Err(self.fault(id));
                    }
                }
            }
        }
        Ok(words)
    }

    fn fault(&self, id: Id) -> SpirvError {
        SpirvError(format!(
            "%{id} `{}` cannot be taken out of its module",
            self.name(id)
        ))
    }

    /// The word of the parameters that an access chain leads to; `None` for another instruction.
    pub(super) fn parameter(
        &self,
        instruction: &dr::Instruction,
    ) -> Result<Option<u32>, SpirvError> {
        let (Op::AccessChain, [Operand::IdRef(base), places @ ..]) =
            (instruction.class.opcode, &instruction.operands[..])
        else {
            return Ok(None);
        };
        let Some(block) = self.push_block(*base) else {
            return Ok(None);
        };
        let fault = || self.fault(*base);
        let literal = |operand: &Operand| self.literal(operand.id_ref_any()?);
        let places: Option<Vec<u32>> = places.iter().map(literal).collect();
        let (member, element) = match places.as_deref() {
            Some([member]) => (*member, 0),
            Some([member, element]) => (*member, *element),
            _ => return Err(fault()),
        };
        let word = self.offset(block, member).ok_or_else(fault)? / 4 + element;
        word.checked_sub(1).map(Some).ok_or_else(fault)
    }

    /// The structure of the push constants, if the id is their variable.
    fn push_block(&self, id: Id) -> Option<Id> {
        let variable = self.global(id)?;
        let push = Operand::StorageClass(StorageClass::PushConstant);
        let is_it = variable.class.opcode == Op::Variable && variable.operands.contains(&push);
        let pointer = self.global(variable.result_type.filter(|_| is_it)?)?;
        pointer.operands.get(1)?.id_ref_any()
    }

    /// The byte offset of a structure's member.
    fn offset(&self, block: Id, member: u32) -> Option<u32> {
        let of_block = self.decorations(block);
        let mut offsets = of_block.filter_map(|decoration| match decoration.operands[..] {
            [
                _,
                Operand::LiteralBit32(of),
                Operand::Decoration(Decoration::Offset),
                Operand::LiteralBit32(offset),
            ] if of == member => Some(offset),
            _ => None,
        });
        offsets.next()
    }

    /// The value of an integer constant.
    fn literal(&self, id: Id) -> Option<u32> {
        let constant = self.global(id)?;
        match (constant.class.opcode, &constant.operands[..]) {
            (Op::Constant, [Operand::LiteralBit32(value)]) => Some(*value),
            _ => None,
        }
    }

    /// The type, constant or global variable of an id.
    pub(super) fn global(&self, id: Id) -> Option<&dr::Instruction> {
        self.module.types_global_values.get(*self.globals.get(&id)?)
    }

    pub(super) fn body(&self, function: Id) -> Option<&dr::Function> {
        self.module.functions.get(*self.functions.get(&function)?)
    }

    pub(super) fn decorations(&self, id: Id) -> impl Iterator<Item = &dr::Instruction> {
        let places = self.decorations.get(&id).into_iter().flatten();
        places.map(|&at| &self.module.annotations[at])
    }

    pub(super) fn is_glsl(&self, id: Id) -> bool {
        self.glsl == Some(id)
    }

    /// An id's name, empty where it has none.
    pub(super) fn name(&self, id: Id) -> &str {
        self.names.get(&id).map_or("", String::as_str)
    }
}
