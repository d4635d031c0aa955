//! Constants: which may be specialized, and what integers come of the others then.

use std::collections::{BTreeMap, HashMap};

use super::grammar::op;
use super::layout::ScalarKind;
use super::module::Module;
use super::types::{Types, decoration};

/// A specialization constant that a shader declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstantInfo {
    /// Its name; empty where the module has none.
    pub name: String,
    /// What it is.
    pub kind: ScalarKind,
    /// Its bits without specialization; 1 or 0 for a truth value.
    pub default: u32,
}

/// How a constant is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Word(u32),
    Specialized {
        id: u32,
        default: u32,
    },
    Computed {
        opcode: u16,
        operands: Vec<u32>,
        literals: Vec<u32>,
    },
    Composite(Vec<u32>),
}

/// The constants of a module, by their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Values(HashMap<u32, Value>);

impl Values {
    /// Computes an integer constant.
    pub fn evaluate(&self, id: u32, constants: &[(u32, u32)], depth: usize) -> Result<u32, String> {
        const MAX_DEPTH: usize = 64;
        let unknown = || format!("%{id} is a constant that is not computed here");
        if depth > MAX_DEPTH {
            return Err(unknown());
        }
        match self.0.get(&id).ok_or_else(unknown)? {
            Value::Word(word) => Ok(*word),
            Value::Specialized { id, default } => {
                let given = constants.iter().find(|(given, _)| given == id);
                Ok(given.map_or(*default, |(_, word)| *word))
            }
            Value::Composite(_) => Err(unknown()),
            Value::Computed {
                opcode: op::CompositeExtract,
                operands,
                literals,
            } => {
                let Some(Value::Composite(parts)) = self.0.get(&operands[0]) else {
                    return Err(unknown());
                };
                let part = literals.first().and_then(|&at| parts.get(at as usize));
                self.evaluate(*part.ok_or_else(unknown)?, constants, depth + 1)
            }
            Value::Computed {
                opcode, operands, ..
            } => {
                let mut words = Vec::with_capacity(operands.len());
                for &operand in operands {
                    words.push(self.evaluate(operand, constants, depth + 1)?);
                }
                compute(*opcode, &words).ok_or_else(unknown)
            }
        }
    }
}

/// Carries out a constant's operation on words.
fn compute(opcode: u16, words: &[u32]) -> Option<u32> {
    let found = match (opcode, words) {
        (op::IAdd, &[a, b]) => a.wrapping_add(b),
        (op::ISub, &[a, b]) => a.wrapping_sub(b),
        (op::IMul, &[a, b]) => a.wrapping_mul(b),
        (op::UDiv, &[a, b]) => a.checked_div(b)?,
        (op::UMod, &[a, b]) => a.checked_rem(b)?,
        (op::SDiv, &[a, b]) => (a as i32).checked_div(b as i32)? as u32,
        (op::ShiftLeftLogical, &[a, b]) => a.checked_shl(b)?,
        (op::ShiftRightLogical, &[a, b]) => a.checked_shr(b)?,
        (op::BitwiseAnd | op::LogicalAnd, &[a, b]) => a & b,
        (op::BitwiseOr | op::LogicalOr, &[a, b]) => a | b,
        (op::BitwiseXor | op::LogicalNotEqual, &[a, b]) => a ^ b,
        (op::LogicalNot, &[a]) => a ^ 1,
        (op::Not, &[a]) => !a,
        (op::SNegate, &[a]) => a.wrapping_neg(),
        (op::Select, &[condition, a, b]) => [b, a][usize::from(condition != 0)],
        (op::IEqual | op::LogicalEqual, &[a, b]) => u32::from(a == b),
        (op::INotEqual, &[a, b]) => u32::from(a != b),
        (op::ULessThan, &[a, b]) => u32::from(a < b),
        (op::UGreaterThan, &[a, b]) => u32::from(a > b),
        (op::ULessThanEqual, &[a, b]) => u32::from(a <= b),
        (op::UGreaterThanEqual, &[a, b]) => u32::from(a >= b),
        _ => return None,
    };
    Some(found)
}

/// Reads the specialization constants by id, and the value of every constant of 32 bits.
pub(super) fn read(
    module: &Module,
    types: &Types,
) -> Result<(BTreeMap<u32, ConstantInfo>, Values), String> {
    let (mut constants, mut values) = (BTreeMap::new(), HashMap::new());
    for instruction in &module.instructions {
        let (id, words) = (instruction.ids.result, &instruction.words);
        let kind = types.shape(instruction.ids.result_type);
        let default = match instruction.opcode {
            op::ConstantTrue | op::SpecConstantTrue => Some(1),
            op::ConstantFalse | op::SpecConstantFalse => Some(0),
            op::Constant | op::SpecConstant if words.len() == 3 => Some(words[2]),
            _ => None,
        };
        let spec_id = module.decoration(id, decoration::SPEC_ID);
        let special = (op::SpecConstantTrue..=op::SpecConstant).contains(&instruction.opcode);
        if let Some(spec_id) = spec_id.filter(|_| id != 0) {
            if !special {
                return Err(instruction.fault("a SpecId on what is not specialized"));
            }
            let kind = kind.and_then(|(scalar, _)| ScalarKind::of(scalar));
            let (Some(kind), Some(default)) = (kind, default) else {
                let reason = "a specialization constant that is not of 32 bits";
                return Err(instruction.fault(reason));
            };
            let name = module.name(id).unwrap_or_default().to_owned();
            let info = ConstantInfo {
                name,
                kind,
                default,
            };
            if constants.insert(spec_id, info).is_some() {
                return Err(instruction.fault(format!("a second constant of SpecId {spec_id}")));
            }
        }
        let value = match (default, spec_id) {
            (Some(default), Some(id)) => Value::Specialized { id, default },
            (Some(word), None) => Value::Word(word),
            (None, _) => match instruction.opcode {
                op::ConstantComposite | op::SpecConstantComposite => {
                    Value::Composite(instruction.ids.used.clone())
                }
                op::SpecConstantOp => {
                    let wide = kind.is_some_and(|(scalar, count)| scalar.width() > 32 || count > 1);
                    if wide {
                        continue;
                    }
                    let operands = instruction.ids.used.clone();
                    let literals = words[3 + operands.len().min(words.len() - 3)..].to_vec();
                    Value::Computed {
                        opcode: words[2] as u16,
                        operands,
                        literals,
                    }
                }
                _ => continue,
            },
        };
        values.insert(id, value);
    }
    Ok((constants, Values(values)))
}
