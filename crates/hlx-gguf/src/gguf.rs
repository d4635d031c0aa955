//! A model's GGUF files, opened: metadata, and tensors that are read one at a time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hlx_core::files::Source;

use crate::Result;
use crate::blocks::widen;
use crate::error::{GgufError, shown};
use crate::header::{Header, Stated};
use crate::kind::BlockKind;
use crate::metadata::Metadata;
use crate::parts::{TENSORS_KEY, paths_of, place_of};

/// A model in one GGUF file, or in several.
///
/// The header is read and checked as a whole when it is opened; tensors are read when they are asked for. A file that
/// another process cuts short meanwhile is an error then.
#[derive(Clone, Debug)]
pub struct Gguf {
    metadata: Metadata,
    tensors: BTreeMap<String, TensorInfo>,
    files: Vec<(PathBuf, Source)>,
}

/// A tensor of a file.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    stated: Stated,
    file: usize,
}

impl TensorInfo {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.stated.name
    }

    /// How its values are stored.
    pub fn kind(&self) -> BlockKind {
        self.stated.kind
    }

    /// Its extents, outermost first: `[out, in]` for a matrix, as in PyTorch. Files have them the other way round.
    pub fn shape(&self) -> &[usize] {
        &self.stated.shape
    }

    /// The extent of the last dimension, along which blocks lie.
    pub fn columns(&self) -> usize {
        self.stated.shape.last().copied().unwrap_or(1)
    }

    /// The number of rows: of all other dimensions together.
    pub fn rows(&self) -> usize {
        self.stated.shape.iter().rev().skip(1).product()
    }

    /// The bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.stated.n_bytes as usize / self.rows()
    }

    /// The number of its file, and its first byte there.
    pub(crate) fn place(&self) -> (usize, u64) {
        (self.file, self.stated.first)
    }

    /// The bytes of all rows.
    pub fn n_bytes(&self) -> usize {
        self.stated.n_bytes as usize
    }
}

impl Gguf {
    /// Whether a path names a GGUF file: one that begins as they do.
    pub fn is_gguf(path: &Path) -> bool {
        let begins = || {
            let source = Source::open(path).ok()?;
            let mut start = [0; 4];
            source.read_at(0, &mut start).ok()?;
            Some(start == crate::header::MAGIC)
        };
        path.is_file() && begins().unwrap_or(false)
    }

    /// Opens a file. If it is one of several of a model, the others are opened too: any of them may be given.
    ///
    /// # Errors
    /// [`GgufError::File`]: a file that cannot be read, is damaged, or has what HLX does not read; a sibling that is
    /// missing or belongs to another model.
    pub fn open(path: &Path) -> Result<Self> {
        let (source, header) = read(path)?;
        let wrong = |reason| GgufError::file(path, reason);
        let Some((number, count)) = place_of(&header.metadata).map_err(wrong)? else {
            return Self::of(vec![(path.to_owned(), source, header)]);
        };
        let mut all = Vec::new();
        for (place, sibling) in paths_of(path, number, count)
            .map_err(wrong)?
            .into_iter()
            .enumerate()
        {
            let (source, header) = read(&sibling)?;
            let wrong = |reason| GgufError::file(&sibling, reason);
            let found = place_of(&header.metadata).map_err(wrong)?;
            if found != Some((place, count)) {
                let reason = format!(
                    "does not say that it is file {} of {count} of its model",
                    place + 1
                );
                return Err(GgufError::file(&sibling, reason));
            }
            all.push((sibling, source, header));
        }
        Self::of(all)
    }

    /// Reads a file in memory, which messages call `GGUF`.
    ///
    /// # Errors
    /// As [`Gguf::open`]; a file that is one of several.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        let (path, source) = (PathBuf::from("GGUF"), Source::from(bytes));
        let wrong = |reason| GgufError::file(&path, reason);
        let header = Header::read(&source).map_err(wrong)?;
        match place_of(&header.metadata).map_err(wrong)? {
            None => Self::of(vec![(path, source, header)]),
            Some((number, count)) => Err(wrong(format!(
                "is file {} of {count} of its model, and the others are not here",
                number + 1
            ))),
        }
    }

    /// The model of files in order.
    fn of(all: Vec<(PathBuf, Source, Header)>) -> Result<Self> {
        let (mut metadata, mut tensors, mut files) = (None, BTreeMap::new(), Vec::new());
        for (file, (path, source, header)) in all.into_iter().enumerate() {
            // The first file has the model's metadata.
            metadata.get_or_insert(header.metadata);
            for stated in header.tensors {
                let name = stated.name.clone();
                let info = TensorInfo { stated, file };
                if tensors.insert(name.clone(), info).is_some() {
                    let reason = format!("the tensor {} is in another file too", shown(&name));
                    return Err(GgufError::file(&path, reason));
                }
            }
            files.push((path, source));
        }
        let found = Self {
            metadata: metadata.unwrap_or_default(),
            tensors,
            files,
        };
        found.check_number()?;
        Ok(found)
    }

    /// Checks the number of tensors that a model of several files states.
    fn check_number(&self) -> Result<()> {
        let stated = self.metadata.count(TENSORS_KEY);
        let stated = stated.map_err(|reason| self.wrong(reason))?;
        let found = self.tensors.len();
        match stated.filter(|&stated| stated != found) {
            Some(stated) => Err(self.wrong(format!(
                "`{TENSORS_KEY}` is {stated}, and the files have {found} tensors"
            ))),
            None => Ok(()),
        }
    }

    /// The first file, for messages.
    pub fn path(&self) -> &Path {
        &self.files[0].0
    }

    /// An error of the model.
    pub(crate) fn wrong(&self, reason: impl std::fmt::Display) -> GgufError {
        GgufError::file(self.path(), reason)
    }

    /// The paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// The keys and values, of several files those of the first.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensors by their names.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.tensors.values()
    }

    /// The tensor of a name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// Reads the stored bytes of some rows of a tensor.
    ///
    /// # Errors
    /// [`GgufError::File`] for a file that was cut short or changed; [`GgufError::Argument`] for rows that the tensor
    /// does not have.
    pub fn read_rows(&self, tensor: &TensorInfo, rows: Range<usize>) -> Result<Vec<u8>> {
        if rows.start > rows.end || rows.end > tensor.rows() {
            let reason = format!(
                "rows {rows:?} of {}, which has {}",
                tensor.name(),
                tensor.rows()
            );
            return Err(GgufError::argument("read_rows", reason));
        }
        let (path, source) = &self.files[tensor.file];
        let row_bytes = tensor.row_bytes() as u64;
        // Both lie within the tensor, whose bytes lie within the file.
        let place = |row: usize| tensor.stated.first + row as u64 * row_bytes;
        let read = source.read(place(rows.start)..place(rows.end));
        read.map_err(|error| GgufError::file(path, error))
    }

    /// Reads the stored bytes of a tensor.
    ///
    /// # Errors
    /// As [`Gguf::read_rows`].
    pub fn read(&self, tensor: &TensorInfo) -> Result<Vec<u8>> {
        self.read_rows(tensor, 0..tensor.rows())
    }

    /// Reads the values of some rows of a tensor as f32 ([`widen`]).
    ///
    /// # Errors
    /// As [`Gguf::read_rows`].
    pub fn values_of_rows(&self, tensor: &TensorInfo, rows: Range<usize>) -> Result<Vec<f32>> {
        let bytes = self.read_rows(tensor, rows)?;
        widen(tensor.kind(), &bytes)
    }

    /// Reads the values of a tensor as f32 ([`widen`]).
    ///
    /// # Errors
    /// As [`Gguf::read_rows`].
    pub fn values(&self, tensor: &TensorInfo) -> Result<Vec<f32>> {
        self.values_of_rows(tensor, 0..tensor.rows())
    }
}

fn read(path: &Path) -> Result<(Source, Header)> {
    let source = Source::open(path).map_err(|error| GgufError::file(path, error))?;
    let header = Header::read(&source).map_err(|reason| GgufError::file(path, reason))?;
    Ok((source, header))
}
