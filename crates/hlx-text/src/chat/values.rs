//! How large the values of a template may be while it is rendered.
//!
//! Lists may share their parts: forty times `[x, x]` are forty small lists that print as 2^40 elements. So every
//! value is measured as it would be printed, when it is made or stored ([`super::rewrite`]); whatever the engine
//! does with a value later walks over no more than these bounds.

use minijinja::value::{DynObject, ObjectRepr, ValueKind};
use minijinja::{Error, State, Value};

use super::bounds::beyond;

/// Elements that a value may have, those of its parts included.
pub const MAX_ELEMENTS: usize = 1 << 17;
/// Bytes of text that a value may have, and that a template may write.
pub const MAX_TEXT_BYTES: usize = 16 << 20;
/// Lists and maps that may lie within each other.
pub const MAX_DEPTH: usize = 100;

/// Elements that are measured for one step of the template.
const ELEMENTS_A_STEP: usize = 8;
/// Elements that are copied for one step, where a lazy list is carried out.
const COPIES_A_STEP: usize = 2;
/// Bytes of text that are measured for one step.
const BYTES_A_STEP: usize = 4096;

/// How large a value is where it is printed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub elements: usize,
    pub bytes: usize,
    pub depth: usize,
}

impl Size {
    /// Measures a value of plain data, and stops at the first bound that it passes.
    pub fn of(value: &Value) -> Result<Self, Error> {
        let mut size = Self::default();
        size.add(value, 0)?;
        Ok(size)
    }

    fn add(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(beyond(format!(
                "a value has more than {MAX_ELEMENTS} elements"
            )));
        }
        if let Some(object) = value.as_object() {
            return self.add_object(object, depth + 1);
        }
        self.bytes += value.as_bytes().map_or(0, <[u8]>::len);
        if self.bytes > MAX_TEXT_BYTES {
            return Err(beyond(format!(
                "a value has more than {MAX_TEXT_BYTES} bytes of text"
            )));
        }
        Ok(())
    }

    fn add_object(&mut self, object: &DynObject, depth: usize) -> Result<(), Error> {
        self.depth = self.depth.max(depth);
        if depth > MAX_DEPTH {
            return Err(beyond(format!(
                "a value has more than {MAX_DEPTH} lists or maps within each other"
            )));
        }
        if changes(object) {
            return Err(beyond(
                "a list, a map or a namespace cannot hold a namespace or `loop`",
            ));
        }
        match object.repr() {
            ObjectRepr::Seq | ObjectRepr::Iterable => {
                for item in object.try_iter().into_iter().flatten() {
                    self.add(&item, depth)?;
                }
            }
            ObjectRepr::Map => {
                for (key, item) in object.try_iter_pairs().into_iter().flatten() {
                    self.add(&key, depth)?;
                    self.add(&item, depth)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the steps that measuring took from those of the template.
    fn charge(self, state: &State<'_, '_>) -> Result<(), Error> {
        let steps = self.elements / ELEMENTS_A_STEP + self.bytes / BYTES_A_STEP;
        state.consume_fuel(steps as u64)
    }
}

/// Whether an object may change after it was measured.
fn changes(object: &DynObject) -> bool {
    let name = object.type_name();
    name.ends_with("::Namespace") || name.ends_with("::Loop")
}

/// Returns a value that is within the bounds. What is lazy is carried out: otherwise `x[0:]` of `x[0:]`, and so
/// on, would be as deep as it was often written.
pub(super) fn bounded(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    match value.as_object() {
        Some(object) if changes(object) => Ok(value),
        _ => stored(state, value),
    }
}

/// As [`bounded`], for what is stored in a namespace, which must not hold another one.
pub(super) fn stored(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    let value = match value.kind() {
        // It stays what the tests of Jinja call an iterable, no sequence.
        ValueKind::Iterable => Value::make_object_iterable(carried_out(state, &value)?, |items| {
            Box::new(items.iter().cloned())
        }),
        ValueKind::Seq if is_lazy(&value) => Value::from(carried_out(state, &value)?),
        _ => value,
    };
    let size = Size::of(&value)?;
    if size.depth > 0 {
        size.charge(state)?;
    }
    Ok(value)
}

/// Returns an operand of a comparison, and charges for comparing it.
pub(super) fn compared(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    match value.as_object() {
        Some(object) if changes(object) => Ok(value),
        Some(_) => {
            Size::of(&value)?.charge(state)?;
            Ok(value)
        }
        None => Ok(value),
    }
}

/// Whether one of these characters is in a text of a measured value.
pub(super) fn holds(value: &Value, chars: &[char]) -> bool {
    match (value.as_str(), value.as_object()) {
        (Some(text), _) => text.contains(chars),
        (_, Some(object)) if object.repr() == ObjectRepr::Map => {
            let mut pairs = object.try_iter_pairs().into_iter().flatten();
            pairs.any(|(key, item)| holds(&key, chars) || holds(&item, chars))
        }
        (_, Some(object)) => {
            let mut items = object.try_iter().into_iter().flatten();
            items.any(|item| holds(&item, chars))
        }
        _ => false,
    }
}

/// Whether a list is the parts of other ones.
fn is_lazy(value: &Value) -> bool {
    !value.is_tuple() && value.downcast_object_ref::<Vec<Value>>().is_none()
}

fn carried_out(state: &State<'_, '_>, value: &Value) -> Result<Vec<Value>, Error> {
    let mut items = Vec::new();
    for item in value.try_iter()?.checked() {
        if items.len() == MAX_ELEMENTS {
            return Err(beyond(format!(
                "a value has more than {MAX_ELEMENTS} elements"
            )));
        }
        items.push(item?);
    }
    state.consume_fuel((items.len() / COPIES_A_STEP) as u64)?;
    Ok(items)
}
