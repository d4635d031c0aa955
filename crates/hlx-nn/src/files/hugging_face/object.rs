//! A JSON object, of whose keys none is there twice without a word.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::keys::Notes;

/// Reads an object. Of a key that is there twice the last value is taken, as in Python, and a line says so where
/// the two differ.
pub(super) fn parse_object(bytes: &[u8], notes: &Notes) -> Result<Map<String, Value>, String> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let twice = RefCell::default();
    let value = Noting(&twice).deserialize(&mut reader);
    let value = value.and_then(|value| reader.end().map(|()| value));
    let Value::Object(values) = value.map_err(|error| error.to_string())? else {
        return Err("the file holds no object".to_owned());
    };
    let lines = twice
        .into_inner()
        .into_iter()
        .map(|name| format!("`{name}` is there twice with different values; the last is taken"));
    notes.borrow_mut().extend(lines);
    Ok(values)
}

/// Reads a value and notes the keys that are there twice.
#[derive(Clone, Copy)]
struct Noting<'a>(&'a RefCell<Vec<String>>);

impl<'de> DeserializeSeed<'de> for Noting<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Noting<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(self)?;
            if values.get(&name).is_some_and(|before| *before != value) {
                self.0.borrow_mut().push(name.clone());
            }
            values.insert(name, value);
        }
        // What is said of the keys has one order, whatever the file's is.
        values.sort_keys();
        Ok(Value::Object(values))
    }
}
