//! Compares a tensor with PyTorch's result.

use hlx_autograd::{DType, Tensor};
use serde_json::Value;

use crate::counter::{hashed, mixed};
use crate::fixture::{Fixture, count, counts, dtype, list, text_of};
use crate::tensors::values_of;

/// The elements of a long float result that are written (`KEPT` of `sample_encoding.py`).
const KEPT: usize = 48;
/// The smallest normal f32: below it HLX has zeros.
const TINY: f64 = f32::MIN_POSITIVE as f64;

/// How far a float may be from PyTorch's: this part of it, this part of the largest one beside it, and
/// this much in any case.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub of_value: f64,
    pub of_largest: f64,
    pub absolute: f64,
}

impl Tolerance {
    fn allowed(self, value: f64, largest: f64) -> f64 {
        self.of_value * value.abs() + self.of_largest * largest + self.absolute + 2.0 * TINY
    }

    /// Widened to half a unit of a 16-bit type, and once more for its rounded steps.
    pub fn rounded_to(self, dtype: DType) -> Self {
        let unit = match dtype {
            DType::F16 => 1.0 / 1024.0,
            DType::BF16 => 1.0 / 128.0,
            _ => return self,
        };
        Self {
            of_value: self.of_value.max(unit),
            ..self
        }
    }
}

/// Says what differs from PyTorch's result.
///
/// # Errors
/// The difference.
pub fn compare(
    fixture: &Fixture,
    found: &Tensor,
    expected: &Value,
    tolerance: Tolerance,
) -> Result<(), String> {
    check_type(found.dtype(), expected)?;
    let shape = counts(&expected["s"]);
    if found.shape() != shape {
        return Err(format!("has shape {:?}, expected {shape:?}", found.shape()));
    }
    let values = values_of(found).map_err(|error| error.to_string())?;
    let expected_type = dtype(&expected["t"]);
    let tolerance = tolerance.rounded_to(expected_type);
    if let Some(hash) = expected.get("h") {
        let found = hash_of(&values, found.dtype().is_float());
        return match found.to_string() == text_of(hash) {
            true => Ok(()),
            false => Err(format!(
                "has other elements: {:?}",
                &values[..values.len().min(12)]
            )),
        };
    }
    let start = count(&expected["b"]);
    if expected.get("p").is_none() {
        let wanted = fixture.elements(start, values.len(), expected_type);
        let largest = largest_of(&wanted);
        let pairs = values.iter().zip(&wanted).enumerate();
        return all_close(pairs.map(|(i, (&v, &w))| (i, v, w)), largest, tolerance);
    }
    let wanted = fixture.elements(start, KEPT, DType::F32);
    let place = |i: usize| (hashed(KEPT as u64, i) % values.len() as u64) as usize;
    let pairs = wanted.iter().enumerate();
    let pairs = pairs.map(|(i, &wanted)| (place(i), values[place(i)], wanted));
    let largest = list(&expected["p"])[2].as_f64().expect("a value");
    all_close(pairs, largest, tolerance)?;
    compare_sums(&values, expected, tolerance)
}

fn largest_of(values: &[f64]) -> f64 {
    let finite = values.iter().filter(|value| value.is_finite());
    finite.fold(0.0, |largest: f64, value| largest.max(value.abs()))
}

/// PyTorch's 64-bit integers are i32 or u32 here.
fn check_type(found: DType, expected: &Value) -> Result<(), String> {
    let name = text_of(&expected["t"]);
    let fits = match name.as_str() {
        "i64" => matches!(found, DType::I32 | DType::U32),
        name => found.name() == name,
    };
    match fits {
        true => Ok(()),
        false => Err(format!("has elements of {found}, expected {name}")),
    }
}

fn all_close(
    pairs: impl Iterator<Item = (usize, f64, f64)>,
    largest: f64,
    tolerance: Tolerance,
) -> Result<(), String> {
    for (i, found, wanted) in pairs {
        let equal = found == wanted || (found.is_nan() && wanted.is_nan());
        let close = (found - wanted).abs() <= tolerance.allowed(wanted, largest);
        if !equal && !close {
            return Err(format!("element {i} is {found:e}, expected {wanted:e}"));
        }
    }
    Ok(())
}

/// Compares the sums over all elements that `sampled` of `sample_encoding.py` makes.
fn compare_sums(values: &[f64], expected: &Value, tolerance: Tolerance) -> Result<(), String> {
    let (mut signed, mut others, mut n_finite) = (0.0, 0_u64, 0_usize);
    for (i, &value) in values.iter().enumerate() {
        let word = hashed(1, i);
        if value.is_finite() {
            n_finite += 1;
            signed += value * (1.0 - 2.0 * (word & 1) as f64);
        } else {
            let kind = match value {
                f64::INFINITY => 1,
                f64::NEG_INFINITY => 2,
                _ => 3,
            };
            others = others.wrapping_add(word.wrapping_mul(kind));
        }
    }
    if others.to_string() != text_of(&expected["q"]) {
        return Err("has NaN or infinity in other places".to_owned());
    }
    let sums: Vec<f64> = list(&expected["p"])
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    let allowed = tolerance.of_value * sums[0] + tolerance.of_largest * sums[2] * n_finite as f64;
    let allowed = allowed + (tolerance.absolute + TINY) * n_finite as f64;
    if (signed - sums[1]).abs() > allowed {
        return Err(format!(
            "has the signed sum {signed:e}, expected {:e}",
            sums[1]
        ));
    }
    Ok(())
}

/// The hash of integers, or of the bits of copied floats (`hash_of` of `sample_encoding.py`).
fn hash_of(values: &[f64], is_float: bool) -> u64 {
    let word = |value: f64| match is_float {
        false => (value as i64).cast_unsigned(),
        true if value.is_nan() => f32::NAN.to_bits().into(),
        true if value.abs() < TINY => 0,
        true => (value as f32).to_bits().into(),
    };
    let terms = values.iter().enumerate().map(|(i, &value)| {
        let odd = hashed(2, i) | 1;
        mixed(word(value)).wrapping_mul(odd)
    });
    terms.fold(0, u64::wrapping_add)
}
