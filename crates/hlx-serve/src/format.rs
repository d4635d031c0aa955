//! Answers of a form: JSON objects, and JSON of a schema.

mod following;

use std::sync::OnceLock;

use hlx_receipt::GrammarKind;
use hlx_train::engine::Guides;
use hlx_train::generate::TextModel;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::fields::Fields;
pub(crate) use following::Formats;

/// The bytes of a schema at most.
const LONGEST_SCHEMA: usize = 256 << 10;

/// A form, and the parameter that says it.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) path: String,
    pub(crate) grammar: Grammar,
}

#[derive(Clone, Debug)]
pub(crate) enum Grammar {
    Schema(Value),
    Lark(String),
}

impl Grammar {
    /// As receipts say it.
    fn stated(&self) -> hlx_receipt::Grammar {
        let (kind, text) = match self {
            Self::Schema(schema) => (GrammarKind::JsonSchema, schema.to_string()),
            Self::Lark(grammar) => (GrammarKind::Lark, grammar.clone()),
        };
        hlx_receipt::Grammar { kind, text }
    }

    fn of_stated(stated: &hlx_receipt::Grammar) -> Result<Self, String> {
        match stated.kind {
            GrammarKind::Lark => Ok(Self::Lark(stated.text.clone())),
            GrammarKind::JsonSchema => {
                let schema = serde_json::from_str(&stated.text);
                schema.map(Self::Schema).map_err(|error| error.to_string())
            }
        }
    }
}

/// Returns what makes guides to the grammars of receipts for a model.
pub fn guides_to(
    text: &TextModel,
) -> impl Fn(&hlx_receipt::Grammar) -> Result<Guides, String> + Send + Sync + '_ {
    let formats = OnceLock::new();
    move |grammar| {
        let formats = formats.get_or_init(|| Formats::new(text));
        formats.as_ref().map_err(String::clone)?.guides_to(grammar)
    }
}

impl Form {
    /// A form by a grammar of llguidance; `path` is the parameter that wants it.
    pub fn of_grammar(path: String, grammar: String) -> Self {
        Self {
            path,
            grammar: Grammar::Lark(grammar),
        }
    }
}

/// Reads a form; a text has none.
pub(crate) fn form_of(mut fields: Fields) -> Result<Option<Form>, ApiError> {
    let kind = fields.text("type")?;
    let form = match fields.needed("type", kind)?.as_str() {
        "text" => None,
        "json_object" => Some(Form {
            path: fields.path("type"),
            grammar: Grammar::Schema(json!({"type": "object"})),
        }),
        "json_schema" => {
            // Chat completions have the schema in an object of its own, responses beside the type.
            let inner = fields.object("json_schema")?;
            match inner {
                Some(mut inner) => {
                    let form = schema_of(&mut inner)?;
                    inner.finish()?;
                    Some(form)
                }
                None => Some(schema_of(&mut fields)?),
            }
        }
        other => {
            let reason =
                format!("{other:?} is not known here, expected text, json_object or json_schema");
            return Err(ApiError::unsupported(&fields.path("type"), reason));
        }
    };
    fields.finish()?;
    Ok(form)
}

fn schema_of(fields: &mut Fields) -> Result<Form, ApiError> {
    let schema = fields.value_needed("schema")?;
    let path = fields.path("schema");
    if schema.to_string().len() > LONGEST_SCHEMA {
        let reason = format!("has more than {LONGEST_SCHEMA} bytes");
        return Err(ApiError::of_parameter(&path, reason));
    }
    // An answer follows the schema whether it is strict or not.
    fields.pass(&["name", "description", "strict"]);
    let grammar = Grammar::Schema(schema);
    Ok(Form { path, grammar })
}
