//! The tensors of a model's GGUF file, with the names and shapes of a Hugging Face folder.

use std::path::{Path, PathBuf};

use hlx_autograd::DType;
use hlx_core::files::place;
use hlx_gguf::{BlockKind, Gguf, GgufError, GgufModel, StoredPlace};

use super::source::{Arriving, TensorSource, check_finite};
use super::which;
use crate::Result;
use crate::error::NnError;

/// The file of a model's folder that holds its weights as blocks.
pub const GGUF_FILE: &str = "model.gguf";

/// The GGUF file that the weights of a path lie in: the file itself, or that of a folder without safetensors.
pub fn gguf_of(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Gguf::is_gguf(path).then(|| path.to_owned());
    }
    let file = place(path, GGUF_FILE);
    (file.is_file() && which::find(path).is_err()).then_some(file)
}

/// A file's tensors.
pub(super) struct GgufTensors(pub GgufModel);

impl GgufTensors {
    /// Reads the header of a file, and those of its siblings if it is one of several.
    pub fn open(path: &Path) -> Result<Self> {
        let model = Gguf::open(path).and_then(GgufModel::new);
        model.map(Self).map_err(|error| of_gguf(path, error))
    }
}

pub(super) fn of_gguf(path: &Path, error: GgufError) -> NnError {
    match error {
        GgufError::File { path, reason } => NnError::File { path, reason },
        other => NnError::file(path, other),
    }
}

impl TensorSource for GgufTensors {
    fn path(&self) -> &Path {
        self.0.file().path()
    }

    fn names(&self) -> Vec<&str> {
        self.0.places().map(|(name, _)| name).collect()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        let place: &StoredPlace = self.0.place(name)?;
        Some(&place.shape)
    }

    fn values(&self, name: &str) -> Result<Vec<f32>> {
        let values = self.0.values(name);
        let values = values.map_err(|error| of_gguf(self.path(), error))?;
        check_finite(self.path(), name, &values)?;
        Ok(values)
    }

    fn in_blocks(&self, name: &str) -> bool {
        let place = self.0.place(name);
        place.is_some_and(|place| place.shape.len() == 2 && !place.transposed && !place.plus_one)
            && self.0.kind(name).is_some_and(|kind| !kind.is_float())
    }

    fn arriving(&self, name: &str) -> Result<Arriving> {
        if !self.in_blocks(name) {
            return self.values(name).map(Arriving::Floats);
        }
        let stored = self.0.stored(name);
        stored
            .map(Arriving::Blocks)
            .map_err(|error| of_gguf(self.path(), error))
    }

    fn matrix_dtype(&self) -> DType {
        let matrices = self.0.places().filter(|(_, place)| place.shape.len() == 2);
        let mut kinds = matrices.map(|(name, _)| self.0.kind(name));
        let first = kinds.next().flatten();
        match first.filter(|&first| kinds.all(|kind| kind == Some(first))) {
            Some(BlockKind::F16) => DType::F16,
            Some(BlockKind::BF16) => DType::BF16,
            _ => DType::F32,
        }
    }
}
