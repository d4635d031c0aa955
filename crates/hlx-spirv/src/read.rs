//! Words as instructions: their places, opcodes and ids.
//!
//! Format: "SPIR-V Specification", section 2.3, "Physical Layout of a SPIR-V Module". `rspirv`
//! parses the operands. It panics on an instruction that is longer than the module and on some
//! operations inside OpSpecConstantOp, so [`check_words`] refuses both first.

use rspirv::binary::{Consumer, ParseAction, ParseState, parse_words};
use rspirv::dr;
use rspirv::spirv::Op;

use crate::SpirvError;

/// The first word of every module.
pub const MAGIC: u32 = 0x0723_0203;
/// Words before the first instruction.
pub const HEADER_WORDS: usize = 5;

/// The ids of an instruction; 0 stands for one that it does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The type of the result.
    pub result_type: u32,
    /// The id that the instruction defines.
    pub result: u32,
    /// Every other id, in order.
    pub used: Vec<u32>,
}

/// One instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Its number in the module, from 0.
    pub index: usize,
    /// The place of its first word in the module.
    pub at: usize,
    /// Its opcode.
    pub opcode: u16,
    /// The words after the first.
    pub words: Vec<u32>,
    /// Its ids.
    pub ids: Ids,
    /// Whether the opcode defines an id, and whether that id has a type.
    pub defines: bool,
    /// Whether the opcode has a result type.
    pub has_type: bool,
}

impl Instruction {
    /// Returns the opcode's name, `OpFAdd`.
    pub fn name(&self) -> String {
        name(self.opcode)
    }

    /// Puts the instruction's number and name before a message.
    pub fn fault(&self, reason: impl std::fmt::Display) -> String {
        fault(self.index, self.opcode, reason)
    }
}

/// The name of an opcode; its number if the specification has none.
fn name(opcode: u16) -> String {
    match Op::from_u32(u32::from(opcode)) {
        Some(op) => format!("Op{op:?}"),
        None => format!("opcode {opcode}"),
    }
}

fn fault(index: usize, opcode: u16, reason: impl std::fmt::Display) -> String {
    format!("instruction {index} ({}): {reason}", name(opcode))
}

/// Returns little-endian bytes as words.
///
/// # Errors
/// A length that is not a whole number of words.
pub fn words(bytes: &[u8]) -> Result<Vec<u32>, SpirvError> {
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        let reason = format!("{} bytes are no whole number of words", bytes.len());
        return Err(SpirvError(reason));
    }
    Ok(words.iter().map(|&word| u32::from_le_bytes(word)).collect())
}

/// Reads a string literal; returns its text and the words that it takes.
///
/// # Errors
/// A string without its zero byte, or that is not UTF-8.
pub fn string(words: &[u32]) -> Result<(String, usize), String> {
    let end = words
        .iter()
        .position(|word| word.to_le_bytes().contains(&0));
    let end = end.ok_or("a string without its end")?;
    let bytes = words[..=end].iter().flat_map(|word| word.to_le_bytes());
    let text: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    let text = String::from_utf8(text).map_err(|_| "a string that is not UTF-8")?;
    Ok((text, end + 1))
}

/// Reads all instructions of a module.
///
/// # Errors
/// The first malformed instruction, with its number and name.
pub fn read(words: &[u32]) -> Result<Vec<Instruction>, SpirvError> {
    parse(words, false, &|_, _| Ok(()))
}

/// Reads all instructions of a module, each of which `accept` has passed by its opcode and the
/// words after the first.
///
/// # Errors
/// As [`read`], and what `accept` says.
pub fn read_accepted(words: &[u32], accept: Accept<'_>) -> Result<Vec<Instruction>, SpirvError> {
    parse(words, false, accept)
}

/// Reads the instructions before the first function: capabilities, entry points, decorations,
/// types, constants and global variables.
///
/// # Errors
/// As [`read`], for these instructions.
pub fn read_declarations(words: &[u32]) -> Result<Vec<Instruction>, SpirvError> {
    parse(words, true, &|_, _| Ok(()))
}

/// Accepts an instruction, or returns why it is refused.
pub type Accept<'a> = &'a dyn Fn(u16, &[u32]) -> Result<(), String>;

fn parse(
    words: &[u32],
    declarations: bool,
    accept: Accept<'_>,
) -> Result<Vec<Instruction>, SpirvError> {
    if words.first() != Some(&MAGIC) {
        let reason = "not a SPIR-V module: the magic number is missing";
        return Err(SpirvError(reason.to_owned()));
    }
    if words.len() < HEADER_WORDS {
        let reason = format!("{} words are too few for a header", words.len());
        return Err(SpirvError(reason));
    }
    let end = check_words(words, declarations, accept)?;
    let words = &words[..end];
    let mut collector = Collector {
        words,
        at: HEADER_WORDS,
        instructions: Vec::new(),
    };
    match parse_words(words, &mut collector) {
        Ok(()) => Ok(collector.instructions),
        Err(state) => Err(SpirvError(collector.describe(&state))),
    }
}

/// Checks that every instruction ends within the module and that rspirv can read it; returns the
/// end of what is to be read.
fn check_words(words: &[u32], declarations: bool, accept: Accept<'_>) -> Result<usize, SpirvError> {
    let (mut at, mut index) = (HEADER_WORDS, 0);
    while let Some(&first) = words.get(at) {
        let (opcode, count) = ((first & 0xffff) as u16, (first >> 16) as usize);
        let left = words.len() - at;
        if count == 0 || count > left {
            let reason = format!("instruction {index} says it has {count} words, {left} are left");
            return Err(SpirvError(reason));
        }
        if declarations && opcode == Op::Function as u16 {
            break;
        }
        let operands = &words[at + 1..at + count];
        accept(opcode, operands).map_err(|reason| fault(index, opcode, reason))?;
        if opcode == Op::SpecConstantOp as u16
            && let Some(&inner) = operands.get(2)
            && !makes_constants(inner)
        {
            let reason = format!("opcode {inner} may not make a constant");
            return Err(SpirvError(fault(index, opcode, reason)));
        }
        at += count;
        index += 1;
    }
    Ok(at)
}

/// Whether OpSpecConstantOp may hold an operation, in a shader ("SPIR-V Specification",
/// OpSpecConstantOp).
fn makes_constants(opcode: u32) -> bool {
    use Op::*;
    let Some(op) = Op::from_u32(opcode) else {
        return false;
    };
    let conversions = matches!(op, SConvert | UConvert | FConvert | QuantizeToF16);
    let integers = matches!(
        op,
        SNegate | Not | IAdd | ISub | IMul | UDiv | SDiv | UMod | SRem | SMod
    );
    let bits = matches!(
        op,
        ShiftRightLogical
            | ShiftRightArithmetic
            | ShiftLeftLogical
            | BitwiseOr
            | BitwiseXor
            | BitwiseAnd
    );
    let composites = matches!(
        op,
        VectorShuffle | CompositeExtract | CompositeInsert | Select
    );
    let logic = matches!(
        op,
        LogicalOr | LogicalAnd | LogicalNot | LogicalEqual | LogicalNotEqual
    );
    let compares = (IEqual as u32..=SLessThanEqual as u32).contains(&opcode);
    conversions || integers || bits || composites || logic || compares
}

/// Receives rspirv's instructions.
struct Collector<'a> {
    words: &'a [u32],
    at: usize,
    instructions: Vec<Instruction>,
}

impl Collector<'_> {
    /// Names the instruction that rspirv stopped at.
    fn describe(&self, state: &ParseState) -> String {
        match self.words.get(self.at) {
            Some(&first) => fault(self.instructions.len(), (first & 0xffff) as u16, state),
            None => state.to_string(),
        }
    }
}

impl Consumer for Collector<'_> {
    fn initialize(&mut self) -> ParseAction {
        ParseAction::Continue
    }

    fn finalize(&mut self) -> ParseAction {
        ParseAction::Continue
    }

    fn consume_header(&mut self, _: dr::ModuleHeader) -> ParseAction {
        ParseAction::Continue
    }

    fn consume_instruction(&mut self, parsed: dr::Instruction) -> ParseAction {
        let count = (self.words[self.at] >> 16) as usize;
        let used = parsed.operands.iter().filter_map(dr::Operand::id_ref_any);
        self.instructions.push(Instruction {
            index: self.instructions.len(),
            at: self.at,
            opcode: parsed.class.opcode as u16,
            words: self.words[self.at + 1..self.at + count].to_vec(),
            ids: Ids {
                result_type: parsed.result_type.unwrap_or(0),
                result: parsed.result_id.unwrap_or(0),
                used: used.collect(),
            },
            defines: parsed.result_id.is_some(),
            has_type: parsed.result_type.is_some(),
        });
        self.at += count;
        ParseAction::Continue
    }
}

/// Builds small modules for tests, instruction by instruction.
#[cfg(test)]
pub fn assemble(instructions: &[(u16, &[u32])]) -> Vec<u32> {
    let mut words = vec![MAGIC, 0x0001_0500, 0, 100, 0];
    for (opcode, operands) in instructions {
        words.push(((operands.len() as u32 + 1) << 16) | u32::from(*opcode));
        words.extend_from_slice(operands);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: u32 = u32::from_le_bytes(*b"main");

    #[test]
    fn places_and_ids_are_read() -> Result<(), SpirvError> {
        let module = assemble(&[
            (5, &[4, MAIN, 0]),
            (22, &[1, 32]),
            (54, &[9, 4, 0, 8]),
            (133, &[2, 7, 5, 6]),
            (56, &[]),
        ]);
        let all = read(&module)?;
        assert_eq!((all[3].at, all[3].name()), (17, "OpFMul".to_owned()));
        let ids = Ids {
            result_type: 2,
            result: 7,
            used: vec![5, 6],
        };
        assert_eq!(all[3].ids, ids);
        assert_eq!(read_declarations(&module)?.len(), 2);
        Ok(())
    }

    #[test]
    fn malformed_words_are_named() {
        assert_eq!(
            words(&[1, 2, 3]).expect_err("uneven").0,
            "3 bytes are no whole number of words"
        );
        let reason = |words: &[u32]| read(words).expect_err("malformed").0;
        assert!(reason(&[0; 5]).contains("the magic number is missing"));
        let product = assemble(&[(133, &[1, 2, 3, 4])]);
        assert!(reason(&product[..7]).contains("says it has 5 words, 2 are left"));
        assert!(reason(&assemble(&[(133, &[1, 2, 3])])).starts_with("instruction 0 (OpFMul)"));
        assert!(reason(&assemble(&[(133, &[1, 2, 3, 4, 5])])).contains("extra operands"));
        assert!(reason(&assemble(&[(9999, &[])])).contains("opcode 9999"));
    }

    /// rspirv slices a string up to the count of words that its instruction claims.
    #[test]
    fn a_string_longer_than_the_module_is_no_panic() {
        let module = assemble(&[(11, &[1, u32::MAX, u32::MAX])]);
        for end in 0..module.len() {
            assert!(read(&module[..end]).is_err() || end == HEADER_WORDS);
        }
        assert!(read(&module).is_err());
    }

    /// rspirv has no way to parse these inside OpSpecConstantOp.
    #[test]
    fn a_constant_or_a_switch_as_a_specialized_operation_is_no_panic() {
        for inner in [43, 50, 52, 251, 12, 0xffff] {
            let module = assemble(&[(52, &[1, 2, inner, 3, 4])]);
            let reason = read(&module).expect_err("no operation on constants").0;
            assert!(reason.contains("may not make a constant"), "{reason}");
        }
    }
}
