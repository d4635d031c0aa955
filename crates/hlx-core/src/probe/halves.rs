//! The probe's cooperative matrices of 16-bit floats, by which a device computes in `fast`: their sums are of the device's
//! order, so the probe compares exact sums of small integers with the host's, and sums that are rounded with each other, of
//! workgroups beside many others and of launches of several sizes.

use half::{bf16, f16};

use crate::arith;
use crate::arithmetic::{Half, MatrixShape};
use crate::device::Device;
use crate::error::CoreError;
use crate::launch::{Binding, Launch, groups_1d};
use crate::probe_report::ProbeReport;
use crate::shader::Shader;

static BF16_SPV: &[u8] = include_bytes!("../../spv/probe/half_matrices_bf16.spv");
static F16_SPV: &[u8] = include_bytes!("../../spv/probe/half_matrices_f16.spv");
// SAFETY: a module of `cargo xtask shaders`, which reads and writes the elements of the buffers below.
pub(super) static BF16_MATRICES: Shader =
    unsafe { Shader::new("probe/half_matrices_bf16", BF16_SPV) };
// SAFETY: as above.
pub(super) static F16_MATRICES: Shader = unsafe { Shader::new("probe/half_matrices_f16", F16_SPV) };

/// Steps of a sum.
const STEPS: usize = 4;
/// Workgroups of the launches that are compared.
const GROUPS: [usize; 3] = [1, 300, 7];

/// The operands of a shape: A, [rows, terms], and B, [columns, terms].
struct Operands {
    shape: MatrixShape,
    half: Half,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Operands {
    /// Small integers, or numbers of all magnitudes within 2^-6 and 2^6.
    fn new(shape: MatrixShape, half: Half, are_integers: bool) -> Self {
        let number = |at: usize| {
            let [word, other, ..] = arith::philox4x32([at as u32, 3, 0, 0], [0x0048_4c58, 0]);
            match are_integers {
                true => (word % 17) as f32 - 8.0,
                false => (word as f32 / 2_147_483_648.0 - 1.0) * (1 << (other % 13)) as f32 / 64.0,
            }
        };
        let terms = STEPS * shape.terms as usize;
        let n_a = shape.rows as usize * terms;
        let n_b = shape.columns as usize * terms;
        Self {
            shape,
            half,
            a: (0..n_a).map(number).collect(),
            b: (n_a..n_a + n_b).map(number).collect(),
        }
    }

    /// The operands as the shader reads them.
    fn words(&self) -> Vec<u32> {
        let terms = STEPS * self.shape.terms as usize;
        let columns = self.shape.columns as usize;
        let transposed = |k: usize| (0..columns).map(move |n| self.b[n * terms + k]);
        let mut lines: Vec<Vec<f32>> = Vec::new();
        lines.extend(
            self.a
                .chunks(terms)
                .chain(self.b.chunks(terms))
                .map(<[f32]>::to_vec),
        );
        lines.extend((0..terms).map(|k| transposed(k).collect()));
        let bits = |x: f32| match self.half {
            Half::Bf16 => bf16::from_f32(x).to_bits(),
            Half::F16 => f16::from_f32(x).to_bits(),
        };
        let padded = lines
            .iter()
            .flat_map(|line| line.iter().copied().chain([0.0; 8]));
        let halves: Vec<u16> = padded.map(bits).collect();
        let word = |pair: &[u16]| u32::from(pair[0]) | u32::from(pair[1]) << 16;
        halves.chunks_exact(2).map(word).collect()
    }

    /// The sums, where they are exact.
    fn expected(&self) -> Vec<u32> {
        let terms = STEPS * self.shape.terms as usize;
        let sum = |a: &[f32], b: &[f32]| -> f32 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let rows = self.a.chunks(terms);
        let sums = rows.flat_map(|a| {
            self.b
                .chunks(terms)
                .map(move |b| (sum(a, b) + 0.0).to_bits())
        });
        sums.collect()
    }
}

/// The first of the shapes that a device computes right and whose bits repeat; what was found goes into the report.
pub(super) fn probe(
    device: &Device,
    half: Half,
    shapes: &[MatrixShape],
    report: &mut ProbeReport,
) -> Result<Option<MatrixShape>, CoreError> {
    for &shape in shapes {
        let finding = match (
            is_right(device, shape, half)?,
            repeats(device, shape, half)?,
        ) {
            (true, true) => "equal",
            (true, false) => "sums do not repeat their bits: not used",
            (false, _) => "wrong sums: not used",
        };
        // Without them `fast` is refused, not the device.
        report.add(half.check(), format!("{shape}: {finding}"), true);
        if finding == "equal" {
            return Ok(Some(shape));
        }
    }
    Ok(None)
}

fn is_right(device: &Device, shape: MatrixShape, half: Half) -> Result<bool, CoreError> {
    let operands = Operands::new(shape, half, true);
    let expected = operands.expected();
    // A zero may have either sign: products end with a positive one.
    let found = run(device, &operands, 1)?.into_iter();
    let found: Vec<_> = found
        .map(|bits| if bits == 1 << 31 { 0 } else { bits })
        .collect();
    Ok(found.chunks(expected.len()).all(|part| part == expected))
}

/// Whether all workgroups of all launches give the same bits, and B by rows those of B by columns.
fn repeats(device: &Device, shape: MatrixShape, half: Half) -> Result<bool, CoreError> {
    let operands = Operands::new(shape, half, false);
    let mut first: Option<Vec<u32>> = None;
    for groups in GROUPS {
        let found = run(device, &operands, groups)?;
        let size = found.len() / (2 * groups);
        let first = first.get_or_insert_with(|| found[..size].to_vec());
        if found.chunks(size).any(|part| part != *first) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The results of a launch of this many workgroups: of each two matrices.
fn run(device: &Device, operands: &Operands, groups: usize) -> Result<Vec<u32>, CoreError> {
    let shape = operands.shape;
    let buffer = device.buffer_of::<u32>(&operands.words())?;
    let out = device.alloc(2 * groups * (shape.rows * shape.columns) as usize)?;
    // The shader has no constants 0 to 3; validation layers up to 1.4.309 look for a matrix's sizes at the places of their ids.
    let unused = (0..4).map(|id| (id, 0));
    let specialization: Vec<_> = unused.chain(shape.specialization(1)).collect();
    let launch = Launch {
        name: "probe",
        shader: match operands.half {
            Half::Bf16 => &BF16_MATRICES,
            Half::F16 => &F16_MATRICES,
        },
        specialization: &specialization,
        bindings: &[Binding::Read(&buffer), Binding::Write(&out)],
        push: &[],
        groups: groups_1d(groups),
    };
    device.launch(launch, |_| {})?;
    device.download_words(&out)
}
