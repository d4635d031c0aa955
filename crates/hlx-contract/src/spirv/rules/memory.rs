//! Loads, stores and access chains: pointers and the types that they lead to.

use super::{Checked, Rules, ensure, is_int};
use crate::spirv::grammar::op;
use crate::spirv::module::Instruction;
use crate::spirv::types::{Scalar, Type, class, constant_word, is_constant};

impl Rules<'_> {
    pub(super) fn memory(&self, instruction: &Instruction) -> Checked {
        let (used, result) = (&instruction.ids.used, instruction.ids.result_type);
        match instruction.opcode {
            op::Load => {
                let (_, pointee) = self.pointer(used[0])?;
                ensure(pointee == result && self.types.is_storable(result), || {
                    format!("it loads type %{result} through a pointer to type %{pointee}")
                })
            }
            op::Store => {
                let (class, pointee) = self.pointer(used[0])?;
                ensure(
                    class != class::INPUT && class != class::PUSH_CONSTANT,
                    || "it stores to what is only read".to_owned(),
                )?;
                let found = self.value(used[1])?;
                ensure(pointee == found && self.types.is_storable(found), || {
                    format!("it stores type %{found} through a pointer to type %{pointee}")
                })
            }
            op::CopyMemory => {
                let (class, target) = self.pointer(used[0])?;
                let (_, source) = self.pointer(used[1])?;
                let writable = class != class::INPUT && class != class::PUSH_CONSTANT;
                ensure(
                    writable && target == source && self.types.is_storable(source),
                    || "its pointers do not fit each other".to_owned(),
                )
            }
            op::ArrayLength => {
                let (_, pointee) = self.pointer(used[0])?;
                let member = instruction.words[3] as usize;
                let array = match self.types.get(pointee)? {
                    Type::Struct { members } => members.get(member).copied(),
                    _ => None,
                };
                let runtime = array
                    .is_some_and(|id| matches!(self.types.get(id), Ok(Type::RuntimeArray { .. })));
                let made = Some((
                    Scalar::Int {
                        width: 32,
                        signed: false,
                    },
                    1,
                ));
                ensure(runtime && self.types.shape(result) == made, || {
                    "it reads the length of what has none".to_owned()
                })
            }
            op::Variable => {
                let (class, pointee) = self.types.pointer(result)?;
                ensure(
                    class == class::FUNCTION && instruction.words[2] == class,
                    || format!("a variable of class {class} in a function"),
                )?;
                ensure(self.types.is_storable(pointee), || {
                    format!("a variable of type %{pointee}")
                })?;
                let initial = used.first().copied();
                let fits = |id| is_constant(self.module, id) && self.value(id) == Ok(pointee);
                ensure(initial.is_none_or(fits), || {
                    "its initial value does not fit".to_owned()
                })
            }
            _ => self.chain(instruction),
        }
    }

    pub(super) fn pointer(&self, id: u32) -> Result<(u32, u32), String> {
        let found = self.types.pointer(self.value(id)?);
        found.map_err(|_| format!("%{id} is no pointer"))
    }

    fn chain(&self, instruction: &Instruction) -> Checked {
        let used = &instruction.ids.used;
        let (class, mut at) = self.pointer(used[0])?;
        for &index in &used[1..] {
            let int = is_int(self.shape(index)?) && self.shape(index)?.1 == 1;
            ensure(int, || format!("index %{index} is no integer"))?;
            let known = constant_word(self.module, index);
            let outside = |length: u32| format!("index %{index} is past the end, {length}");
            at = match self.types.get(at)? {
                Type::Struct { members } => {
                    let member = known
                        .ok_or_else(|| format!("index %{index} of a structure is no constant"))?;
                    let found = members.get(member as usize).copied();
                    found.ok_or_else(|| outside(members.len() as u32))?
                }
                Type::Vector { component, count } => {
                    ensure(known.is_none_or(|k| k < *count), || outside(*count))?;
                    *component
                }
                Type::Array { element, length } => {
                    if let (Some(index), Some(length)) =
                        (known, constant_word(self.module, *length))
                    {
                        ensure(index < length, || outside(length))?;
                    }
                    *element
                }
                Type::RuntimeArray { element } => *element,
                _ => return Err(format!("%{index} indexes type %{at}")),
            };
        }
        let made = self.types.pointer(instruction.ids.result_type)?;
        ensure(made == (class, at), || {
            format!("it leads to type %{at} of class {class}, its type says {made:?}")
        })
    }
}
