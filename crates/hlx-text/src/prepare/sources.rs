//! The files of a corpus: folders and globs resolved, in an order that the machine does not change.

use std::fs;
use std::path::{Path, PathBuf};

use hlx_core::files::is_one_of;
use serde::{Deserialize, Serialize};

use crate::{Result, TextError};

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceFormat {
    /// Plain text.
    Text,
    /// A JSON object a line: `text`, or `input` and `output`, or `messages`.
    Jsonl,
    /// Tokens of nanoGPT or llm.c.
    Tokens,
}

/// A file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Source {
    pub path: PathBuf,
    pub format: SourceFormat,
    /// Bytes on disk.
    pub len: u64,
}

/// Resolves paths: files as they are, folders with everything below them but hidden files, globs. Each
/// argument's files are sorted by their paths. The folder `out` below another one is left out: it is where the
/// result is written.
///
/// # Errors
/// An argument that names no file, in one line.
pub(crate) fn resolve(
    arguments: &[PathBuf],
    format: Option<SourceFormat>,
    out: Option<&PathBuf>,
) -> Result<Vec<Source>> {
    let out = out.map_or(&[][..], std::slice::from_ref);
    let mut sources = Vec::new();
    for argument in arguments {
        let mut files = Vec::new();
        if argument.exists() {
            add(argument, out, &mut files)?;
        } else {
            add_glob(argument, out, &mut files)?;
        }
        if files.is_empty() {
            return Err(TextError::file(argument, "holds no file"));
        }
        files.sort();
        for path in files {
            let found = fs::metadata(&path).map_err(|error| TextError::file(&path, error))?;
            sources.push(Source {
                format: format.unwrap_or_else(|| format_of(&path)),
                len: found.len(),
                path,
            });
        }
    }
    match sources.is_empty() {
        true => Err(TextError::argument("data_prepare", "no files are named")),
        false => Ok(sources),
    }
}

fn add(path: &Path, out: &[PathBuf], files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let failed = |error: std::io::Error| TextError::file(path, error);
    for entry in fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, name) = (entry.path(), entry.file_name());
        let is_hidden = name.to_string_lossy().starts_with('.');
        let is_out = path.is_dir() && is_one_of(&path, out);
        if !is_hidden && !is_out {
            add(&path, out, files)?;
        }
    }
    Ok(())
}

fn add_glob(argument: &Path, out: &[PathBuf], files: &mut Vec<PathBuf>) -> Result<()> {
    let text = argument.to_string_lossy();
    if !text.contains(['*', '?', '[']) {
        return Err(TextError::file(argument, "is not there"));
    }
    let found = glob::glob(&text).map_err(|error| TextError::file(argument, error))?;
    for path in found {
        let path = path.map_err(|error| TextError::file(argument, error))?;
        if !(path.is_dir() && is_one_of(&path, out)) {
            add(&path, out, files)?;
        }
    }
    Ok(())
}

/// The format that a name tells, endings of compression left out.
fn format_of(path: &Path) -> SourceFormat {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_lowercase();
    let stem = [".gz", ".zst"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    let stem = stem.unwrap_or(&name);
    let ends = |endings: &[&str]| endings.iter().any(|ending| stem.ends_with(ending));
    if ends(&[".jsonl", ".ndjson", ".json"]) {
        SourceFormat::Jsonl
    } else if ends(&[".bin"]) {
        SourceFormat::Tokens
    } else {
        SourceFormat::Text
    }
}
