//! Reads objects; every read checks the digest.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;

use hlx_core::files;
use sha2::{Digest, Sha256};

use super::object::FIXED_BYTES;
use super::write::PIECE_BYTES;
use super::{Content, Dtype, Handle, Header, Store, StoreError};

/// What an object is, without its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its name.
    pub handle: Handle,
    /// Its kind, dtype and shape.
    pub content: Content,
    /// The length of its data in bytes.
    pub length: u64,
}

/// A tensor as it lies in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor {
    /// What an element is.
    pub dtype: Dtype,
    /// The extents, outermost first.
    pub shape: Vec<usize>,
    /// The elements, row-major and little-endian.
    pub data: Vec<u8>,
}

/// An object's open file, read up to its data.
pub(crate) struct Opened {
    handle: Handle,
    path: PathBuf,
    file: File,
    hasher: Sha256,
    pub header: Header,
}

impl Store {
    /// Whether the store has an object of this handle; its bytes are not read.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the system cannot read the folder.
    pub fn contains(&self, handle: &Handle) -> Result<bool, StoreError> {
        let path = self.object_path(handle);
        path.try_exists()
            .map_err(StoreError::io("look for an object", &path))
    }

    /// Returns the bytes of an object.
    ///
    /// # Errors
    /// [`StoreError::UnknownHandle`]; [`StoreError::WrongKind`] for a tensor;
    /// [`StoreError::Damaged`] if the file is not what the handle says; [`StoreError::Io`].
    pub fn get_bytes(&self, handle: &Handle) -> Result<Vec<u8>, StoreError> {
        let opened = self.open_object(handle)?;
        if opened.header.content != Content::Bytes {
            return Err(self.wrong_kind(opened, "bytes"));
        }
        opened.read_all()
    }

    /// Returns a tensor.
    ///
    /// # Errors
    /// As [`Store::get_bytes`], with bytes and tensors exchanged.
    pub fn get_tensor(&self, handle: &Handle) -> Result<StoredTensor, StoreError> {
        let opened = self.open_object(handle)?;
        let Content::Tensor { dtype, shape } = opened.header.content.clone() else {
            return Err(self.wrong_kind(opened, "a tensor"));
        };
        let data = opened.read_all()?;
        Ok(StoredTensor { dtype, shape, data })
    }

    /// Writes an object's data, of either kind, to `out`: one piece of 1 MiB is in memory at a
    /// time. The digest is known at the end only, so what was written counts for nothing if this
    /// fails.
    ///
    /// # Errors
    /// As [`Store::get_bytes`]; [`StoreError::Io`] if `out` cannot be written.
    pub fn copy_to(&self, handle: &Handle, out: &mut dyn Write) -> Result<ObjectInfo, StoreError> {
        let opened = self.open_object(handle)?;
        let path = opened.path.clone();
        opened.read_pieces(|piece| {
            let written = out.write_all(piece);
            written.map_err(StoreError::io("copy an object", &path))
        })
    }

    /// Reads an object as [`Store::copy_to`] does and holds nothing: success proves that the
    /// file is what the handle says.
    ///
    /// # Errors
    /// [`StoreError::UnknownHandle`], [`StoreError::Damaged`] or [`StoreError::Io`].
    pub fn verify(&self, handle: &Handle) -> Result<ObjectInfo, StoreError> {
        self.open_object(handle)?.read_pieces(|_| Ok(()))
    }

    /// Opens an object and reads its header. The header is not proved until all is read.
    pub(crate) fn open_object(&self, handle: &Handle) -> Result<Opened, StoreError> {
        let path = self.object_path(handle);
        let opened = files::open(&path);
        let mut file = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.unknown(handle),
            _ => StoreError::io("read an object", &path)(error),
        })?;
        let damaged = |reason: String| StoreError::damaged(handle, &path, reason);
        let unread = |error: io::Error| match error.kind() {
            ErrorKind::UnexpectedEof => damaged("is truncated: its header is cut".to_owned()),
            _ => StoreError::io("read an object", &path)(error),
        };
        let mut fixed = [0; FIXED_BYTES];
        file.read_exact(&mut fixed).map_err(unread)?;
        let mut rest = vec![0; Header::rest_bytes(&fixed).map_err(damaged)?];
        file.read_exact(&mut rest).map_err(unread)?;
        let header = Header::decode(&fixed, &rest).map_err(damaged)?;
        // Before memory is allocated: a corrupted length must not allocate all of the machine's.
        let found = file.metadata().map_err(unread)?.len();
        let expected = ((FIXED_BYTES + rest.len()) as u64).saturating_add(header.length);
        if found != expected {
            let what = if found < expected {
                "is truncated"
            } else {
                "is too long"
            };
            return Err(damaged(format!(
                "{what}: it has {found} bytes, expected {expected}"
            )));
        }
        let hasher = Sha256::new().chain_update(fixed).chain_update(&rest);
        let handle = *handle;
        Ok(Opened {
            handle,
            path,
            file,
            hasher,
            header,
        })
    }

    /// The error for an object of another kind than requested; a damaged one, whose kind may be
    /// wrong too, is reported as damaged.
    pub(crate) fn wrong_kind(&self, opened: Opened, expected: &str) -> StoreError {
        match opened.read_pieces(|_| Ok(())) {
            Ok(info) => StoreError::WrongKind {
                handle: info.handle,
                expected: expected.to_owned(),
                found: info.content.to_string(),
            },
            Err(error) => error,
        }
    }
}

impl Opened {
    fn read_all(self) -> Result<Vec<u8>, StoreError> {
        let (length, path) = (self.header.length, self.path.clone());
        let mut data = Vec::new();
        let reserved = usize::try_from(length)
            .ok()
            .and_then(|length| data.try_reserve_exact(length).ok());
        if reserved.is_none() {
            let reason = format!("{length} bytes do not fit into memory");
            return Err(StoreError::io("read an object", &path)(io::Error::new(
                ErrorKind::OutOfMemory,
                reason,
            )));
        }
        self.read_pieces(|piece| {
            data.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(data)
    }

    /// Passes the data on piece by piece, and fails at the end unless its digest is the handle.
    pub fn read_pieces(
        mut self,
        mut sink: impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<ObjectInfo, StoreError> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let n_read = match self.file.read(&mut piece) {
                Ok(0) => break,
                Ok(n_read) => n_read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(StoreError::io("read an object", &self.path)(error)),
            };
            self.hasher.update(&piece[..n_read]);
            sink(&piece[..n_read])?;
        }
        let found = Handle::finish(self.hasher);
        if found != self.handle {
            let reason = format!("has the digest {found}");
            return Err(StoreError::damaged(&self.handle, &self.path, reason));
        }
        Ok(ObjectInfo {
            handle: self.handle,
            content: self.header.content,
            length: self.header.length,
        })
    }
}
