//! Reads SPIR-V modules word by word: enough of the format for the lint.
//!
//! Format: "SPIR-V Specification", section 2.3, "Physical Layout of a SPIR-V Module".

use std::collections::{HashMap, HashSet};

const MAGIC: u32 = 0x0723_0203;

const OP_NAME: u16 = 5;
const OP_EXT_INST_IMPORT: u16 = 11;
const OP_EXT_INST: u16 = 12;
const OP_TYPE_FLOAT: u16 = 22;
const OP_TYPE_VECTOR: u16 = 23;
const OP_TYPE_MATRIX: u16 = 24;
const OP_FUNCTION: u16 = 54;
const OP_FUNCTION_END: u16 = 56;
const OP_DECORATE: u16 = 71;
const NO_CONTRACTION: u32 = 42;

/// One instruction: its number in the module, its opcode, and the words behind the first.
#[derive(Debug)]
pub struct Instruction {
    pub index: usize,
    pub opcode: u16,
    pub operands: Vec<u32>,
    /// The name of the function it stands in; empty outside of functions.
    pub function: String,
}

/// A module and what its declarations say of its ids.
#[derive(Debug)]
pub struct Module {
    pub instructions: Vec<Instruction>,
    no_contraction: HashSet<u32>,
    float_types: HashSet<u32>,
    glsl_imports: HashSet<u32>,
}

impl Module {
    /// Reads a little-endian module.
    pub fn parse(bytes: &[u8]) -> Result<Module, String> {
        if !bytes.len().is_multiple_of(4) {
            return Err(format!(
                "{} bytes are no whole number of words",
                bytes.len()
            ));
        }
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect();
        if words.len() < 5 || words[0] != MAGIC {
            return Err("not a SPIR-V module: the magic number is missing".to_string());
        }
        let mut module = Module {
            instructions: split(&words[5..])?,
            no_contraction: HashSet::new(),
            float_types: HashSet::new(),
            glsl_imports: HashSet::new(),
        };
        module.read_declarations();
        Ok(module)
    }

    /// Whether the instruction's result carries the `NoContraction` decoration.
    pub fn is_precise(&self, instruction: &Instruction) -> bool {
        instruction
            .operands
            .get(1)
            .is_some_and(|id| self.no_contraction.contains(id))
    }

    /// Whether the instruction's result is a float, or a vector or matrix of floats.
    pub fn is_float(&self, instruction: &Instruction) -> bool {
        instruction
            .operands
            .first()
            .is_some_and(|id| self.float_types.contains(id))
    }

    /// The number of a GLSL.std.450 instruction, or `None` for anything else.
    pub fn glsl_instruction(&self, instruction: &Instruction) -> Option<u32> {
        let [_, _, set, number, ..] = instruction.operands[..] else {
            return None;
        };
        (instruction.opcode == OP_EXT_INST && self.glsl_imports.contains(&set)).then_some(number)
    }

    fn read_declarations(&mut self) {
        let mut names: HashMap<u32, String> = HashMap::new();
        let mut function = String::new();
        for instruction in &mut self.instructions {
            let operands = &instruction.operands;
            match (instruction.opcode, &operands[..]) {
                (OP_NAME, [id, name @ ..]) => _ = names.insert(*id, literal(name)),
                (OP_EXT_INST_IMPORT, [id, name @ ..]) if literal(name) == "GLSL.std.450" => {
                    self.glsl_imports.insert(*id);
                }
                (OP_DECORATE, [id, NO_CONTRACTION, ..]) => _ = self.no_contraction.insert(*id),
                (OP_TYPE_FLOAT, [id, ..]) => _ = self.float_types.insert(*id),
                (OP_TYPE_VECTOR | OP_TYPE_MATRIX, [id, element, ..])
                    if self.float_types.contains(element) =>
                {
                    self.float_types.insert(*id);
                }
                (OP_FUNCTION, [_, id, ..]) => {
                    function = names.get(id).cloned().unwrap_or_else(|| format!("%{id}"));
                }
                _ => {}
            }
            instruction.function.clone_from(&function);
            if instruction.opcode == OP_FUNCTION_END {
                function.clear();
            }
        }
    }
}

fn split(mut words: &[u32]) -> Result<Vec<Instruction>, String> {
    let mut instructions = Vec::new();
    while let Some(&first) = words.first() {
        let (index, count) = (instructions.len(), (first >> 16) as usize);
        if count == 0 || count > words.len() {
            return Err(format!("instruction {index} says it has {count} words"));
        }
        instructions.push(Instruction {
            index,
            opcode: (first & 0xffff) as u16,
            operands: words[1..count].to_vec(),
            function: String::new(),
        });
        words = &words[count..];
    }
    Ok(instructions)
}

/// A string literal: UTF-8 in little-endian words, up to the first zero byte.
fn literal(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let text: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&text).into_owned()
}

/// Builds small modules for tests, instruction by instruction.
#[cfg(test)]
pub fn assemble(instructions: &[(u16, &[u32])]) -> Vec<u8> {
    let mut words = vec![MAGIC, 0x0001_0500, 0, 100, 0];
    for (opcode, operands) in instructions {
        words.push(((operands.len() as u32 + 1) << 16) | u32::from(*opcode));
        words.extend_from_slice(operands);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_types_decorations_and_names() {
        let main = u32::from_le_bytes(*b"main");
        let bytes = assemble(&[
            (OP_NAME, &[4, main, 0]),
            (OP_DECORATE, &[7, NO_CONTRACTION]),
            (OP_TYPE_FLOAT, &[1, 32]),
            (OP_TYPE_VECTOR, &[2, 1, 4]),
            (OP_FUNCTION, &[9, 4, 0, 8]),
            (133, &[2, 7, 5, 6]),
            (OP_FUNCTION_END, &[]),
        ]);
        let module = Module::parse(&bytes).expect("a whole module");
        let product = &module.instructions[5];
        assert_eq!((product.index, product.function.as_str()), (5, "main"));
        assert!(module.is_float(product) && module.is_precise(product));
        assert_eq!(module.instructions[0].function, "");
    }

    #[test]
    fn refuses_what_is_no_module() {
        let cases: [(&[u8], &str); 3] = [
            (&[1, 2, 3], "3 bytes are no whole number of words"),
            (&[0; 20], "not a SPIR-V module: the magic number is missing"),
            (
                &assemble(&[(133, &[1, 2, 3, 4])])[..28],
                "instruction 0 says it has 5 words",
            ),
        ];
        for (bytes, message) in cases {
            assert_eq!(Module::parse(bytes).expect_err("broken"), message);
        }
    }
}
