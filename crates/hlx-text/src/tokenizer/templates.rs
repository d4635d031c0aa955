//! The chat templates and the names of special tokens that lie beside a tokenizer, by the precedence of
//! `transformers`: files with templates replace those of `tokenizer_config.json`.

use std::collections::BTreeMap;

use hlx_core::warn_once;
use serde_json::Value;

use super::beside::{PROCESSOR_FILE, TEMPLATE_FILE, TokenizerFiles};
use super::stated::TOKENIZER_CONFIG_FILE;
use crate::{Result, TextError};

/// Chat templates by their names; a single one is `default`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatTemplates {
    templates: BTreeMap<String, String>,
    tokens: Vec<(String, String)>,
}

impl ChatTemplates {
    /// Reads what files hold; `tokens` are the special tokens under the names that templates find.
    ///
    /// # Errors
    /// Files that hold no templates.
    pub(super) fn of(
        files: &TokenizerFiles,
        config: &Value,
        tokens: Vec<(String, String)>,
    ) -> Result<Self> {
        let of_key = |value: &Value, name: &str| {
            let wrong = |reason| TextError::file(&files.path(name), reason);
            stated(&value["chat_template"]).map_err(wrong)
        };
        let stated = of_key(config, TOKENIZER_CONFIG_FILE)?;
        let processor = of_key(&files.json(PROCESSOR_FILE)?, PROCESSOR_FILE)?;
        let of_files = files.templates()?;
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
                    files.path(file).display()
                ));
            }
        }
        if templates.values().any(|text| text.starts_with('\u{feff}')) {
            warn_once(&format!(
                "{}: a chat template begins with a byte order mark, which becomes part of each text",
                files.folder().display()
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

    /// The special tokens that are stated: the names that templates find, such as `unk_token`, and their texts.
    pub fn tokens(&self) -> &[(String, String)] {
        &self.tokens
    }
}

/// Whether templates of the same name differ.
fn differs(some: &BTreeMap<String, String>, others: &BTreeMap<String, String>) -> bool {
    let lines = |text: &String| text.replace("\r\n", "\n").trim_end().to_owned();
    let mut all = some.iter();
    all.any(|(name, text)| others.get(name).map(&lines) != Some(lines(text)))
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
