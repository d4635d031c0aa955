//! Arguments of operations: a number that is negative or too large is refused with the names of operation and argument.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::error::{type_error, value_error};

/// An integer of Python's, brought to the ends of i64.
#[derive(Clone, Copy)]
pub struct Whole(pub i64);

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(number) = object.extract() {
            return Ok(Self(number));
        }
        if object.is_instance_of::<PyString>() || !object.hasattr("__index__")? {
            let found = object.get_type().name()?;
            return Err(type_error(format!(
                "hlx: an argument is a {found}, expected an integer"
            )));
        }
        let whole = object.call_method0("__index__")?;
        Ok(Self(match whole.gt(0)? {
            true => i64::MAX,
            false => i64::MIN,
        }))
    }
}

/// What an operation of Rust takes, and what Python gives for it.
pub trait Argument: Sized {
    type Given;

    /// The argument.
    ///
    /// # Errors
    /// For a number out of range, with the names of the operation and of the argument.
    fn of(given: Self::Given, operation: &str, name: &str) -> PyResult<Self>;
}

impl Argument for usize {
    type Given = Whole;

    fn of(Whole(number): Whole, operation: &str, name: &str) -> PyResult<Self> {
        usize::try_from(number).map_err(|_| {
            value_error(format!(
                "{operation}: {name} is {number}, expected at least 0"
            ))
        })
    }
}

impl Argument for isize {
    type Given = Whole;

    fn of(Whole(number): Whole, _: &str, _: &str) -> PyResult<Self> {
        Ok(number as isize)
    }
}

impl Argument for [usize; 2] {
    type Given = [Whole; 2];

    fn of([height, width]: [Whole; 2], operation: &str, name: &str) -> PyResult<Self> {
        let [height, width] = [height, width].map(|it| usize::of(it, operation, name));
        Ok([height?, width?])
    }
}

macro_rules! several {
    ($($number:ty)+) => {
        $(
            impl Argument for Vec<$number> {
                type Given = Vec<Whole>;

                fn of(given: Vec<Whole>, operation: &str, name: &str) -> PyResult<Self> {
                    let numbers = given.into_iter();
                    numbers.map(|number| <$number>::of(number, operation, name)).collect()
                }
            }

            impl Argument for Option<$number> {
                type Given = Option<Whole>;

                fn of(given: Option<Whole>, operation: &str, name: &str) -> PyResult<Self> {
                    given.map(|number| <$number>::of(number, operation, name)).transpose()
                }
            }
        )+
    };
}
several!(usize isize);

/// Arguments that are what Python gives.
macro_rules! as_they_are {
    ($($type:ty),+ $(,)?) => {
        $(
            impl $crate::arguments::Argument for $type {
                type Given = Self;

                fn of(given: Self, _: &str, _: &str) -> PyResult<Self> {
                    Ok(given)
                }
            }
        )+
    };
}
pub(crate) use as_they_are;

as_they_are!(bool, f32, f64, u64, i32, Option<i32>);
