//! The `fast` arithmetic: products of operands rounded to 16 bits, with sums of f32.
//!
//! An operand's numbers are rounded to f16 or bf16, to nearest, ties to even ([`Halves::new`]), and lie as they did. A GPU sums
//! along K by its cooperative matrices, one after another in every tile, so that a result depends on neither the tile nor the
//! number of rows; how a matrix sums its own terms is the device's. The CPU device computes `portable`'s chains of the same
//! rounded numbers: close to a GPU's, not equal. `C[m, n] = sum + bias[n]`, -0 to +0, and what an epilogue adds.

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
use crate::{Result, check_len};

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
const UNIT: usize = 8;
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
        let line = match device.is_cpu() {
            true => columns,
            false => columns.next_multiple_of(UNIT),
        };
        check_sizes(NAME, &[lines, line])?;
        let x = source.first();
        check_len(NAME, "x", x, [lines, columns])?;
        let (dtype, is_stored) = (half.dtype(), matches!(source, Source::Stored(_)));
        let of = |values| Self {
            values,
            half,
            columns,
            line,
        };
        if is_stored && x.dtype() == dtype && line == columns {
            return Ok(of(x.clone()));
        }
        let y = device.alloc_shape_typed(dtype, &[lines, line])?;
        if device.is_cpu() {
            let x = computed(device, source, [lines, columns])?;
            let layout = Layout::contiguous(&[lines * columns])?;
            copy_strided(device, View::new(&x, &layout), &y)?;
        } else if !y.is_empty() {
            let widened = widened(device, x)?;
            let source = match is_stored {
                true => Source::Stored(&widened),
                false => source,
            };
            round(device, half, source, &y, [lines, columns, line])?;
        }
        Ok(of(y))
    }

    /// The numbers, in lines of whole units of 16 bytes on a GPU.
    pub fn values(&self) -> &Buffer {
        &self.values
    }

    /// Whether they are of this type, with this number of columns.
    pub(super) fn is_of(&self, half: Half, columns: usize) -> bool {
        (self.half, self.columns) == (half, columns)
    }
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
