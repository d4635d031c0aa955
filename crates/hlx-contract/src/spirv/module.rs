//! A module's words as instructions, with what they declare, in the order that SPIR-V requires.
//!
//! "SPIR-V Specification", sections 2.3 and 2.4.

use std::collections::{HashMap, HashSet};

use hlx_spirv::{HEADER_WORDS, MAGIC, string};

use super::grammar::{self, op};

/// 16 MiB; the largest kernel of HLX has 110 KiB.
const MAX_WORDS: usize = 1 << 22;
/// The universal limit of section 2.17.
const MAX_BOUND: u32 = 0x3f_ffff;

pub(super) use hlx_spirv::Instruction;

/// A function: its first instruction, and those of each block from label to terminator.
#[derive(Debug)]
pub(super) struct Function {
    pub definition: usize,
    pub parameters: Vec<usize>,
    pub blocks: Vec<std::ops::Range<usize>>,
}

/// A module whose words are whole, whose ids are defined once and whose parts are in order. Types
/// are not checked yet.
#[derive(Debug)]
pub(super) struct Module {
    pub version: (u8, u8),
    pub instructions: Vec<Instruction>,
    pub functions: Vec<Function>,
    /// The instruction that defines an id.
    definitions: HashMap<u32, usize>,
    names: HashMap<u32, String>,
    decorations: HashMap<u32, Vec<Vec<u32>>>,
    member_decorations: HashMap<(u32, u32), Vec<Vec<u32>>>,
}

impl Module {
    /// Reads a module.
    pub fn parse(words: &[u32]) -> Result<Self, String> {
        let version = header(words)?;
        let instructions = split(words)?;
        let mut module = Self {
            version,
            functions: Vec::new(),
            definitions: HashMap::new(),
            names: HashMap::new(),
            decorations: HashMap::new(),
            member_decorations: HashMap::new(),
            instructions,
        };
        module.define(words[3])?;
        module.order()?;
        module.cut_functions()?;
        module.check_uses()?;
        module.annotate()?;
        Ok(module)
    }

    /// The instruction that defines an id, which `parse` has proved to be there.
    pub fn definition(&self, id: u32) -> &Instruction {
        &self.instructions[self.definitions.get(&id).copied().unwrap_or(0)]
    }

    /// An id's debug name, if it has one.
    pub fn name(&self, id: u32) -> Option<&str> {
        self.names
            .get(&id)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// Decorations of an id: each the decoration's number and its operands.
    pub fn decorations(&self, id: u32) -> &[Vec<u32>] {
        self.decorations.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Decorations of a struct's member.
    pub fn member_decorations(&self, id: u32, member: u32) -> &[Vec<u32>] {
        let found = self.member_decorations.get(&(id, member));
        found.map_or(&[], Vec::as_slice)
    }

    /// The first operand of a decoration of an id; `Some(0)` for one without operands.
    pub fn decoration(&self, id: u32, number: u32) -> Option<u32> {
        first(self.decorations(id), number)
    }

    /// The first operand of a decoration of a member.
    pub fn member_decoration(&self, id: u32, member: u32, number: u32) -> Option<u32> {
        first(self.member_decorations(id, member), number)
    }

    fn define(&mut self, bound: u32) -> Result<(), String> {
        for instruction in &self.instructions {
            let result = instruction.ids.result;
            if !instruction.defines {
                continue;
            }
            if result == 0 || result >= bound {
                let reason = format!("its result %{result} is outside of the bound {bound}");
                return Err(instruction.fault(reason));
            }
            if let Some(other) = self.definitions.insert(result, instruction.index) {
                let reason = format!("%{result} is defined by instruction {other} already");
                return Err(instruction.fault(reason));
            }
        }
        Ok(())
    }

    /// Checks the order of section 2.4 up to the first function.
    fn order(&self) -> Result<(), String> {
        let mut last = 0;
        let mut models = 0;
        for instruction in &self.instructions {
            let rank = rank(instruction.opcode);
            models += usize::from(instruction.opcode == op::MemoryModel);
            if rank == LINES {
                continue;
            }
            if rank < last {
                return Err(instruction.fault("it follows a part that comes later"));
            }
            last = rank;
        }
        if models == 1 {
            Ok(())
        } else {
            Err(format!("{models} OpMemoryModel, expected 1"))
        }
    }

    /// Cuts the functions into blocks.
    fn cut_functions(&mut self) -> Result<(), String> {
        let mut open: Option<Function> = None;
        let mut block: Option<usize> = None;
        for instruction in &self.instructions {
            let (index, opcode) = (instruction.index, instruction.opcode);
            match (&mut open, opcode) {
                (None, op::Function) => {
                    open = Some(Function {
                        definition: index,
                        parameters: Vec::new(),
                        blocks: Vec::new(),
                    });
                }
                (None, _) if rank(opcode) == FUNCTIONS => {
                    return Err(instruction.fault("it is outside of a function"));
                }
                (None, op::Variable | op::Undef) if !self.functions.is_empty() => {
                    return Err(instruction.fault("it follows the functions"));
                }
                (None, _) => {}
                (Some(function), op::FunctionParameter) => {
                    if block.is_some() || !function.blocks.is_empty() {
                        return Err(instruction.fault("it follows the function's head"));
                    }
                    function.parameters.push(index);
                }
                (Some(function), op::FunctionEnd) => {
                    if block.is_some() || function.blocks.is_empty() {
                        return Err(instruction.fault("the function's last block has no end"));
                    }
                    self.functions.extend(open.take());
                }
                (Some(_), op::Label) if block.is_none() => block = Some(index),
                (Some(_), op::Label) => {
                    return Err(instruction.fault("the block before it has no end"));
                }
                (Some(_), op::Function) => {
                    return Err(instruction.fault("it is within another function"));
                }
                (Some(function), _) => match block {
                    _ if rank(opcode) == LINES => {}
                    Some(start) if is_terminator(opcode) => {
                        function.blocks.push(start..index + 1);
                        block = None;
                    }
                    Some(_) if rank(opcode) == FUNCTIONS || opcode == op::Undef => {}
                    Some(_) if matches!(opcode, op::Variable | op::ExtInst) => {}
                    _ => return Err(instruction.fault("it may not be here")),
                },
            }
        }
        match open {
            Some(_) => Err("the last function has no end".to_owned()),
            None => Ok(()),
        }
    }

    /// Every used id is defined; outside of functions, before its use.
    fn check_uses(&self) -> Result<(), String> {
        let first = self.functions.first().map_or(usize::MAX, |f| f.definition);
        for instruction in &self.instructions {
            let result_type = Some(instruction.ids.result_type).filter(|&id| id != 0);
            if instruction.has_type && result_type.is_none() {
                return Err(instruction.fault("its type is %0"));
            }
            let global = matches!(instruction.opcode, op::Variable | op::Undef);
            let declares =
                rank(instruction.opcode) == DECLARATIONS || (global && instruction.index < first);
            for id in instruction.ids.used.iter().copied().chain(result_type) {
                let Some(&at) = self.definitions.get(&id) else {
                    return Err(instruction.fault(format!("%{id} is defined nowhere")));
                };
                if declares && at >= instruction.index {
                    return Err(instruction.fault(format!("%{id} is defined behind its use")));
                }
            }
        }
        Ok(())
    }

    fn annotate(&mut self) -> Result<(), String> {
        let mut seen = HashSet::new();
        for instruction in &self.instructions {
            let words = &instruction.words;
            match (instruction.opcode, &words[..]) {
                (op::Name, [id, text @ ..]) => {
                    self.names.insert(*id, string(text)?.0);
                }
                (op::Decorate, [id, rest @ ..]) => {
                    if !seen.insert((*id, u32::MAX, rest[0])) {
                        let reason = format!("%{id} has decoration {} already", rest[0]);
                        return Err(instruction.fault(reason));
                    }
                    self.decorations.entry(*id).or_default().push(rest.to_vec());
                }
                (op::MemberDecorate, [id, member, rest @ ..]) => {
                    if !seen.insert((*id, *member, rest[0])) {
                        let reason = format!(
                            "member {member} of %{id} has decoration {} already",
                            rest[0]
                        );
                        return Err(instruction.fault(reason));
                    }
                    let list = self.member_decorations.entry((*id, *member));
                    list.or_default().push(rest.to_vec());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn first(list: &[Vec<u32>], number: u32) -> Option<u32> {
    let found = list.iter().find(|words| words[0] == number)?;
    Some(found.get(1).copied().unwrap_or(0))
}

fn header(words: &[u32]) -> Result<(u8, u8), String> {
    if words.len() < HEADER_WORDS {
        return Err(format!("{} words are too few for a header", words.len()));
    }
    if words.len() > MAX_WORDS {
        return Err(format!(
            "{} words, expected at most {MAX_WORDS}",
            words.len()
        ));
    }
    if words[0] == MAGIC.swap_bytes() {
        return Err("the words are big-endian, expected little-endian".to_owned());
    }
    if words[0] != MAGIC {
        return Err(format!(
            "it begins with {:#010x}, expected {MAGIC:#010x}",
            words[0]
        ));
    }
    let [_, minor, major, _] = words[1].to_le_bytes();
    let known = words[1] & 0xff00_00ff == 0 && major == 1 && minor <= 5;
    if !known {
        return Err(format!(
            "version word {:#010x}, expected SPIR-V 1.0 to 1.5",
            words[1]
        ));
    }
    if words[3] == 0 || words[3] > MAX_BOUND {
        return Err(format!(
            "the bound of ids is {}, expected 1 to {MAX_BOUND}",
            words[3]
        ));
    }
    if words[4] != 0 {
        return Err(format!("the header's schema is {}, expected 0", words[4]));
    }
    Ok((major, minor))
}

fn split(words: &[u32]) -> Result<Vec<Instruction>, String> {
    hlx_spirv::read_accepted(words, &accept).map_err(|error| error.0)
}

fn accept(opcode: u16, operands: &[u32]) -> Result<(), String> {
    if !grammar::accepts(opcode) {
        return Err("contracts do not take this instruction".to_owned());
    }
    if opcode == op::SpecConstantOp
        && let Some(&inner) = operands.get(2)
        && !u16::try_from(inner).is_ok_and(is_constant_operation)
    {
        return Err(format!("opcode {inner} may not make a constant"));
    }
    grammar::check_memory(opcode, operands)
}

fn is_constant_operation(opcode: u16) -> bool {
    matches!(
        opcode,
        op::UConvert
            | op::SConvert
            | op::SNegate
            | op::Not
            | op::IAdd
            | op::ISub
            | op::IMul
            | op::UDiv
            | op::SDiv
            | op::UMod
            | op::SRem
            | op::SMod
            | op::ShiftRightLogical
            | op::ShiftRightArithmetic
            | op::ShiftLeftLogical
            | op::BitwiseOr
            | op::BitwiseXor
            | op::BitwiseAnd
            | op::LogicalOr
            | op::LogicalAnd
            | op::LogicalNot
            | op::LogicalEqual
            | op::LogicalNotEqual
            | op::Select
            | op::CompositeExtract
    ) || (op::IEqual..=op::SLessThanEqual).contains(&opcode)
}

/// Whether an instruction ends a block.
pub(super) fn is_terminator(opcode: u16) -> bool {
    matches!(
        opcode,
        op::Branch
            | op::BranchConditional
            | op::Switch
            | op::Return
            | op::ReturnValue
            | op::Unreachable
    )
}

const LINES: u8 = 0;
const DECLARATIONS: u8 = 11;
const FUNCTIONS: u8 = 12;

/// The part of a module that an instruction belongs to; debug lines may be anywhere.
fn rank(opcode: u16) -> u8 {
    match opcode {
        op::Line | op::NoLine | op::Nop => LINES,
        op::Capability => 1,
        op::Extension => 2,
        op::ExtInstImport => 3,
        op::MemoryModel => 4,
        op::EntryPoint => 5,
        op::ExecutionMode => 6,
        op::String | op::Source | op::SourceContinued | op::SourceExtension => 7,
        op::Name | op::MemberName => 8,
        op::ModuleProcessed => 9,
        op::Decorate | op::MemberDecorate => 10,
        op::TypeVoid..=op::SpecConstantOp => DECLARATIONS,
        // These occur among the declarations and in functions.
        op::Variable | op::Undef => LINES,
        _ => FUNCTIONS,
    }
}
