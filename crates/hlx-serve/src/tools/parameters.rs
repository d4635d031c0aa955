//! Calls in tags, as Qwen3-Coder writes them: `<function=NAME><parameter=KEY>value</parameter></function>`.

use serde_json::{Value, json};

use super::object::Step;
use super::style::{END_FUNCTION, END_PARAMETER, FUNCTION, PARAMETER};

/// A call in tags while it grows. Its arguments become JSON, with the types of the function's schema.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters {
    name: Option<String>,
    /// The function's schema.
    schema: Value,
    n_parameters: usize,
    has_ended: bool,
}

impl Parameters {
    /// Takes characters from the beginning of a text; `schema_of` gives the schema of a function.
    pub fn step(&mut self, held: &mut String, schema_of: impl Fn(&str) -> Value) -> Step {
        if self.has_ended {
            return Step::End;
        }
        let blank = held.len() - held.trim_start().len();
        let text = &held[blank..];
        if self.name.is_none() {
            let Some(rest) = text.strip_prefix(FUNCTION) else {
                return wait_for(text, &[FUNCTION]);
            };
            let Some((name, _)) = rest.split_once('>') else {
                return Step::Wait;
            };
            let n = blank + FUNCTION.len() + name.len() + 1;
            let name = name.trim().to_owned();
            held.drain(..n);
            if name.is_empty() {
                return Step::Fault;
            }
            self.schema = schema_of(&name);
            self.name = Some(name.clone());
            return Step::Named(name);
        }
        if let Some(rest) = text.strip_prefix(PARAMETER) {
            let found = rest.split_once('>').and_then(|(key, rest)| {
                let (value, _) = rest.split_once(END_PARAMETER)?;
                Some((key, value))
            });
            let Some((key, value)) = found else {
                return Step::Wait;
            };
            let n = PARAMETER.len() + key.len() + 1 + value.len() + END_PARAMETER.len();
            let begin = if self.n_parameters == 0 { "{" } else { ", " };
            let properties = &self.schema["properties"][key.trim()];
            let arguments = format!("{begin}{}: {}", json!(key.trim()), typed(value, properties));
            held.drain(..blank + n);
            self.n_parameters += 1;
            return Step::Arguments(arguments);
        }
        let is_end = text.starts_with(END_FUNCTION);
        if !is_end && is_begin(text, &[END_FUNCTION, PARAMETER]) {
            return Step::Wait;
        }
        // What is no parameter ends the call.
        if is_end {
            held.drain(..blank + END_FUNCTION.len());
        }
        self.has_ended = true;
        Step::Arguments(self.rest().to_owned())
    }

    /// What makes the arguments so far an object.
    pub fn rest(&self) -> &'static str {
        if self.n_parameters == 0 { "{}" } else { "}" }
    }
}

fn wait_for(text: &str, marks: &[&str]) -> Step {
    match is_begin(text, marks) {
        true => Step::Wait,
        false => Step::Fault,
    }
}

/// Whether a text may become one that begins with a mark.
pub(super) fn is_begin(text: &str, marks: &[&str]) -> bool {
    marks.iter().any(|mark| mark.starts_with(text))
}

/// A value as JSON: a text where the schema knows no other type, or where it is none of these.
fn typed(value: &str, schema: &Value) -> Value {
    let value = value.strip_prefix('\n').unwrap_or(value);
    let value = value.strip_suffix('\n').unwrap_or(value);
    let text = || json!(value);
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        Value::Null if schema.is_object() => vec!["any"],
        _ => vec!["string"],
    };
    if kinds.contains(&"string") {
        let is_null = kinds.contains(&"null") && value.trim() == "null";
        return if is_null { Value::Null } else { text() };
    }
    let word = value.trim();
    match (kinds.contains(&"boolean"), word) {
        // As Python writes them.
        (true, "True") => json!(true),
        (true, "False") => json!(false),
        _ => serde_json::from_str(word).unwrap_or_else(|_| text()),
    }
}
