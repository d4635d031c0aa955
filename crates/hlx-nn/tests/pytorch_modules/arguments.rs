//! The arguments of a constructor or of a call, by PyTorch's names.

use std::cell::RefCell;
use std::collections::BTreeSet;

use hlx_autograd::{DType, LossReduction, Tensor};
use hlx_core::Device;
use hlx_nn::NnError;
use serde_json::Value;

use crate::fixture::{Fixture, list};
use crate::tensors::tensor;

/// Why a sample is not carried out.
pub enum Refused {
    /// HLX's error.
    Error(NnError),
    /// HLX's layer has no such argument, or not with this value.
    Form(String),
}

impl<E: Into<NnError>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

pub type Result<T> = std::result::Result<T, Refused>;

/// Arguments, and which of them have been read.
pub struct Arguments<'a> {
    device: &'a Device,
    fixture: &'a Fixture,
    values: &'a Value,
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Arguments<'a> {
    pub fn new(device: &'a Device, fixture: &'a Fixture, values: &'a Value) -> Self {
        Self {
            device,
            fixture,
            values,
            read: RefCell::default(),
        }
    }

    /// An argument that was given, `null` too.
    pub fn given(&self, name: &str) -> Option<&'a Value> {
        self.read.borrow_mut().insert(name.to_owned());
        self.values.get(name)
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        self.given(name).filter(|value| !value.is_null())
    }

    /// Fails for an argument that nothing has read.
    pub fn check_read(&self) -> Result<()> {
        let (read, all) = (self.read.borrow(), self.values.as_object());
        let mut unread = all
            .into_iter()
            .flatten()
            .filter(|(name, value)| !value.is_null() && !read.contains(*name));
        match unread.next() {
            Some((name, _)) => Err(Refused::Form(format!("`{name}`"))),
            None => Ok(()),
        }
    }

    pub fn number(&self, name: &str, default: f32) -> f32 {
        let value = self.get(name).and_then(Value::as_f64);
        value.map_or(default, |value| value as f32)
    }

    pub fn flag(&self, name: &str, default: bool) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.get(name).and_then(Value::as_str)
    }

    pub fn count(&self, name: &str, default: usize) -> usize {
        let value = self.get(name).and_then(Value::as_u64);
        value.map_or(default, |value| value as usize)
    }

    pub fn dimension(&self, name: &str) -> isize {
        let value = self.get(name).and_then(Value::as_i64);
        value.map_or(-1, |value| value as isize)
    }

    /// A list of counts, or one.
    pub fn counts(&self, name: &str) -> Result<Option<Vec<usize>>> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let items = match value {
            Value::Array(_) => list(value),
            one => std::slice::from_ref(one),
        };
        let counts: Option<Vec<usize>> = items
            .iter()
            .map(|item| item.as_u64().map(|count| count as usize))
            .collect();
        match counts {
            Some(counts) => Ok(Some(counts)),
            None => Err(Refused::Form(format!("`{name}={value}`"))),
        }
    }

    /// Two counts, or one for both.
    pub fn pair(&self, name: &str, default: [usize; 2]) -> Result<[usize; 2]> {
        Ok(match self.counts(name)?.as_deref() {
            None => default,
            Some([both]) => [*both; 2],
            Some(&[height, width]) => [height, width],
            Some(other) => return Err(Refused::Form(format!("`{name}={other:?}`"))),
        })
    }

    pub fn tensor(&self, name: &str) -> Result<Option<Tensor>> {
        let entry = self.get(name);
        let made = entry.map(|entry| tensor(self.device, self.fixture, entry));
        Ok(made.transpose()?)
    }

    /// Class ids, which PyTorch has in 64 bits; else the tensor as it is.
    pub fn ids(&self, name: &str) -> Result<Option<Tensor>> {
        let Some(x) = self.tensor(name)? else {
            return Ok(None);
        };
        Ok(Some(match x.dtype() {
            DType::I32 => x.to_dtype(DType::U32)?,
            _ => x,
        }))
    }

    pub fn reduction(&self) -> LossReduction {
        match self.text("reduction") {
            Some("none") => LossReduction::None,
            Some("sum") => LossReduction::Sum,
            Some("batchmean") => LossReduction::BatchMean,
            _ => LossReduction::Mean,
        }
    }
}
