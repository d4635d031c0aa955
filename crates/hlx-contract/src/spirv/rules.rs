//! What each instruction of a function requires of its operands' types.

mod composites;
mod extended;
mod memory;
mod synchronization;

use super::grammar::op;
use super::module::{Instruction, Module};
use super::types::{Scalar, Types};
pub(super) use extended::check_wide;
use synchronization::{SCOPES, SUBGROUP, WORKGROUP};

/// Checks instructions one by one; their places are checked elsewhere.
pub(super) struct Rules<'a> {
    pub module: &'a Module,
    pub types: &'a Types,
    /// The import of GLSL.std.450.
    pub glsl: Option<u32>,
}

type Checked = Result<(), String>;

/// The scalar of a type and its number of components.
type Shape = (Scalar, u32);

fn ensure(holds: bool, reason: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(reason()) }
}

fn is_float((scalar, _): Shape) -> bool {
    matches!(scalar, Scalar::Float { .. })
}

fn is_int((scalar, _): Shape) -> bool {
    matches!(scalar, Scalar::Int { .. })
}

fn is_bool((scalar, _): Shape) -> bool {
    scalar == Scalar::Bool
}

fn is_unsigned((scalar, _): Shape) -> bool {
    matches!(scalar, Scalar::Int { signed: false, .. })
}

/// Equal except for the sign of integers.
fn alike(one: Shape, other: Shape) -> bool {
    one.1 == other.1 && one.0.width() == other.0.width() && is_int(one) == is_int(other)
}

impl Rules<'_> {
    /// Checks an instruction within a function.
    pub fn check(&self, instruction: &Instruction) -> Checked {
        let opcode = instruction.opcode;
        let used = &instruction.ids.used;
        let result = instruction.ids.result_type;
        match opcode {
            op::Load
            | op::Store
            | op::CopyMemory
            | op::AccessChain
            | op::InBoundsAccessChain
            | op::ArrayLength
            | op::Variable => self.memory(instruction),
            op::FunctionCall => self.call(instruction),
            op::ExtInst => self.extended(instruction),
            op::AtomicLoad..=op::AtomicXor => self.atomic(instruction),
            op::ControlBarrier => {
                self.scope(used[0], &[WORKGROUP, SUBGROUP])?;
                self.scope(used[1], &SCOPES)?;
                self.semantics(used[2], 0)
            }
            op::MemoryBarrier => {
                self.scope(used[0], &SCOPES)?;
                self.semantics(used[1], 0)
            }
            op::GroupNonUniformElect..=op::GroupNonUniformShuffleDown => self.group(instruction),
            op::VectorExtractDynamic..=op::CopyObject | op::CopyLogical | op::Undef => {
                self.composite(instruction)
            }
            op::BranchConditional => {
                ensure(self.shape(used[0])? == (Scalar::Bool, 1), || {
                    "its condition is no truth value".to_owned()
                })?;
                let weights = instruction.words.len() - 3;
                ensure(weights == 0 || weights == 2, || {
                    format!("{weights} weights")
                })
            }
            op::Switch => {
                let word = matches!(self.shape(used[0])?, (Scalar::Int { width: 32, .. }, 1));
                ensure(word, || "its selector is no 32-bit integer".to_owned())
            }
            op::ConvertFToU..=op::Select | op::IEqual..=op::BitCount => {
                self.arithmetic(opcode, result, used)
            }
            _ => Ok(()),
        }
    }

    /// Checks an arithmetic, logical or comparing instruction; also within a constant.
    pub fn arithmetic(&self, opcode: u16, result: u32, used: &[u32]) -> Checked {
        let made = self.types.shape(result);
        let made = made.ok_or_else(|| format!("a result of type %{result}"))?;
        let mut shapes = Vec::with_capacity(used.len());
        for &id in used {
            // A selection takes anything that can be copied.
            if opcode != op::Select {
                shapes.push(self.shape(id)?);
            }
        }
        let all = |test: fn(Shape) -> bool| shapes.iter().all(|&shape| test(shape));
        let same = shapes.iter().all(|&shape| shape == made);
        let counts = shapes.iter().all(|shape| shape.1 == made.1);
        let holds = match opcode {
            op::ConvertFToU => is_unsigned(made) && all(is_float) && counts,
            op::ConvertFToS => is_int(made) && all(is_float) && counts,
            op::ConvertSToF | op::ConvertUToF => is_float(made) && all(is_int) && counts,
            op::UConvert => {
                is_unsigned(made) && all(is_int) && counts && shapes[0].0.width() != made.0.width()
            }
            op::SConvert => {
                is_int(made) && all(is_int) && counts && shapes[0].0.width() != made.0.width()
            }
            op::FConvert => {
                is_float(made) && all(is_float) && counts && shapes[0].0.width() != made.0.width()
            }
            op::QuantizeToF16 => made.0 == Scalar::Float { width: 32 } && same,
            op::Bitcast => {
                let bits = |shape: Shape| shape.0.width() * shape.1;
                bits(made) != 0 && bits(made) == bits(shapes[0])
            }
            op::SNegate
            | op::IAdd
            | op::ISub
            | op::IMul
            | op::SDiv
            | op::SRem
            | op::SMod
            | op::BitwiseOr
            | op::BitwiseXor
            | op::BitwiseAnd
            | op::Not => is_int(made) && shapes.iter().all(|&shape| alike(shape, made)),
            op::UDiv | op::UMod => is_unsigned(made) && same,
            op::FNegate | op::FAdd | op::FSub | op::FMul | op::FDiv | op::FRem | op::FMod => {
                is_float(made) && same
            }
            op::VectorTimesScalar => {
                is_float(made) && made.1 > 1 && shapes[0] == made && shapes[1] == (made.0, 1)
            }
            op::Dot => {
                is_float(made)
                    && made.1 == 1
                    && shapes[0].1 > 1
                    && shapes[0].0 == made.0
                    && shapes[0] == shapes[1]
            }
            op::Any | op::All => made == (Scalar::Bool, 1) && all(is_bool) && shapes[0].1 > 1,
            op::IsNan | op::IsInf => is_bool(made) && all(is_float) && counts,
            op::LogicalEqual..=op::LogicalNot => is_bool(made) && same,
            op::IEqual..=op::SLessThanEqual => {
                is_bool(made) && all(is_int) && counts && alike(shapes[0], shapes[1])
            }
            op::FOrdEqual..=op::FUnordGreaterThanEqual => {
                is_bool(made) && all(is_float) && counts && shapes[0] == shapes[1]
            }
            op::ShiftRightLogical..=op::ShiftLeftLogical => {
                is_int(made) && all(is_int) && counts && alike(shapes[0], made)
            }
            op::BitReverse => is_int(made) && same && made.0.width() == 32,
            op::BitCount => is_int(made) && all(is_int) && counts && shapes[0].0.width() == 32,
            op::BitFieldInsert => {
                let places = shapes[2..]
                    .iter()
                    .all(|&shape| is_int(shape) && shape.1 == 1);
                made.0.width() == 32 && is_int(made) && shapes[..2] == [made, made] && places
            }
            op::BitFieldSExtract | op::BitFieldUExtract => {
                let places = shapes[1..]
                    .iter()
                    .all(|&shape| is_int(shape) && shape.1 == 1);
                made.0.width() == 32 && is_int(made) && shapes[0] == made && places
            }
            op::Select => return self.select(result, used),
            op::IAddCarry..=op::SMulExtended => false,
            _ => false,
        };
        ensure(holds, || {
            "its operands do not have the types that it takes".to_owned()
        })
    }

    fn select(&self, result: u32, used: &[u32]) -> Checked {
        let condition = self.shape(used[0])?;
        let counts = match self.types.shape(result) {
            Some((_, count)) => {
                condition.1 == 1 && self.module.version >= (1, 4) || condition.1 == count
            }
            None => false,
        };
        let same = used[1..].iter().all(|&id| self.value(id) == Ok(result));
        ensure(is_bool(condition) && counts && same, || {
            "its operands do not have the types that it takes".to_owned()
        })
    }

    /// The type id of a value.
    fn value(&self, id: u32) -> Result<u32, String> {
        self.types.of_value(self.module, id)
    }

    fn shape(&self, id: u32) -> Result<Shape, String> {
        let shape = self.types.shape(self.value(id)?);
        shape.ok_or_else(|| format!("%{id} is neither a scalar nor a vector"))
    }
}
