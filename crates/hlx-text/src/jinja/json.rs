//! The filter `tojson`: `json.dumps` of Python.

use std::fmt::Write;

use super::bounds::{Fuel, MAX_TEXT_BYTES, check_width};
use super::collections::Map;
use super::error::{Error, Result, fault};
use super::print;
use super::value::Value;

/// How JSON is laid out.
#[derive(Debug)]
pub(crate) struct Layout {
    pub ensure_ascii: bool,
    /// The text of one step of indentation; without it all is one line.
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

impl Layout {
    /// Reads the arguments of `tojson`.
    pub fn of([ascii, indent, separators, sort]: [Option<Value>; 4]) -> Result<Self> {
        let indent = match indent {
            None | Some(Value::None) => None,
            Some(Value::Text(text, _)) => {
                check_width("tojson", text.len())?;
                Some(text.to_string())
            }
            Some(value) => {
                let width = value.as_int().ok_or_else(|| {
                    fault!(
                        "tojson: an indentation is a number or a text, not {}",
                        value.type_name()
                    )
                })?;
                let width = usize::try_from(width.max(0)).unwrap_or(usize::MAX);
                check_width("tojson", width)?;
                Some(" ".repeat(width))
            }
        };
        let default = if indent.is_some() { "," } else { ", " };
        let (item_separator, key_separator) = match separators {
            None | Some(Value::None) => (default.to_owned(), ": ".to_owned()),
            Some(value) => pair(&value)?,
        };
        Ok(Self {
            ensure_ascii: ascii.is_some_and(|value| value.truth()),
            indent,
            item_separator,
            key_separator,
            sort_keys: sort.is_some_and(|value| value.truth()),
        })
    }
}

fn pair(value: &Value) -> Result<(String, String)> {
    let items = match value {
        Value::List(list) | Value::Tuple(list) => &list.items[..],
        _ => &[],
    };
    match items {
        [Value::Text(item, _), Value::Text(key, _)] => {
            check_width("tojson", item.len().max(key.len()))?;
            Ok((item.to_string(), key.to_string()))
        }
        _ => Err(fault!("tojson: separators are two texts")),
    }
}

/// JSON of a value.
pub(crate) fn dumps(fuel: &mut Fuel, value: &Value, layout: Layout) -> Result<String> {
    let size = value.size();
    let step = layout.indent.as_ref().map_or(0, String::len);
    let separators = layout.item_separator.len() + layout.key_separator.len();
    // What may be made: texts of six characters for each byte, and a line of blanks for each element.
    let blanks = size.elements.saturating_mul(size.depth * step + separators);
    let bytes = blanks.saturating_add(size.bytes);
    if bytes > MAX_TEXT_BYTES {
        return Err(fault!(
            "tojson: the text would have up to {bytes} bytes; at most {MAX_TEXT_BYTES} are made"
        ));
    }
    fuel.text("tojson", bytes)?;
    fuel.elements(size.elements)?;
    let mut writer = Writer {
        text: String::new(),
        layout,
        depth: 0,
    };
    writer.value(value)?;
    Ok(writer.text)
}

struct Writer {
    text: String,
    layout: Layout,
    depth: usize,
}

impl Writer {
    fn value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::None => self.text.push_str("null"),
            Value::Bool(value) => self.text.push_str(if *value { "true" } else { "false" }),
            Value::Int(value) => _ = write!(self.text, "{value}"),
            Value::Float(value) => self.text.push_str(&number(*value)),
            Value::Text(text, _) => self.quoted(text),
            Value::List(list) | Value::Tuple(list) => {
                self.wrapped("[", "]", &list.items, |writer, item| writer.value(item))?;
            }
            Value::Group(group) => {
                let items = [group.key.clone(), group.list.clone()];
                self.wrapped("[", "]", &items, |writer, item| writer.value(item))?;
            }
            Value::Map(map) => self.map(map)?,
            other => return Err(fault!("tojson: {} has no JSON", other.type_name())),
        }
        Ok(())
    }

    fn map(&mut self, map: &Map) -> Result<()> {
        let mut pairs = map.pairs.iter().collect::<Vec<_>>();
        if self.layout.sort_keys {
            pairs = super::sorting::sorted(pairs, |(a, _), (b, _)| super::sorting::is_less(a, b))?;
        }
        self.wrapped("{", "}", &pairs, |writer, (key, value)| {
            let name = key_text(key)?;
            writer.quoted(&name);
            writer.text.push_str(&writer.layout.key_separator);
            writer.value(value)
        })
    }

    fn wrapped<T>(
        &mut self,
        begin: &str,
        end: &str,
        items: &[T],
        write: impl Fn(&mut Self, &T) -> Result<()>,
    ) -> Result<()> {
        self.text.push_str(begin);
        self.depth += 1;
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text.push_str(&self.layout.item_separator);
            }
            self.line();
            write(self, item)?;
        }
        self.depth -= 1;
        if !items.is_empty() {
            self.line();
        }
        self.text.push_str(end);
        match self.text.len() > MAX_TEXT_BYTES {
            true => Err(fault!(
                "tojson: the text has more than {MAX_TEXT_BYTES} bytes"
            )),
            false => Ok(()),
        }
    }

    fn line(&mut self) {
        if let Some(indent) = &self.layout.indent {
            self.text.push('\n');
            (0..self.depth).for_each(|_| self.text.push_str(indent));
        }
    }

    fn quoted(&mut self, value: &str) {
        self.text.push('"');
        for char in value.chars() {
            match char {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\x08' => self.text.push_str("\\b"),
                '\x0c' => self.text.push_str("\\f"),
                char if char < ' ' || (self.layout.ensure_ascii && char > '~') => {
                    for unit in char.encode_utf16(&mut [0; 2]) {
                        _ = write!(self.text, "\\u{unit:04x}");
                    }
                }
                char => self.text.push(char),
            }
        }
        self.text.push('"');
    }
}

fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        value => print::float(value),
    }
}

/// A key of a map as JSON's text.
fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key {
        Value::Text(text, _) => text.to_string(),
        Value::None => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Float(value) => number(*value),
        other => {
            return Err(fault!(
                "tojson: {} cannot be a key of JSON",
                other.type_name()
            ));
        }
    })
}
