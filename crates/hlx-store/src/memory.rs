//! Objects in the memory of this process, and what both kinds of store have in common.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Content, Dtype, Handle, Header, Store, StoreError, StoredTensor};

/// Where objects are put and found by their handles: a [`Store`], on disk, or a [`MemoryStore`].
pub trait Objects: Send + Sync {
    /// Stores bytes and returns their handle.
    ///
    /// # Errors
    /// As [`Store::put_bytes`].
    fn put_bytes(&self, data: &[u8]) -> Result<Handle, StoreError>;

    /// Stores a tensor of row-major, little-endian data and returns its handle.
    ///
    /// # Errors
    /// As [`Store::put_tensor`].
    fn put_tensor(&self, dtype: Dtype, shape: &[usize], data: &[u8]) -> Result<Handle, StoreError>;

    /// Returns the bytes of an object.
    ///
    /// # Errors
    /// As [`Store::get_bytes`].
    fn get_bytes(&self, handle: &Handle) -> Result<Vec<u8>, StoreError>;

    /// Returns a tensor.
    ///
    /// # Errors
    /// As [`Store::get_tensor`].
    fn get_tensor(&self, handle: &Handle) -> Result<StoredTensor, StoreError>;

    /// Returns what an object is, without its data.
    ///
    /// # Errors
    /// [`StoreError::UnknownHandle`]; [`StoreError::Damaged`] and [`StoreError::Io`] on disk.
    fn content(&self, handle: &Handle) -> Result<Content, StoreError>;

    /// Whether there is an object of this handle.
    ///
    /// # Errors
    /// [`StoreError::Io`] on disk.
    fn contains(&self, handle: &Handle) -> Result<bool, StoreError>;
}

impl Objects for Store {
    fn put_bytes(&self, data: &[u8]) -> Result<Handle, StoreError> {
        Store::put_bytes(self, data)
    }

    fn put_tensor(&self, dtype: Dtype, shape: &[usize], data: &[u8]) -> Result<Handle, StoreError> {
        Store::put_tensor(self, dtype, shape, data)
    }

    fn get_bytes(&self, handle: &Handle) -> Result<Vec<u8>, StoreError> {
        Store::get_bytes(self, handle)
    }

    fn get_tensor(&self, handle: &Handle) -> Result<StoredTensor, StoreError> {
        Store::get_tensor(self, handle)
    }

    fn content(&self, handle: &Handle) -> Result<Content, StoreError> {
        // The digest is checked where the data are read.
        Ok(self.open_object(handle)?.header.content)
    }

    fn contains(&self, handle: &Handle) -> Result<bool, StoreError> {
        Store::contains(self, handle)
    }
}

/// Objects in the memory of this process, each once. Clones share them; they go with the last clone, or by
/// [`MemoryStore::clear`]. Handles are those of any [`Store`].
///
/// ```
/// use hlx_store::{Dtype, Handle, MemoryStore, Objects};
///
/// # fn main() -> Result<(), hlx_store::StoreError> {
/// let store = MemoryStore::default();
/// let row = store.put_tensor(Dtype::F32, &[1, 2], &[0; 8])?;
/// assert_eq!(row, Handle::of_tensor(Dtype::F32, &[1, 2], &[0; 8])?);
/// assert_eq!(store.get_tensor(&row)?.shape, [1, 2]);
/// assert_eq!((store.len(), store.bytes()), (1, 8));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore {
    objects: Arc<Mutex<HashMap<Handle, Object>>>,
}

#[derive(Clone)]
struct Object {
    content: Content,
    data: Arc<[u8]>,
}

/// What errors call the store.
const NAME: &str = "this process's memory";

impl MemoryStore {
    fn objects(&self) -> MutexGuard<'_, HashMap<Handle, Object>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects().len()
    }

    /// Whether it holds no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all objects' data.
    pub fn bytes(&self) -> usize {
        self.objects()
            .values()
            .map(|object| object.data.len())
            .sum()
    }

    /// Removes an object; `false` if there was none of this handle.
    pub fn remove(&self, handle: &Handle) -> bool {
        self.objects().remove(handle).is_some()
    }

    /// Removes all objects.
    pub fn clear(&self) {
        let all = std::mem::take(&mut *self.objects());
        // Freed outside of the lock.
        drop(all);
    }

    fn put(&self, header: Header, data: &[u8]) -> Handle {
        // Hashed and copied outside of the lock, as both take long for large tensors.
        let handle = Handle::of(&header.encode(), data);
        if self.objects().contains_key(&handle) {
            return handle;
        }
        let object = Object {
            content: header.content,
            data: data.into(),
        };
        self.objects().insert(handle, object);
        handle
    }

    fn get(&self, handle: &Handle) -> Result<Object, StoreError> {
        let found = self.objects().get(handle).cloned();
        found.ok_or_else(|| StoreError::UnknownHandle {
            handle: *handle,
            store: NAME.to_owned(),
        })
    }
}

fn wrong_kind(handle: &Handle, expected: &str, found: &Content) -> StoreError {
    StoreError::WrongKind {
        handle: *handle,
        expected: expected.to_owned(),
        found: found.to_string(),
    }
}

impl Objects for MemoryStore {
    fn put_bytes(&self, data: &[u8]) -> Result<Handle, StoreError> {
        Ok(self.put(Header::of_bytes(data.len() as u64), data))
    }

    fn put_tensor(&self, dtype: Dtype, shape: &[usize], data: &[u8]) -> Result<Handle, StoreError> {
        let header = Header::new(Content::tensor(dtype, shape), data.len() as u64)?;
        Ok(self.put(header, data))
    }

    fn get_bytes(&self, handle: &Handle) -> Result<Vec<u8>, StoreError> {
        let object = self.get(handle)?;
        match object.content {
            Content::Bytes => Ok(object.data.to_vec()),
            found => Err(wrong_kind(handle, "bytes", &found)),
        }
    }

    fn get_tensor(&self, handle: &Handle) -> Result<StoredTensor, StoreError> {
        let object = self.get(handle)?;
        match object.content {
            Content::Tensor { dtype, shape } => Ok(StoredTensor {
                dtype,
                shape,
                data: object.data.to_vec(),
            }),
            found @ Content::Bytes => Err(wrong_kind(handle, "a tensor", &found)),
        }
    }

    fn content(&self, handle: &Handle) -> Result<Content, StoreError> {
        Ok(self.get(handle)?.content)
    }

    fn contains(&self, handle: &Handle) -> Result<bool, StoreError> {
        Ok(self.objects().contains_key(handle))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_store() -> (std::path::PathBuf, Store) {
        let folder = std::env::temp_dir().join(format!("hlx-store-memory-{}", std::process::id()));
        let store = Store::open(&folder).expect("a store");
        (folder, store)
    }

    #[test]
    fn both_kinds_of_store_give_the_same_handles_and_contents() {
        let (folder, disk) = folder_store();
        let memory = MemoryStore::default();
        let stores: [&dyn Objects; 2] = [&disk, &memory];
        let [first, second] = stores.map(|store| {
            let bytes = store.put_bytes(b"abc").expect("bytes");
            let tensor = store.put_tensor(Dtype::I32, &[2, 1], &[7; 8]);
            let tensor = tensor.expect("a tensor");
            let found = (
                store.get_bytes(&bytes).expect("bytes"),
                store.get_tensor(&tensor).expect("a tensor"),
                store.content(&bytes).expect("bytes"),
                store.content(&tensor).expect("a tensor"),
            );
            assert!(store.contains(&tensor).expect("there"));
            (bytes, tensor, found)
        });
        assert_eq!(first, second);
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn errors_name_the_handle_and_what_was_found() {
        let memory = MemoryStore::default();
        let bytes = memory.put_bytes(b"abc").expect("bytes");
        let unknown = Handle::of_bytes(b"other");
        let text = |error: StoreError| error.to_string();
        assert_eq!(
            text(memory.get_bytes(&unknown).expect_err("unknown")),
            format!("{unknown} is not in this process's memory")
        );
        assert_eq!(
            text(memory.get_tensor(&bytes).expect_err("bytes")),
            format!("{bytes} holds bytes, expected a tensor")
        );
        let misfit = memory.put_tensor(Dtype::F32, &[3], &[0; 8]);
        assert!(matches!(misfit, Err(StoreError::BadShape { .. })));
    }

    #[test]
    fn equal_content_is_held_once_and_goes_when_removed() {
        let memory = MemoryStore::default();
        let [first, again] = [0, 1].map(|_| memory.put_bytes(&[1; 100]).expect("bytes"));
        assert_eq!((first, memory.len(), memory.bytes()), (again, 1, 100));
        assert!(memory.remove(&first) && !memory.remove(&first));
        memory.put_bytes(&[2; 10]).expect("bytes");
        memory.clear();
        assert!(memory.is_empty());
    }
}
