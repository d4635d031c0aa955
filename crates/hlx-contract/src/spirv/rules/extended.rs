//! GLSL.std.450, and the operations whose result is a pair.

use super::{Checked, Rules, Shape, alike, ensure, is_float, is_int};
use crate::spirv::extended::{Kind, extended_row};
use crate::spirv::grammar::op;
use crate::spirv::module::{Instruction, Module};
use crate::spirv::types::{Scalar, Type, Types};

impl Rules<'_> {
    pub(super) fn extended(&self, instruction: &Instruction) -> Checked {
        let (used, result) = (&instruction.ids.used, instruction.ids.result_type);
        ensure(Some(used[0]) == self.glsl, || {
            format!("%{} is not GLSL.std.450", used[0])
        })?;
        let number = instruction.words[3];
        let operands = &used[1..];
        let (count, kind) = extended_row(number)
            .ok_or_else(|| format!("GLSL.std.450 instruction {number} is not supported"))?;
        ensure(operands.len() == count, || {
            format!(
                "GLSL.std.450 instruction {number} has {} operands, expected {count}",
                operands.len()
            )
        })?;
        let made = self
            .types
            .shape(result)
            .ok_or_else(|| format!("a result of type %{result}"))?;
        let shapes: Vec<Shape> = operands
            .iter()
            .map(|&id| self.shape(id))
            .collect::<Result<_, _>>()?;
        let same = shapes.iter().all(|&shape| shape == made);
        let single = Scalar::Float { width: 32 };
        let word = Scalar::Int {
            width: 32,
            signed: false,
        };
        let holds = match kind {
            Kind::Float => is_float(made) && same,
            Kind::Single => made.0 == single && same,
            Kind::Int => {
                is_int(made) && made.0.width() == 32 && shapes.iter().all(|&s| alike(s, made))
            }
            Kind::PackHalf => made == (word, 1) && shapes[0] == (single, 2),
            Kind::UnpackHalf => made == (single, 2) && shapes[0] == (word, 1),
        };
        ensure(holds, || {
            format!("GLSL.std.450 instruction {number} with operands of other types")
        })
    }
}

/// Checks the pairs of results of carries and of wide products.
pub(in crate::spirv) fn check_wide(
    types: &Types,
    module: &Module,
    instruction: &Instruction,
) -> Checked {
    let signed = instruction.opcode == op::SMulExtended;
    let result = instruction.ids.result_type;
    let Type::Struct { members } = types.get(result)? else {
        return Err("its result is no structure".to_owned());
    };
    let member = members.first().copied().unwrap_or(0);
    let int = types.shape(member).is_some_and(|shape| match shape.0 {
        Scalar::Int {
            width: 32,
            signed: s,
        } => s == signed || signed,
        _ => false,
    });
    let typed = instruction
        .ids
        .used
        .iter()
        .all(|&id| types.of_value(module, id) == Ok(member));
    ensure(int && members[..] == [member, member] && typed, || {
        "its result is no pair of its operands' type".to_owned()
    })
}
