//! The fields of a request's JSON object, taken by name: what is left at the end is not known here.

use axum::http::HeaderMap;
use serde_json::{Map, Value};

use crate::error::ApiError;
use crate::unique::Unique;
use crate::wish::{Sent, Wish};

type Result<T> = std::result::Result<T, ApiError>;

/// An object whose fields are taken one by one. A field that is null is one that is not there.
#[derive(Debug)]
pub(crate) struct Fields {
    /// What is before the names in messages, such as `messages[2].`.
    path: String,
    rest: Map<String, Value>,
    /// How a whole body came.
    sent: Option<Sent>,
}

impl Fields {
    pub fn of_body(bytes: &[u8]) -> Result<Self> {
        let value = serde_json::from_slice::<Unique>(bytes);
        let value = value.map_err(|error| {
            let message = format!("the body is no JSON: {error}");
            ApiError::new(axum::http::StatusCode::BAD_REQUEST, message)
        })?;
        match value.0 {
            Value::Object(rest) => Ok(Self {
                path: String::new(),
                rest,
                sent: None,
            }),
            other => {
                let message = format!("the body is {}, expected an object", named(&other));
                Err(ApiError::new(axum::http::StatusCode::BAD_REQUEST, message))
            }
        }
    }

    /// The same with how the body came.
    #[must_use]
    pub fn with_sent(self, sent: Sent) -> Self {
        Self {
            sent: Some(sent),
            ..self
        }
    }

    /// What the header and the field `receipt` want; the field's nonce wins.
    pub fn take_wish(&mut self) -> Result<Wish> {
        let mut sent = match self.sent.take() {
            Some(sent) => sent,
            None => Sent::new("", &HeaderMap::new(), &[])?,
        };
        let header = sent.take_header();
        let mut is_shown = header.is_some();
        let mut nonce = header.filter(|text| !["1", "true"].contains(&text.as_str()));
        match self.take("receipt") {
            None => {}
            Some(Value::Bool(wanted)) => is_shown = wanted,
            Some(Value::Object(object)) => {
                is_shown = true;
                let mut object = Self::of_value("receipt", Value::Object(object))?;
                nonce = object.text("nonce")?.or(nonce);
                object.finish()?;
            }
            Some(other) => {
                let expected = "true, false or an object with a nonce";
                return Err(wrong("receipt", &other, expected));
            }
        }
        let wish = sent.wish(is_shown, nonce)?;
        self.sent = Some(sent);
        Ok(wish)
    }

    /// The object at a place of the body.
    pub fn of_value(path: &str, value: Value) -> Result<Self> {
        match value {
            Value::Object(rest) => Ok(Self {
                path: format!("{path}."),
                rest,
                sent: None,
            }),
            other => Err(wrong(path, &other, "an object")),
        }
    }

    /// The object as it is.
    pub fn shown(&self) -> Value {
        Value::Object(self.rest.clone())
    }

    pub fn path(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.rest.remove(name).filter(|value| !value.is_null())
    }

    /// What is left, in its order.
    pub fn into_rest(self) -> Map<String, Value> {
        self.rest
    }

    fn typed<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.take(name) else {
            return Ok(None);
        };
        match read(&value) {
            Some(read) => Ok(Some(read)),
            None => Err(wrong(&self.path(name), &value, expected)),
        }
    }

    pub fn text(&mut self, name: &str) -> Result<Option<String>> {
        self.typed(name, "a string", |value| value.as_str().map(str::to_owned))
    }

    /// A text that must be there.
    pub fn text_needed(&mut self, name: &str) -> Result<String> {
        let text = self.text(name)?;
        self.needed(name, text)
    }

    /// A value that must be there, whatever it is.
    pub fn value_needed(&mut self, name: &str) -> Result<Value> {
        let value = self.take(name);
        self.needed(name, value)
    }

    /// What `read` makes of each object of an array; of none if there is no array.
    pub fn each<T>(
        &mut self,
        name: &str,
        mut read: impl FnMut(Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let path = self.path(name);
        let all = self.list(name)?.unwrap_or_default();
        let all = all.into_iter().enumerate();
        all.map(|(at, value)| read(Self::of_value(&format!("{path}[{at}]"), value)?))
            .collect()
    }

    pub fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        self.typed(name, "true or false", Value::as_bool)
    }

    /// A number that an f32 holds.
    pub fn number(&mut self, name: &str) -> Result<Option<f32>> {
        let read = |value: &Value| value.as_f64().map(|number| number as f32);
        self.typed(name, "a number", |value| {
            read(value).filter(|number| number.is_finite())
        })
    }

    /// A whole number of a range.
    pub fn whole(
        &mut self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let read = |value: &Value| value.as_u64().filter(|number| range.contains(number));
        self.typed(name, &expected, read)
    }

    pub fn list(&mut self, name: &str) -> Result<Option<Vec<Value>>> {
        self.typed(name, "an array", |value| value.as_array().cloned())
    }

    pub fn object(&mut self, name: &str) -> Result<Option<Self>> {
        let path = self.path(name);
        self.take(name)
            .map(|value| Self::of_value(&path, value))
            .transpose()
    }

    /// A field that must be there.
    pub fn needed<T>(&self, name: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| {
            let path = self.path(name);
            ApiError::of_parameter(&path, "is missing").with_code("missing_parameter")
        })
    }

    /// Takes fields that change no answer.
    pub fn pass(&mut self, names: &[&str]) {
        for name in names {
            self.rest.remove(*name);
        }
    }

    /// Takes fields whose only known values change nothing; others are refused.
    pub fn pass_if(&mut self, usual: &[(&str, &[Value])]) -> Result<()> {
        for (name, values) in usual {
            if let Some(value) = self.take(name).filter(|value| !values.contains(value)) {
                let path = self.path(name);
                return Err(ApiError::unsupported(
                    &path,
                    format!("{} is not known here", shown(&value)),
                ));
            }
        }
        Ok(())
    }

    /// Fails if a field is left.
    pub fn finish(self) -> Result<()> {
        if let Some(sent) = &self.sent {
            sent.finish()?;
        }
        let left = self.rest.iter().find(|(_, value)| !value.is_null());
        match left {
            None => Ok(()),
            Some((name, _)) => Err(ApiError::unsupported(
                &format!("{}{name}", self.path),
                "is not known here",
            )),
        }
    }
}

/// A value of another kind than the one expected.
pub(crate) fn wrong(path: &str, value: &Value, expected: &str) -> ApiError {
    let found = match value {
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => named(value).to_owned(),
    };
    ApiError::of_parameter(path, format!("is {found}, expected {expected}"))
}

fn named(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The beginning of a value, for a line.
fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: &Value) -> Fields {
        Fields::of_body(value.to_string().as_bytes()).expect("an object")
    }

    #[test]
    fn fields_are_named_by_what_is_wrong_with_them() {
        let mut all = fields(&json!({"a": "x", "n": 1.5, "deep": {"b": 3}, "void": null}));
        let message = |error: ApiError| error.message;
        let found = all.number("a").expect_err("a string");
        assert_eq!(message(found), "a: is a string, expected a number");
        let found = all.whole("n", 0..=9).expect_err("a fraction");
        assert_eq!(
            message(found),
            "n: is 1.5, expected a whole number from 0 to 9"
        );
        let mut deep = all.object("deep").expect("an object").expect("is there");
        let found = deep.text("b").expect_err("a number");
        assert_eq!(
            (message(found), all.text("void")),
            ("deep.b: is 3, expected a string".to_owned(), Ok(None))
        );
        let found = all.needed("m", None::<u32>).expect_err("not there");
        assert_eq!(
            (found.param.as_deref(), found.code),
            (Some("m"), Some("missing_parameter"))
        );
        assert_eq!(all.finish(), Ok(()));
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let mut all = fields(&json!({"store": false, "tier": "auto", "user": "me", "extra": [1]}));
        all.pass(&["user"]);
        let usual = [("store", &[json!(false)][..]), ("tier", &[json!("auto")])];
        assert_eq!(all.pass_if(&usual), Ok(()));
        let found = all.finish().expect_err("a field is left");
        assert_eq!(found.message, "extra: is not known here");
        let mut other = fields(&json!({"store": true}));
        let found = other.pass_if(&usual).expect_err("another value");
        assert_eq!(found.message, "store: true is not known here");
        for (body, key) in [
            ("{\"a\": 1, \"b\": 2, \"a\": 1}", "a"),
            ("{\"b\": [{\"c\": 1, \"c\": null}]}", "c"),
            ("{\"\\u0061\": 1, \"a\": 2}", "a"),
        ] {
            let found = Fields::of_body(body.as_bytes()).expect_err("a key that is there twice");
            let expected = format!("the key \"{key}\" is there twice");
            assert!(found.message.contains(&expected), "{}", found.message);
        }
        for body in [
            "NaN",
            "{\"a\": NaN}",
            "{\"a\": 1e400}",
            "{\"a\": 01}",
            "{\"a\": 1} x",
        ] {
            assert!(Fields::of_body(body.as_bytes()).is_err(), "{body}");
        }
        for body in ["", "{", "[1]", "{\"a\": \"\u{0}\"}", "nul"] {
            assert!(Fields::of_body(body.as_bytes()).is_err(), "{body}");
        }
        assert!(Fields::of_body(b"{\"a\": \"\xff\"}").is_err(), "no UTF-8");
        let nested = "[".repeat(100_000);
        assert!(Fields::of_body(nested.as_bytes()).is_err(), "too nested");
    }
}
