//! The probe's dot products of four bytes.

use crate::arith;
use crate::device::Device;
use crate::error::CoreError;
use crate::launch::{Binding, Launch, groups_1d};
use crate::probe_report::ProbeReport;
use crate::shader::Shader;
use crate::vulkan::DotProducts;

static DOTS_SPV: &[u8] = include_bytes!("../../spv/probe/dots.spv");
// SAFETY: a module of `cargo xtask shaders`, which reads and writes the elements of the buffers below.
pub(super) static DOTS: Shader = unsafe { Shader::new("probe/dots", DOTS_SPV) };

/// Sums of a launch, and bytes of either operand of one.
const SUMS: usize = 64;
const TERMS: usize = 16;

/// Whether a device that has them computes them right; what was found goes into the report.
pub(super) fn probe(
    device: &Device,
    listed: Option<DotProducts>,
    report: &mut ProbeReport,
) -> Result<bool, CoreError> {
    let Some(DotProducts { in_hardware }) = listed else {
        return Ok(false);
    };
    let byte = |at: usize| match at / TERMS {
        // The largest magnitudes, of equal and of different signs.
        0 | 1 | 64 => -128,
        2 | 66 => 127,
        _ => arith::philox4x32([at as u32, 3, 0, 0], [0x0048_4c58, 0])[0] as i8,
    };
    let bytes: Vec<i8> = (0..2 * SUMS * TERMS).map(byte).collect();
    let words = bytes.as_chunks::<4>().0.iter();
    let words: Vec<u32> = words
        .map(|quad| u32::from_le_bytes(quad.map(|byte| byte as u8)))
        .collect();
    let buffer = device.buffer_of::<u32>(&words)?;
    let out = device.alloc(SUMS)?;
    let launch = Launch {
        name: "probe",
        shader: &DOTS,
        specialization: &[],
        bindings: &[Binding::Read(&buffer), Binding::Write(&out)],
        push: &[],
        groups: groups_1d(1),
    };
    device.launch(launch, |_| {})?;
    let (left, right) = bytes.split_at(SUMS * TERMS);
    let sums = left.chunks(TERMS).zip(right.chunks(TERMS));
    let sums = sums.map(|(left, right)| -> i32 {
        let terms = left.iter().zip(right);
        terms.map(|(a, b)| i32::from(*a) * i32::from(*b)).sum()
    });
    let right = device
        .download_words(&out)?
        .into_iter()
        .eq(sums.map(|sum| sum as u32));
    let finding = match (right, in_hardware) {
        (true, true) => "equal",
        (true, false) => "equal, not in hardware",
        (false, _) => "wrong sums: not used",
    };
    // Without them products over integers take another path: the device itself is not refused.
    report.add("dot products of four bytes", finding, true);
    Ok(right)
}
