//! The files that verbs write, checked before their work begins.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use hlx_core::files::Output;
use hlx_store::Store;

/// Where a file is written that is none of the verb's inputs.
pub fn output(path: &Path, inputs: &[PathBuf]) -> Result<Output> {
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        ensure!(
            folder.exists(),
            "{}: its folder, {}, is not there",
            path.display(),
            folder.display()
        );
    }
    let output = Output::at(path).and_then(|output| output.apart_from(inputs));
    output.with_context(|| path.display().to_string())
}

/// Where a file is written that does not lie in a store, whose objects no verb may replace.
pub fn output_beside(path: &Path, store: &Store) -> Result<Output> {
    let output = output(path, &[])?;
    ensure!(
        !output.lies_in(store.path()),
        "{}: lies in the store, {}",
        path.display(),
        store.path().display()
    );
    Ok(output)
}
