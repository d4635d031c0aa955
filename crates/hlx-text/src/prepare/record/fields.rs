//! The keys of an object of JSON and their values.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use crate::jinja::Value;

/// The keys with their values, in the order of the text; those without a value are left out: null, and of keys
/// beside a record's own empty texts, lists and maps.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, Value)>);

/// Keys beside a record's own that would change what a model learns. Empty, they say nothing.
pub(super) const BESIDE: [&str; 11] = [
    "audios",
    "chat_template_kwargs",
    "context",
    "documents",
    "functions",
    "history",
    "images",
    "system",
    "system_prompt",
    "tools",
    "videos",
];

impl Fields {
    /// Reads an object.
    ///
    /// # Errors
    /// Another value, text that is no JSON, a key that is there twice.
    pub fn parse(json: &str) -> Result<Self, String> {
        let malformed = |error: serde_json::Error| format!("malformed JSON: {error}");
        if !json.trim_start().starts_with('{') {
            let value: Value = serde_json::from_str(json).map_err(malformed)?;
            return Err(format!("is {}, expected an object", kind_of(&value)));
        }
        let All(fields) = serde_json::from_str(json).map_err(malformed)?;
        let says = |(key, value): &(String, Value)| {
            let is_nothing = is_empty(value) && BESIDE.contains(&&**key);
            !is_null(value) && !is_nothing
        };
        Ok(Self(fields.into_iter().filter(says).collect()))
    }

    /// The names of the keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| &**name)
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value)
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn is_list(&self, name: &str) -> bool {
        self.get(name).is_some_and(is_list)
    }

    /// Whether the value is true or false.
    pub fn is_flag(&self, name: &str) -> bool {
        matches!(self.get(name), Some(Value::Bool(_)))
    }

    /// The text of a key.
    ///
    /// # Errors
    /// A value of another kind.
    pub fn text(&self, name: &str) -> Result<String, String> {
        Ok(self.text_if_any(name)?.unwrap_or_default())
    }

    /// The text of a key that may be missing, or hold an empty one.
    ///
    /// # Errors
    /// A value of another kind.
    pub fn text_if_any(&self, name: &str) -> Result<Option<String>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let text = value.as_str();
        let text = text.ok_or_else(|| expected(name, value, "a string"))?;
        Ok(Some(text.to_owned()).filter(|text| !text.is_empty()))
    }

    /// The name of a key that holds a list of objects.
    pub fn list_of_objects(&self) -> Option<&str> {
        let found = self.0.iter().find(|(_, value)| {
            let first = items_of(value).and_then(<[Value]>::first);
            first.is_some_and(is_object)
        });
        found.map(|(name, _)| &**name)
    }
}

pub(super) fn is_list(value: &Value) -> bool {
    items_of(value).is_some()
}

pub(super) fn is_object(value: &Value) -> bool {
    matches!(value, Value::Map(_))
}

pub(super) fn is_null(value: &Value) -> bool {
    matches!(value, Value::None)
}

/// Whether a text, a list or an object has nothing in it.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Text(text, _) => text.is_empty(),
        Value::List(list) => list.items.is_empty(),
        Value::Map(map) => map.pairs.is_empty(),
        _ => false,
    }
}

/// The items of a list; `None` of another value.
pub(super) fn items_of(value: &Value) -> Option<&[Value]> {
    match value {
        Value::List(list) => Some(&list.items),
        _ => None,
    }
}

/// The value of an object's key.
pub(super) fn attribute<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Map(map) => map.get_text(key),
        _ => None,
    }
}

/// The error of a value of another kind than expected.
pub(super) fn expected(name: &str, value: &Value, what: &str) -> String {
    format!("`{name}` is {}, expected {what}", kind_of(value))
}

/// What a value is, in words.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::None => "null",
        Value::Bool(_) => "true or false",
        Value::Int(_) | Value::Float(_) => "a number",
        Value::Text(..) => "a string",
        Value::List(_) => "a list",
        Value::Map(_) => "an object",
        _ => "another value",
    }
}

/// All keys of an object.
struct All(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for All {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Keys)
    }
}

struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = All;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<All, M::Error> {
        let mut all: Vec<(String, Value)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if all.iter().any(|(other, _)| *other == name) {
                return Err(M::Error::custom(format!("the key `{name}` is there twice")));
            }
            all.push((name, value));
        }
        Ok(All(all))
    }
}
