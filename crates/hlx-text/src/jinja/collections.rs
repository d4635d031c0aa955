//! Lists and maps of values, which know how large they print.

use std::collections::HashMap;
use std::sync::Arc;

use super::bounds::Size;
use super::error::{Result, fault};
use super::value::Value;

/// The elements of a list or a tuple.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub items: Vec<Value>,
    pub size: Size,
}

impl List {
    /// A list that is within the bounds.
    pub fn new(items: Vec<Value>) -> Result<Arc<Self>> {
        for item in &items {
            check_part(item)?;
        }
        let list = Self::unbounded(items);
        list.size.check()?;
        Ok(list)
    }

    /// A list of data that is measured where it becomes part of another value.
    pub fn unbounded(items: Vec<Value>) -> Arc<Self> {
        let mut size = Size::default();
        items.iter().for_each(|item| size.add(item.size()));
        size.depth += 1;
        size.elements += 1;
        Arc::new(Self { items, size })
    }
}

/// Refuses what changes its size.
fn check_part(value: &Value) -> Result<()> {
    match value {
        // A method that was not called holds its value.
        Value::Method(method) => check_part(&method.0),
        Value::Namespace(_) | Value::Loop(_) | Value::Counter(_) => Err(fault!(
            "a list, a map or a namespace cannot hold a namespace or `loop`"
        )),
        _ => Ok(()),
    }
}

/// Pairs in the order of their making.
#[derive(Debug, Default)]
pub(crate) struct Map {
    pub pairs: Vec<(Value, Value)>,
    /// The places of keys, where there are many.
    places: HashMap<Key, usize>,
    pub size: Size,
}

/// Maps of fewer pairs are searched.
const MANY: usize = 8;

/// A key, as Python compares them: 1, 1.0 and True are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    None,
    Int(i128),
    Float(u64),
    Text(Arc<str>),
    Tuple(Vec<Key>),
}

impl Key {
    /// The key of a value, if it can be one.
    pub fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::None => Self::None,
            Value::Bool(value) => Self::Int(i128::from(*value)),
            Value::Int(value) => Self::Int(*value),
            Value::Float(value) if value.fract() == 0.0 && value.abs() < 1e30 => {
                Self::Int(*value as i128)
            }
            Value::Float(value) => Self::Float(value.to_bits()),
            Value::Text(text, _) => Self::Text(text.clone()),
            Value::Tuple(list) => {
                let keys = list.items.iter().map(Self::of);
                Self::Tuple(keys.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// Whether it is the key of a value; long tuples are not made keys for it.
    fn is_of(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text(key), Value::Text(text, _)) => key == text,
            (Self::Tuple(keys), Value::Tuple(list)) => {
                let mut pairs = keys.iter().zip(&list.items);
                keys.len() == list.items.len() && pairs.all(|(key, item)| key.is_of(item))
            }
            (Self::Text(_) | Self::Tuple(_), _) | (_, Value::Text(..) | Value::Tuple(_)) => false,
            (key, value) => Self::of(value).as_ref() == Some(key),
        }
    }
}

impl Map {
    /// A map that is within the bounds. Of equal keys the first place and the last value stay.
    pub fn new(pairs: Vec<(Value, Value)>) -> Result<Arc<Self>> {
        for (key, value) in &pairs {
            if Key::of(key).is_none() {
                return Err(fault!("{} cannot be the key of a map", key.type_name()));
            }
            check_part(value)?;
        }
        let map = Self::unbounded(pairs);
        map.size.check()?;
        Ok(map)
    }

    /// A map of data that is measured where it becomes part of another value.
    pub fn unbounded(pairs: Vec<(Value, Value)>) -> Arc<Self> {
        let mut map = Self::default();
        let is_large = pairs.len() > MANY;
        for (key, value) in pairs {
            let Some(found) = Key::of(&key) else {
                continue;
            };
            let place = match is_large {
                true => map.places.get(&found).copied(),
                false => map.place(&found),
            };
            match place {
                Some(place) => map.pairs[place].1 = value,
                None => {
                    if is_large {
                        map.places.insert(found, map.pairs.len());
                    }
                    map.pairs.push((key, value));
                }
            }
        }
        for (key, value) in &map.pairs {
            map.size.add(key.size());
            map.size.add(value.size());
        }
        map.size.depth += 1;
        map.size.elements += 1;
        Arc::new(map)
    }

    fn place(&self, key: &Key) -> Option<usize> {
        let mut pairs = self.pairs.iter();
        pairs.position(|(other, _)| key.is_of(other))
    }

    /// The value of a key.
    pub fn get(&self, key: &Value) -> Option<&Value> {
        let key = Key::of(key)?;
        let place = match self.places.is_empty() {
            true => self.place(&key),
            false => self.places.get(&key).copied(),
        };
        place.map(|place| &self.pairs[place].1)
    }

    /// The value of a text.
    pub fn get_text(&self, key: &str) -> Option<&Value> {
        if !self.places.is_empty() {
            let key = Key::Text(key.into());
            return self.places.get(&key).map(|&place| &self.pairs[place].1);
        }
        let mut pairs = self.pairs.iter();
        let found = pairs.find(|(other, _)| other.as_str() == Some(key));
        found.map(|(_, value)| value)
    }
}
