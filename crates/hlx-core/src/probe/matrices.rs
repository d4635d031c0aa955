//! The probe's cooperative matrices of 8-bit integers: drivers exist that list a shape and compute something
//! else, or that leave out an offset in shared memory.

use crate::arith;
use crate::context::Context;
use crate::error::CoreError;
use crate::launch::{Binding, Launch, groups_1d};
use crate::probe_report::ProbeReport;
use crate::shader::Shader;

static MATRICES_SPV: &[u8] = include_bytes!("../../spv/probe/matrices.spv");
// SAFETY: a module of `cargo xtask shaders`, which reads and writes the elements of the buffers below.
pub(super) static MATRICES: Shader = unsafe { Shader::new("probe/matrices", MATRICES_SPV) };

const NAME: &str = "matrices of 8-bit integers";
/// Rows of an operand, the bytes of each that are used, and those from row to row.
const ROWS: usize = 16;
const TERMS: usize = 64;
const STRIDE: usize = 80;

/// The three operands one behind the other, of all bytes; the largest magnitudes are in the first rows.
fn operands() -> Vec<i8> {
    let byte = |at: usize| {
        let [word, ..] = arith::philox4x32([at as u32, 2, 0, 0], [0x0048_4c58, 0]);
        match at % (ROWS * STRIDE) / STRIDE {
            0 => -128,
            1 => 127,
            _ => word as i8,
        }
    };
    (0..3 * ROWS * STRIDE).map(byte).collect()
}

fn expected(operands: &[i8]) -> Vec<u32> {
    let row = |part: usize, row: usize| &operands[(part * ROWS + row) * STRIDE..][..TERMS];
    let sum = |part: usize, m: usize, n: usize| -> i32 {
        let terms = row(part, m).iter().zip(row(2, n));
        terms.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
    };
    let all = (0..ROWS * ROWS).map(|at| (at / ROWS, at % ROWS));
    all.map(|(m, n)| (256 * sum(0, m, n) + sum(1, m, n)) as u32)
        .collect()
}

/// Whether a device that lists the matrices computes them right; what was found goes into the report.
pub(super) fn probe(context: &Context, report: &mut ProbeReport) -> Result<bool, CoreError> {
    let operands = operands();
    let words = operands.chunks_exact(4);
    let words = words.map(|bytes| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[i] as u8)));
    let buffer = context.buffer_u32(&words.collect::<Vec<_>>())?;
    let out = context.alloc(ROWS * ROWS)?;
    let launch = Launch {
        name: "probe",
        shader: &MATRICES,
        specialization: &[],
        bindings: &[Binding::Read(&buffer), Binding::Write(&out)],
        push: &[],
        groups: groups_1d(1),
    };
    context.launch(launch, |_| {})?;
    let right = context.download_u32(&out)? == expected(&operands);
    let finding = match right {
        true => "16 x 16 x 32: equal",
        false => "wrong sums: not used",
    };
    // Without them products over integers take another path: the device itself is not refused.
    report.add(NAME, finding, true);
    Ok(right)
}
