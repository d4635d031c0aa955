//! Adds the float-control execution modes that a device supports to a module.
//!
//! The modules in `shaders/spv` ask for none, because a device refuses one that it lacks. HLX
//! wants SignedZeroInfNanPreserve where it exists (without, compilers rewrite `a*0` to `0`), and
//! flushed subnormals where a device can be told to flush. It does not ask for round-to-even:
//! every device rounds so by itself, which the probe checks, and on an NVIDIA H200 (driver
//! 580.159) the mode makes multiplications keep subnormals that they flush without it.

/// Which float controls a device has for 32-bit floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FloatControls {
    pub preserve_zero_inf_nan: bool,
    pub flush_subnormals: bool,
}

// Numbers of the SPIR-V specification: opcodes, then capabilities and execution modes.
const OP_ENTRY_POINT: u32 = 15;
const OP_EXECUTION_MODE: u32 = 16;
const OP_CAPABILITY: u32 = 17;
const HEADER_WORDS: usize = 5;
const DENORM_FLUSH_CAPABILITY: u32 = 4465;
const PRESERVE_CAPABILITY: u32 = 4466;
const DENORM_FLUSH_MODE: u32 = 4460;
const PRESERVE_MODE: u32 = 4461;

/// Returns the module with the modes added, where it is SPIR-V 1.4 or later: float controls are
/// part of the core since. Modes that it has already are not added.
pub(super) fn with_float_controls(words: &[u32], controls: FloatControls) -> Vec<u32> {
    const VERSION_1_4: u32 = 0x0001_0400;
    if words.get(1).is_none_or(|&version| version < VERSION_1_4) {
        return words.to_vec();
    }
    let wanted: Vec<(u32, u32)> = [
        (
            controls.flush_subnormals,
            DENORM_FLUSH_CAPABILITY,
            DENORM_FLUSH_MODE,
        ),
        (
            controls.preserve_zero_inf_nan,
            PRESERVE_CAPABILITY,
            PRESERVE_MODE,
        ),
    ]
    .into_iter()
    .filter(|(supported, capability, _)| *supported && !declares(words, *capability))
    .map(|(_, capability, mode)| (capability, mode))
    .collect();
    let mut out = Vec::with_capacity(words.len() + 6 * wanted.len());
    out.extend_from_slice(&words[..HEADER_WORDS.min(words.len())]);
    let mut at = HEADER_WORDS;
    let mut capabilities_added = false;
    let mut entry_points = Vec::new();
    let mut modes_added = false;
    while at < words.len() {
        let opcode = words[at] & 0xffff;
        let count = (words[at] >> 16) as usize;
        if count == 0 || at + count > words.len() {
            return words.to_vec(); // Malformed; the driver's parser will say so.
        }
        if opcode == OP_CAPABILITY && !capabilities_added {
            capabilities_added = true;
            for &(capability, _) in &wanted {
                out.extend_from_slice(&[(2 << 16) | OP_CAPABILITY, capability]);
            }
        }
        if opcode == OP_ENTRY_POINT && count > 2 {
            entry_points.push(words[at + 2]);
        } else if !entry_points.is_empty() && !modes_added {
            modes_added = true;
            for &entry in &entry_points {
                for &(_, mode) in &wanted {
                    out.extend_from_slice(&[(4 << 16) | OP_EXECUTION_MODE, entry, mode, 32]);
                }
            }
        }
        out.extend_from_slice(&words[at..at + count]);
        at += count;
    }
    out
}

/// Whether the module has a capability.
fn declares(words: &[u32], capability: u32) -> bool {
    let mut at = HEADER_WORDS;
    while let Some(&first) = words.get(at) {
        let (opcode, count) = (first & 0xffff, (first >> 16) as usize);
        if opcode == OP_CAPABILITY && words.get(at + 1) == Some(&capability) {
            return true;
        }
        if opcode == OP_ENTRY_POINT || count == 0 {
            return false;
        }
        at += count;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, one capability (Shader), a memory model, an entry point and its local size.
    const MODULE: [u32; 20] = [
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
        (4 << 16) | 15,
        5,
        7,
        0x6e69_616d, // OpEntryPoint GLCompute %7 (name cut short)
        (6 << 16) | 16,
        7,
        17,
        1,
        1,
        1, // OpExecutionMode %7 LocalSize 1 1 1
    ];

    #[test]
    fn modes_stand_after_entry_points() {
        let controls = FloatControls {
            preserve_zero_inf_nan: true,
            ..FloatControls::default()
        };
        let out = with_float_controls(&MODULE, controls);
        assert_eq!(out[5..7], [(2 << 16) | 17, PRESERVE_CAPABILITY]);
        assert_eq!(out[16..20], [(4 << 16) | 16, 7, PRESERVE_MODE, 32]);
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
            assert!(cut.len() >= end.min(HEADER_WORDS));
        }
    }
}
