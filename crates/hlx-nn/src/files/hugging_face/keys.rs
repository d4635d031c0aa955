//! The keys of a `config.json`, of which none goes unread.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::classes::Class;
use super::harmless::{is_harmless, left_out, refusal};

/// Lines that are said of a folder: statements that are not followed, and which of two is taken.
pub(super) type Notes = Rc<RefCell<Vec<String>>>;

/// An object's keys, noted as they are read.
pub(super) struct Keys {
    /// Null is as left out except for [`Keys::is_stated`].
    values: Map<String, Value>,
    read: RefCell<BTreeSet<String>>,
    /// What errors put before a key's name, such as `rope_scaling.`.
    prefix: &'static str,
    /// The class whose keys these are: those that it does not read are as left out. None of an inner object.
    class: Option<&'static Class>,
    notes: Notes,
}

impl Keys {
    /// The keys of a configuration.
    pub fn new(values: Map<String, Value>, class: &'static Class, notes: &Notes) -> Self {
        Self {
            class: Some(class),
            ..Self::inner(values, "", notes)
        }
    }

    /// The keys of an object within a configuration.
    pub fn inner(values: Map<String, Value>, prefix: &'static str, notes: &Notes) -> Self {
        Self {
            values,
            read: RefCell::default(),
            prefix,
            class: None,
            notes: Rc::clone(notes),
        }
    }

    /// Says a line of the configuration.
    pub fn note(&self, line: impl Into<String>) {
        self.notes.borrow_mut().push(line.into());
    }

    /// The value of a key.
    pub fn get(&self, name: &str) -> Option<&Value> {
        if self.class.is_some_and(|class| !class.reads(name)) {
            return None;
        }
        self.look(name)
    }

    /// The value of a key, be it one that the class does not read.
    pub fn look(&self, name: &str) -> Option<&Value> {
        self.read.borrow_mut().insert(name.to_owned());
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// Whether there is the key, be it with a null.
    pub fn is_stated(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The keys and values.
    pub fn values(&self) -> &Map<String, Value> {
        &self.values
    }

    /// Says that of two statements which differ one is taken, as `transformers` does.
    pub fn settle<T: PartialEq>(&self, taken: (&str, Option<T>), other: (&str, Option<T>)) {
        if let (Some(one), Some(two)) = (taken.1, other.1)
            && one != two
        {
            let (taken, other) = (taken.0, other.0);
            self.note(format!(
                "`{taken}` is taken and `{other}`, which says otherwise, is left out, as transformers does"
            ));
        }
    }

    /// Whether there is a key that nothing has read yet.
    pub fn is_unread(&self, name: &str) -> bool {
        let is_read = self.read.borrow().contains(name);
        !is_read && self.values.get(name).is_some_and(|value| !value.is_null())
    }

    /// These keys with the values of others, which win.
    pub fn updated_by(&self, others: &Keys) -> Keys {
        let mut values = self.values.clone();
        for (name, value) in &others.values {
            let [theirs, own] = [others, self].map(|keys| format!("{}{name}", keys.prefix));
            self.settle((&theirs, Some(value)), (&own, self.values.get(name)));
            values.insert(name.clone(), value.clone());
        }
        Keys::inner(values, self.prefix, &self.notes)
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        self.converted(name, self.get(name), expected, convert)
    }

    fn converted<T>(
        &self,
        name: &str,
        value: Option<&Value>,
        expected: &str,
        convert: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(value) = value else {
            return Ok(None);
        };
        let converted = convert(value);
        let prefix = self.prefix;
        converted
            .map(Some)
            .ok_or_else(|| format!("`{prefix}{name}` is {value}, expected {expected}"))
    }

    pub fn count(&self, name: &str) -> Result<Option<usize>, String> {
        let convert = |value: &Value| usize::try_from(value.as_u64()?).ok();
        self.typed(name, "a whole number", convert)
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, String> {
        self.typed(name, "a number", Value::as_f64)
    }

    /// The number of a key, be it one that the class does not read.
    pub fn number_of_any_class(&self, name: &str) -> Result<Option<f64>, String> {
        self.converted(name, self.look(name), "a number", Value::as_f64)
    }

    pub fn truth(&self, name: &str) -> Result<Option<bool>, String> {
        self.typed(name, "true or false", Value::as_bool)
    }

    pub fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let text = value.as_str();
        let prefix = self.prefix;
        text.map(Some)
            .ok_or_else(|| format!("`{prefix}{name}` is {value}, expected a text"))
    }

    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        self.typed(name, "a list of texts", |value| {
            let texts = value.as_array()?.iter();
            texts.map(|one| Some(one.as_str()?.to_owned())).collect()
        })
    }

    pub fn counts(&self, name: &str) -> Result<Option<Vec<usize>>, String> {
        self.typed(name, "a list of whole numbers", |value| {
            let counts = value.as_array()?.iter();
            counts
                .map(|one| usize::try_from(one.as_u64()?).ok())
                .collect()
        })
    }

    pub fn object(&self, name: &str, prefix: &'static str) -> Result<Option<Keys>, String> {
        let notes = &self.notes;
        let convert = |value: &Value| Some(Keys::inner(value.as_object()?.clone(), prefix, notes));
        self.typed(name, "an object", convert)
    }

    /// The count of a key that must be there.
    pub fn need(&self, name: &str) -> Result<usize, String> {
        let prefix = self.prefix;
        self.count(name)?
            .ok_or_else(|| format!("`{prefix}{name}` is missing"))
    }

    /// The number of a key that must be there.
    pub fn need_number(&self, name: &str) -> Result<f64, String> {
        let prefix = self.prefix;
        self.number(name)?
            .ok_or_else(|| format!("`{prefix}{name}` is missing"))
    }

    pub fn need_numbers(&self, name: &str) -> Result<Vec<f64>, String> {
        let prefix = self.prefix;
        let numbers = self.typed(name, "a list of numbers", |value| {
            value.as_array()?.iter().map(Value::as_f64).collect()
        });
        numbers?.ok_or_else(|| format!("`{prefix}{name}` is missing"))
    }

    /// Refuses any value of a key but one, which is as leaving it out.
    pub fn only(&self, name: &str, value: &Value) -> Result<(), String> {
        let prefix = self.prefix;
        match self.get(name) {
            Some(found) if found != value => Err(format!(
                "`{prefix}{name}` is {found}, and only {value} is known here"
            )),
            _ => Ok(()),
        }
    }

    /// Goes through the keys that nobody has read: names those that the class leaves out, and refuses those that
    /// have no known meaning and may change the result.
    pub fn finish(&self) -> Result<(), String> {
        let Some(class) = self.class else {
            return self.finish_inner();
        };
        let read = self.read.borrow();
        let windows_are_off = self.values.get("use_sliding_window") == Some(&Value::Bool(false));
        let of_windows = ["max_window_layers", "sliding_window"];
        for (name, value) in self.values.iter().filter(|(_, value)| !value.is_null()) {
            let is_off = windows_are_off && of_windows.contains(&name.as_str());
            if read.contains(name) || is_off || is_harmless(name, value) {
                continue;
            }
            match left_out(name, class.name) {
                Some(line) => self.note(line),
                None => return Err(refusal(name)),
            }
        }
        Ok(())
    }

    fn finish_inner(&self) -> Result<(), String> {
        let read = self.read.borrow();
        let stated = self.values.iter().filter(|(_, value)| !value.is_null());
        match stated
            .map(|(name, _)| name)
            .find(|name| !read.contains(*name))
        {
            Some(name) => {
                let prefix = self.prefix;
                Err(format!(
                    "the key `{prefix}{name}` is not known, and may change the result"
                ))
            }
            None => Ok(()),
        }
    }
}
