//! Types, constants and global variables: what a module declares, checked and measured.

use std::collections::{HashMap, HashSet};

use super::grammar::op;
use super::module::{Instruction, Module};

/// Section 2.17 lets structures nest 255 deep; every walk over a type is as deep as this at most.
const MAX_DEPTH: usize = 64;

/// The numbers of storage classes that kernels have.
pub(super) mod class {
    pub const INPUT: u32 = 1;
    pub const UNIFORM: u32 = 2;
    pub const WORKGROUP: u32 = 4;
    pub const PRIVATE: u32 = 6;
    pub const FUNCTION: u32 = 7;
    pub const PUSH_CONSTANT: u32 = 9;
    pub const STORAGE_BUFFER: u32 = 12;
}

/// The numbers of decorations that have a meaning here.
pub(super) mod decoration {
    pub const SPEC_ID: u32 = 1;
    pub const BLOCK: u32 = 2;
    pub const BUFFER_BLOCK: u32 = 3;
    pub const ARRAY_STRIDE: u32 = 6;
    pub const BUILT_IN: u32 = 11;
    pub const NON_WRITABLE: u32 = 24;
    pub const NON_READABLE: u32 = 25;
    pub const BINDING: u32 = 33;
    pub const DESCRIPTOR_SET: u32 = 34;
    pub const OFFSET: u32 = 35;
}

/// A declared type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Type {
    Void,
    Bool,
    Int { width: u32, signed: bool },
    Float { width: u32 },
    Vector { component: u32, count: u32 },
    Array { element: u32, length: u32 },
    RuntimeArray { element: u32 },
    Struct { members: Vec<u32> },
    Pointer { class: u32, pointee: u32 },
    Function { result: u32, parameters: Vec<u32> },
}

/// A scalar, or what a vector is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Bool,
    Int { width: u32, signed: bool },
    Float { width: u32 },
}

impl Scalar {
    /// Bits of one; a truth value has no defined width.
    pub fn width(self) -> u32 {
        match self {
            Self::Bool => 0,
            Self::Int { width, .. } | Self::Float { width } => width,
        }
    }
}

/// The declarations of a module.
#[derive(Debug)]
pub(super) struct Types {
    types: HashMap<u32, Type>,
    depths: HashMap<u32, usize>,
}

impl Types {
    /// Reads and checks the types, constants and global variables.
    pub fn read(module: &Module) -> Result<Self, String> {
        let mut types = Self {
            types: HashMap::new(),
            depths: HashMap::new(),
        };
        let mut unique = HashSet::new();
        for instruction in &module.instructions {
            let named = |reason: String| instruction.fault(reason);
            if let Some(declared) = types.declared(module, instruction).map_err(named)? {
                let aggregate = matches!(
                    declared,
                    Type::Array { .. } | Type::RuntimeArray { .. } | Type::Struct { .. }
                );
                if !aggregate && !unique.insert(declared.clone()) {
                    return Err(named("the type is declared twice".to_owned()));
                }
                let id = instruction.ids.result;
                let inner = instruction.ids.used.iter();
                let depth = 1 + inner
                    .filter_map(|id| types.depths.get(id))
                    .max()
                    .unwrap_or(&0);
                if depth > MAX_DEPTH {
                    return Err(named(format!("types nest more than {MAX_DEPTH} deep")));
                }
                types.depths.insert(id, depth);
                types.types.insert(id, declared);
            } else if instruction.opcode == op::Function {
                break;
            } else {
                types.check_constant(module, instruction).map_err(named)?;
            }
        }
        Ok(types)
    }

    /// The type of this id; an error where it is none.
    pub fn get(&self, id: u32) -> Result<&Type, String> {
        self.types
            .get(&id)
            .ok_or_else(|| format!("%{id} is no type"))
    }

    /// The type id of a value.
    pub fn of_value(&self, module: &Module, id: u32) -> Result<u32, String> {
        let result_type = module.definition(id).ids.result_type;
        let is_function = module.definition(id).opcode == op::Function;
        if result_type == 0 || is_function || !self.types.contains_key(&result_type) {
            return Err(format!("%{id} is no value"));
        }
        Ok(result_type)
    }

    /// A scalar or vector type as its scalar and the number of components.
    pub fn shape(&self, id: u32) -> Option<(Scalar, u32)> {
        match *self.types.get(&id)? {
            Type::Bool => Some((Scalar::Bool, 1)),
            Type::Int { width, signed } => Some((Scalar::Int { width, signed }, 1)),
            Type::Float { width } => Some((Scalar::Float { width }, 1)),
            Type::Vector { component, count } => Some((self.shape(component)?.0, count)),
            _ => None,
        }
    }

    /// The class and the pointee of a pointer type.
    pub fn pointer(&self, id: u32) -> Result<(u32, u32), String> {
        match *self.get(id)? {
            Type::Pointer { class, pointee } => Ok((class, pointee)),
            _ => Err(format!("type %{id} is no pointer")),
        }
    }

    /// Whether a value of the type can be loaded, stored and copied.
    pub fn is_storable(&self, id: u32) -> bool {
        match self.types.get(&id) {
            Some(Type::Bool | Type::Int { .. } | Type::Float { .. } | Type::Vector { .. }) => true,
            Some(Type::Array { element, .. }) => self.is_storable(*element),
            Some(Type::Struct { members }) => members.iter().all(|&id| self.is_storable(id)),
            _ => false,
        }
    }

    /// Whether truth values are among what the type holds: they have no layout.
    pub fn holds_bool(&self, id: u32) -> bool {
        match self.types.get(&id) {
            Some(Type::Bool) => true,
            Some(Type::Vector {
                component: inner, ..
            })
            | Some(Type::Array { element: inner, .. })
            | Some(Type::RuntimeArray { element: inner }) => self.holds_bool(*inner),
            Some(Type::Struct { members }) => members.iter().any(|&id| self.holds_bool(id)),
            _ => false,
        }
    }

    /// Whether two types have the same form, whatever their decorations.
    pub fn alike(&self, one: u32, other: u32) -> bool {
        if one == other {
            return true;
        }
        match (self.types.get(&one), self.types.get(&other)) {
            (
                Some(Type::Array { element, length }),
                Some(Type::Array {
                    element: other,
                    length: others,
                }),
            ) => length == others && self.alike(*element, *other),
            (Some(Type::Struct { members }), Some(Type::Struct { members: others })) => {
                members.len() == others.len()
                    && members.iter().zip(others).all(|(&a, &b)| self.alike(a, b))
            }
            _ => false,
        }
    }

    fn declared(&self, module: &Module, instruction: &Instruction) -> Result<Option<Type>, String> {
        let words = &instruction.words;
        let found = match (instruction.opcode, &words[..]) {
            (op::TypeVoid, _) => Type::Void,
            (op::TypeBool, _) => Type::Bool,
            (op::TypeInt, &[_, width @ (32 | 64), signed @ (0 | 1)]) => {
                let signed = signed == 1;
                Type::Int { width, signed }
            }
            (op::TypeInt, &[_, width, _]) => {
                return Err(format!("integers of {width} bits, expected 32 or 64"));
            }
            (op::TypeFloat, &[_, width @ (32 | 64)]) => Type::Float { width },
            (op::TypeFloat, &[_, width]) => {
                return Err(format!("floats of {width} bits, expected 32 or 64"));
            }
            (op::TypeVector, &[_, component, count @ 2..=4]) => {
                let scalar = !matches!(self.get(component)?, Type::Vector { .. });
                if !scalar || self.shape(component).is_none() {
                    return Err(format!("its component %{component} is no scalar type"));
                }
                Type::Vector { component, count }
            }
            (op::TypeVector, &[_, _, count]) => {
                return Err(format!("a vector of {count}, expected 2, 3 or 4"));
            }
            (op::TypeArray, &[_, element, length]) => {
                self.element(element)?;
                let int = is_constant(module, length)
                    && matches!(
                        self.shape(self.of_value(module, length)?),
                        Some((Scalar::Int { width: 32, .. }, 1))
                    );
                if !int || constant_word(module, length) == Some(0) {
                    return Err(format!(
                        "its length %{length} is no positive integer constant"
                    ));
                }
                Type::Array { element, length }
            }
            (op::TypeRuntimeArray, &[_, element]) => {
                self.element(element)?;
                Type::RuntimeArray { element }
            }
            (op::TypeStruct, [_, members @ ..]) => {
                for (place, &member) in members.iter().enumerate() {
                    let last = place + 1 == members.len();
                    match self.get(member)? {
                        Type::RuntimeArray { .. } if last => {}
                        _ if self.is_storable(member) => {}
                        _ => return Err(format!("member {place} has type %{member}")),
                    }
                }
                let members = members.to_vec();
                Type::Struct { members }
            }
            (op::TypePointer, &[_, class, pointee]) => {
                const CLASSES: [u32; 7] = [
                    class::INPUT,
                    class::UNIFORM,
                    class::WORKGROUP,
                    class::PRIVATE,
                    class::FUNCTION,
                    class::PUSH_CONSTANT,
                    class::STORAGE_BUFFER,
                ];
                if !CLASSES.contains(&class) {
                    return Err(format!("storage class {class} is not supported"));
                }
                if matches!(
                    self.get(pointee)?,
                    Type::Void | Type::Function { .. } | Type::Pointer { .. }
                ) {
                    return Err(format!("a pointer to type %{pointee}"));
                }
                Type::Pointer { class, pointee }
            }
            (op::TypeFunction, &[_, result, ref parameters @ ..]) => {
                let void = *self.get(result)? == Type::Void;
                if !void && !self.is_storable(result) {
                    return Err(format!("a function that returns type %{result}"));
                }
                for &parameter in parameters {
                    let pointer = matches!(self.get(parameter)?, Type::Pointer { .. });
                    if !pointer && !self.is_storable(parameter) {
                        return Err(format!("a parameter of type %{parameter}"));
                    }
                }
                let parameters = parameters.to_vec();
                Type::Function { result, parameters }
            }
            _ => return Ok(None),
        };
        Ok(Some(found))
    }

    fn element(&self, id: u32) -> Result<(), String> {
        self.get(id)?;
        if self.is_storable(id) {
            return Ok(());
        }
        Err(format!("an array of type %{id}"))
    }

    fn check_constant(&self, module: &Module, instruction: &Instruction) -> Result<(), String> {
        let (result_type, words) = (instruction.ids.result_type, &instruction.words);
        match instruction.opcode {
            op::ConstantTrue | op::ConstantFalse | op::SpecConstantTrue | op::SpecConstantFalse => {
                match self.get(result_type)? {
                    Type::Bool => Ok(()),
                    _ => Err("a truth value of another type".to_owned()),
                }
            }
            op::Constant | op::SpecConstant => {
                let width = match *self.get(result_type)? {
                    Type::Int { width, .. } | Type::Float { width } => width,
                    _ => return Err("a number of another type".to_owned()),
                };
                let found = words.len() - 2;
                if found == (width / 32) as usize {
                    return Ok(());
                }
                Err(format!("{found} words for {width} bits"))
            }
            op::ConstantComposite | op::SpecConstantComposite => {
                self.check_parts(module, result_type, &instruction.ids.used)
            }
            op::ConstantNull | op::Undef if self.is_storable(result_type) => Ok(()),
            op::ConstantNull | op::Undef => Err(format!("a value of type %{result_type}")),
            _ => Ok(()),
        }
    }

    /// Checks that constants make up a constant of a type, one per part.
    fn check_parts(&self, module: &Module, whole: u32, parts: &[u32]) -> Result<(), String> {
        let expected = match self.get(whole)? {
            Type::Vector { component, count } => vec![*component; *count as usize],
            Type::Struct { members } if self.is_storable(whole) => members.clone(),
            Type::Array { element, length } => {
                let same = parts.iter().all(|&part| {
                    is_constant(module, part) && self.of_value(module, part) == Ok(*element)
                });
                let counted = constant_word(module, *length).map(|n| n as usize);
                // A length that is specialized later cannot be counted here.
                return if same && counted == Some(parts.len()) {
                    Ok(())
                } else {
                    Err(format!("{} parts do not make type %{whole}", parts.len()))
                };
            }
            _ => return Err(format!("type %{whole} has no parts")),
        };
        let fits = expected.len() == parts.len()
            && parts.iter().zip(&expected).all(|(&part, &expected)| {
                is_constant(module, part) && self.of_value(module, part) == Ok(expected)
            });
        if fits {
            return Ok(());
        }
        Err(format!("{} parts do not make type %{whole}", parts.len()))
    }
}

/// Whether an id is a constant, specialized or not.
pub(super) fn is_constant(module: &Module, id: u32) -> bool {
    let opcode = module.definition(id).opcode;
    (op::ConstantTrue..=op::SpecConstantOp).contains(&opcode) || opcode == op::Undef
}

/// The first word of a plain integer constant (not of one that may be specialized).
pub(super) fn constant_word(module: &Module, id: u32) -> Option<u32> {
    let definition = module.definition(id);
    match (definition.opcode, &definition.words[..]) {
        (op::Constant, &[_, _, word]) => Some(word),
        _ => None,
    }
}
