//! The metadata of a file: keys and values in the file's order.

use std::collections::HashMap;

use crate::error::shown;
use crate::value::{Array, Value};

/// The keys and values of a file, in its order.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    places: HashMap<String, usize>,
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Metadata {
    /// Sets a key; a new one comes last.
    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        let value = value.into();
        match self.places.get(key) {
            Some(&place) => self.entries[place].1 = value,
            None => {
                self.places.insert(key.to_owned(), self.entries.len());
                self.entries.push((key.to_owned(), value));
            }
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let place = self.places.get(key)?;
        Some(&self.entries[*place].1)
    }

    /// The keys and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(key, value)| (&key[..], value))
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.get(key) else {
            return Ok(None);
        };
        let converted = convert(value);
        converted.map(Some).ok_or_else(|| {
            let (key, found) = (shown(key), value.type_name());
            format!("`{key}` is {found} ({}), expected {expected}", brief(value))
        })
    }

    /// The count of a key, if there is one.
    ///
    /// # Errors
    /// The end of a sentence that names the key: so for the next ones.
    pub fn count(&self, key: &str) -> Result<Option<usize>, String> {
        self.typed(key, "a whole number that is not negative", |value| {
            usize::try_from(value.as_count()?).ok()
        })
    }

    /// The number of a key, if there is one.
    ///
    /// # Errors
    /// As [`Metadata::count`].
    pub fn number(&self, key: &str) -> Result<Option<f64>, String> {
        let finite = |value: &Value| value.as_number().filter(|value| value.is_finite());
        self.typed(key, "a finite number", finite)
    }

    /// The truth of a key, if there is one.
    ///
    /// # Errors
    /// As [`Metadata::count`].
    pub fn truth(&self, key: &str) -> Result<Option<bool>, String> {
        self.typed(key, "true or false", Value::as_truth)
    }

    /// The text of a key, if there is one.
    ///
    /// # Errors
    /// As [`Metadata::count`].
    pub fn text(&self, key: &str) -> Result<Option<&str>, String> {
        self.typed(key, "a text", Value::as_text)
    }

    /// The texts of a key, if there is one.
    ///
    /// # Errors
    /// As [`Metadata::count`].
    pub fn texts(&self, key: &str) -> Result<Option<&[String]>, String> {
        self.typed(key, "a list of texts", |value| value.as_array()?.as_texts())
    }

    /// The counts of a key, if there is one.
    ///
    /// # Errors
    /// As [`Metadata::count`].
    pub fn counts(&self, key: &str) -> Result<Option<Vec<u64>>, String> {
        let convert = |value: &Value| value.as_array().and_then(Array::as_counts);
        self.typed(key, "a list of whole numbers", convert)
    }

    /// The numbers of a key, if there is one.
    ///
    /// # Errors
    /// As [`Metadata::count`].
    pub fn numbers(&self, key: &str) -> Result<Option<Vec<f64>>, String> {
        let convert = |value: &Value| value.as_array().and_then(Array::as_numbers);
        self.typed(key, "a list of numbers", convert)
    }
}

/// A value in a message.
fn brief(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("`{}`", shown(text)),
        Value::Array(array) => format!("{} elements", array.len()),
        Value::Bool(value) => value.to_string(),
        other => match (other.as_count(), other) {
            (Some(count), _) => count.to_string(),
            (None, Value::F32(value)) => value.to_string(),
            (None, Value::F64(value)) => value.to_string(),
            (None, Value::I64(value)) => value.to_string(),
            (None, other) => other
                .as_number()
                .map_or_else(String::new, |number| number.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_by_their_meaning_and_refused_by_name() {
        let mut metadata = Metadata::default();
        metadata.set("layers", 7_i64);
        metadata.set("layers", 8_u16);
        metadata.set("base", 1e6_f32);
        metadata.set("name", "a\u{1b}b");
        metadata.set("widths", vec![1_u32, 2]);
        metadata.set("less", -1_i32);
        assert_eq!(metadata.len(), 5);
        assert_eq!(metadata.count("layers"), Ok(Some(8)));
        assert_eq!(metadata.number("layers"), Ok(Some(8.0)));
        assert_eq!(metadata.number("base"), Ok(Some(1e6)));
        assert_eq!(metadata.counts("widths"), Ok(Some(vec![1, 2])));
        assert_eq!(metadata.count("none"), Ok(None));
        let wrong = |found: Result<Option<usize>, String>| found.expect_err("no count");
        assert_eq!(
            wrong(metadata.count("name")),
            "`name` is a text (`a\\u{1b}b`), expected a whole number that is not negative"
        );
        assert_eq!(
            wrong(metadata.count("less")),
            "`less` is a whole number (-1), expected a whole number that is not negative"
        );
        assert_eq!(
            wrong(metadata.count("widths")),
            "`widths` is a list (2 elements), expected a whole number that is not negative"
        );
    }
}
