//! The tensors of a folder's safetensors files, read one at a time.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use hlx_autograd::DType;
use hlx_core::files::{self, place};
use safetensors::tensor::{Dtype, Metadata};
use serde::Deserialize;

use crate::error::NnError;
use crate::parameters::non_finite;
use crate::{MODEL_FILE, Result};

/// The list of the files of a model in several.
const INDEX_FILE: &str = "model.safetensors.index.json";

/// A header may have this many bytes, as in the safetensors crate.
const MAX_HEADER: u64 = 100_000_000;

/// Where the tensors of a folder lie.
pub(super) struct TensorFiles {
    tensors: BTreeMap<String, Entry>,
}

/// One tensor of a file.
pub(super) struct Entry {
    path: PathBuf,
    dtype: Dtype,
    pub shape: Vec<usize>,
    /// Its first byte in the file, and how many it has.
    first: u64,
    n_bytes: usize,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl TensorFiles {
    /// Reads the headers of `model.safetensors`, or of the files that its index names.
    pub fn open(folder: &Path) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        let index_path = place(folder, INDEX_FILE);
        if !index_path.is_file() {
            read_header(&place(folder, MODEL_FILE), &mut tensors)?;
            return Ok(Self { tensors });
        }
        let text =
            files::read_settings(&index_path).map_err(|error| NnError::file(&index_path, error))?;
        let index: Index =
            serde_json::from_slice(&text).map_err(|error| NnError::file(&index_path, error))?;
        let mut names: Vec<&String> = index.weight_map.values().collect();
        names.sort();
        names.dedup();
        for name in names {
            if name.contains(['/', '\\']) {
                let reason = format!("{name} is no name of a file beside it");
                return Err(NnError::file(&index_path, reason));
            }
            read_header(&folder.join(name), &mut tensors)?;
        }
        for (tensor, file) in &index.weight_map {
            let there = tensors.get(tensor);
            if there.is_none_or(|entry: &Entry| entry.path != folder.join(file)) {
                let reason = format!("{tensor} is not in {file}");
                return Err(NnError::file(&index_path, reason));
            }
        }
        Ok(Self { tensors })
    }

    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.tensors.get(name)
    }

    /// The type that all matrices are stored in, if it is the same one of 16 bits, else f32.
    pub fn matrix_dtype(&self) -> DType {
        let matrices = self.tensors.values().filter(|one| one.shape.len() == 2);
        let mut types = matrices.map(|one| one.dtype);
        let first = types.next();
        match first.filter(|first| types.all(|dtype| dtype == *first)) {
            Some(Dtype::F16) => DType::F16,
            Some(Dtype::BF16) => DType::BF16,
            _ => DType::F32,
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }
}

/// Notes the tensors of one file.
fn read_header(path: &Path, tensors: &mut BTreeMap<String, Entry>) -> Result<()> {
    let fail = |reason: &dyn ToString| NnError::file(path, reason.to_string());
    let mut file = files::open(path).map_err(|error| fail(&error))?;
    let size = file.metadata().map_err(|error| fail(&error))?.len();
    let mut head = [0; 8];
    file.read_exact(&mut head)
        .map_err(|_| fail(&"the file has no header"))?;
    let length = u64::from_le_bytes(head);
    if length > MAX_HEADER || length.saturating_add(8) > size {
        let reason = format!("the header has {length} bytes, and the file has {size}");
        return Err(fail(&reason));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact(&mut bytes).map_err(|error| fail(&error))?;
    // The header alone: `SafeTensors::read_metadata` wants the whole file in memory.
    let parsed: serde_json::Result<Metadata> = serde_json::from_slice(&bytes);
    let metadata = parsed.map_err(|error| fail(&format!("the header is broken: {error}")))?;
    let expected = (8 + length).saturating_add(metadata.data_len() as u64);
    if expected != size {
        let reason = format!("the header tells of {expected} bytes, and the file has {size}");
        return Err(fail(&reason));
    }
    for (name, info) in metadata.tensors() {
        // The metadata are checked when they are read: tensors lie one behind the other, up to the end of the file.
        let (start, end) = info.data_offsets;
        let entry = Entry {
            path: path.to_owned(),
            dtype: info.dtype,
            shape: info.shape.clone(),
            first: 8 + length + start as u64,
            n_bytes: end - start,
        };
        if let Some(other) = tensors.insert(name.clone(), entry) {
            let reason = format!("{name} is in {} too", other.path.display());
            return Err(fail(&reason));
        }
    }
    Ok(())
}

impl Entry {
    /// Checks that the tensor has a shape and a type that can be read.
    pub fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        if self.shape != shape {
            let reason = format!("{name} has shape {:?}, expected {shape:?}", self.shape);
            return Err(NnError::file(&self.path, reason));
        }
        match self.dtype {
            Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
            other => {
                let reason = format!("{name} holds {other:?}, expected F32, F16 or BF16");
                Err(NnError::file(&self.path, reason))
            }
        }
    }

    /// Reads the values, all of which must be finite; f16 and bf16 become f32 exactly.
    pub fn read(&self, name: &str) -> Result<Vec<f32>> {
        let fail = |error: std::io::Error| NnError::file(&self.path, error);
        let mut file = files::open(&self.path).map_err(fail)?;
        file.seek(SeekFrom::Start(self.first)).map_err(fail)?;
        let mut bytes = vec![0; self.n_bytes];
        file.read_exact(&mut bytes).map_err(fail)?;
        if let Some(reason) = non_finite(name, self.dtype, &bytes) {
            return Err(NnError::file(&self.path, reason));
        }
        let halves = bytes.as_chunks::<2>().0.iter();
        Ok(match self.dtype {
            Dtype::F16 => halves
                .map(|&two| f16::from_le_bytes(two).to_f32())
                .collect(),
            Dtype::BF16 => halves
                .map(|&two| bf16::from_le_bytes(two).to_f32())
                .collect(),
            _ => {
                let words = bytes.as_chunks::<4>().0.iter();
                words.map(|&word| f32::from_le_bytes(word)).collect()
            }
        })
    }
}
