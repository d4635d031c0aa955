//! The lock on a run folder: one process at a time writes to it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};
use hlx_core::files;

/// The file that is locked; it is empty and stays when the run has ended.
pub(super) const LOCK_FILE: &str = "lock";
/// The file that says who holds the lock. It is another one, as Windows lets nobody read a locked
/// file; it is removed when the lock is released.
pub(super) const HOLDER_FILE: &str = "lock-holder";

/// The exclusive lock on a run folder, held until it is dropped. The system releases it when the
/// process ends in any way, so a killed run leaves none.
#[derive(Debug)]
pub struct RunLock {
    holder: PathBuf,
    file: File,
}

impl RunLock {
    /// Locks a folder.
    ///
    /// # Errors
    /// A folder that another process, or another [`RunLock`] of this one, holds: the message says
    /// which process, on which host, since when. The system's message.
    pub fn acquire(folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK_FILE);
        let cannot = || format!("{}: cannot be locked", path.display());
        let opened = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = opened.with_context(cannot)?;
        let holder = folder.join(HOLDER_FILE);
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let who = files::read_settings_text(&holder);
                let who = who.unwrap_or_else(|_| "another process".to_owned());
                bail!("{}: is in use by {}", folder.display(), who.trim());
            }
            // Some network file systems have no locks; the run then continues without one.
            Err(TryLockError::Error(error)) => {
                let folder = folder.display();
                tracing::warn!("{folder}: cannot be locked ({error}); start one run in it only");
            }
        }
        files::write_atomically(&holder, this_process().as_bytes()).with_context(cannot)?;
        Ok(Self { holder, file })
    }

    /// Whether a process holds a folder. One that was killed has left its name, which says nothing alone.
    pub fn is_held(folder: &Path) -> bool {
        if !folder.join(HOLDER_FILE).exists() {
            return false;
        }
        let lock = OpenOptions::new().read(true).open(folder.join(LOCK_FILE));
        let held = |lock: File| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock));
        lock.is_ok_and(held)
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.holder);
        // Closing the file is not enough while a child that was just started has a copy of it.
        let _ = self.file.unlock();
    }
}

/// Names this process for those who find the folder locked.
fn this_process() -> String {
    let (pid, host) = (std::process::id(), gethostname::gethostname());
    let since = humantime::format_rfc3339_seconds(SystemTime::now());
    format!(
        "process {pid} on {} since {since}\n",
        host.to_string_lossy()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_exclusive_names_its_holder_and_ends_with_it() {
        let folder = std::env::temp_dir().join(format!("hlx-lock-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("folder");
        let first = RunLock::acquire(&folder).expect("locks");
        let refused = RunLock::acquire(&folder).expect_err("held").to_string();
        let pid = format!("is in use by process {} on ", std::process::id());
        assert!(
            refused.contains(&pid) && refused.ends_with('Z'),
            "{refused}"
        );
        assert!(RunLock::is_held(&folder));
        let copy = first.file.try_clone().expect("a copy, as a child has");
        drop(first);
        assert!(!folder.join(HOLDER_FILE).exists() && !RunLock::is_held(&folder));
        // As a process leaves it that is killed.
        fs::write(folder.join(HOLDER_FILE), "process 1 on h").expect("written");
        assert!(!RunLock::is_held(&folder));
        RunLock::acquire(&folder).expect("free again");
        drop(copy);
        fs::remove_dir_all(folder).expect("cleared");
    }
}
