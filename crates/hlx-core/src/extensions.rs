//! Values of the crates above that a handle of a device carries, such as how their kernels are cut.

use std::any::Any;
use std::sync::{Arc, OnceLock};

/// A list with one value per type, each made when it is first read.
#[derive(Default)]
pub(crate) struct Extensions {
    value: OnceLock<Box<dyn Any + Send + Sync>>,
    rest: OnceLock<Arc<Self>>,
}

impl Extensions {
    /// Returns the value of this type; makes it if there is none.
    pub fn get<T: Any + Send + Sync>(&self, make: impl Fn() -> T) -> &T {
        let value = self.value.get_or_init(|| Box::new(make()));
        match value.downcast_ref() {
            Some(value) => value,
            None => self.rest.get_or_init(Arc::default).get(make),
        }
    }

    /// Returns a list with this value in place of one of its type, and the other values of this list.
    pub fn with<T: Any + Send + Sync>(self: &Arc<Self>, value: T) -> Self {
        Self {
            value: OnceLock::from(Box::new(value) as Box<dyn Any + Send + Sync>),
            rest: OnceLock::from(Arc::clone(self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_a_value_that_is_made_once() {
        let first = Arc::new(Extensions::default());
        assert_eq!((first.get(|| 1_u32), first.get(|| "one")), (&1, &"one"));
        assert_eq!((first.get(|| 2_u32), first.get(|| "two")), (&1, &"one"));
        let second = first.with(3_u32);
        assert_eq!((second.get(|| 4_u32), second.get(|| "four")), (&3, &"one"));
        assert_eq!(first.get(|| 5_u32), &1);
    }
}
