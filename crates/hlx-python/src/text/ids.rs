//! Token ids as Python gives them: numbers, lists, arrays and tensors.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::error::{type_error, value_error};

/// The ids of a list, an array [T] or [1, T], a tensor, or a single number.
///
/// # Errors
/// What is no id, with the names of the operation.
pub fn ids_of(operation: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    if let Ok(ids) = given.extract::<Vec<u32>>() {
        return Ok(ids);
    }
    if given.is_instance_of::<PyString>() {
        return Err(type_error(format!(
            "{operation}: ids are a text, expected token ids"
        )));
    }
    if given.hasattr("tolist")? {
        let mut listed = given.call_method0("tolist")?;
        if listed.len().is_ok_and(|n| n == 1) && listed.get_item(0)?.len().is_ok() {
            listed = listed.get_item(0)?;
        }
        return match listed.hasattr("__index__")? {
            true => Ok(vec![id_of(operation, &listed)?]),
            false => each(operation, &listed),
        };
    }
    match given.hasattr("__index__")? {
        true => Ok(vec![id_of(operation, given)?]),
        false => each(operation, given),
    }
}

fn each(operation: &str, given: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    let Ok(all) = given.try_iter() else {
        let found = given.get_type().name()?;
        return Err(type_error(format!(
            "{operation}: ids are a {found}, expected token ids"
        )));
    };
    all.map(|id| id_of(operation, &id?)).collect()
}

fn id_of(operation: &str, given: &Bound<'_, PyAny>) -> PyResult<u32> {
    if let Ok(id) = given.extract() {
        return Ok(id);
    }
    let shown = given.repr()?;
    match given.hasattr("__index__")? {
        true => Err(value_error(format!(
            "{operation}: ids hold {shown}, expected 0 to 2**32 - 1"
        ))),
        false => Err(type_error(format!(
            "{operation}: ids hold {shown}, expected whole numbers"
        ))),
    }
}
