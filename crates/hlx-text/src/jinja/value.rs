//! Values of templates: those of Python that JSON and Jinja make. They do not change, except namespaces and iterators.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::bounds::Size;
use super::error::{Result, fault};
use super::objects::{Counter, Group, LoopState, Macro};

/// Names and their values.
pub(crate) type Names = Vec<(Arc<str>, Value)>;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// What is missing: why.
    Undefined(Arc<str>),
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// A text, and whether it is safe to print where texts are escaped.
    Text(Arc<str>, bool),
    List(Arc<List>),
    Tuple(Arc<List>),
    Map(Arc<Map>),
    /// `range(start, stop, step)`.
    Range(i128, i128, i128),
    View(View, Arc<Map>),
    /// What is read once, as Python's generators.
    Iterator(Arc<Iter>),
    Namespace(Arc<Mutex<Names>>),
    Loop(Arc<Mutex<LoopState>>),
    Macro(Arc<Macro>),
    Counter(Arc<Mutex<Counter>>),
    Group(Arc<Group>),
    /// A function of the engine.
    Function(&'static str),
    /// A method that is not called yet.
    Method(Arc<(Value, Arc<str>)>),
}

/// What a view of a map shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum View {
    Keys,
    Values,
    Items,
}

/// The elements of a list or a tuple.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub items: Vec<Value>,
    size: Size,
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
    size: Size,
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
        pairs.position(|(other, _)| Key::of(other).as_ref() == Some(key))
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

/// An iterator over elements that are made already.
#[derive(Debug)]
pub(crate) struct Iter {
    pub list: Arc<List>,
    at: AtomicUsize,
}

impl Iter {
    /// The next element.
    pub fn next(&self) -> Option<Value> {
        let at = self.at.fetch_add(1, Ordering::Relaxed);
        self.list.items.get(at).cloned()
    }

    fn rest(&self) -> Vec<Value> {
        let at = self.at.swap(self.list.items.len(), Ordering::Relaxed);
        self.list.items[at.min(self.list.items.len())..].to_vec()
    }
}

impl Value {
    pub fn text(text: impl Into<Arc<str>>) -> Self {
        Self::Text(text.into(), false)
    }

    pub fn list(items: Vec<Value>) -> Result<Self> {
        Ok(Self::List(List::new(items)?))
    }

    pub fn tuple(items: Vec<Value>) -> Result<Self> {
        Ok(Self::Tuple(List::new(items)?))
    }

    pub fn map(pairs: Vec<(Value, Value)>) -> Result<Self> {
        Ok(Self::Map(Map::new(pairs)?))
    }

    pub fn iterator(items: Vec<Value>) -> Result<Self> {
        let list = List::new(items)?;
        let at = AtomicUsize::new(0);
        Ok(Self::Iterator(Arc::new(Iter { list, at })))
    }

    pub fn undefined(reason: impl Into<Arc<str>>) -> Self {
        Self::Undefined(reason.into())
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined(_))
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text, _) => Some(text),
            _ => None,
        }
    }

    /// An integer, or a bool as one.
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    /// A number as a float.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            other => other.as_int().map(|value| value as f64),
        }
    }

    /// How large it is where it is printed.
    pub fn size(&self) -> Size {
        let one = Size {
            elements: 1,
            ..Size::default()
        };
        match self {
            Self::Text(text, _) => Size {
                bytes: text.len(),
                ..one
            },
            Self::List(list) | Self::Tuple(list) => list.size,
            Self::Iterator(iter) => iter.list.size,
            Self::Map(map) | Self::View(_, map) => map.size,
            Self::Group(group) => group.list.size(),
            Self::Method(method) => {
                let mut size = method.0.size();
                size.depth += 1;
                size
            }
            Self::Range(..) => Size {
                elements: self.length().unwrap_or(1) + 1,
                depth: 1,
                ..one
            },
            _ => one,
        }
    }

    /// Whether a condition holds for it.
    pub fn truth(&self) -> bool {
        match self {
            Self::Undefined(_) | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(..)
            | Self::List(_)
            | Self::Tuple(_)
            | Self::Map(_)
            | Self::Range(..)
            | Self::View(..) => self.length().is_some_and(|length| length > 0),
            _ => true,
        }
    }

    /// Python's `len`, where a value has one.
    pub fn length(&self) -> Option<usize> {
        Some(match self {
            Self::Undefined(_) => 0,
            Self::Text(text, _) => text.chars().count(),
            Self::List(list) | Self::Tuple(list) => list.items.len(),
            Self::Map(map) | Self::View(_, map) => map.pairs.len(),
            Self::Range(start, stop, step) => {
                let span = if *step > 0 {
                    stop - start
                } else {
                    start - stop
                };
                let steps = (span + step.abs() - 1) / step.abs();
                usize::try_from(steps.max(0)).unwrap_or(usize::MAX)
            }
            Self::Group(_) => 2,
            Self::Loop(state) => lock(state).items.len(),
            _ => return None,
        })
    }

    /// The elements that a loop over the value has; reads an iterator to its end.
    pub fn items(&self) -> Result<Vec<Value>> {
        Ok(match self {
            Self::Undefined(_) => Vec::new(),
            Self::Text(text, safe) => {
                let chars = text.chars();
                chars
                    .map(|char| Self::Text(char.to_string().into(), *safe))
                    .collect()
            }
            Self::List(list) | Self::Tuple(list) => list.items.clone(),
            Self::Map(map) => map.pairs.iter().map(|(key, _)| key.clone()).collect(),
            Self::View(view, map) => viewed(*view, map)?,
            Self::Range(start, _, step) => {
                let n = self.length().unwrap_or(0) as i128;
                (0..n).map(|i| Self::Int(start + i * step)).collect()
            }
            Self::Iterator(iter) => iter.rest(),
            Self::Group(group) => vec![group.key.clone(), group.list.clone()],
            other => return Err(fault!("{} is not iterable", other.type_name())),
        })
    }

    /// Python's name of its type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Undefined(_) => "Undefined",
            Self::None => "None",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(..) => "str",
            Self::List(_) => "list",
            Self::Tuple(_) | Self::Group(_) => "tuple",
            Self::Map(_) => "dict",
            Self::Range(..) => "range",
            Self::View(View::Keys, _) => "dict_keys",
            Self::View(View::Values, _) => "dict_values",
            Self::View(View::Items, _) => "dict_items",
            Self::Iterator(_) => "generator",
            Self::Namespace(_) => "namespace",
            Self::Loop(_) => "loop",
            Self::Macro(_) => "macro",
            Self::Counter(_) => "cycler or joiner",
            Self::Function(_) => "function",
            Self::Method(_) => "method",
        }
    }
}

fn viewed(view: View, map: &Map) -> Result<Vec<Value>> {
    let pairs = map.pairs.iter();
    pairs
        .map(|(key, value)| match view {
            View::Keys => Ok(key.clone()),
            View::Values => Ok(value.clone()),
            View::Items => Value::tuple(vec![key.clone(), value.clone()]),
        })
        .collect()
}

/// Locks what one thread alone uses.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        super::ops::equal(self, other)
    }
}
