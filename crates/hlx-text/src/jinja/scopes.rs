//! The names that are visible: scopes within each other, which macros retain.

use std::sync::Arc;

use super::value::Value;

/// All scopes; macros know theirs by its number.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    all: Vec<Scope>,
    current: usize,
}

#[derive(Debug, Default)]
struct Scope {
    parent: Option<usize>,
    values: Vec<(Arc<str>, Value)>,
    /// Whether a macro or a loop retains it.
    is_retained: bool,
}

impl Scopes {
    /// The outermost scope, with what the template is given.
    pub fn new(values: Vec<(Arc<str>, Value)>) -> Self {
        let global = Scope {
            values,
            ..Scope::default()
        };
        let mut scopes = Self {
            all: vec![global],
            current: 0,
        };
        scopes.push(0);
        scopes
    }

    /// Opens a scope within another one; returns the one that was current, for [`Scopes::pop`].
    pub fn push(&mut self, parent: usize) -> usize {
        let before = self.current;
        self.all.push(Scope {
            parent: Some(parent),
            ..Scope::default()
        });
        self.current = self.all.len() - 1;
        before
    }

    /// Leaves the current scope for the one before.
    pub fn pop(&mut self, before: usize) {
        let is_last = self.current + 1 == self.all.len();
        if is_last && !self.all[self.current].is_retained {
            self.all.pop();
        }
        self.current = before;
    }

    /// The current scope, which stays from now on, and so do those around it.
    pub fn retain(&mut self) -> usize {
        let mut at = Some(self.current);
        while let Some(scope) = at {
            self.all[scope].is_retained = true;
            at = self.all[scope].parent;
        }
        self.current
    }

    pub fn current(&self) -> usize {
        self.current
    }

    /// The value of a name, and how many names were looked through.
    pub fn get(&self, name: &str) -> (Option<Value>, usize) {
        let (mut at, mut n) = (Some(self.current), 0);
        while let Some(scope) = at {
            let scope = &self.all[scope];
            let found = scope
                .values
                .iter()
                .rev()
                .find(|(other, _)| &**other == name);
            n += scope.values.len();
            if let Some((_, value)) = found {
                return (Some(value.clone()), n);
            }
            at = scope.parent;
        }
        (None, n)
    }

    /// How many names the current scope has.
    pub fn n_names(&self) -> usize {
        self.all[self.current].values.len()
    }

    pub fn set(&mut self, name: Arc<str>, value: Value) {
        let values = &mut self.all[self.current].values;
        match values.iter_mut().find(|(other, _)| *other == name) {
            Some(found) => found.1 = value,
            None => values.push((name, value)),
        }
    }
}
