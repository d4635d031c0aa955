//! Matrices of a GGUF file, or of a folder in NF4, as products read them, in their blocks.

use std::path::Path;

use hlx_core::Device;
use hlx_gguf::{Block as Stored, StoredMatrix};
use hlx_kernels::product::blocks::{Block, BlockFormat, BlockRows};

use super::nf4_matrix::Nf4Matrix;
use super::source::Arriving;
use crate::Result;
use crate::error::NnError;

/// Packs a matrix for a device; none of floats.
///
/// # Errors
/// [`NnError::File`] with the tensor's name for a block with a number that is not finite, and what the device reports.
pub(super) fn packed(
    device: &Device,
    path: &Path,
    name: &str,
    arriving: &Arriving,
) -> Result<Option<BlockRows>> {
    match arriving {
        Arriving::Floats(_) => Ok(None),
        Arriving::Blocks(matrix) => packed_stored(device, path, name, matrix).map(Some),
        Arriving::Nf4(matrix) => {
            let fail =
                |reason: &dyn std::fmt::Display| NnError::file(path, format!("{name}: {reason}"));
            let format = Nf4Matrix::format().ok_or_else(|| fail(&"no product reads NF4"))?;
            let read = |row: usize, at: usize, to: &mut Block| matrix.block(row, at, to);
            let rows = BlockRows::new(device, format, matrix.shape, read);
            rows.map(Some).map_err(|error| fail(&error))
        }
    }
}

/// Packs a matrix of a GGUF file.
///
/// # Errors
/// [`NnError::File`] with the tensor's name for a block with a number that is not finite, and what the device reports.
fn packed_stored(
    device: &Device,
    path: &Path,
    name: &str,
    matrix: &StoredMatrix,
) -> Result<BlockRows> {
    let fail = |reason: &dyn std::fmt::Display| NnError::file(path, format!("{name}: {reason}"));
    let kind = matrix.kind;
    let Some(format) = BlockFormat::named(kind.name()) else {
        return Err(fail(&format!("no product reads blocks of {}", kind.name())));
    };
    let of_row = matrix.shape[1] / kind.block_values();
    let read = |row: usize, at: usize, to: &mut Block| {
        let bytes = &matrix.bytes[(row * of_row + at) * kind.block_bytes()..][..kind.block_bytes()];
        // The kind has integers, and the bytes are those of one block.
        let block = Stored::unpack(kind, bytes).unwrap_or_default();
        *to = Block {
            q: block.q,
            scales: block.scales,
            mins: block.mins,
            d: block.d,
            dmin: block.dmin,
        };
    };
    let rows = BlockRows::new(device, format, matrix.shape, read);
    rows.map_err(|error| fail(&error))
}
