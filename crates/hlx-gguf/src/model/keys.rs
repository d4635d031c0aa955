//! The keys of an architecture, of which none goes unread.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::error::shown;
use crate::metadata::Metadata;
use crate::value::Value;

/// Keys that change no result.
const HARMLESS: [&str; 4] = [
    // llama.cpp counts the tokens, as HLX does.
    "vocab_size",
    "rope.scaling.finetuned",
    "tensor_data_layout",
    // What a window's rotation is, is read by the base; the number of rotated values is the head's.
    "rope.dimension_count_swa",
];

/// The keys of an architecture, noted as they are read.
pub(super) struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Keys<'a> {
    pub fn new(metadata: &'a Metadata, architecture: &'a str) -> Self {
        Self {
            metadata,
            architecture,
            read: RefCell::default(),
        }
    }

    /// The whole name of a key.
    fn full(&self, name: &str) -> String {
        self.read.borrow_mut().insert(name.to_owned());
        format!("{}.{name}", self.architecture)
    }

    pub fn count(&self, name: &str) -> Result<Option<usize>, String> {
        self.metadata.count(&self.full(name))
    }

    pub fn number(&self, name: &str) -> Result<Option<f64>, String> {
        self.metadata.number(&self.full(name))
    }

    pub fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        self.metadata.text(&self.full(name))
    }

    pub fn truth(&self, name: &str) -> Result<Option<bool>, String> {
        self.metadata.truth(&self.full(name))
    }

    /// The value of a key.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.metadata.get(&self.full(name))
    }

    /// The count of a key that must be there.
    pub fn need(&self, name: &str) -> Result<usize, String> {
        let missing = || format!("`{}` is missing", self.full(name));
        self.count(name)?.ok_or_else(missing)
    }

    /// A count that may be a list with one for each layer, all of which must be equal.
    pub fn count_of_layers(&self, name: &str) -> Result<Option<usize>, String> {
        let full = self.full(name);
        if !matches!(self.metadata.get(&full), Some(Value::Array(_))) {
            return self.metadata.count(&full);
        }
        let all = self.metadata.counts(&full)?.unwrap_or_default();
        let Some(&first) = all.first() else {
            return Err(format!("`{full}` is an empty list"));
        };
        match all.iter().find(|&&other| other != first) {
            Some(other) => Err(format!(
                "`{full}` has {first} and {other}; layers of different sizes are not known"
            )),
            None => {
                let count = usize::try_from(first);
                count.map(Some).map_err(|_| format!("`{full}` is {first}"))
            }
        }
    }

    /// As [`Keys::count_of_layers`], of a key that must be there.
    pub fn need_of_layers(&self, name: &str) -> Result<usize, String> {
        let missing = || format!("`{}` is missing", self.full(name));
        self.count_of_layers(name)?.ok_or_else(missing)
    }

    /// Refuses any count of a key but one.
    pub fn only(&self, name: &str, expected: usize) -> Result<(), String> {
        match self.count_of_layers(name)? {
            Some(found) if found != expected => Err(format!(
                "`{}` is {found}, and only {expected} is known here",
                self.full(name)
            )),
            _ => Ok(()),
        }
    }

    /// Refuses keys that have no known meaning and may change the result.
    pub fn finish(&self) -> Result<(), String> {
        let prefix = format!("{}.", self.architecture);
        let read = self.read.borrow();
        let own = self.metadata.iter();
        let mut names = own.filter_map(|(key, _)| key.strip_prefix(&prefix));
        match names.find(|name| !read.contains(*name) && !HARMLESS.contains(name)) {
            Some(name) => Err(format!(
                "the key `{prefix}{}` is not known, and may change the result",
                shown(name)
            )),
            None => Ok(()),
        }
    }
}
