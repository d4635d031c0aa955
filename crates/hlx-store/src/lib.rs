//! The content store: bytes and tensors on disk, each under the SHA-256 of its content.
//!
//! ```
//! use hlx_store::{Dtype, Handle, Store};
//!
//! # fn main() -> Result<(), hlx_store::StoreError> {
//! # let folder = std::env::temp_dir().join(format!("hlx-store-doc-{}", std::process::id()));
//! let store = Store::open(&folder)?;
//! let row = store.put_tensor(Dtype::F32, &[1, 2], &[0; 8])?;
//! let column = store.put_tensor(Dtype::F32, &[2, 1], &[0; 8])?;
//! assert_ne!(row, column);
//! let handle: Handle = row.to_string().parse()?; // sha256:...
//! assert_eq!(store.get_tensor(&handle)?.shape, [1, 2]);
//! # let _ = std::fs::remove_dir_all(folder);
//! # Ok(())
//! # }
//! ```
//!
//! An object is one file, written once: under a temporary name, flushed to the disk, renamed.
//! Its bytes are hashed whenever it is read. Any number of threads and processes may write; they
//! share a lock that only [`Store::gc`] takes exclusively. `docs/store.md` has the layout and says
//! what is guaranteed.

mod buffers;
mod error;
mod folder;
mod gc;
mod handle;
mod memory;
mod object;
mod pins;
mod read;
#[cfg(test)]
mod tests;
mod verify;
mod write;

use std::path::{Path, PathBuf};

pub use error::StoreError;
pub use gc::{GC_MIN_AGE, GcOptions, GcReport};
pub use handle::Handle;
pub use memory::{MemoryStore, Objects};
pub use object::{Content, Dtype};
pub use read::{ObjectInfo, StoredTensor};
pub use verify::{Listed, VerifyReport};

use object::Header;

/// A folder of objects. Clones and other processes may use the same folder at the same time.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// Opens the store in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`StoreError::Io`] with the folder and the system's message; a folder that holds something else, in
    /// which collection would remove files. A store that cannot be written opens all the same, and can be
    /// read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let root = path.as_ref().to_owned();
        let mut entries = std::fs::read_dir(&root).into_iter().flatten();
        let store = Self { root };
        if entries.next().is_some() && !store.objects().is_dir() {
            let reason = std::io::Error::other("holds other files, and is no store");
            return Err(StoreError::io("open the content store", &store.root)(
                reason,
            ));
        }
        for folder in [store.objects(), store.pins_folder(), store.temporaries()] {
            std::fs::create_dir_all(&folder)
                .map_err(StoreError::io("open the content store", &folder))?;
        }
        Ok(store)
    }

    /// Opens the user's store: the folder that `HLX_STORE` names, else `hlx/store` in the
    /// user's data folder (`$XDG_DATA_HOME` or `~/.local/share`; on macOS
    /// `~/Library/Application Support`; on Windows `%LOCALAPPDATA%`).
    ///
    /// # Errors
    /// [`StoreError::NoFolder`] if no variable says where that is; as [`Store::open`].
    pub fn open_default() -> Result<Self, StoreError> {
        Self::open(folder::default_folder(|name| std::env::var_os(name))?)
    }

    /// The store's folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    fn pins_folder(&self) -> PathBuf {
        self.root.join("pins")
    }

    fn temporaries(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// An object's file: `objects/ab/cdef...`.
    pub fn object_path(&self, handle: &Handle) -> PathBuf {
        let hex = handle.hex();
        self.objects().join(&hex[..2]).join(&hex[2..])
    }

    fn unknown(&self, handle: &Handle) -> StoreError {
        StoreError::UnknownHandle {
            handle: *handle,
            store: format!("the store {}", self.root.display()),
        }
    }
}
