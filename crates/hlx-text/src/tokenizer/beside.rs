//! The files beside a `tokenizer.json` that state its special tokens and its chat templates, as bytes: a tokenizer
//! keeps them, so that it can be written, and read again elsewhere, as it was.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use hlx_core::files::{self, place};
use serde_json::Value;

use super::stated::{SPECIAL_TOKENS_MAP_FILE, TOKENIZER_CONFIG_FILE};
use crate::{Result, TextError};

/// The template of the name `default`.
pub(super) const TEMPLATE_FILE: &str = "chat_template.jinja";
/// The file of a processor of `transformers` 4.
pub(super) const PROCESSOR_FILE: &str = "chat_template.json";
/// A folder of templates beside the default one: `NAME.jinja`.
const MORE: &str = "additional_chat_templates";
/// More templates than any model has.
const MAX_TEMPLATES: usize = 100;

/// The files beside a `tokenizer.json`: `tokenizer_config.json`, `special_tokens_map.json` and those of chat templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenizerFiles {
    /// Where they lie; empty where they are in memory alone.
    folder: PathBuf,
    /// By their paths in the folder, with `/`.
    files: BTreeMap<String, Vec<u8>>,
}

impl TokenizerFiles {
    /// Reads those that a folder has. The byte-order mark of a JSON file is left out.
    ///
    /// # Errors
    /// [`TextError::File`] for a file that cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut found = Self {
            folder: folder.to_owned(),
            files: BTreeMap::new(),
        };
        for name in [
            TOKENIZER_CONFIG_FILE,
            SPECIAL_TOKENS_MAP_FILE,
            PROCESSOR_FILE,
        ] {
            found.add(name, |path| {
                files::read_settings_text(path).map(String::into_bytes)
            })?;
        }
        // `transformers` leaves a byte-order mark in a template.
        found.add(TEMPLATE_FILE, files::read_settings)?;
        found.add_more()?;
        Ok(found)
    }

    /// Files in memory by their names, as [`TokenizerFiles::files`] has them.
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self {
            folder: PathBuf::new(),
            files: files.into_iter().collect(),
        }
    }

    fn add(&mut self, name: &str, read: impl Fn(&Path) -> Result<Vec<u8>, Error>) -> Result<()> {
        let path = place(&self.folder, name);
        match read(&path) {
            Ok(bytes) => _ = self.files.insert(name.to_owned(), bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(TextError::file(&path, error)),
        }
        Ok(())
    }

    /// Adds the templates of the folder `additional_chat_templates`.
    fn add_more(&mut self) -> Result<()> {
        let more = place(&self.folder, MORE);
        let wrong = |error: &dyn std::fmt::Display| TextError::file(&more, error);
        let entries = match fs::read_dir(&more) {
            Ok(entries) => entries,
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) =>
            {
                return Ok(());
            }
            Err(error) => return Err(wrong(&error)),
        };
        let mut n_templates = 0;
        for entry in entries {
            let name = entry.map_err(|error| wrong(&error))?.file_name();
            let name = name.to_string_lossy();
            if !name.ends_with(".jinja") {
                continue;
            }
            if n_templates == MAX_TEMPLATES {
                return Err(wrong(&format!("holds more than {MAX_TEMPLATES} templates")));
            }
            n_templates += 1;
            self.add(&format!("{MORE}/{name}"), files::read_settings)?;
        }
        Ok(())
    }

    /// The names and bytes: those of `additional_chat_templates` with the folder's name and `/`.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let files = self.files.iter();
        files.map(|(name, bytes)| (name.as_str(), &bytes[..]))
    }

    /// The folder that they were read from.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path of a file, for messages.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        match self.folder.as_os_str().is_empty() {
            true => PathBuf::from(name),
            false => place(&self.folder, name),
        }
    }

    /// What a JSON file holds; null stands for one that is not there.
    pub(super) fn json(&self, name: &str) -> Result<Value> {
        let Some(bytes) = self.files.get(name) else {
            return Ok(Value::Null);
        };
        let parsed = serde_json::from_slice(bytes);
        parsed.map_err(|error| TextError::file(&self.path(name), error))
    }

    /// The templates of files by their names.
    pub(super) fn templates(&self) -> Result<BTreeMap<String, String>> {
        let more = format!("{MORE}/");
        let mut templates = BTreeMap::new();
        for (name, bytes) in &self.files {
            let short = match name.strip_prefix(&more) {
                Some(rest) => rest.strip_suffix(".jinja"),
                None => (name == TEMPLATE_FILE).then_some("default"),
            };
            let Some(short) = short else { continue };
            let text = String::from_utf8(bytes.clone());
            let text = text.map_err(|error| TextError::file(&self.path(name), error))?;
            // `chat_template.jinja` comes after the folder's, one of which may have its template's name.
            templates.insert(short.to_owned(), text);
        }
        Ok(templates)
    }
}
