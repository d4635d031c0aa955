//! Calls, and values made of parts or taken apart.

use super::{Checked, Rules, ensure, is_int};
use crate::spirv::grammar::op;
use crate::spirv::module::Instruction;
use crate::spirv::types::{Type, class, constant_word};

impl Rules<'_> {
    pub(super) fn call(&self, instruction: &Instruction) -> Checked {
        let used = &instruction.ids.used;
        let callee = self.module.definition(used[0]);
        ensure(callee.opcode == op::Function, || {
            format!("%{} is no function", used[0])
        })?;
        let Type::Function { result, parameters } = self.types.get(callee.words[3])? else {
            return Err(format!("%{} has no function type", used[0]));
        };
        let fits = used.len() == parameters.len() + 1
            && used[1..]
                .iter()
                .zip(parameters)
                .all(|(&id, &kind)| self.value(id) == Ok(kind));
        ensure(fits && *result == instruction.ids.result_type, || {
            format!("it does not call %{} as that is declared", used[0])
        })?;
        // Pointers are passed whole: without variable pointers, memory objects only.
        for &id in &used[1..] {
            let Ok((class, _)) = self.pointer(id) else {
                continue;
            };
            let whole = matches!(
                self.module.definition(id).opcode,
                op::Variable | op::FunctionParameter
            );
            let local = matches!(class, class::FUNCTION | class::PRIVATE | class::WORKGROUP);
            ensure(whole && local, || {
                format!("argument %{id} is a pointer that no function takes")
            })?;
        }
        Ok(())
    }

    pub(super) fn composite(&self, instruction: &Instruction) -> Checked {
        let (used, result) = (&instruction.ids.used, instruction.ids.result_type);
        let wrong = || "its operands do not have the types that it takes".to_owned();
        let shape = |id: u32| self.types.shape(id);
        let holds = match instruction.opcode {
            op::Undef => self.types.is_storable(result),
            op::CopyObject => self.types.is_storable(result) && self.value(used[0])? == result,
            op::CopyLogical => {
                let found = self.value(used[0])?;
                found != result && self.types.alike(found, result)
            }
            op::VectorExtractDynamic => {
                let (scalar, count) = self.shape(used[0])?;
                count > 1 && is_int(self.shape(used[1])?) && shape(result) == Some((scalar, 1))
            }
            op::VectorInsertDynamic => {
                let (scalar, count) = self.shape(used[0])?;
                count > 1
                    && self.value(used[0])? == result
                    && self.shape(used[1])? == (scalar, 1)
                    && is_int(self.shape(used[2])?)
            }
            op::VectorShuffle => {
                let (one, other) = (self.shape(used[0])?, self.shape(used[1])?);
                let picks = &instruction.words[4..];
                let known = |&pick: &u32| pick == u32::MAX || pick < one.1 + other.1;
                one.1 > 1
                    && other.1 > 1
                    && one.0 == other.0
                    && picks.iter().all(known)
                    && shape(result) == Some((one.0, picks.len() as u32))
            }
            op::CompositeExtract => {
                let whole = self.value(used[0])?;
                self.part(whole, &instruction.words[3..])? == result
            }
            op::CompositeInsert => {
                let whole = self.value(used[1])?;
                let part = self.part(whole, &instruction.words[4..])?;
                whole == result && part == self.value(used[0])?
            }
            op::CompositeConstruct => self.constructs(result, used)?,
            _ => false,
        };
        ensure(holds, wrong)
    }

    /// The type of a part that literal indexes lead to.
    pub fn part(&self, whole: u32, indexes: &[u32]) -> Result<u32, String> {
        ensure(!indexes.is_empty(), || "no index".to_owned())?;
        indexes.iter().try_fold(whole, |at, &index| {
            let outside = || format!("index {index} is past the end of type %{at}");
            match self.types.get(at)? {
                Type::Struct { members } => {
                    members.get(index as usize).copied().ok_or_else(outside)
                }
                Type::Vector { component, count } if index < *count => Ok(*component),
                Type::Array { element, length } => {
                    let length = constant_word(self.module, *length);
                    ensure(length.is_some_and(|length| index < length), outside)?;
                    Ok(*element)
                }
                _ => Err(outside()),
            }
        })
    }

    fn constructs(&self, result: u32, parts: &[u32]) -> Result<bool, String> {
        let values: Vec<u32> = parts
            .iter()
            .map(|&id| self.value(id))
            .collect::<Result<_, _>>()?;
        match self.types.get(result)? {
            Type::Vector { component, count } => {
                let mut total = 0;
                for &value in &values {
                    let shape = self.types.shape(value);
                    if shape.map(|shape| shape.0) != self.types.shape(*component).map(|s| s.0) {
                        return Ok(false);
                    }
                    total += shape.map_or(0, |shape| shape.1);
                }
                Ok(total == *count && parts.len() > 1)
            }
            Type::Struct { members } => Ok(self.types.is_storable(result) && *members == values),
            Type::Array { element, length } => {
                let length = constant_word(self.module, *length);
                let counted = length == Some(values.len() as u32);
                Ok(counted && values.iter().all(|value| value == element))
            }
            _ => Ok(false),
        }
    }
}
