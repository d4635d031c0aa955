//! Pins: names of a user's choice that protect objects from collection.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use hlx_core::files;

use super::write::flush_folder;
use super::{Handle, Store, StoreError};

const MAX_NAME_BYTES: usize = 128;

impl Store {
    /// Keeps an object under a name; a pin of that name is moved to it.
    ///
    /// # Errors
    /// [`StoreError::BadPinName`]; [`StoreError::UnknownHandle`] if the store does not have the
    /// object; [`StoreError::Io`].
    pub fn pin(&self, name: &str, handle: &Handle) -> Result<(), StoreError> {
        let path = self.pin_path(name)?;
        let _lock = self.lock_shared()?;
        if !self.contains(handle)? {
            return Err(self.unknown(handle));
        }
        self.write_file(&path, format!("{handle}\n").as_bytes())
    }

    /// Removes a pin; its object stays until the next collection.
    ///
    /// # Errors
    /// [`StoreError::BadPinName`], [`StoreError::UnknownPin`] or [`StoreError::Io`].
    pub fn unpin(&self, name: &str) -> Result<(), StoreError> {
        let path = self.pin_path(name)?;
        let removed = fs::remove_file(&path);
        removed.map_err(|error| match error.kind() {
            ErrorKind::NotFound => StoreError::UnknownPin {
                name: name.to_owned(),
                store: self.root.display().to_string(),
            },
            _ => StoreError::io("remove a pin", &path)(error),
        })?;
        flush_folder(&self.pins_folder())
    }

    /// Returns all pins by name.
    ///
    /// # Errors
    /// [`StoreError::Stray`] for a file that is not a pin, so that collection never overlooks one;
    /// [`StoreError::Io`].
    pub fn pins(&self) -> Result<BTreeMap<String, Handle>, StoreError> {
        let folder = self.pins_folder();
        let unread = |error| StoreError::io("read the pins", &folder)(error);
        let mut pins = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(unread)? {
            let path = entry.map_err(unread)?.path();
            let stray = |reason: String| StoreError::Stray {
                path: path.display().to_string(),
                reason,
            };
            let text = match files::read_settings_text(&path) {
                Ok(text) => text,
                // Removed since the folder was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(StoreError::io("read a pin", &path)(error)),
            };
            let handle = text.trim_end().parse();
            let handle = handle.map_err(|error| stray(format!("is no pin: {error}")))?;
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| stray("is no pin: its name is no text".to_owned()))?;
            pins.insert(name.to_owned(), handle);
        }
        Ok(pins)
    }

    fn pin_path(&self, name: &str) -> Result<PathBuf, StoreError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let fits = (1..=MAX_NAME_BYTES).contains(&name.len());
        if !fits || name.starts_with('.') || !name.chars().all(allowed) {
            let name = name.chars().take(MAX_NAME_BYTES).collect();
            return Err(StoreError::BadPinName { name });
        }
        Ok(self.pins_folder().join(name))
    }
}
