//! All tensors of a model as they are stored: their digest, and one file of them.

use std::path::Path;

use hlx_core::digest::TensorHasher;

use crate::Result;
use crate::gguf::{Gguf, TensorInfo};
use crate::metadata::Metadata;
use crate::parts::{COUNT_KEY, NUMBER_KEY, TENSORS_KEY};
use crate::writer::{NewTensor, write_gguf};

/// The bytes of a tensor that are read at a time.
const PIECE: usize = 1 << 24;

impl Gguf {
    /// The SHA-256 of the tensors as they are stored, in hexadecimal digits: of each, in the order of their names' bytes,
    /// the name, the shape, the name of its kind and its bytes. Metadata, alignment, the order in a file and the number
    /// of files do not count, so that a model that is packed anew has the same digest.
    ///
    /// A name and a shape are hashed as by [`TensorHasher::begin`], a kind's name as its text and a zero byte.
    ///
    /// # Errors
    /// As [`Gguf::read_rows`].
    pub fn tensors_sha256(&self) -> Result<String> {
        let mut hasher = TensorHasher::new();
        for tensor in self.tensors() {
            hasher.begin(tensor.name(), tensor.shape());
            hasher.elements(tensor.kind().name().as_bytes());
            hasher.elements(&[0]);
            let rows = (PIECE / tensor.row_bytes().max(1)).max(1);
            for first in (0..tensor.rows()).step_by(rows) {
                let last = (first + rows).min(tensor.rows());
                hasher.elements(&self.read_rows(tensor, first..last)?);
            }
        }
        Ok(hasher.finish())
    }

    /// Writes the metadata and all tensors as one file, each tensor's bytes as they are. What says that the model lies
    /// in several files is left out. The same bytes each time.
    ///
    /// # Errors
    /// As [`write_gguf`] and [`Gguf::read_rows`].
    pub fn write_whole(&self, path: &Path) -> Result<()> {
        let mut metadata = Metadata::default();
        let is_of_parts = |key: &str| [NUMBER_KEY, COUNT_KEY, TENSORS_KEY].contains(&key);
        for (key, value) in self.metadata().iter().filter(|(key, _)| !is_of_parts(key)) {
            metadata.set(key, value.clone());
        }
        let tensors = self.in_order();
        let new: Vec<NewTensor> = tensors
            .iter()
            .map(|tensor| NewTensor {
                name: tensor.name().to_owned(),
                kind: tensor.kind(),
                shape: tensor.shape().to_vec(),
            })
            .collect();
        write_gguf(path, &metadata, &new, |at| self.read(tensors[at]))
    }

    /// The tensors in the order of the files.
    fn in_order(&self) -> Vec<&TensorInfo> {
        let mut tensors: Vec<&TensorInfo> = self.tensors().collect();
        tensors.sort_by_key(|tensor| tensor.place());
        tensors
    }
}
