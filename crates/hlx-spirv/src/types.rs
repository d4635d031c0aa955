//! Declarations of a module by id, and the bytes of its types.

use std::collections::HashMap;

use rspirv::spirv::{Decoration, Op};

use crate::{Instruction, SpirvError, read_declarations};

/// Types nest no deeper in any shader; a malformed module could make one that holds itself.
const MAX_DEPTH: usize = 32;

/// What a module declares before its first function.
pub(crate) struct Declarations {
    pub instructions: Vec<Instruction>,
    definitions: HashMap<u32, usize>,
    decorations: HashMap<(u32, u32), u32>,
    member_decorations: HashMap<(u32, u32, u32), u32>,
}

impl Declarations {
    pub fn read(words: &[u32]) -> Result<Self, SpirvError> {
        let instructions = read_declarations(words)?;
        let mut found = Self {
            definitions: HashMap::new(),
            decorations: HashMap::new(),
            member_decorations: HashMap::new(),
            instructions: Vec::new(),
        };
        for instruction in &instructions {
            let value = |words: &[u32]| words.first().copied().unwrap_or(0);
            match (
                Op::from_u32(u32::from(instruction.opcode)),
                &instruction.words[..],
            ) {
                (Some(Op::Decorate), [id, number, rest @ ..]) => {
                    found.decorations.insert((*id, *number), value(rest));
                }
                (Some(Op::MemberDecorate), [id, member, number, rest @ ..]) => {
                    let key = (*id, *member, *number);
                    found.member_decorations.insert(key, value(rest));
                }
                _ if instruction.defines => {
                    found
                        .definitions
                        .insert(instruction.ids.result, instruction.index);
                }
                _ => {}
            }
        }
        found.instructions = instructions;
        Ok(found)
    }

    /// The instruction that defines an id, if it has this opcode.
    pub fn find(&self, id: u32, opcode: Op) -> Option<&Instruction> {
        let found = &self.instructions[*self.definitions.get(&id)?];
        (found.opcode == opcode as u16).then_some(found)
    }

    /// The first operand of a decoration of an id; 0 for one without operands.
    pub fn decoration(&self, id: u32, decoration: Decoration) -> Option<u32> {
        self.decorations.get(&(id, decoration as u32)).copied()
    }

    /// The offset of a structure's member, in bytes.
    pub fn offset(&self, id: u32, member: u32) -> Option<u32> {
        let key = (id, member, Decoration::Offset as u32);
        self.member_decorations.get(&key).copied()
    }

    /// The bytes of a type as it lies in a block; `None` if it has no fixed size.
    pub fn bytes(&self, id: u32) -> Option<u64> {
        self.bytes_within(id, MAX_DEPTH)
    }

    /// The element type and length of an array whose elements are 4 bytes apart.
    pub fn array_of_words(&self, id: u32) -> Option<(u32, u32)> {
        let array = self.find(id, Op::TypeArray)?;
        let stride = self.decoration(id, Decoration::ArrayStride)?;
        let &[_, element, length] = &array.words[..] else {
            return None;
        };
        let length = *self.find(length, Op::Constant)?.words.get(2)?;
        (stride == 4).then_some((element, length))
    }

    fn bytes_within(&self, id: u32, depth: usize) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        let instruction = &self.instructions[*self.definitions.get(&id)?];
        let operand = |place: usize| instruction.words.get(place).copied();
        match Op::from_u32(u32::from(instruction.opcode))? {
            Op::TypeInt | Op::TypeFloat => Some(u64::from(operand(1)?) / 8),
            Op::TypeVector => Some(self.bytes_within(operand(1)?, depth)? * u64::from(operand(2)?)),
            Op::TypeArray => {
                let length = self.find(operand(2)?, Op::Constant)?;
                let length = u64::from(*length.words.get(2)?);
                let stride = self.decoration(id, Decoration::ArrayStride)?;
                u64::from(stride).checked_mul(length)
            }
            Op::TypeStruct => self.struct_bytes(id, &instruction.ids.used, depth),
            _ => None,
        }
    }

    fn struct_bytes(&self, id: u32, members: &[u32], depth: usize) -> Option<u64> {
        let mut end = 0;
        for (place, &member) in members.iter().enumerate() {
            let offset = u64::from(self.offset(id, place as u32)?);
            end = end.max(offset + self.bytes_within(member, depth)?);
        }
        Some(end)
    }
}
