//! Lists the store's objects, and verifies all of them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Content, Handle, Store, StoreError};

/// An object of [`Store::list`].
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name.
    pub handle: Handle,
    /// Its kind, dtype and shape, and the length of its data in bytes, as its header says; or
    /// what is wrong with the file. The data is not read.
    pub content: Result<(Content, u64), StoreError>,
}

/// What [`Store::verify_all`] found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Objects read.
    pub n_objects: usize,
    /// Bytes of data in those that are intact.
    pub whole_bytes: u64,
    /// What is wrong: damaged and unreadable objects, files that do not belong, pins of objects
    /// that are not there.
    pub faults: Vec<StoreError>,
}

impl Store {
    /// Returns all objects in the order of their handles.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a folder cannot be read; a damaged object is an entry, not an error.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let (handles, _) = self.walk()?;
        let mut listed = Vec::with_capacity(handles.len());
        for handle in handles {
            let content = match self.open_object(&handle) {
                Ok(opened) => Ok((opened.header.content, opened.header.length)),
                // Collected since the folder was read.
                Err(StoreError::UnknownHandle { .. }) => continue,
                Err(error) => Err(error),
            };
            listed.push(Listed { handle, content });
        }
        Ok(listed)
    }

    /// Hashes every object, and looks for files that do not belong and pins that name nothing.
    /// `progress` receives the number of objects done and their total, after each.
    ///
    /// # Errors
    /// [`StoreError::Io`] if a folder cannot be read; faults of objects are in the report.
    pub fn verify_all(
        &self,
        mut progress: impl FnMut(usize, usize),
    ) -> Result<VerifyReport, StoreError> {
        let (handles, strays) = self.walk()?;
        let mut report = VerifyReport::default();
        for (done, handle) in handles.iter().enumerate() {
            match self.verify(handle) {
                Ok(info) => {
                    report.n_objects += 1;
                    report.whole_bytes += info.length;
                }
                // Collected since the folder was read.
                Err(StoreError::UnknownHandle { .. }) => {}
                Err(error) => {
                    report.n_objects += 1;
                    report.faults.push(error);
                }
            }
            progress(done + 1, handles.len());
        }
        report
            .faults
            .extend(strays.iter().map(|path| StoreError::Stray {
                path: path.display().to_string(),
                reason: "is no object of the store".to_owned(),
            }));
        match self.pins() {
            Ok(pins) => {
                for handle in pins.values() {
                    if !self.contains(handle)? {
                        report.faults.push(self.unknown(handle));
                    }
                }
            }
            Err(error) => report.faults.push(error),
        }
        Ok(report)
    }

    /// Returns the handles of all objects in order, and the files that are none.
    pub(crate) fn walk(&self) -> Result<(Vec<Handle>, Vec<PathBuf>), StoreError> {
        let (mut handles, mut strays) = (Vec::new(), Vec::new());
        for folder in entries(&self.objects())? {
            let front = file_name(&folder);
            if front.len() != 2 || !folder.is_dir() {
                strays.push(folder);
                continue;
            }
            for path in entries(&folder)? {
                match Handle::from_hex(&format!("{front}{}", file_name(&path))) {
                    Some(handle) => handles.push(handle),
                    None => strays.push(path),
                }
            }
        }
        handles.sort_unstable();
        strays.sort_unstable();
        Ok((handles, strays))
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let unread = |error| StoreError::io("read the store", folder)(error);
    let listing = match fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unread(error)),
    };
    listing
        .map(|entry| Ok(entry.map_err(unread)?.path()))
        .collect()
}
