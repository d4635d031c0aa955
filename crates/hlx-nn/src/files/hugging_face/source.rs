//! Where a model's tensors come from.

use std::path::Path;

use hlx_autograd::DType;
use hlx_gguf::{StoredMatrix, widen};

use super::nf4_matrix::Nf4Matrix;
use crate::Result;
use crate::error::NnError;

/// A tensor as it arrives from a source.
#[derive(Clone, Debug, PartialEq)]
pub enum Arriving {
    /// Its values, all of them finite.
    Floats(Vec<f32>),
    /// A matrix in blocks of quantised weights, as a GGUF file stores it; its rows are in the model's order.
    Blocks(StoredMatrix),
    /// A matrix in NF4, as a folder of bitsandbytes stores it.
    Nf4(Nf4Matrix),
}

impl Arriving {
    /// The values, those of blocks widened.
    ///
    /// # Errors
    /// [`NnError::File`] with the tensor's name and the source's path for blocks with a value that is not finite.
    pub fn into_floats(self, path: &Path, name: &str) -> Result<Vec<f32>> {
        match self {
            Self::Floats(values) => Ok(values),
            Self::Nf4(matrix) => Ok(matrix.values()),
            Self::Blocks(matrix) => {
                let values = widen(matrix.kind, &matrix.bytes);
                let values = values.map_err(|error| NnError::file(path, error))?;
                check_finite(path, name, &values)?;
                Ok(values)
            }
        }
    }

    /// One of `parts` equal parts of a matrix's rows.
    pub(super) fn rows(self, part: usize, parts: usize) -> Self {
        match self {
            _ if parts == 1 => self,
            Self::Floats(values) => {
                let n = values.len() / parts;
                Self::Floats(values[part * n..(part + 1) * n].to_vec())
            }
            Self::Nf4(matrix) => Self::Nf4(matrix.rows(part, parts)),
            Self::Blocks(matrix) => {
                let n = matrix.bytes.len() / parts;
                let [rows, columns] = matrix.shape;
                Self::Blocks(StoredMatrix {
                    shape: [rows / parts, columns],
                    bytes: matrix.bytes[part * n..(part + 1) * n].to_vec(),
                    ..matrix
                })
            }
        }
    }
}

/// Fails for values of a tensor that are not finite.
pub(super) fn check_finite(path: &Path, name: &str, values: &[f32]) -> Result<()> {
    let n = values.iter().filter(|value| !value.is_finite()).count();
    let reason = match n {
        0 => return Ok(()),
        1 => format!("{name} holds 1 NaN or infinite value"),
        n => format!("{name} holds {n} NaN or infinite values"),
    };
    Err(NnError::file(path, reason))
}

/// Tensors by their names in a Hugging Face folder, read one at a time, whatever the format of the file.
pub trait TensorSource {
    /// The file or folder, for messages.
    fn path(&self) -> &Path;

    /// The names of all tensors.
    fn names(&self) -> Vec<&str>;

    /// The shape of a tensor, if there is one of this name.
    fn shape(&self, name: &str) -> Option<&[usize]>;

    /// Reads the values of a tensor, all of which must be finite.
    ///
    /// # Errors
    /// [`NnError::File`] for a file that cannot be read, and for a value that is not finite.
    fn values(&self, name: &str) -> Result<Vec<f32>>;

    /// Reads a tensor as it is stored: matrices of quantised weights in their blocks.
    ///
    /// # Errors
    /// As [`TensorSource::values`].
    fn arriving(&self, name: &str) -> Result<Arriving> {
        self.values(name).map(Arriving::Floats)
    }

    /// Whether [`TensorSource::arriving`] gives a tensor in blocks.
    fn in_blocks(&self, _name: &str) -> bool {
        false
    }

    /// The type that all matrices are stored in, if it is the same one of 16 bits, else f32.
    fn matrix_dtype(&self) -> DType {
        DType::F32
    }

    /// The type that all matrices outside of blocks are stored in, if it is the same one of 16 bits, else f32.
    fn dtype_beside_blocks(&self) -> DType {
        self.matrix_dtype()
    }

    /// The lines that are to be said of what is not read.
    fn notes(&self) -> &[String] {
        &[]
    }

    /// Whether two tensors have the same values.
    ///
    /// # Errors
    /// As [`TensorSource::values`].
    fn equal(&self, one: &str, other: &str) -> Result<bool> {
        Ok(self.values(one)? == self.values(other)?)
    }

    /// Checks that a tensor has a shape, and values that can be read.
    ///
    /// # Errors
    /// [`NnError::File`] with what it has instead.
    fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        match self.shape(name) {
            Some(found) if found == shape => Ok(()),
            Some(found) => {
                let reason = format!("{name} has shape {found:?}, expected {shape:?}");
                Err(NnError::file(self.path(), reason))
            }
            None => {
                let reason = format!("the tensor {name} is missing");
                Err(NnError::file(self.path(), reason))
            }
        }
    }
}
