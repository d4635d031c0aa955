//! Values of templates: those of Python that JSON and Jinja make. They do not change, except namespaces and iterators.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::bounds::{Fuel, Size};
use super::collections::{List, Map};
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
            Self::Group(group) => group.size(),
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
            Self::Text(text, _) => !text.is_empty(),
            Self::List(_) | Self::Tuple(_) | Self::Map(_) | Self::Range(..) | Self::View(..) => {
                self.length().is_some_and(|length| length > 0)
            }
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

    /// The elements that a loop over the value has, whose making is charged; reads an iterator to its end.
    pub fn items(&self, fuel: &mut Fuel) -> Result<Vec<Value>> {
        let n = self.length().unwrap_or(0);
        match self {
            Self::Text(text, _) => {
                fuel.pass(text.len() / 512)?;
                fuel.elements(n)?;
            }
            Self::Iterator(iter) => fuel.pass(iter.list.items.len())?,
            _ => fuel.pass(n)?,
        }
        self.elements()
    }

    /// As [`Value::items`], of a value that is charged already.
    pub fn elements(&self) -> Result<Vec<Value>> {
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
