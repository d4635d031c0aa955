//! The chat templates and the names of special tokens that lie beside a tokenizer, by the precedence of
//! `transformers`: files with templates replace those of `tokenizer_config.json`.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use hlx_core::files::{self, place};
use hlx_core::warn_once;
use serde_json::Value;

use super::stated::TOKENIZER_CONFIG_FILE;
use crate::{Result, TextError};

const TEMPLATE_FILE: &str = "chat_template.jinja";
/// The file of a processor of `transformers` 4.
const PROCESSOR_FILE: &str = "chat_template.json";
/// A folder of templates beside the default one: `NAME.jinja`.
const MORE: &str = "additional_chat_templates";
/// More templates than any model has.
const MAX_TEMPLATES: usize = 100;

/// Chat templates by their names; a single one is `default`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatTemplates {
    templates: BTreeMap<String, String>,
    tokens: Vec<(String, String)>,
}

impl ChatTemplates {
    /// Reads what lies in a folder; `tokens` are the special tokens under the names that templates find.
    ///
    /// # Errors
    /// Files that cannot be read, and those that hold no templates.
    pub(super) fn of(folder: &Path, config: &Value, tokens: Vec<(String, String)>) -> Result<Self> {
        let stated = stated(&config["chat_template"])
            .map_err(|reason| TextError::file(&place(folder, TOKENIZER_CONFIG_FILE), reason))?;
        let mut of_files = more(folder)?;
        if let Some(text) = read(folder, TEMPLATE_FILE)? {
            of_files.insert("default".to_owned(), text);
        }
        let processor = processor(folder)?;
        let (templates, from) = if !of_files.is_empty() {
            (of_files, TEMPLATE_FILE)
        } else if !stated.is_empty() {
            (stated.clone(), TOKENIZER_CONFIG_FILE)
        } else {
            (processor.clone(), PROCESSOR_FILE)
        };
        for (others, file) in [
            (&stated, TOKENIZER_CONFIG_FILE),
            (&processor, PROCESSOR_FILE),
        ] {
            if file != from && !others.is_empty() && differs(others, &templates) {
                warn_once(&format!(
                    "{}: its chat template differs from that of {from}, which is used",
                    place(folder, file).display()
                ));
            }
        }
        if templates.values().any(|text| text.starts_with('\u{feff}')) {
            warn_once(&format!(
                "{}: a chat template begins with a byte order mark, which becomes part of each text",
                folder.display()
            ));
        }
        Ok(Self { templates, tokens })
    }

    /// The template that is used where none is named: of the name `default`.
    pub fn default_source(&self) -> Option<&str> {
        self.templates.get("default").map(String::as_str)
    }

    /// The template for conversations with tools, where there is one of its own: of the name `tool_use`.
    pub fn tools_source(&self) -> Option<&str> {
        self.templates.get("tool_use").map(String::as_str)
    }

    /// The names of all templates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.templates.keys().map(String::as_str)
    }

    /// Special tokens under the names that templates find.
    pub(crate) fn tokens(&self) -> &[(String, String)] {
        &self.tokens
    }
}

/// Whether templates of the same name differ.
fn differs(some: &BTreeMap<String, String>, others: &BTreeMap<String, String>) -> bool {
    let lines = |text: &String| text.replace("\r\n", "\n").trim_end().to_owned();
    let mut all = some.iter();
    all.any(|(name, text)| others.get(name).map(&lines) != Some(lines(text)))
}

/// The text of a file that may be missing, as it is: `transformers` leaves a byte-order mark in it.
fn read(folder: &Path, name: &str) -> Result<Option<String>> {
    let path = place(folder, name);
    let bytes = match files::read_settings(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(TextError::file(&path, error)),
    };
    let text = String::from_utf8(bytes).map_err(|error| TextError::file(&path, error))?;
    Ok(Some(text))
}

/// Templates of the key `chat_template`: a text, a list of objects with `name` and `template`, or an object of texts.
fn stated(value: &Value) -> Result<BTreeMap<String, String>, String> {
    let wrong = "`chat_template` is a text, a list of {\"name\": .., \"template\": ..}, or an object of texts";
    let pair = |name: &str, text: &Value| {
        let text = text.as_str().ok_or(wrong)?;
        Ok((name.to_owned(), text.to_owned()))
    };
    match value {
        Value::Null => Ok(BTreeMap::new()),
        Value::String(text) => Ok([("default".to_owned(), text.clone())].into()),
        Value::Array(list) => {
            let pairs = list.iter().map(|template| {
                let name = template["name"].as_str().ok_or(wrong)?;
                pair(name, &template["template"])
            });
            pairs.collect::<Result<_, &str>>().map_err(str::to_owned)
        }
        Value::Object(all) => {
            let pairs = all.iter().map(|(name, text)| pair(name, text));
            pairs.collect::<Result<_, &str>>().map_err(str::to_owned)
        }
        _ => Err(wrong.to_owned()),
    }
}

/// The templates of the folder `additional_chat_templates`.
fn more(folder: &Path) -> Result<BTreeMap<String, String>> {
    let more = place(folder, MORE);
    let wrong = |error: &dyn std::fmt::Display| TextError::file(&more, error);
    let entries = match fs::read_dir(&more) {
        Ok(entries) => entries,
        Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => {
            return Ok(BTreeMap::new());
        }
        Err(error) => return Err(wrong(&error)),
    };
    let mut templates = BTreeMap::new();
    for entry in entries {
        let name = entry.map_err(|error| wrong(&error))?.file_name();
        let name = name.to_string_lossy();
        let Some(short) = name.strip_suffix(".jinja") else {
            continue;
        };
        if templates.len() == MAX_TEMPLATES {
            return Err(wrong(&format!("holds more than {MAX_TEMPLATES} templates")));
        }
        if let Some(text) = read(&more, &name)? {
            templates.insert(short.to_owned(), text);
        }
    }
    Ok(templates)
}

/// The template of a processor's file.
fn processor(folder: &Path) -> Result<BTreeMap<String, String>> {
    let Some(text) = read(folder, PROCESSOR_FILE)? else {
        return Ok(BTreeMap::new());
    };
    let path = place(folder, PROCESSOR_FILE);
    let json: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| TextError::file(&path, error))?;
    stated(&json["chat_template"]).map_err(|reason| TextError::file(&path, reason))
}
