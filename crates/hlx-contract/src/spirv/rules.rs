//! What each instruction of a function asks of its operands' types.

use super::extended::{Kind, extended_row};
use super::grammar::op;
use super::module::{Instruction, Module};
use super::types::{Scalar, Type, Types, class, constant_word, is_constant};

/// Looks at instructions one by one; where they stand is checked elsewhere.
pub(super) struct Rules<'a> {
    pub module: &'a Module,
    pub types: &'a Types,
    /// The import of GLSL.std.450.
    pub glsl: Option<u32>,
}

const WORKGROUP: u32 = 2;
const SUBGROUP: u32 = 3;
/// Device, workgroup, subgroup, invocation.
const SCOPES: [u32; 4] = [1, WORKGROUP, SUBGROUP, 4];

const ACQUIRE: u32 = 2;
const RELEASE: u32 = 4;
const ACQUIRE_RELEASE: u32 = 8;

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

/// Equal but for the sign of integers.
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

    fn memory(&self, instruction: &Instruction) -> Checked {
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
                    "it asks for the length of what has none".to_owned()
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

    fn pointer(&self, id: u32) -> Result<(u32, u32), String> {
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

    fn call(&self, instruction: &Instruction) -> Checked {
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
        // Pointers are handed on whole: without variable pointers, memory objects only.
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

    fn composite(&self, instruction: &Instruction) -> Checked {
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

    /// A scope: an integer constant, one of `known`.
    fn scope(&self, id: u32, known: &[u32]) -> Checked {
        let scope = self.constant(id)?;
        ensure(known.contains(&scope), || {
            format!("scope {scope} is not supported")
        })
    }

    /// Memory semantics: an order, but none of `denied`, and the storage that it is about.
    fn semantics(&self, id: u32, denied: u32) -> Checked {
        const ORDERS: u32 = ACQUIRE | RELEASE | ACQUIRE_RELEASE;
        const STORAGE: u32 = 0x40 | 0x100 | 0x800;
        const IGNORED: u32 = 0x80 | 0x200 | 0x400;
        let semantics = self.constant(id)?;
        let known = semantics & !(ORDERS | STORAGE | IGNORED) == 0;
        let order = semantics & ORDERS;
        let one = order & denied == 0 && order.count_ones() <= 1;
        let about = (order == 0) == (semantics & STORAGE == 0);
        ensure(known && one && about, || {
            format!("memory semantics {semantics:#x} are not supported")
        })
    }

    /// The value of an integer constant of 32 bits.
    fn constant(&self, id: u32) -> Result<u32, String> {
        let int = self.shape(id).is_ok_and(|s| is_int(s) && s.1 == 1);
        let word = constant_word(self.module, id).filter(|_| int);
        word.ok_or_else(|| format!("%{id} is no integer constant"))
    }

    fn atomic(&self, instruction: &Instruction) -> Checked {
        let used = &instruction.ids.used;
        let (class, pointee) = self.pointer(used[0])?;
        let shared = matches!(
            class,
            class::STORAGE_BUFFER | class::UNIFORM | class::WORKGROUP
        );
        let word = matches!(
            self.types.shape(pointee),
            Some((Scalar::Int { width: 32, .. }, 1))
        );
        ensure(shared && word, || {
            "atomics work on 32-bit integers in storage buffers and shared memory".to_owned()
        })?;
        self.scope(used[1], &SCOPES)?;
        let denied = match instruction.opcode {
            op::AtomicLoad => RELEASE | ACQUIRE_RELEASE,
            op::AtomicStore => ACQUIRE | ACQUIRE_RELEASE,
            _ => 0,
        };
        self.semantics(used[2], denied)?;
        let exchanges = instruction.opcode == op::AtomicCompareExchange;
        if exchanges {
            self.semantics(used[3], RELEASE | ACQUIRE_RELEASE)?;
        }
        let scopes = if exchanges { 3 } else { 2 };
        let values = &used[scopes + 1..];
        let typed = values.iter().all(|&id| self.value(id) == Ok(pointee));
        let made = instruction.opcode == op::AtomicStore || instruction.ids.result_type == pointee;
        ensure(typed && made, || {
            "its values do not have the pointer's type".to_owned()
        })
    }

    fn group(&self, instruction: &Instruction) -> Checked {
        let (used, result) = (&instruction.ids.used, instruction.ids.result_type);
        let scope = constant_word(self.module, used[0]);
        ensure(scope == Some(SUBGROUP), || {
            "its scope is not the subgroup".to_owned()
        })?;
        let made = self.types.shape(result);
        let truth = Some((Scalar::Bool, 1));
        let index = |id: u32| self.shape(id).is_ok_and(|s| is_unsigned(s) && s.1 == 1);
        let holds = match instruction.opcode {
            op::GroupNonUniformElect => made == truth,
            op::GroupNonUniformAll | op::GroupNonUniformAny => {
                made == truth && Some(self.shape(used[1])?) == truth
            }
            op::GroupNonUniformBallot => {
                made == Some((
                    Scalar::Int {
                        width: 32,
                        signed: false,
                    },
                    4,
                )) && Some(self.shape(used[1])?) == truth
            }
            op::GroupNonUniformBroadcastFirst => made == Some(self.shape(used[1])?),
            op::GroupNonUniformBroadcast => {
                made == Some(self.shape(used[1])?)
                    && is_constant(self.module, used[2])
                    && index(used[2])
            }
            _ => made == Some(self.shape(used[1])?) && index(used[2]),
        };
        ensure(holds, || {
            "its operands do not have the types that it takes".to_owned()
        })
    }

    fn extended(&self, instruction: &Instruction) -> Checked {
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
pub(super) fn check_wide(types: &Types, module: &Module, instruction: &Instruction) -> Checked {
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
