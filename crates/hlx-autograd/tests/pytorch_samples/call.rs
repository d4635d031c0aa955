//! A call of an operation by PyTorch's arguments: read one by one, so that none is overlooked.

use std::cell::RefCell;
use std::collections::BTreeSet;

use hlx_autograd::{AutogradError, DType, Tensor};
use hlx_core::Device;
use serde_json::Value;

use crate::fixture::{Fixture, dtype, list};
use crate::tensors::tensor;

/// Why an operation was not carried out.
#[derive(Debug)]
pub enum Refused {
    /// HLX's error.
    Error(AutogradError),
    /// HLX has no such form, so that the call cannot be written.
    Form(String),
}

impl From<AutogradError> for Refused {
    fn from(error: AutogradError) -> Self {
        Self::Error(error)
    }
}

pub type Outcome<T> = Result<T, Refused>;

/// Refuses a form.
pub fn no_form<T>(text: impl Into<String>) -> Outcome<T> {
    Err(Refused::Form(text.into()))
}

/// An argument.
#[derive(Clone, Debug)]
pub enum Arg {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Type(DType),
    List(Vec<Arg>),
    Tensor(Tensor),
    Slice([Option<i64>; 3]),
    Ellipsis,
    /// What HLX has no notion of, such as a memory format.
    Other(String),
}

/// The arguments of a sample.
pub struct Call {
    pub device: Device,
    positional: Vec<Arg>,
    keywords: Vec<(String, Arg)>,
    read: RefCell<BTreeSet<String>>,
}

impl Call {
    /// Makes the arguments of a sample on a device.
    ///
    /// # Errors
    /// What the device reports.
    pub fn new(device: &Device, fixture: &Fixture, sample: &Value) -> Result<Self, AutogradError> {
        let argument = |value: &Value| argument(device, fixture, value);
        let keywords = sample["k"].as_object().into_iter().flatten();
        let keywords = keywords.map(|(name, value)| Ok((name.clone(), argument(value)?)));
        let mut keywords = keywords.collect::<Result<Vec<_>, AutogradError>>()?;
        keywords.sort_by(|one, two| one.0.cmp(&two.0));
        Ok(Self {
            device: device.clone(),
            positional: list(&sample["a"])
                .iter()
                .map(argument)
                .collect::<Result<_, _>>()?,
            keywords,
            read: RefCell::default(),
        })
    }

    /// The leaves that collect gradients, in the fixture's order.
    pub fn leaves(&self) -> Vec<Tensor> {
        let mut leaves = Vec::new();
        let arguments = self.positional.iter();
        arguments
            .chain(self.keywords.iter().map(|(_, argument)| argument))
            .for_each(|argument| collect(argument, &mut leaves));
        leaves
    }

    /// An argument by its place or its name; `None` stands for itself and for one that is missing.
    pub fn get(&self, place: usize, name: &str) -> Option<&Arg> {
        let by_name = self.keywords.iter().find(|(other, _)| other == name);
        let found = match by_name {
            Some((_, argument)) => {
                self.read.borrow_mut().insert(name.to_owned());
                Some(argument)
            }
            None => {
                self.read.borrow_mut().insert(place.to_string());
                self.positional.get(place)
            }
        };
        found.filter(|argument| !matches!(argument, Arg::None))
    }

    /// The number of arguments by place.
    pub fn n_positional(&self) -> usize {
        self.positional.len()
    }

    /// The arguments that nothing has read, except for those of placement, which mean nothing here.
    pub fn unread(&self) -> Vec<String> {
        let read = self.read.borrow();
        let places =
            (0..self.positional.len()).filter(|&i| !matches!(self.positional[i], Arg::None));
        let places = places.map(|place| place.to_string());
        let given = self
            .keywords
            .iter()
            .filter(|(_, argument)| !matches!(argument, Arg::None));
        let names = given.map(|(name, _)| name.clone());
        let meaningless = [
            "device",
            "layout",
            "memory_format",
            "pin_memory",
            "requires_grad",
        ];
        let unread = places.chain(names).filter(|name| !read.contains(name));
        unread
            .filter(|name| !meaningless.contains(&name.as_str()))
            .collect()
    }

    pub fn x(&self) -> Outcome<&Tensor> {
        self.tensor(0, "input")
    }

    pub fn tensor(&self, place: usize, name: &str) -> Outcome<&Tensor> {
        match self.optional_tensor(place, name)? {
            Some(tensor) => Ok(tensor),
            None => no_form(format!("no `{name}`")),
        }
    }

    pub fn optional_tensor(&self, place: usize, name: &str) -> Outcome<Option<&Tensor>> {
        match self.get(place, name) {
            Some(Arg::Tensor(tensor)) => Ok(Some(tensor)),
            None => Ok(None),
            Some(_) => no_form(format!("`{name}` that is no tensor")),
        }
    }

    pub fn tensors(&self, place: usize, name: &str) -> Outcome<Vec<&Tensor>> {
        let Some(Arg::List(items)) = self.get(place, name) else {
            return no_form(format!("`{name}` that is no list of tensors"));
        };
        let tensors = items.iter().map(|item| match item {
            Arg::Tensor(tensor) => Ok(tensor),
            _ => no_form(format!("`{name}` that is no list of tensors")),
        });
        tensors.collect()
    }

    pub fn int(&self, place: usize, name: &str) -> Outcome<Option<i64>> {
        match self.get(place, name) {
            Some(&Arg::Int(value)) => Ok(Some(value)),
            Some(&Arg::Bool(value)) => Ok(Some(value.into())),
            None => Ok(None),
            Some(other) => no_form(format!("`{name}` {}", kind(other))),
        }
    }

    pub fn dim(&self, place: usize, name: &str, default: isize) -> Outcome<isize> {
        Ok(self.int(place, name)?.map_or(default, |dim| dim as isize))
    }

    pub fn float(&self, place: usize, name: &str, default: f64) -> Outcome<f64> {
        match self.get(place, name) {
            Some(argument) => match number(argument) {
                Some(value) => Ok(value),
                None => no_form(format!("`{name}` {}", kind(argument))),
            },
            None => Ok(default),
        }
    }

    pub fn flag(&self, place: usize, name: &str, default: bool) -> Outcome<bool> {
        Ok(self.int(place, name)?.map_or(default, |value| value != 0))
    }

    pub fn text(&self, place: usize, name: &str) -> Outcome<Option<&str>> {
        match self.get(place, name) {
            Some(Arg::Text(text)) => Ok(Some(text)),
            None => Ok(None),
            Some(other) => no_form(format!("`{name}` {}", kind(other))),
        }
    }

    pub fn dtype(&self, place: usize, name: &str) -> Outcome<Option<DType>> {
        match self.get(place, name) {
            Some(&Arg::Type(dtype)) => Ok(Some(dtype)),
            None => Ok(None),
            Some(other) => no_form(format!("`{name}` {}", kind(other))),
        }
    }

    /// Whole numbers: one, or a list of them.
    pub fn ints(&self, place: usize, name: &str) -> Outcome<Option<Vec<i64>>> {
        match self.get(place, name) {
            None => Ok(None),
            Some(argument) => match whole_numbers(argument) {
                Some(numbers) => Ok(Some(numbers)),
                None => no_form(format!("`{name}` {}", kind(argument))),
            },
        }
    }

    /// Whole numbers: one, a list, or all arguments from a place on.
    pub fn rest(&self, place: usize, name: &str) -> Outcome<Vec<i64>> {
        if self.positional.len() <= place + 1 {
            return Ok(self.ints(place, name)?.unwrap_or_default());
        }
        let all = (place..self.positional.len()).map(|i| self.int(i, name));
        Ok(all
            .collect::<Outcome<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    }
}

fn collect(argument: &Arg, leaves: &mut Vec<Tensor>) {
    match argument {
        Arg::Tensor(tensor) if tensor.requires_grad() => leaves.push(tensor.clone()),
        Arg::List(items) => items.iter().for_each(|item| collect(item, leaves)),
        _ => {}
    }
}

/// A number of any kind.
pub fn number(argument: &Arg) -> Option<f64> {
    match *argument {
        Arg::Int(value) => Some(value as f64),
        Arg::Float(value) => Some(value),
        Arg::Bool(value) => Some(f64::from(u8::from(value))),
        _ => None,
    }
}

fn whole_numbers(argument: &Arg) -> Option<Vec<i64>> {
    match argument {
        &Arg::Int(value) => Some(vec![value]),
        Arg::List(items) => items
            .iter()
            .map(|item| match *item {
                Arg::Int(value) => Some(value),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// What an argument is, for refusals.
pub fn kind(argument: &Arg) -> String {
    match argument {
        Arg::None => "of None".to_owned(),
        Arg::Bool(_) => "that is a bool".to_owned(),
        Arg::Int(_) => "that is an integer".to_owned(),
        Arg::Float(_) => "that is a float".to_owned(),
        Arg::Text(text) => format!("`{text}`"),
        Arg::Type(dtype) => format!("of {dtype}"),
        Arg::List(_) => "that is a list".to_owned(),
        Arg::Tensor(_) => "that is a tensor".to_owned(),
        Arg::Slice(_) | Arg::Ellipsis => "that is an index".to_owned(),
        Arg::Other(text) => format!("of {text}"),
    }
}

fn argument(device: &Device, fixture: &Fixture, value: &Value) -> Result<Arg, AutogradError> {
    Ok(match value {
        Value::Null => Arg::None,
        Value::Bool(value) => Arg::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(value) => Arg::Int(value),
            None => Arg::Float(number.as_f64().expect("a number")),
        },
        Value::String(text) => Arg::Text(text.clone()),
        Value::Array(items) => {
            let items = items.iter().map(|item| argument(device, fixture, item));
            Arg::List(items.collect::<Result<_, _>>()?)
        }
        Value::Object(entry) => {
            if entry.contains_key("t") {
                Arg::Tensor(tensor(device, fixture, value)?)
            } else if let Some(name) = entry.get("d") {
                Arg::Type(dtype(name))
            } else if let Some(text) = entry.get("f").and_then(Value::as_str) {
                Arg::Float(text.parse().expect("a float"))
            } else if let Some(ends) = entry.get("sl") {
                Arg::Slice(std::array::from_fn(|i| ends[i].as_i64()))
            } else if entry.contains_key("e") {
                Arg::Ellipsis
            } else {
                Arg::Other(entry.get("x").map_or_else(String::new, Value::to_string))
            }
        }
    })
}
