//! The tensors of a folder's safetensors files, read one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use hlx_autograd::DType;
use hlx_core::files;
use safetensors::tensor::{Dtype, Metadata};
use serde::Deserialize;

use super::source::TensorSource;
use super::which::{self, INDEX_FILE, Weights};
use crate::Result;
use crate::error::NnError;
use crate::parameters::non_finite;

/// A header may have this many bytes, as in the safetensors crate.
const MAX_HEADER: u64 = 100_000_000;

/// The bytes that are compared at once.
const PIECE: usize = 1 << 20;

/// Where the tensors of a folder lie.
pub(super) struct TensorFiles {
    folder: PathBuf,
    tensors: BTreeMap<String, Entry>,
    notes: Vec<String>,
}

/// One tensor of a file.
pub(super) struct Entry {
    path: PathBuf,
    dtype: Dtype,
    pub shape: Vec<usize>,
    /// Its first byte in the file, and how many it has.
    first: u64,
    pub n_bytes: usize,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl TensorFiles {
    /// Reads the headers of `model.safetensors`, or, without that file, of those that its index names.
    pub fn open(folder: &Path) -> Result<Self> {
        match which::find(folder).map_err(|reason| NnError::file(folder, reason))? {
            Weights::Whole(path) => Self::open_whole(folder, &path),
            Weights::Parts(index) => Self::open_parts(folder, &index),
        }
    }

    fn open_whole(folder: &Path, path: &Path) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        read_header(path, &mut tensors)?;
        // An old index beside it is not read for anything else, so that it may be broken.
        let index = read_index(&files::place(folder, INDEX_FILE)).ok();
        let left_out = index.and_then(|index| which::passed_over(&index.files()));
        Ok(Self {
            folder: folder.to_owned(),
            tensors,
            notes: left_out.into_iter().collect(),
        })
    }

    fn open_parts(folder: &Path, index_path: &Path) -> Result<Self> {
        let mut tensors = BTreeMap::new();
        let index = read_index(index_path)?;
        for name in index.files() {
            if name.contains(['/', '\\']) {
                let reason = format!("{name} is no name of a file beside it");
                return Err(NnError::file(index_path, reason));
            }
            let path = folder.join(name);
            if !path.exists() {
                let reason = format!("{name}, which it names, is missing");
                return Err(NnError::file(index_path, reason));
            }
            read_header(&path, &mut tensors)?;
        }
        for (tensor, file) in &index.weight_map {
            let there = tensors.get(tensor);
            if there.is_none_or(|entry: &Entry| entry.path != folder.join(file)) {
                let reason = format!("{tensor} is not in {file}");
                return Err(NnError::file(index_path, reason));
            }
        }
        let left_out = which::unnamed(folder, &index.files());
        Ok(Self {
            folder: folder.to_owned(),
            tensors,
            notes: left_out.into_iter().collect(),
        })
    }

    /// All tensors in the order of their names.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.tensors
            .iter()
            .map(|(name, entry)| (name.as_str(), entry))
    }

    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.tensors.get(name)
    }
}

impl TensorSource for TensorFiles {
    fn path(&self) -> &Path {
        &self.folder
    }

    fn names(&self) -> Vec<&str> {
        self.tensors.keys().map(String::as_str).collect()
    }

    fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(&self.get(name)?.shape)
    }

    fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        match self.get(name) {
            Some(entry) => entry.check(name, shape),
            None => Err(NnError::file(&self.folder, format!("{name} is missing"))),
        }
    }

    fn values(&self, name: &str) -> Result<Vec<f32>> {
        match self.get(name) {
            Some(entry) => entry.read(name),
            None => Err(NnError::file(&self.folder, format!("{name} is missing"))),
        }
    }

    fn matrix_dtype(&self) -> DType {
        same_half(self.tensors.values().filter(|one| one.shape.len() == 2))
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn equal(&self, one: &str, other: &str) -> Result<bool> {
        match (self.get(one), self.get(other)) {
            (Some(first), Some(second)) => first.equals(one, second, other),
            _ => Ok(false),
        }
    }
}

/// The type of 16 bits that all of these tensors have, else f32.
pub(super) fn same_half<'a>(tensors: impl Iterator<Item = &'a Entry>) -> DType {
    let mut types = tensors.map(|one| one.dtype);
    let first = types.next();
    match first.filter(|first| types.all(|dtype| dtype == *first)) {
        Some(Dtype::F16) => DType::F16,
        Some(Dtype::BF16) => DType::BF16,
        _ => DType::F32,
    }
}

impl Index {
    /// The names of the files, each once.
    fn files(&self) -> BTreeSet<&String> {
        self.weight_map.values().collect()
    }
}

fn read_index(path: &Path) -> Result<Index> {
    let text = files::read_json(path).map_err(|error| NnError::file(path, error))?;
    serde_json::from_slice(&text).map_err(|error| NnError::file(path, error))
}

/// Notes the tensors of one file.
fn read_header(path: &Path, tensors: &mut BTreeMap<String, Entry>) -> Result<()> {
    let fail = |reason: &dyn ToString| NnError::file(path, reason.to_string());
    let mut file = files::open(path).map_err(|error| fail(&error))?;
    let size = file.metadata().map_err(|error| fail(&error))?.len();
    let mut start = Vec::new();
    (&mut file)
        .take(128)
        .read_to_end(&mut start)
        .map_err(|error| fail(&error))?;
    if files::is_lfs_pointer(&start) {
        return Err(fail(&files::IS_LFS_POINTER));
    }
    let Some(&head) = start.first_chunk::<8>() else {
        return Err(fail(&"the file has no header"));
    };
    file.seek(SeekFrom::Start(8))
        .map_err(|error| fail(&error))?;
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

    /// Whether two tensors have the same values.
    pub fn equals(&self, name: &str, other: &Self, other_name: &str) -> Result<bool> {
        if (self.n_bytes, self.dtype) == (other.n_bytes, other.dtype) {
            return self.has_the_bytes_of(other);
        }
        Ok(self.read(name)? == other.read(other_name)?)
    }

    /// Compares the bytes piece by piece: the matrices are a model's largest.
    fn has_the_bytes_of(&self, other: &Self) -> Result<bool> {
        let opened = |entry: &Self| {
            let fail = |error: std::io::Error| NnError::file(&entry.path, error);
            let mut file = files::open(&entry.path).map_err(fail)?;
            file.seek(SeekFrom::Start(entry.first)).map_err(fail)?;
            Ok::<_, NnError>(file)
        };
        let (mut one, mut two) = (opened(self)?, opened(other)?);
        let mut pieces = [vec![0; PIECE], vec![0; PIECE]];
        let mut left = self.n_bytes;
        while left > 0 {
            let n = left.min(PIECE);
            let [a, b] = &mut pieces;
            let fail = |entry: &Self, error| NnError::file(&entry.path, error);
            one.read_exact(&mut a[..n])
                .map_err(|error| fail(self, error))?;
            two.read_exact(&mut b[..n])
                .map_err(|error| fail(other, error))?;
            if a[..n] != b[..n] {
                return Ok(false);
            }
            left -= n;
        }
        Ok(true)
    }

    /// The type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Reads the bytes.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let fail = |error: std::io::Error| NnError::file(&self.path, error);
        let mut file = files::open(&self.path).map_err(fail)?;
        file.seek(SeekFrom::Start(self.first)).map_err(fail)?;
        let mut bytes = vec![0; self.n_bytes];
        file.read_exact(&mut bytes).map_err(fail)?;
        Ok(bytes)
    }

    /// Reads the values, all of which must be finite; f16 and bf16 become f32 exactly.
    pub fn read(&self, name: &str) -> Result<Vec<f32>> {
        let bytes = self.bytes()?;
        if let Some(reason) = non_finite(name, self.dtype, &bytes) {
            return Err(NnError::file(&self.path, reason));
        }
        Ok(floats(self.dtype, &bytes))
    }
}

/// Floats of 16 or 32 bits as f32.
pub(super) fn floats(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    let halves = bytes.as_chunks::<2>().0.iter();
    match dtype {
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
    }
}
