//! Copies a function of a library into a module, with the functions that it calls, their types and
//! constants.

use std::collections::HashSet;

use rspirv::dr::{self, Operand};
use rspirv::spirv::{Decoration, Op};

use super::assembler::{CopyKey, Ids};
use super::{Assembler, Id, Imported, Library};
use crate::SpirvError;

impl Assembler {
    /// Copies a function. Specialization constants of the given ids become the given values; the
    /// others retain their ids. The parameters that it reads are the words of the module's push
    /// constants from `first_parameter` on.
    ///
    /// # Errors
    /// A function that reads what [`Library::parameters`] refuses, and parameters where there are none.
    pub fn import(
        &mut self,
        library: &Library,
        function: Id,
        constants: &[(u32, u32)],
        first_parameter: Option<u32>,
    ) -> Result<Imported, SpirvError> {
        let key = CopyKey {
            library: library.uid,
            constants: constants.to_vec(),
            first_parameter,
        };
        let ids = self.copies.remove(&key).unwrap_or_default();
        let mut import = Import {
            assembler: self,
            library,
            constants,
            first_parameter,
            ids,
        };
        let imported = import.signature(function);
        let ids = import.ids;
        self.copies.insert(key, ids);
        imported
    }
}

/// A copy under way.
struct Import<'a> {
    assembler: &'a mut Assembler,
    library: &'a Library,
    constants: &'a [(u32, u32)],
    first_parameter: Option<u32>,
    ids: Ids,
}

impl Import<'_> {
    fn signature(&mut self, function: Id) -> Result<Imported, SpirvError> {
        let library = self.library;
        let id = self.function(function)?;
        let body = library.body(function).ok_or_else(|| lost(function))?;
        let pointee = |parameter: &dr::Instruction| {
            let pointer = library.global(parameter.result_type?)?;
            pointer.operands.get(1)?.id_ref_any()
        };
        let mut parameters = Vec::with_capacity(body.parameters.len());
        for parameter in &body.parameters {
            let pointee = pointee(parameter).ok_or_else(|| lost(function))?;
            parameters.push(self.global(pointee)?);
        }
        let result = body.def.as_ref().and_then(|def| def.result_type);
        let result = self.global(result.ok_or_else(|| lost(function))?)?;
        Ok(Imported {
            id,
            parameters,
            result,
        })
    }

    /// The new id of a function, which is copied if it is not there.
    fn function(&mut self, function: Id) -> Result<Id, SpirvError> {
        if let Some(&id) = self.ids.get(&function) {
            return Ok(id);
        }
        let library = self.library;
        let body = library.body(function).ok_or_else(|| lost(function))?;
        for id in body.all_inst_iter().filter_map(|i| i.result_id) {
            let new = self.assembler.new_id();
            self.ids.insert(id, new);
            self.decorate(id, new);
        }
        let mut copied = body.clone();
        let mut floats = HashSet::new();
        let def = copied.def.iter_mut().chain(&mut copied.parameters);
        for instruction in def.chain(&mut copied.end) {
            self.renumber(instruction)?;
        }
        for block in &mut copied.blocks {
            if let Some(label) = &mut block.label {
                self.renumber(label)?;
            }
            let instructions = std::mem::take(&mut block.instructions);
            for instruction in instructions {
                self.instruction(instruction, &mut floats, &mut block.instructions)?;
            }
        }
        let new = self.ids[&function];
        self.assembler.name(new, library.name(function));
        self.assembler.add_function(copied);
        Ok(new)
    }

    /// Copies one instruction of a body; `floats` are the pointers to parameters that are floats.
    fn instruction(
        &mut self,
        mut instruction: dr::Instruction,
        floats: &mut HashSet<Id>,
        out: &mut Vec<dr::Instruction>,
    ) -> Result<(), SpirvError> {
        if matches!(instruction.class.opcode, Op::Line | Op::NoLine) {
            return Ok(());
        }
        if let Some(word) = self.library.parameter(&instruction)? {
            let result = instruction.result_id.unwrap_or(0);
            if self.is_float_pointer(&instruction) {
                floats.insert(result);
            }
            let id = self.ids[&result];
            out.push(self.parameter(word, id)?);
            return Ok(());
        }
        let pointer = instruction.operands.first().and_then(Operand::id_ref_any);
        let loads = instruction.class.opcode == Op::Load;
        let is_float = loads && pointer.is_some_and(|pointer| floats.contains(&pointer));
        self.renumber(&mut instruction)?;
        if !is_float {
            out.push(instruction);
            return Ok(());
        }
        // Push constants of a joined module are words.
        let word = self.assembler.new_id();
        let (float, result) = (instruction.result_type, instruction.result_id);
        instruction.result_type = Some(self.assembler.uint());
        instruction.result_id = Some(word);
        out.push(instruction);
        let operands = vec![Operand::IdRef(word)];
        out.push(dr::Instruction::new(Op::Bitcast, float, result, operands));
        Ok(())
    }

    /// The access chain to a word of the parameters.
    fn parameter(&mut self, word: u32, id: Id) -> Result<dr::Instruction, SpirvError> {
        let first = self.first_parameter;
        let first = first.ok_or_else(|| SpirvError("a parameter where none are given".into()))?;
        self.assembler.push_word(first + word, id)
    }

    fn is_float_pointer(&self, chain: &dr::Instruction) -> bool {
        let of = |id: Option<Id>| self.library.global(id?);
        let pointee = of(chain.result_type)
            .and_then(|pointer| of(pointer.operands.get(1).and_then(Operand::id_ref_any)));
        pointee.is_some_and(|pointee| pointee.class.opcode == Op::TypeFloat)
    }

    /// Replaces every id of an instruction by the new one.
    fn renumber(&mut self, instruction: &mut dr::Instruction) -> Result<(), SpirvError> {
        if let Some(id) = &mut instruction.result_type {
            *id = self.global(*id)?;
        }
        if let Some(id) = &mut instruction.result_id {
            *id = self.ids[id];
        }
        for operand in &mut instruction.operands {
            if let Some(id) = operand.id_ref_any_mut() {
                *id = self.any(*id)?;
            }
        }
        Ok(())
    }

    /// The new id of whatever an instruction names.
    fn any(&mut self, id: Id) -> Result<Id, SpirvError> {
        if let Some(&new) = self.ids.get(&id) {
            return Ok(new);
        }
        if self.library.is_glsl(id) {
            return Ok(self.assembler.glsl());
        }
        match self.library.body(id) {
            Some(_) => self.function(id),
            None => self.global(id),
        }
    }

    /// The new id of a type or a constant; each is once in a module.
    fn global(&mut self, id: Id) -> Result<Id, SpirvError> {
        if let Some(&new) = self.ids.get(&id) {
            return Ok(new);
        }
        let library = self.library;
        let mut copied = library.global(id).ok_or_else(|| lost(id))?.clone();
        let specialized = library.decorations(id).find_map(spec_id);
        let decorated = library.decorations(id).next().is_some();
        if copied.class.opcode == Op::Variable || decorated && specialized.is_none() {
            return Err(lost(id));
        }
        copied.result_id = None;
        if let Some(of) = &mut copied.result_type {
            *of = self.global(*of)?;
        }
        for operand in &mut copied.operands {
            if let Some(id) = operand.id_ref_any_mut() {
                *id = self.global(*id)?;
            }
        }
        let given = |id| self.constants.iter().find(|(other, _)| *other == id);
        let new = match specialized.map(|id| (id, given(id))) {
            Some((_, Some(&(_, value)))) => {
                let operands = vec![Operand::LiteralBit32(value)];
                let of = copied.result_type;
                let constant = dr::Instruction::new(Op::Constant, of, None, operands);
                self.assembler.intern(constant)
            }
            Some((id, None)) => self.assembler.specialized(id, copied),
            None => self.assembler.intern(copied),
        };
        self.ids.insert(id, new);
        Ok(new)
    }

    /// Gives the new id the decorations of the old one (`NoContraction`).
    fn decorate(&mut self, id: Id, new: Id) {
        for decoration in self.library.decorations(id) {
            let mut copied = decoration.clone();
            copied.operands[0] = Operand::IdRef(new);
            self.assembler.annotate(copied);
        }
    }
}

fn spec_id(decoration: &dr::Instruction) -> Option<u32> {
    match decoration.operands[..] {
        [
            _,
            Operand::Decoration(Decoration::SpecId),
            Operand::LiteralBit32(id),
        ] => Some(id),
        _ => None,
    }
}

fn lost(id: Id) -> SpirvError {
    SpirvError(format!("%{id} cannot be taken out of its module"))
}
