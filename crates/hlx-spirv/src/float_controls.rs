//! Adds the float-control execution modes that a device supports to a module.
//!
//! HLX's modules declare none, because a device refuses a mode that it lacks. HLX adds
//! SignedZeroInfNanPreserve where it exists (without, compilers rewrite `a*0` to `0`), and
//! DenormFlushToZero where a device supports it. It does not add round-to-even:
//! every device rounds so by itself, which the probe checks, and on an NVIDIA H200 (driver
//! 580.159) the mode makes multiplications preserve subnormals that they flush without it.

use rspirv::spirv::{Capability, ExecutionMode, Op};

use crate::read_declarations;

/// Which float controls a device has for 32-bit floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloatControls {
    /// The mode SignedZeroInfNanPreserve.
    pub preserve_zero_inf_nan: bool,
    /// The mode DenormFlushToZero.
    pub flush_subnormals: bool,
}

const FLUSH: (Capability, ExecutionMode) = (
    Capability::DenormFlushToZero,
    ExecutionMode::DenormFlushToZero,
);
const PRESERVE: (Capability, ExecutionMode) = (
    Capability::SignedZeroInfNanPreserve,
    ExecutionMode::SignedZeroInfNanPreserve,
);

/// Returns the module with the modes added, where it is SPIR-V 1.4 or later: float controls are
/// part of the core since. Modes that it has already are not added; a malformed module is
/// returned as it is, for the driver's parser to refuse.
pub fn with_float_controls(words: &[u32], controls: FloatControls) -> Vec<u32> {
    const VERSION_1_4: u32 = 0x0001_0400;
    if words.get(1).is_none_or(|&version| version < VERSION_1_4) {
        return words.to_vec();
    }
    let Ok(declarations) = read_declarations(words) else {
        return words.to_vec();
    };
    let of = |op: Op| declarations.iter().filter(move |i| i.opcode == op as u16);
    let wanted: Vec<(Capability, ExecutionMode)> = [
        (controls.flush_subnormals, FLUSH),
        (controls.preserve_zero_inf_nan, PRESERVE),
    ]
    .into_iter()
    .filter(|(supported, (capability, _))| {
        *supported && !of(Op::Capability).any(|i| i.words == [*capability as u32])
    })
    .map(|(_, pair)| pair)
    .collect();
    let capability = of(Op::Capability).map(|i| i.at).next();
    let last_entry = of(Op::EntryPoint).next_back();
    let (Some(capability), Some(last_entry)) = (capability, last_entry) else {
        return words.to_vec();
    };
    let modes_at = last_entry.at + 1 + last_entry.words.len();
    // The function of each entry point. Capabilities stand before all of them.
    let functions: Option<Vec<u32>> = of(Op::EntryPoint)
        .map(|i| i.words.get(1).copied())
        .collect();
    let Some(functions) = functions.filter(|_| capability < modes_at) else {
        return words.to_vec();
    };
    let mut out = words[..capability].to_vec();
    for (capability, _) in &wanted {
        out.extend_from_slice(&[(2 << 16) | Op::Capability as u32, *capability as u32]);
    }
    out.extend_from_slice(&words[capability..modes_at]);
    for function in functions {
        for (_, mode) in &wanted {
            let instruction = (4 << 16) | Op::ExecutionMode as u32;
            out.extend_from_slice(&[instruction, function, *mode as u32, 32]);
        }
    }
    out.extend_from_slice(&words[modes_at..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, one capability (Shader), a memory model, an entry point and its local size.
    const MODULE: [u32; 21] = [
        0x0723_0203,
        0x0001_0500,
        0,
        9,
        0, // header
        (2 << 16) | 17,
        1, // OpCapability Shader
        (3 << 16) | 14,
        0,
        1, // OpMemoryModel
        (5 << 16) | 15,
        5,
        7,
        0x6e69_616d,
        0, // OpEntryPoint GLCompute %7 "main"
        (6 << 16) | 16,
        7,
        17,
        1,
        1,
        1, // OpExecutionMode %7 LocalSize 1 1 1
    ];

    #[test]
    fn an_entry_point_before_the_capabilities_or_without_a_function_is_left_to_the_driver() {
        let controls = FloatControls {
            preserve_zero_inf_nan: true,
            flush_subnormals: true,
        };
        // The capability behind everything else.
        let swapped = [&MODULE[..5], &MODULE[7..], &MODULE[5..7]].concat();
        assert_eq!(with_float_controls(&swapped, controls), swapped);
        // An entry point of two words, which names no function.
        let short = [&MODULE[..10], &[(2 << 16) | 15, 5], &MODULE[15..]].concat();
        assert_eq!(with_float_controls(&short, controls), short);
    }

    #[test]
    fn modes_stand_after_entry_points() {
        let controls = FloatControls {
            preserve_zero_inf_nan: true,
            ..FloatControls::default()
        };
        let out = with_float_controls(&MODULE, controls);
        assert_eq!(out[5..7], [(2 << 16) | 17, PRESERVE.0 as u32]);
        assert_eq!(out[17..21], [(4 << 16) | 16, 7, PRESERVE.1 as u32, 32]);
        assert_eq!(out.len(), MODULE.len() + 6);
        assert_eq!(
            with_float_controls(&MODULE, FloatControls::default()),
            MODULE
        );
        assert_eq!(with_float_controls(&out, controls), out, "asked for twice");
        let mut old = MODULE;
        old[1] = 0x0001_0300;
        assert_eq!(with_float_controls(&old, controls), old);
        for end in 0..MODULE.len() {
            let cut = with_float_controls(&MODULE[..end], controls);
            assert!(cut.len() >= end, "cut to {end} words");
        }
    }
}
