//! The probe's cooperative matrices of 8-bit integers: drivers exist that list a shape and compute something
//! else, or that leave out an offset in shared memory.

use crate::arith;
use crate::arithmetic::MatrixShape;
use crate::device::Device;
use crate::error::CoreError;
use crate::launch::{Binding, Launch, groups_1d};
use crate::probe_report::ProbeReport;
use crate::shader::Shader;

static MATRICES_SPV: &[u8] = include_bytes!("../../spv/probe/matrices.spv");
static NARROW_SPV: &[u8] = include_bytes!("../../spv/probe/matrices_words.spv");
// SAFETY: a module of `cargo xtask shaders`, which reads and writes the elements of the buffers below.
pub(super) static MATRICES: Shader = unsafe { Shader::new("probe/matrices", MATRICES_SPV) };
// SAFETY: as above.
pub(super) static NARROW_MATRICES: Shader =
    unsafe { Shader::new("probe/matrices_words", NARROW_SPV) };

const NAME: &str = "matrices of 8-bit integers";

/// The operands of a shape, of twice its terms.
struct Operands {
    shape: MatrixShape,
    bytes: Vec<i8>,
}

impl Operands {
    /// Rows of the left operand's two planes and of the right one, one after another, of all bytes; the largest
    /// magnitudes are in each part's first rows.
    fn new(shape: MatrixShape) -> Self {
        let stride = Self::stride(shape);
        let byte = |at: usize| {
            let [word, ..] = arith::philox4x32([at as u32, 2, 0, 0], [0x0048_4c58, 0]);
            match at / stride % shape.rows as usize {
                0 => -128,
                1 => 127,
                _ => word as i8,
            }
        };
        let lines = 2 * shape.rows as usize + shape.columns as usize;
        let bytes = (0..lines * stride).map(byte).collect();
        Self { shape, bytes }
    }

    /// Bytes from row to row: the last 16 are not used.
    const fn stride(shape: MatrixShape) -> usize {
        2 * shape.terms as usize + 16
    }

    fn words(&self) -> Vec<u32> {
        let word = |bytes: &[i8]| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[i] as u8));
        self.bytes.chunks_exact(4).map(word).collect()
    }

    /// What the shader finds where the matrices are right.
    fn expected(&self) -> Vec<u32> {
        let [rows, columns, terms] =
            [self.shape.rows, self.shape.columns, 2 * self.shape.terms].map(|size| size as usize);
        let line = |line: usize| &self.bytes[line * Self::stride(self.shape)..][..terms];
        let sum = |left: usize, column: usize| -> i32 {
            let terms = line(left).iter().zip(line(2 * rows + column));
            terms.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum()
        };
        let element = |at: usize| {
            let (m, n) = (at / columns, at % columns);
            let factors = ((m + 1) * (n + 1)) as i32;
            (256 * sum(m, n) + sum(rows + m, n)).wrapping_mul(factors) as u32
        };
        (0..rows * columns).map(element).collect()
    }
}

/// The first of the shapes that a device computes right; what was found goes into the report.
pub(super) fn probe(
    device: &Device,
    shapes: &[MatrixShape],
    report: &mut ProbeReport,
) -> Result<Option<MatrixShape>, CoreError> {
    for &shape in shapes {
        let right = is_right(device, shape)?;
        let finding = match right {
            true => "equal",
            false => "wrong sums: not used",
        };
        // Without them products over integers take another path: the device itself is not refused.
        report.add(NAME, format!("{shape}: {finding}"), true);
        if right {
            return Ok(Some(shape));
        }
    }
    Ok(None)
}

fn is_right(device: &Device, shape: MatrixShape) -> Result<bool, CoreError> {
    let operands = Operands::new(shape);
    let buffer = device.buffer_of::<u32>(&operands.words())?;
    let out = device.alloc((shape.rows * shape.columns) as usize)?;
    // The shader has no constants 0 to 3; validation layers up to 1.4.309 look for a matrix's sizes at the places of their ids.
    let unused = (0..4).map(|id| (id, 0));
    let specialization: Vec<_> = unused.chain(shape.specialization(1)).collect();
    let launch = Launch {
        name: "probe",
        shader: match shape.is_narrow() {
            true => &NARROW_MATRICES,
            false => &MATRICES,
        },
        specialization: &specialization,
        bindings: &[Binding::Read(&buffer), Binding::Write(&out)],
        push: &[],
        groups: groups_1d(1),
    };
    device.launch(launch, |_| {})?;
    Ok(device.download_words(&out)? == operands.expected())
}
