//! The `fast` arithmetic: products of operands rounded to 16 bits, with sums of f32.
//!
//! An operand's numbers are rounded to f16 or bf16, to nearest, ties to even ([`Halves::new`]), and lie as they did. A GPU sums
//! along K by its cooperative matrices, one after another in every tile, so that a result depends on neither the tile nor the
//! number of rows; how a matrix sums its own terms is the device's. The CPU device computes `portable`'s chains of the same
//! rounded numbers: close to a GPU's, not equal. `C[m, n] = sum + bias[n]`, -0 to +0, and what an epilogue adds.

mod groups;
mod launch;
#[cfg(test)]
mod tests;

use hlx_core::{Buffer, DType, Device, Half, Shader};

use crate::elementwise::copy_strided;
use crate::error::{check_indexable, check_sizes};
use crate::kernel::Kernel;
use crate::layout::{Layout, Operand as View};
use crate::product::floats::widened;
use crate::product::quantised::Source;
use crate::{KernelError, Result, check_len};

pub(crate) use groups::{BoundedHalves, GroupProduct};
pub(crate) use launch::HalfProduct;

shader!(fast::{
    round as round_shader, round_of_activation as of_activation, round_of_gated as of_gated,
    round_of_layer_norm as of_layer_norm, round_of_rms_norm as of_rms_norm,
});

/// The shaders that round, by [`Source::index`].
static SHADERS: [&Shader; 5] = [
    &round_shader::SHADER,
    &of_activation::SHADER,
    &of_gated::SHADER,
    &of_layer_norm::SHADER,
    &of_rms_norm::SHADER,
];

const NAME: &str = "round_operand";
/// Halves of a unit of 16 bytes, of which a GPU's lines have whole ones.
pub(crate) const UNIT: usize = 8;
/// Units of a workgroup of the shader that rounds.
const GROUP: usize = 256;

/// Numbers rounded to 16 bits, in lines: the rows of matrices as they lie in memory.
#[derive(Clone, Debug)]
pub struct Halves {
    pub(super) values: Buffer,
    pub(super) half: Half,
    /// Numbers of a line, and halves from line to line.
    pub(super) columns: usize,
    pub(super) line: usize,
}

impl Halves {
    /// Rounds `lines` times `columns` numbers of f32, f16 or bf16, or what is computed from such. Those of the type, in whole units
    /// of 16 bytes, are taken as they lie.
    ///
    /// # Errors
    /// For another type or length, for sizes that no memory holds, and if a launch fails.
    pub fn new(
        device: &Device,
        half: Half,
        source: Source<'_>,
        [lines, columns]: [usize; 2],
    ) -> Result<Self> {
        let line = line_of(device, columns);
        check_sizes(NAME, &[lines, line])?;
        let x = source.first();
        check_len(NAME, "x", x, [lines, columns])?;
        let is_stored = matches!(source, Source::Stored(_));
        if is_stored && x.dtype() == half.dtype() && line == columns {
            return Ok(Self {
                values: x.clone(),
                half,
                columns,
                line,
            });
        }
        let empty = Self::empty(device, half, [lines, columns])?;
        let y = &empty.values;
        if device.is_cpu() {
            let x = computed(device, source, [lines, columns])?;
            let layout = Layout::contiguous(&[lines * columns])?;
            copy_strided(device, View::new(&x, &layout), y)?;
        } else if !y.is_empty() {
            let widened = widened(device, x)?;
            let source = match is_stored {
                true => Source::Stored(&widened),
                false => source,
            };
            round(device, half, source, y, [lines, columns, line])?;
        }
        Ok(empty)
    }

    /// Rounds the numbers of matrices \[matrices, rows, columns\] that begin `stride` elements apart.
    ///
    /// # Errors
    /// As [`Halves::new`].
    pub(crate) fn of_matrices(
        device: &Device,
        half: Half,
        x: &Buffer,
        [matrices, rows, columns]: [usize; 3],
        stride: usize,
    ) -> Result<Self> {
        let lines = [matrices.saturating_mul(rows), columns];
        if matrices <= 1 || stride == rows * columns {
            return Self::new(device, half, x.into(), lines);
        }
        // Gathered, and where lines have no gaps rounded at once.
        let whole = line_of(device, columns) == columns;
        let dtype = if whole { half.dtype() } else { x.dtype() };
        let gathered = device.alloc_shape_typed(dtype, &lines)?;
        let all = Layout::contiguous(&[x.len()])?;
        let placed = all
            .unfold(0, rows * columns, stride)
            .map_err(KernelError::argument(NAME))?;
        copy_strided(device, View::new(x, &placed), &gathered)?;
        Self::new(device, half, (&gathered).into(), lines)
    }

    /// Memory for `lines` lines of `columns` numbers.
    pub(crate) fn empty(device: &Device, half: Half, [lines, columns]: [usize; 2]) -> Result<Self> {
        let line = line_of(device, columns);
        Ok(Self {
            values: device.alloc_shape_typed(half.dtype(), &[lines, line])?,
            half,
            columns,
            line,
        })
    }

    /// Units of 16 bytes of a line, on a GPU.
    pub(crate) fn units_of_line(&self) -> usize {
        self.line / UNIT
    }

    /// Halves from line to line.
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    /// The numbers, in lines of whole units of 16 bytes on a GPU.
    pub fn values(&self) -> &Buffer {
        &self.values
    }

    /// Their type.
    pub(crate) fn half(&self) -> Half {
        self.half
    }

    /// Whether they are of this type, with this number of columns.
    pub(super) fn is_of(&self, half: Half, columns: usize) -> bool {
        (self.half, self.columns) == (half, columns)
    }
}

/// Halves from line to line of lines of `columns` numbers: whole units on a GPU.
fn line_of(device: &Device, columns: usize) -> usize {
    match device.is_cpu() {
        true => columns,
        false => columns.next_multiple_of(UNIT),
    }
}

/// The numbers rounded to the type, as f32: what the CPU device's chains read.
pub(crate) fn rounded_floats(
    device: &Device,
    half: Half,
    operands: [&Buffer; 2],
) -> Result<[Buffer; 2]> {
    let rounded = |x: &Buffer| {
        let halves = Halves::new(device, half, x.into(), [1, x.len()])?;
        widened(device, &halves.values)
    };
    Ok([rounded(operands[0])?, rounded(operands[1])?])
}

/// The numbers of a source, on the CPU device.
fn computed(device: &Device, source: Source<'_>, [lines, columns]: [usize; 2]) -> Result<Buffer> {
    if let Source::Stored(x) = source {
        return Ok(x.clone());
    }
    source.check(NAME, lines * columns, [lines, columns])?;
    let y = device.alloc_shape(&[lines, columns])?;
    let values = source.on_the_cpu(columns);
    let kernel = Kernel::new(NAME, &round_shader::SHADER)
        .writes([&y])
        .reads([source.first()])
        .bind_all(source.bindings());
    let push = push!(round_shader => units: 0_usize, per_line: 0_usize, columns);
    kernel.launch_bound(device, push, 1, move |bindings| {
        let (read, mut written) = bindings.split_all();
        if let [y] = &mut written[..] {
            y.copy_from_slice(&values(read[0], &read[1..]));
        }
    })?;
    Ok(y)
}

fn round(
    device: &Device,
    half: Half,
    source: Source<'_>,
    y: &Buffer,
    [lines, columns, line]: [usize; 3],
) -> Result<()> {
    check_indexable(NAME, "x", lines * line)?;
    source.check(NAME, lines * columns, [lines, columns])?;
    let dtype: DType = half.dtype();
    let (vectors, whole) = (columns.is_multiple_of(4), line == columns);
    let (units, per_line) = (lines * line / UNIT, line / UNIT);
    Kernel::new(NAME, SHADERS[source.index()])
        .constants(constants!(0: dtype.id(), vectors, whole))
        .constants(source.kind().as_slice())
        .reads([source.first()])
        .writes([y])
        .bind_all(source.bindings())
        .launch_on_gpu(
            device,
            push!(round_shader => units, per_line, columns),
            units.div_ceil(GROUP),
        )
}
