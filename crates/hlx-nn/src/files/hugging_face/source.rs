//! Where the tensors of a model in Hugging Face's form come from.

use std::path::Path;

use crate::Result;
use crate::error::NnError;

/// Tensors with the names and shapes of a Hugging Face folder, wherever they lie.
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
