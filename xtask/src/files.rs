//! Walks the source tree in a fixed order.

use std::fs;
use std::path::{Path, PathBuf};

/// Every file under `dir` whose extension is one of `extensions`, sorted by path.
///
/// Build output and hidden directories are left out; a directory that does not exist is empty.
pub fn under(dir: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    if dir.is_dir() {
        collect(dir, extensions, &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn collect(dir: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = fs::read_dir(dir).map_err(|error| cannot_read(dir, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| cannot_read(dir, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                collect(&path, extensions, found)?;
            }
        } else if path
            .extension()
            .is_some_and(|ext| extensions.iter().any(|want| ext == *want))
        {
            found.push(path);
        }
    }
    Ok(())
}

/// Reads a text file; the error names it.
pub fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| cannot_read(path, &error))
}

/// Reads a file; the error names it.
pub fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| cannot_read(path, &error))
}

/// Writes a file; the error names it.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// `path` below `root`, with `/` between its parts on every system.
pub fn relative(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

/// Whether a source is one of tests alone.
pub fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs") || name.ends_with("/test_support.rs")
}

/// The text of a source without its unit tests, which end it.
pub fn product(text: &str) -> &str {
    let tests = "#[cfg(test)]\nmod tests {";
    text.split(tests).next().unwrap_or(text)
}

fn cannot_read(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}
