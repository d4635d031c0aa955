//! Garbage collection: removes old objects that neither a root nor a pin names, and old temporary
//! files.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::{Handle, Store, StoreError};

/// Objects and temporary files younger than an hour stay: a writer may not have named its new
/// object in a pin or elsewhere yet.
pub const GC_MIN_AGE: Duration = Duration::from_secs(3600);

/// How to collect.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    /// Younger files stay; [`GC_MIN_AGE`] unless changed. An object's age counts from the
    /// last put of its content.
    pub min_age: Duration,
    /// Report what would be removed, and remove nothing.
    pub dry_run: bool,
}

impl Default for GcOptions {
    fn default() -> Self {
        let min_age = GC_MIN_AGE;
        Self {
            min_age,
            dry_run: false,
        }
    }
}

/// What a collection did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Objects removed, in the order of their handles.
    pub removed: Vec<Handle>,
    /// Bytes of their files, and of temporary files.
    pub freed_bytes: u64,
    /// Objects that a root or a pin names.
    pub n_held: usize,
    /// Objects that nothing names and that are too young to be removed.
    pub n_young: usize,
    /// Temporary files, left by crashes, that were removed.
    pub n_temporaries: usize,
}

impl Store {
    /// Removes every object that neither a root nor a pin names and that was last put more than
    /// [`GC_MIN_AGE`] ago, and temporary files of that age. Roots are not followed: an object
    /// that contains other handles does not hold them.
    ///
    /// Waits until no put is under way, in any process; puts wait until it is done.
    ///
    /// # Errors
    /// [`StoreError::Stray`] if a pin cannot be read (nothing is removed then);
    /// [`StoreError::Io`].
    pub fn gc(&self, roots: &[Handle]) -> Result<GcReport, StoreError> {
        self.gc_with(roots, GcOptions::default())
    }

    /// As [`Store::gc`], with another age, or as a dry run.
    ///
    /// # Errors
    /// As [`Store::gc`].
    pub fn gc_with(&self, roots: &[Handle], options: GcOptions) -> Result<GcReport, StoreError> {
        let _lock = self.lock_alone()?;
        let mut named: HashSet<Handle> = roots.iter().copied().collect();
        named.extend(self.pins()?.into_values());
        let now = SystemTime::now();
        let mut report = GcReport::default();
        let (objects, _) = self.walk()?;
        for handle in objects {
            if named.contains(&handle) {
                report.n_held += 1;
            } else if let Some(bytes) = remove_old(&self.object_path(&handle), now, options)? {
                report.removed.push(handle);
                report.freed_bytes += bytes;
            } else {
                report.n_young += 1;
            }
        }
        let folder = self.temporaries();
        let unread = |error| StoreError::io("read the store", &folder)(error);
        for entry in fs::read_dir(&folder).map_err(unread)? {
            let path = entry.map_err(unread)?.path();
            if let Some(bytes) = remove_old(&path, now, options)? {
                report.n_temporaries += 1;
                report.freed_bytes += bytes;
            }
        }
        Ok(report)
    }
}

/// Removes a file that is old enough and returns its length; `None` if it stays. A time in
/// the future, from another machine's clock, counts as young.
fn remove_old(path: &Path, now: SystemTime, options: GcOptions) -> Result<Option<u64>, StoreError> {
    let failed = |error| StoreError::io("collect", path)(error);
    let metadata = fs::symlink_metadata(path).map_err(failed)?;
    let modified = metadata.modified().map_err(failed)?;
    let old = now
        .duration_since(modified)
        .is_ok_and(|age| age >= options.min_age);
    if !old || !metadata.is_file() {
        return Ok(None);
    }
    if !options.dry_run {
        fs::remove_file(path).map_err(failed)?;
    }
    Ok(Some(metadata.len()))
}
