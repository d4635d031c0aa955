//! What templates make beside data: macros, loops, cyclers, groups.

use std::sync::Arc;

use super::args::Args;
use super::ast::{ForLoop, MacroDef};
use super::bounds::{Fuel, Size};
use super::error::{Result, fault};
use super::ops::equal;
use super::value::Value;

/// A macro, or the body of a `call` block.
#[derive(Debug)]
pub(crate) struct Macro {
    pub definition: Arc<MacroDef>,
    /// Where it was defined: the scope of the names that it finds.
    pub scope: usize,
}

/// `loop`: the elements and how far it is.
#[derive(Debug)]
pub(crate) struct LoopState {
    pub items: Vec<Value>,
    pub at: usize,
    pub depth: usize,
    /// What `loop.changed` had last.
    pub last: Option<Value>,
    /// The place of the loop that `loop(..)` carries out again.
    pub recursive: Option<(Arc<ForLoop>, usize)>,
}

/// `cycler` and `joiner`.
#[derive(Debug)]
pub(crate) struct Counter {
    pub items: Vec<Value>,
    pub at: usize,
    pub is_joiner: bool,
}

/// A group of the filter `groupby`.
#[derive(Debug)]
pub(crate) struct Group {
    pub key: Value,
    pub list: Value,
    size: Size,
}

impl Group {
    /// A group that is within the bounds.
    pub fn new(key: Value, list: Value) -> Result<Self> {
        let size = Value::tuple(vec![key.clone(), list.clone()])?.size();
        Ok(Self { key, list, size })
    }

    pub fn size(&self) -> Size {
        self.size
    }
}

impl LoopState {
    /// What the name of an attribute stands for.
    pub fn attribute(&self, name: &str) -> Option<Value> {
        let (at, n) = (self.at as i128, self.items.len() as i128);
        let neighbour = |at: Option<usize>, which: &str| {
            let found = at.and_then(|at| self.items.get(at)).cloned();
            found
                .unwrap_or_else(|| Value::undefined(format!("undefined: there is no {which} item")))
        };
        Some(match name {
            "index" => Value::Int(at + 1),
            "index0" => Value::Int(at),
            "first" => Value::Bool(at == 0),
            "last" => Value::Bool(at + 1 == n),
            "length" => Value::Int(n),
            "revindex" => Value::Int(n - at),
            "revindex0" => Value::Int(n - at - 1),
            "depth" => Value::Int(self.depth as i128),
            "depth0" => Value::Int(self.depth as i128 - 1),
            "previtem" => neighbour(self.at.checked_sub(1), "previous"),
            "nextitem" => neighbour(Some(self.at + 1), "next"),
            _ => return None,
        })
    }

    /// `loop.cycle(..)` and `loop.changed(..)`.
    pub fn call(&mut self, fuel: &mut Fuel, name: &str, args: &Args) -> Result<Value> {
        let values = &args.positional;
        if name == "cycle" {
            return match values.is_empty() {
                true => Err(fault!("loop.cycle: there is nothing to cycle through")),
                false => Ok(values[self.at % values.len()].clone()),
            };
        }
        let now = Value::tuple(values.clone())?;
        fuel.walk(now.size())?;
        let same = self.last.as_ref().is_some_and(|last| equal(last, &now));
        self.last = Some(now);
        Ok(Value::Bool(!same))
    }
}

impl Counter {
    /// `next` and `reset` of a cycler.
    pub fn call(&mut self, name: &str) -> Result<Value> {
        if name == "reset" {
            self.at = 0;
            return Ok(Value::None);
        }
        let value = self.items[self.at].clone();
        self.at = (self.at + 1) % self.items.len();
        Ok(value)
    }

    /// A call of a joiner: nothing the first time, then its separator.
    pub fn join(&mut self) -> Value {
        let first = self.at == 0;
        self.at = 1;
        match first {
            true => Value::text(""),
            false => self.items[0].clone(),
        }
    }
}
