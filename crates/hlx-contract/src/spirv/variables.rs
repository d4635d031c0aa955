//! Global variables: built-in inputs, shared memory, push constants, storage buffers.

use super::access::Accesses;
use super::grammar::op;
use super::layout::Layout;
use super::module::{Instruction, Module};
use super::reflect::{BindingInfo, Measured, Reflection};
use super::types::{Scalar, Type, Types, class, constant_word, decoration, is_constant};

/// One global variable.
pub(super) struct Variable<'a> {
    pub module: &'a Module,
    pub types: &'a Types,
    pub id: u32,
}

impl Variable<'_> {
    /// Checks the variable and adds it to the interface.
    pub fn read(
        &self,
        instruction: &Instruction,
        accesses: &Accesses,
        reflection: &mut Reflection,
    ) -> Result<(), String> {
        let (class, pointee) = self.types.pointer(instruction.ids.result_type)?;
        if instruction.words[2] != class {
            return Err(format!(
                "class {}, its type says {class}",
                instruction.words[2]
            ));
        }
        let initial = instruction.ids.used.first().copied();
        if let Some(initial) = initial {
            let fits = is_constant(self.module, initial)
                && self.types.of_value(self.module, initial)? == pointee;
            if class != class::PRIVATE || !fits {
                return Err(format!("an initial value %{initial}"));
            }
        }
        match class {
            class::INPUT => self.built_in(pointee),
            class::PRIVATE if self.types.is_storable(pointee) => Ok(()),
            class::WORKGROUP if self.types.is_storable(pointee) => {
                let (bytes, lengths) = self.measure(pointee)?;
                reflection.shared.push(Measured { bytes, lengths });
                Ok(())
            }
            class::PUSH_CONSTANT => {
                let layout = self.block(pointee, decoration::BLOCK)?;
                if !reflection.push_constants.is_empty() {
                    return Err("a second block of push constants".to_owned());
                }
                let words = layout.words.ok_or("push constants without a fixed size")?;
                reflection.push_constants = words;
                Ok(())
            }
            class::STORAGE_BUFFER => self.buffer(pointee, decoration::BLOCK, accesses, reflection),
            class::UNIFORM => self.buffer(pointee, decoration::BUFFER_BLOCK, accesses, reflection),
            _ => Err(format!("a variable of class {class} and type %{pointee}")),
        }
    }

    fn built_in(&self, pointee: u32) -> Result<(), String> {
        const VECTORS: [u32; 4] = [24, 26, 27, 28];
        const WORDS: [u32; 1] = [29];
        const OF_SUBGROUP: [u32; 4] = [36, 38, 40, 41];
        let number = self.module.decoration(self.id, decoration::BUILT_IN);
        let number = number.ok_or("an input that is not built in")?;
        let scalar = self.types.shape(pointee);
        let count = match number {
            _ if VECTORS.contains(&number) => 3,
            _ if WORDS.contains(&number) || OF_SUBGROUP.contains(&number) => 1,
            _ => return Err(format!("the built-in input {number} is not supported")),
        };
        let group = self.module.instructions.iter();
        let declared = group
            .filter(|i| i.opcode == op::Capability)
            .any(|i| i.words[0] == 61);
        if OF_SUBGROUP.contains(&number) && !declared {
            return Err(
                "it needs the capability GroupNonUniform, which is not declared".to_owned(),
            );
        }
        match scalar {
            Some((Scalar::Int { width: 32, .. }, found)) if found == count => Ok(()),
            _ => Err(format!("the built-in input {number} with another type")),
        }
    }

    /// Bytes of the innermost elements, and the lengths of the arrays around them.
    fn measure(&self, mut at: u32) -> Result<(u64, Vec<u32>), String> {
        let mut lengths = Vec::new();
        while let Type::Array { element, length } = self.types.get(at)? {
            lengths.push(*length);
            at = *element;
        }
        Ok((self.packed(at)?, lengths))
    }

    /// Bytes of a value in shared memory, counted as drivers do at most: vectors of three as four.
    fn packed(&self, id: u32) -> Result<u64, String> {
        if let Some((scalar, count)) = self.types.shape(id) {
            let bytes = u64::from(scalar.width().max(32) / 8);
            return Ok(bytes * u64::from(count.next_power_of_two()));
        }
        match self.types.get(id)? {
            Type::Array { element, length } => {
                let length = constant_word(self.module, *length);
                let length = length.ok_or("an array of specialized length in a structure")?;
                Ok(self.packed(*element)?.saturating_mul(u64::from(length)))
            }
            Type::Struct { members } => {
                let mut total = 0_u64;
                for &member in members {
                    total = total.saturating_add(self.packed(member)?);
                }
                Ok(total)
            }
            _ => Err(format!("type %{id} in shared memory")),
        }
    }

    fn block(&self, pointee: u32, expected: u32) -> Result<Layout, String> {
        if self.module.decoration(pointee, expected).is_none() {
            return Err(format!("its type %{pointee} is not decorated as a block"));
        }
        Layout::of_block(self.module, self.types, pointee)
    }

    fn buffer(
        &self,
        pointee: u32,
        expected: u32,
        accesses: &Accesses,
        reflection: &mut Reflection,
    ) -> Result<(), String> {
        let set = self.module.decoration(self.id, decoration::DESCRIPTOR_SET);
        let binding = self.module.decoration(self.id, decoration::BINDING);
        let binding = binding.ok_or("a buffer without a binding")?;
        let own = self
            .module
            .name(self.id)
            .or_else(|| self.module.name(pointee));
        let name = own.unwrap_or("unnamed").to_owned();
        if set != Some(0) {
            let set = set.map_or("no".to_owned(), |set| set.to_string());
            return Err(format!(
                "binding {binding} `{name}` is in descriptor set {set}, expected 0"
            ));
        }
        const MAX_BINDINGS: u32 = 64;
        if binding >= MAX_BINDINGS {
            return Err(format!(
                "binding {binding} `{name}`, expected less than {MAX_BINDINGS}"
            ));
        }
        let layout = self.block(pointee, expected)?;
        let access = accesses.of_variable(self.id);
        let info = reflection
            .bindings
            .entry(binding)
            .or_insert_with(|| BindingInfo {
                name: name.clone(),
                binding,
                elements: Vec::new(),
                min_bytes: 0,
                reads: false,
                writes: false,
            });
        if name.len() < info.name.len() {
            info.name = name;
        }
        let denied = |number| {
            let member = |m| self.module.member_decoration(pointee, m, number).is_some();
            self.module.decoration(self.id, number).is_some() || (0..layout.n_members).all(member)
        };
        if access.writes && denied(decoration::NON_WRITABLE) {
            return Err(format!(
                "binding {binding} `{}` is readonly and is stored to",
                info.name
            ));
        }
        if access.reads && denied(decoration::NON_READABLE) {
            return Err(format!(
                "binding {binding} `{}` is writeonly and is loaded from",
                info.name
            ));
        }
        for kind in layout.kinds {
            if !info.elements.contains(&kind) {
                info.elements.push(kind);
            }
        }
        info.min_bytes = info.min_bytes.max(layout.min_bytes);
        info.reads |= access.reads;
        info.writes |= access.writes;
        Ok(())
    }
}
