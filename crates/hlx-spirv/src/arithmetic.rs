//! What HLX arithmetic forbids in a shader module (docs/numerics.md), found in its SPIR-V.
//!
//! GLSL's `precise` becomes `NoContraction` on each addition, subtraction and product. glslang
//! puts none on `Fma`, which rounds once anyway, and none is required there.

use std::collections::{HashMap, HashSet};

use rspirv::spirv::{CooperativeMatrixOperands, Decoration, Op};

use crate::{Instruction, read, string, words};

/// A module's instructions and what its declarations say of its ids.
struct Module {
    instructions: Vec<Instruction>,
    names: HashMap<u32, String>,
    no_contraction: HashSet<u32>,
    float_types: HashSet<u32>,
    glsl_imports: HashSet<u32>,
}

impl Module {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let instructions = words(bytes)
            .and_then(|words| read(&words))
            .map_err(|error| error.to_string())?;
        let mut module = Self {
            instructions: Vec::new(),
            names: HashMap::new(),
            no_contraction: HashSet::new(),
            float_types: HashSet::new(),
            glsl_imports: HashSet::new(),
        };
        for instruction in &instructions {
            module.declare(instruction);
        }
        module.instructions = instructions;
        Ok(module)
    }

    fn declare(&mut self, instruction: &Instruction) {
        const NO_CONTRACTION: u32 = Decoration::NoContraction as u32;
        let text = |words: &[u32]| string(words).map_or_else(|_| String::new(), |(text, _)| text);
        let op = Op::from_u32(u32::from(instruction.opcode));
        match (op, &instruction.words[..]) {
            (Some(Op::Name), [id, name @ ..]) => _ = self.names.insert(*id, text(name)),
            (Some(Op::ExtInstImport), [id, name @ ..]) if text(name) == "GLSL.std.450" => {
                self.glsl_imports.insert(*id);
            }
            (Some(Op::Decorate), [id, NO_CONTRACTION, ..]) => {
                self.no_contraction.insert(*id);
            }
            (Some(Op::TypeFloat), [id, ..]) => _ = self.float_types.insert(*id),
            (
                Some(Op::TypeVector | Op::TypeMatrix | Op::TypeCooperativeMatrixKHR),
                [id, element, ..],
            ) if self.float_types.contains(element) => {
                self.float_types.insert(*id);
            }
            _ => {}
        }
    }

    /// Whether the instruction's result carries the `NoContraction` decoration.
    fn is_precise(&self, instruction: &Instruction) -> bool {
        self.no_contraction.contains(&instruction.ids.result)
    }

    /// Whether the instruction's result is a float, or a vector or matrix of floats.
    fn is_float(&self, instruction: &Instruction) -> bool {
        self.float_types.contains(&instruction.ids.result_type)
    }

    /// The number of a GLSL.std.450 instruction, or `None` for anything else.
    fn glsl_instruction(&self, instruction: &Instruction) -> Option<u32> {
        let [_, _, set, number, ..] = instruction.words[..] else {
            return None;
        };
        let glsl = instruction.opcode == Op::ExtInst as u16 && self.glsl_imports.contains(&set);
        glsl.then_some(number)
    }

    /// Whether the bits of the instruction's result are the device's, as `fast` has them: a sum by matrices, or an exponential.
    fn is_a_devices(&self, instruction: &Instruction) -> bool {
        instruction.opcode == MATRIX_MULTIPLY_ADD
            || self.glsl_instruction(instruction) == Some(EXP2)
    }

    /// The name of a function from its OpFunction.
    fn function_name(&self, function: u32) -> String {
        let name = self.names.get(&function).cloned();
        name.unwrap_or_else(|| format!("%{function}"))
    }
}

/// Every breach of the rules in one module, each as one line that starts with `name`.
pub fn check(name: &str, bytes: &[u8]) -> Vec<String> {
    let module = match Module::parse(bytes) {
        Ok(module) => module,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let mut function = String::new();
    let mut found = Vec::new();
    for instruction in &module.instructions {
        if instruction.opcode == Op::Function as u16 {
            function = module.function_name(instruction.ids.result);
        }
        let is_of_fast = is_fast(name) && module.is_a_devices(instruction);
        if let Some(reason) = judge(&module, instruction).filter(|_| !is_of_fast) {
            let index = instruction.index;
            found.push(format!(
                "{name}: instruction {index} in `{function}`: {reason}"
            ));
        }
        if instruction.opcode == Op::FunctionEnd as u16 {
            function.clear();
        }
    }
    found
}

const MATRIX_MULTIPLY_ADD: u16 = Op::CooperativeMatrixMulAddKHR as u16;
/// The number of GLSL.std.450's Exp2.
const EXP2: u32 = 29;

/// Whether a module is of the arithmetic `fast`, by its name: its sums by matrices of floats and its exponentials are the device's.
fn is_fast(name: &str) -> bool {
    ["matrices_f16", "matrices_bf16"]
        .iter()
        .any(|end| name.ends_with(end))
}

fn judge(module: &Module, instruction: &Instruction) -> Option<String> {
    if let Some(number) = module.glsl_instruction(instruction) {
        return judge_glsl(number);
    }
    if let Some(op) = rounded_once(instruction.opcode) {
        let loose = !module.is_precise(instruction);
        return loose.then(|| format!("{op} without NoContraction: a variable is not `precise`"));
    }
    const ATOMIC_EXCHANGE: u16 = 229;
    if instruction.opcode == ATOMIC_EXCHANGE && !module.is_float(instruction) {
        return None;
    }
    if instruction.opcode == MATRIX_MULTIPLY_ADD && !module.is_float(instruction) {
        // Type, result, three matrices; then a mask, if there is one.
        let mask = instruction.words.get(5).copied().unwrap_or(0);
        let saturates = mask & CooperativeMatrixOperands::SATURATING_ACCUMULATION_KHR.bits() != 0;
        return saturates.then(|| {
            "OpCooperativeMatrixMulAddKHR: saturates: the order of its sums shows".to_owned()
        });
    }
    forbidden(instruction.opcode).map(|(op, reason)| format!("{op}: {reason}"))
}

/// Operations that round once, and that a compiler may merge with their neighbours.
fn rounded_once(opcode: u16) -> Option<&'static str> {
    match opcode {
        129 => Some("OpFAdd"),
        131 => Some("OpFSub"),
        133 => Some("OpFMul"),
        142 => Some("OpVectorTimesScalar"),
        _ => None,
    }
}

fn forbidden(opcode: u16) -> Option<(&'static str, &'static str)> {
    const DIVISION: &str = "not correctly rounded on every device; use hlx_div";
    const MATRIX: &str = "sums in any order; write the chain with hlx_fma";
    const SUBGROUP: &str = "a float reduction whose tree is the device's";
    const ATOMIC: &str = "an atomic on a float: its order is the device's";
    const DERIVATIVE: &str = "no part of a compute shader";
    Some(match opcode {
        116 => ("OpQuantizeToF16", "its rounding is the device's"),
        136 => ("OpFDiv", DIVISION),
        140 => ("OpFRem", DIVISION),
        141 => ("OpFMod", DIVISION),
        143 => ("OpMatrixTimesScalar", MATRIX),
        144 => ("OpVectorTimesMatrix", MATRIX),
        145 => ("OpMatrixTimesVector", MATRIX),
        146 => ("OpMatrixTimesMatrix", MATRIX),
        147 => ("OpOuterProduct", MATRIX),
        148 => ("OpDot", MATRIX),
        207..=215 => ("OpDPdx or its kin", DERIVATIVE),
        229 => ("OpAtomicExchange", ATOMIC),
        265 => ("OpGroupFAdd", SUBGROUP),
        266 => ("OpGroupFMin", SUBGROUP),
        269 => ("OpGroupFMax", SUBGROUP),
        350 => ("OpGroupNonUniformFAdd", SUBGROUP),
        352 => ("OpGroupNonUniformFMul", SUBGROUP),
        355 => ("OpGroupNonUniformFMin", SUBGROUP),
        358 => ("OpGroupNonUniformFMax", SUBGROUP),
        4459 => ("OpCooperativeMatrixMulAddKHR", MATRIX),
        5614 => ("OpAtomicFMinEXT", ATOMIC),
        5615 => ("OpAtomicFMaxEXT", ATOMIC),
        6035 => ("OpAtomicFAddEXT", ATOMIC),
        6402 => ("OpGroupFMulKHR", SUBGROUP),
        _ => return None,
    })
}

/// GLSL.std.450: a list of what is allowed, so that instructions of later versions are refused.
///
/// Allowed are the fused multiply-add, what only moves or clears bits, what is exact by
/// definition (absolute value, floor, ceiling, truncation, rounding to even), integers, and the
/// conversions to and from half precision that were measured exact on every device tried.
fn judge_glsl(number: u32) -> Option<String> {
    let allowed = matches!(
        number,
        2 | 3 | 4 | 5 | 7 | 8 | 9 // RoundEven, Trunc, FAbs, SAbs, SSign, Floor, Ceil
        | 38 | 39 | 41 | 42 | 44 | 45 // UMin, SMin, UMax, SMax, UClamp, SClamp
        | 50 // Fma
        | 58 | 59 | 62 | 65 // PackHalf2x16, PackDouble2x32, UnpackHalf2x16, UnpackDouble2x32
        | 73 | 74 | 75 // FindILsb, FindSMsb, FindUMsb
    );
    (!allowed).then(|| {
        format!(
            "GLSL.std.450 {}: {}",
            glsl_name(number),
            glsl_reason(number)
        )
    })
}

fn glsl_reason(number: u32) -> &'static str {
    match number {
        37 | 40 | 43 | 79..=81 => "NaN and zero's sign differ by device; use hlx_max or a select",
        13..=32 => "its error is the device's; use include/math.glsl",
        _ => "not on the list of exact instructions",
    }
}

fn glsl_name(number: u32) -> String {
    let name = match number {
        1 => "Round",
        6 => "FSign",
        10 => "Fract",
        13 => "Sin",
        14 => "Cos",
        15 => "Tan",
        21 => "Tanh",
        26 => "Pow",
        27 => "Exp",
        28 => "Log",
        29 => "Exp2",
        30 => "Log2",
        31 => "Sqrt",
        32 => "InverseSqrt",
        37 => "FMin",
        40 => "FMax",
        43 => "FClamp",
        46 => "FMix",
        48 => "Step",
        49 => "SmoothStep",
        53 => "Ldexp",
        66 => "Length",
        69 => "Normalize",
        79 => "NMin",
        80 => "NMax",
        81 => "NClamp",
        _ => return format!("instruction {number}"),
    };
    name.to_string()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::read::assemble;

    /// A module with float %1, int %2, GLSL.std.450 as %3 and a `NoContraction` on %50.
    fn module(last: (u16, &[u32])) -> Vec<u8> {
        let words = b"GLSL.std.450\0\0\0\0".chunks_exact(4);
        let mut import = vec![3];
        import.extend(words.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])));
        let words = assemble(&[
            (11, &import),
            (71, &[50, 42]),
            (22, &[1, 32]),
            (21, &[2, 32, 0]),
            last,
        ]);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn breaches(last: (u16, &[u32])) -> Vec<String> {
        check("m.spv", &module(last))
    }

    #[test]
    fn modules_of_fast_have_sums_and_exponentials_of_the_device_and_no_others_do() {
        let bytes = module((4459, &[1, 50, 60, 61, 62]));
        for name in ["fast/product_matrices_f16", "probe/half_matrices_bf16"] {
            assert!(check(name, &bytes).is_empty(), "{name}");
        }
        assert_eq!(check("fast/product_matrices", &bytes).len(), 1);
        let exponential = module((12, &[1, 51, 3, super::EXP2, 60]));
        assert!(check("attention/half_matrices_f16", &exponential).is_empty());
        assert_eq!(check("attention/half", &exponential).len(), 1);
        let divides = module((136, &[1, 50, 60, 61]));
        assert_eq!(check("fast/product_matrices_f16", &divides).len(), 1);
    }

    #[test]
    fn wants_no_contraction_on_what_rounds_once() {
        for (opcode, op) in [(129, "OpFAdd"), (131, "OpFSub"), (133, "OpFMul")] {
            assert!(breaches((opcode, &[1, 50, 60, 61])).is_empty());
            let loose = breaches((opcode, &[1, 51, 60, 61]));
            let start = format!("m.spv: instruction 4 in ``: {op} without NoContraction");
            assert!(
                loose.len() == 1 && loose[0].starts_with(&start),
                "{loose:?}"
            );
        }
    }

    #[test]
    fn forbids_division_dot_and_float_reductions() {
        let forbidden: [(u16, &[u32], &str); 10] = [
            (136, &[1, 50, 60, 61], "OpFDiv"),
            (140, &[1, 50, 60, 61], "OpFRem"),
            (141, &[1, 50, 60, 61], "OpFMod"),
            (144, &[1, 50, 60, 61], "OpVectorTimesMatrix"),
            (148, &[1, 50, 60, 61], "OpDot"),
            (350, &[1, 50, 60, 0, 61], "OpGroupNonUniformFAdd"),
            (355, &[1, 50, 60, 0, 61], "OpGroupNonUniformFMin"),
            (358, &[1, 50, 60, 0, 61], "OpGroupNonUniformFMax"),
            (5614, &[1, 50, 60, 61, 62, 63], "OpAtomicFMinEXT"),
            (6035, &[1, 50, 60, 61, 62, 63], "OpAtomicFAddEXT"),
        ];
        for (opcode, operands, op) in forbidden {
            let found = breaches((opcode, operands));
            let start = format!("m.spv: instruction 4 in ``: {op}: ");
            assert!(
                found.len() == 1 && found[0].starts_with(&start),
                "{found:?}"
            );
        }
        // A matrix of floats is summed in an order of the device's; one of integers has none, unless it saturates.
        let of_floats: (u16, &[u32]) = (4456, &[40, 1, 0, 0, 0, 0]);
        let of_integers: (u16, &[u32]) = (4456, &[40, 2, 0, 0, 0, 0]);
        let product: (u16, &[u32]) = (4459, &[40, 51, 60, 61, 62]);
        let saturating: (u16, &[u32]) = (4459, &[40, 51, 60, 61, 62, 0x10]);
        let bytes = |matrix, product| {
            let words = assemble(&[(22, &[1, 32]), (21, &[2, 32, 0]), matrix, product]);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            check("m.spv", &bytes)
        };
        assert_eq!(bytes(of_floats, product).len(), 1);
        assert_eq!(bytes(of_integers, product), Vec::<String>::new());
        assert!(bytes(of_integers, saturating)[0].ends_with("the order of its sums shows"));
        // Integer addition, comparison, selection, an integer reduction and a shuffle are fine.
        let fine: [(u16, &[u32]); 5] = [
            (128, &[2, 51, 60, 61]),
            (184, &[2, 51, 60, 61]),
            (169, &[2, 51, 60, 61, 62]),
            (349, &[2, 51, 60, 0, 61]),
            (345, &[2, 51, 60, 61, 62]),
        ];
        for (opcode, operands) in fine {
            let found = breaches((opcode, operands));
            assert!(found.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn forbids_atomics_on_floats_only() {
        assert!(breaches((229, &[2, 51, 60, 61, 62, 63])).is_empty());
        assert_eq!(breaches((229, &[1, 51, 60, 61, 62, 63])).len(), 1);
    }

    #[test]
    fn lets_only_exact_glsl_instructions_through() {
        for number in [2, 3, 4, 8, 38, 41, 50, 75] {
            assert!(
                breaches((12, &[1, 51, 3, number, 60])).is_empty(),
                "number {number}"
            );
        }
        for (number, name) in [(31, "Sqrt"), (27, "Exp"), (37, "FMin"), (43, "FClamp")] {
            let found = breaches((12, &[1, 51, 3, number, 60]));
            assert!(found.len() == 1 && found[0].contains(name), "{found:?}");
        }
    }

    #[test]
    fn other_instruction_sets_are_not_glsl() {
        assert!(breaches((12, &[1, 51, 9, 31, 60])).is_empty());
    }

    #[test]
    fn says_when_a_file_is_no_module() {
        let found = check("m.spv", &[0; 8]);
        assert_eq!(
            found,
            ["m.spv: not a SPIR-V module: the magic number is missing"]
        );
    }
}
