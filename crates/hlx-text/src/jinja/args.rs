//! The arguments of a call.

use std::sync::Arc;

use super::error::{Result, fault};
use super::value::Value;

/// Arguments by place and by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub positional: Vec<Value>,
    pub named: Vec<(Arc<str>, Value)>,
}

impl Args {
    /// The argument of a name.
    pub fn named(&self, name: &str) -> Option<&Value> {
        let found = self.named.iter().find(|(other, _)| &**other == name);
        found.map(|(_, value)| value)
    }

    /// The arguments of parameters with these names, in their order.
    ///
    /// # Errors
    /// More arguments than parameters, and names that are none.
    pub fn bind<const N: usize>(&self, what: &str, names: [&str; N]) -> Result<[Option<Value>; N]> {
        if self.positional.len() > N {
            return Err(fault!(
                "{what}: {} arguments; at most {N} are taken",
                self.positional.len()
            ));
        }
        let mut bound = [const { None }; N];
        for (slot, value) in bound.iter_mut().zip(&self.positional) {
            *slot = Some(value.clone());
        }
        for (name, value) in &self.named {
            let place = names
                .iter()
                .position(|other| *other == &**name && !other.is_empty());
            let place = place.ok_or_else(|| fault!("{what}: unknown argument `{name}`"))?;
            if bound[place].is_some() {
                return Err(fault!("{what}: the argument `{name}` is stated twice"));
            }
            bound[place] = Some(value.clone());
        }
        Ok(bound)
    }

    /// As [`Args::bind`], where arguments have no names, as those of many methods of Python.
    pub fn unnamed<const N: usize>(&self, what: &str) -> Result<[Option<Value>; N]> {
        self.bind(what, [""; N])
    }

    /// Without the first argument.
    pub fn behind_first(&self) -> Self {
        Self {
            positional: self.positional.iter().skip(1).cloned().collect(),
            named: self.named.clone(),
        }
    }
}

/// A text among arguments.
pub(crate) fn text(what: &str, value: Option<&Value>) -> Result<Arc<str>> {
    match value {
        Some(Value::Text(text, _)) => Ok(text.clone()),
        Some(other) => Err(fault!(
            "{what}: a text is expected, not {}",
            other.type_name()
        )),
        None => Err(fault!("{what}: an argument is missing")),
    }
}

/// An integer among arguments, where one is stated and not `None`.
pub(crate) fn integer(what: &str, value: Option<&Value>) -> Result<Option<i128>> {
    match value {
        None | Some(Value::None) => Ok(None),
        Some(value) => match value.as_int() {
            Some(value) => Ok(Some(value)),
            None => Err(fault!(
                "{what}: an integer is expected, not {}",
                value.type_name()
            )),
        },
    }
}

/// Whether an argument is true.
pub(crate) fn truth(value: Option<&Value>, default: bool) -> bool {
    value.map_or(default, Value::truth)
}
