//! Writes objects: a temporary file, flushed, renamed to its digest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hlx_core::files::{self, TemporaryFile};
use sha2::{Digest, Sha256};

use super::{Content, Dtype, Handle, Header, Store, StoreError};

/// Data passes through memory in pieces of this size.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

impl Store {
    /// Stores bytes and returns their handle. When the call returns, the object is on the disk;
    /// where it already was, its age for [`Store::gc`] starts anew, and a damaged one is replaced.
    ///
    /// # Errors
    /// [`StoreError::Io`] with the path and the system's message, such as a full disk or a folder
    /// that cannot be written; nothing is left behind then.
    pub fn put_bytes(&self, data: &[u8]) -> Result<Handle, StoreError> {
        self.put_slice(Header::of_bytes(data.len() as u64), data)
    }

    /// Stores a tensor of row-major, little-endian data and returns its handle. The bits are
    /// stored as they are, payloads of NaN too.
    ///
    /// # Errors
    /// [`StoreError::BadShape`] if the shape does not fit the data; as [`Store::put_bytes`].
    pub fn put_tensor(
        &self,
        dtype: Dtype,
        shape: &[usize],
        data: &[u8],
    ) -> Result<Handle, StoreError> {
        let header = Header::new(Content::tensor(dtype, shape), data.len() as u64)?;
        self.put_slice(header, data)
    }

    /// Stores `length` bytes of a reader, hashed while they are written: one piece of 1 MiB is in
    /// memory at a time.
    ///
    /// # Errors
    /// [`StoreError::Io`] also if the reader fails, or ends before or after `length`; as
    /// [`Store::put_tensor`].
    pub fn put_reader(
        &self,
        content: Content,
        length: u64,
        reader: &mut dyn Read,
    ) -> Result<Handle, StoreError> {
        let header = Header::new(content, length)?;
        let mut piece = vec![0; PIECE_BYTES];
        self.put_pieces(&header, |sink| {
            loop {
                let n_read = match reader.read(&mut piece) {
                    Ok(0) => return Ok(()),
                    Ok(n_read) => n_read,
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return Err(self.source_failed(&error)),
                };
                sink(&piece[..n_read])?;
            }
        })
    }

    /// Stores what `produce` passes to its sink, piece by piece.
    pub(crate) fn put_pieces(
        &self,
        header: &Header,
        produce: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), StoreError>) -> Result<(), StoreError>,
    ) -> Result<Handle, StoreError> {
        let _lock = self.lock_shared()?;
        let head = header.encode();
        let mut temporary = Temporary::create(&self.temporaries())?;
        temporary.write(&head)?;
        let mut hasher = Sha256::new().chain_update(&head);
        let mut found = 0_u64;
        let expected = header.length;
        produce(&mut |piece| {
            found += piece.len() as u64;
            if found > expected {
                let reason = format!("the data has more than the {expected} bytes announced");
                return Err(self.source_failed(&io::Error::other(reason)));
            }
            hasher.update(piece);
            temporary.write(piece)
        })?;
        if found != expected {
            let reason = format!("the data ends after {found} of {expected} bytes");
            return Err(self.source_failed(&io::Error::other(reason)));
        }
        let handle = Handle::finish(hasher);
        if !self.holds(&handle, &mut temporary.reader()?)? {
            temporary.publish(&self.object_path(&handle))?;
        }
        self.flush_names(&handle)?;
        Ok(handle)
    }

    /// Stores data that is in memory. It is hashed first: an object that exists is compared and
    /// not written again.
    fn put_slice(&self, header: Header, data: &[u8]) -> Result<Handle, StoreError> {
        let head = header.encode();
        let handle = Handle::of(&head, data);
        let _lock = self.lock_shared()?;
        if !self.holds(&handle, &mut head.as_slice().chain(data))? {
            let mut temporary = Temporary::create(&self.temporaries())?;
            temporary.write(&head)?;
            temporary.write(data)?;
            temporary.publish(&self.object_path(&handle))?;
        }
        self.flush_names(&handle)?;
        Ok(handle)
    }

    /// Whether the object's file has these bytes, and its age could be reset. A damaged file,
    /// or one whose time cannot be set (another user's), is to be replaced.
    fn holds(&self, handle: &Handle, expected: &mut dyn Read) -> Result<bool, StoreError> {
        let path = self.object_path(handle);
        let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(false),
            Err(error) => return Err(StoreError::io("open an object", &path)(error)),
        };
        let same = same_bytes(&mut file, expected).unwrap_or(false);
        Ok(same && file.set_modified(SystemTime::now()).is_ok())
    }

    /// Flushes the folders of an object's path, whichever process created them.
    fn flush_names(&self, handle: &Handle) -> Result<(), StoreError> {
        if let Some(folder) = self.object_path(handle).parent() {
            flush_folder(folder)?;
        }
        flush_folder(&self.objects())
    }

    /// Writes a small file so that it is the old or the new, never a part.
    pub(crate) fn write_file(&self, path: &Path, data: &[u8]) -> Result<(), StoreError> {
        let mut temporary = Temporary::create(&self.temporaries())?;
        temporary.write(data)?;
        temporary.publish(path)?;
        path.parent().map_or(Ok(()), flush_folder)
    }

    /// Takes the writers' shared lock, which collection takes exclusively; it is released when the
    /// file is dropped.
    pub(crate) fn lock_shared(&self) -> Result<File, StoreError> {
        let (file, path) = self.lock_file()?;
        file.lock_shared()
            .map_err(StoreError::io("lock the store", &path))?;
        Ok(file)
    }

    /// Takes the lock exclusively: waits for writers, and blocks new ones until the file is
    /// dropped.
    pub(crate) fn lock_alone(&self) -> Result<File, StoreError> {
        let (file, path) = self.lock_file()?;
        file.lock()
            .map_err(StoreError::io("lock the store", &path))?;
        Ok(file)
    }

    fn lock_file(&self) -> Result<(File, PathBuf), StoreError> {
        let path = self.root.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options
            .open(&path)
            .map_err(StoreError::io("write to the store", &path))?;
        Ok((file, path))
    }

    fn source_failed(&self, error: &io::Error) -> StoreError {
        StoreError::Io {
            during: "put into the store".to_owned(),
            path: self.root.display().to_string(),
            reason: error.to_string(),
        }
    }
}

/// A temporary file of the store, with the store's errors.
struct Temporary(TemporaryFile);

impl Temporary {
    fn create(folder: &Path) -> Result<Self, StoreError> {
        let created = TemporaryFile::beside(&folder.join("object"));
        created
            .map(Self)
            .map_err(StoreError::io("write to the store", folder))
    }

    fn write(&mut self, data: &[u8]) -> Result<(), StoreError> {
        let written = self.0.file().write_all(data);
        written.map_err(StoreError::io("write to the store", self.0.path()))
    }

    fn reader(&mut self) -> Result<impl Read, StoreError> {
        let rewound = self.0.file().seek(SeekFrom::Start(0));
        rewound.map_err(StoreError::io("read back from the store", self.0.path()))?;
        Ok(self.0.file())
    }

    /// Gives the file its name, once its data are on the disk.
    fn publish(self, path: &Path) -> Result<(), StoreError> {
        let folder = files::parent(path);
        fs::create_dir_all(folder).map_err(StoreError::io("write to the store", folder))?;
        let published = self.0.publish(path);
        published.map_err(StoreError::io("write to the store", path))
    }
}

/// Flushes a folder's names to the disk.
pub(crate) fn flush_folder(folder: &Path) -> Result<(), StoreError> {
    files::sync_folder(folder).map_err(StoreError::io("flush to the disk", folder))
}

fn same_bytes(file: &mut dyn Read, expected: &mut dyn Read) -> io::Result<bool> {
    let mut ours = Vec::with_capacity(PIECE_BYTES);
    let mut theirs = Vec::with_capacity(PIECE_BYTES);
    loop {
        ours.clear();
        theirs.clear();
        file.take(PIECE_BYTES as u64).read_to_end(&mut ours)?;
        expected.take(PIECE_BYTES as u64).read_to_end(&mut theirs)?;
        if ours != theirs {
            return Ok(false);
        }
        if ours.is_empty() {
            return Ok(true);
        }
    }
}
