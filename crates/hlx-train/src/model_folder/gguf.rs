//! Models of GGUF files, widened to f32.

use std::path::{Path, PathBuf};

use anyhow::Result;
use hlx_core::Device;
use hlx_gguf::{Gguf, GgufModel, StoredPlace};
use hlx_nn::{NnError, TensorSource, import_tensors, model_files};

use super::write::{FolderKind, NewFolder};

/// Tensors of a file in f32.
struct Widened<'a>(&'a GgufModel);

impl TensorSource for Widened<'_> {
    fn path(&self) -> &Path {
        self.0.file().path()
    }

    fn names(&self) -> Vec<&str> {
        self.0.places().map(|(name, _)| name).collect()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.0
            .place(name)
            .map(|place: &StoredPlace| &place.shape[..])
    }

    fn values(&self, name: &str) -> Result<Vec<f32>, NnError> {
        let fail = |reason: String| NnError::File {
            path: self.path().display().to_string(),
            reason,
        };
        let values = self.0.values(name);
        let values = values.map_err(|error| fail(error.to_string()))?;
        let n = values.iter().filter(|value| !value.is_finite()).count();
        match n {
            0 => Ok(values),
            1 => Err(fail(format!("{name} holds 1 NaN or infinite value"))),
            n => Err(fail(format!("{name} holds {n} NaN or infinite values"))),
        }
    }
}

/// Reads a GGUF file, and its siblings if it is one of several, and writes its model with all values in f32 as a model
/// folder of HLX, with the tokenizer of its metadata. Returns the number of parameters.
///
/// # Errors
/// A file that is damaged, or has what is not known: a type of values, an architecture, a key, a tensor, a tokenizer;
/// as [`NewFolder::at`], and the system's message.
pub fn import_gguf(from: &Path, to: &Path) -> Result<usize> {
    let model = GgufModel::new(Gguf::open(from)?)?;
    let read: Vec<PathBuf> = model.file().paths().map(Path::to_owned).collect();
    let new = NewFolder::at(to, FolderKind::Imported, &read)?;
    let tokenizer = model.file().tokenizer_files()?;
    let found = import_tensors(&Device::cpu()?, &model.config_json(), &Widened(&model))?;
    new.write(&model_files(&found)?, &tokenizer)?;
    Ok(found.weights().n_elements())
}
