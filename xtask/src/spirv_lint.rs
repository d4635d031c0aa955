//! What HLX arithmetic forbids in a shader module (docs/numerics.md), found in its SPIR-V.
//!
//! GLSL's `precise` becomes `NoContraction` on each addition, subtraction and product. glslang
//! puts none on `Fma`, which is one rounding already, and none is asked for there.

use crate::spirv::{Instruction, Module};

/// Every breach of the rules in one module, each as one line that starts with `name`.
pub fn check(name: &str, bytes: &[u8]) -> Vec<String> {
    let module = match Module::parse(bytes) {
        Ok(module) => module,
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let breach = |instruction: &Instruction| {
        let reason = judge(&module, instruction)?;
        let Instruction {
            index, function, ..
        } = instruction;
        Some(format!(
            "{name}: instruction {index} in `{function}`: {reason}"
        ))
    };
    module.instructions.iter().filter_map(breach).collect()
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

/// GLSL.std.450: a list of what is allowed, so that the next instruction set is not let in.
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
    use crate::spirv::assemble;

    /// A module with float %1, int %2, GLSL.std.450 as %3 and a `NoContraction` on %50.
    fn module(last: (u16, &[u32])) -> Vec<u8> {
        let words = b"GLSL.std.450\0\0\0\0".chunks_exact(4);
        let mut import = vec![3];
        import.extend(words.map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])));
        assemble(&[
            (11, &import),
            (71, &[50, 42]),
            (22, &[1, 32]),
            (21, &[2, 32, 0]),
            last,
        ])
    }

    fn breaches(last: (u16, &[u32])) -> Vec<String> {
        check("m.spv", &module(last))
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
        for opcode in [136, 140, 141, 144, 148, 350, 355, 358, 5614, 6035] {
            assert_eq!(
                breaches((opcode, &[1, 50, 60, 61])).len(),
                1,
                "opcode {opcode}"
            );
        }
        // Integer addition, comparison, selection, an integer reduction and a shuffle are fine.
        for opcode in [128, 184, 169, 349, 345] {
            assert!(
                breaches((opcode, &[2, 51, 60, 61])).is_empty(),
                "opcode {opcode}"
            );
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
