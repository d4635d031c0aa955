//! Prompts as texts and as tokens.

use serde_json::Value;

use crate::app::Model;
use crate::error::ApiError;
use crate::fields::wrong;

/// Prompts of a request at most.
const MOST: usize = 2048;

/// A prompt as it came, and as tokens.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub text: String,
    pub ids: Vec<u32>,
}

/// Prompts as they came, with their places in the body.
#[derive(Clone, Debug)]
pub(crate) struct Prompts(Vec<(String, Given)>);

#[derive(Clone, Debug)]
enum Given {
    Text(String),
    Ids(Vec<u32>),
}

impl Prompts {
    /// Reads a text, texts, tokens, or lists of tokens.
    pub fn read(name: &str, value: Value) -> Result<Self, ApiError> {
        const EXPECTED: &str = "a string, an array of strings, of tokens, or of arrays of tokens";
        let Value::Array(all) = value else {
            return match value {
                Value::String(text) => Ok(Self(vec![(name.to_owned(), Given::Text(text))])),
                other => Err(wrong(name, &other, EXPECTED)),
            };
        };
        if all.first().is_some_and(Value::is_number) {
            return Ok(Self(vec![(name.to_owned(), Given::Ids(ids(name, &all)?))]));
        }
        if all.is_empty() || all.len() > MOST {
            let reason = format!("has {} prompts, expected 1 to {MOST}", all.len());
            return Err(ApiError::of_parameter(name, reason));
        }
        let read = all.into_iter().enumerate().map(|(at, one)| {
            let path = format!("{name}[{at}]");
            let given = match one {
                Value::String(text) => Given::Text(text),
                Value::Array(all) => Given::Ids(ids(&path, &all)?),
                other => return Err(wrong(&path, &other, "a string or an array of tokens")),
            };
            Ok((path, given))
        });
        Ok(Self(read.collect::<Result<_, _>>()?))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The prompts as tokens of a model.
    pub async fn encode(self, model: &Model) -> Result<Vec<Prompt>, ApiError> {
        let model = model.clone();
        let encode = move || {
            let all = self.0.into_iter();
            let encoded = all.map(|(path, given)| encode(&model, &path, given));
            encoded.collect::<Result<Vec<_>, _>>()
        };
        let done = tokio::task::spawn_blocking(encode).await;
        done.map_err(|error| ApiError::internal(error.to_string()))?
    }
}

fn ids(path: &str, all: &[Value]) -> Result<Vec<u32>, ApiError> {
    let id = |(at, value): (usize, &Value)| {
        let id = value.as_u64().and_then(|id| u32::try_from(id).ok());
        id.ok_or_else(|| wrong(&format!("{path}[{at}]"), value, "a token's number"))
    };
    all.iter().enumerate().map(id).collect()
}

fn encode(model: &Model, path: &str, given: Given) -> Result<Prompt, ApiError> {
    match given {
        Given::Text(text) => Ok(Prompt {
            ids: model.encode(path, &text)?,
            text,
        }),
        Given::Ids(ids) => {
            model.check(path, &ids)?;
            let text = model.text().tokenizer.decode(&ids);
            let text = text.map_err(|error| ApiError::of_parameter(path, error))?;
            Ok(Prompt { text, ids })
        }
    }
}
