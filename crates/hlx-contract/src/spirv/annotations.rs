//! Names, decorations and hints: each may be applied only to certain targets.

use super::grammar::op;
use super::module::{Instruction, Module};
use super::types::{Type, Types, class};

/// What a decoration may be applied to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Anything,
    SpecializedScalar,
    Structure,
    Array,
    Buffer,
    BuiltIn,
    Memory,
    Arithmetic,
    Integer,
}

/// The operands of a decoration, its target, and whether members may have it.
fn row(number: u32) -> Option<(usize, Target, bool)> {
    Some(match number {
        0 => (0, Target::Anything, true),
        1 => (1, Target::SpecializedScalar, false),
        2 | 3 => (0, Target::Structure, false),
        6 => (1, Target::Array, false),
        11 => (1, Target::BuiltIn, false),
        19 | 21 | 23..=25 => (0, Target::Memory, true),
        20 => (0, Target::Memory, false),
        33 | 34 => (1, Target::Buffer, false),
        42 => (0, Target::Arithmetic, false),
        4469 | 4470 => (0, Target::Integer, false),
        _ => return None,
    })
}

const OFFSET: u32 = 35;

/// Checks the annotations of a module.
pub(super) fn check(module: &Module, types: &Types) -> Result<(), String> {
    for instruction in &module.instructions {
        let words = &instruction.words;
        let checked = match instruction.opcode {
            op::MemberName => member(types, words[0], words[1]),
            op::Decorate => decorate(module, types, words),
            op::MemberDecorate => member(types, words[0], words[1]).and_then(|()| {
                let (number, found) = (words[2], words.len() - 3);
                let expected = match row(number) {
                    _ if number == OFFSET => Some(1),
                    Some((count, _, true)) => Some(count),
                    _ => None,
                };
                operands(number, found, expected)
            }),
            op::Source => {
                let file = words
                    .get(2)
                    .is_none_or(|&id| module.definition(id).opcode == op::String);
                (words[0] <= 12 && file)
                    .then_some(())
                    .ok_or("an unknown language".to_owned())
            }
            op::Line => match module.definition(words[0]).opcode {
                op::String => Ok(()),
                _ => Err("its file is no string".to_owned()),
            },
            op::SelectionMerge => mask(words[1], 3),
            op::LoopMerge if words.len() > 3 => {
                Err("hints with operands are not supported".to_owned())
            }
            op::LoopMerge if words[2] & 3 == 3 => Err("it is to be unrolled and not".to_owned()),
            op::LoopMerge => mask(words[2], 7),
            op::Function => mask(words[2], 15),
            _ => Ok(()),
        };
        checked.map_err(|reason| instruction.fault(reason))?;
    }
    Ok(())
}

fn mask(found: u32, known: u32) -> Result<(), String> {
    if found & !known == 0 {
        return Ok(());
    }
    Err(format!("hint {found:#x} is not supported"))
}

fn member(types: &Types, id: u32, place: u32) -> Result<(), String> {
    match types.get(id)? {
        Type::Struct { members } if (place as usize) < members.len() => Ok(()),
        _ => Err(format!("type %{id} has no member {place}")),
    }
}

fn operands(number: u32, found: usize, expected: Option<usize>) -> Result<(), String> {
    match expected {
        Some(expected) if expected == found => Ok(()),
        Some(expected) => Err(format!(
            "decoration {number} has {found} operands, expected {expected}"
        )),
        None => Err(format!("decoration {number} is not supported here")),
    }
}

fn decorate(module: &Module, types: &Types, words: &[u32]) -> Result<(), String> {
    let (id, number) = (words[0], words[1]);
    let known = row(number);
    operands(number, words.len() - 2, known.map(|row| row.0))?;
    let target = module.definition(id);
    let pointer = |class: &[u32]| {
        let own = types.pointer(target.ids.result_type).map(|(own, _)| own);
        own.is_ok_and(|own| class.contains(&own))
    };
    let variable = target.opcode == op::Variable;
    let made = |instruction: &Instruction| types.shape(instruction.ids.result_type).is_some();
    let holds = match known.map(|row| row.1) {
        Some(Target::Anything) => true,
        Some(Target::SpecializedScalar) => {
            (op::SpecConstantTrue..=op::SpecConstant).contains(&target.opcode)
        }
        Some(Target::Structure) => matches!(types.get(id), Ok(Type::Struct { .. })),
        Some(Target::Array) => {
            matches!(
                types.get(id),
                Ok(Type::Array { .. } | Type::RuntimeArray { .. })
            )
        }
        Some(Target::Buffer) => variable && pointer(&[class::STORAGE_BUFFER, class::UNIFORM]),
        Some(Target::BuiltIn) => {
            const WORKGROUP_SIZE: u32 = 25;
            let composite = matches!(
                target.opcode,
                op::ConstantComposite | op::SpecConstantComposite
            );
            let size = words[2] == WORKGROUP_SIZE;
            (size && composite) || (!size && variable && pointer(&[class::INPUT]))
        }
        Some(Target::Memory) => {
            const MEMORY: [u32; 5] = [
                class::STORAGE_BUFFER,
                class::UNIFORM,
                class::WORKGROUP,
                class::PRIVATE,
                class::FUNCTION,
            ];
            let buffer = pointer(&[class::STORAGE_BUFFER, class::UNIFORM]);
            let holder = variable || target.opcode == op::FunctionParameter;
            // Only buffers may be called readonly or writeonly; variables too from SPIR-V 1.4 on.
            let own =
                variable && module.version >= (1, 4) && pointer(&[class::FUNCTION, class::PRIVATE]);
            holder
                && match number {
                    24 => buffer || own,
                    25 => buffer,
                    _ => pointer(&MEMORY),
                }
        }
        Some(Target::Arithmetic) => {
            let sum = (op::SNegate..=op::SMulExtended).contains(&target.opcode);
            (sum || matches!(target.opcode, op::ExtInst | op::SpecConstantOp)) && made(target)
        }
        Some(Target::Integer) => {
            let sum = matches!(
                target.opcode,
                op::SNegate | op::IAdd | op::ISub | op::IMul | op::ShiftLeftLogical
            );
            sum && made(target)
        }
        None => false,
    };
    if holds {
        return Ok(());
    }
    Err(format!("decoration {number} does not belong on %{id}"))
}
