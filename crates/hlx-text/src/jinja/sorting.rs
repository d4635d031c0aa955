//! Python's sort: stable, by `<` alone, with an error for what has no order.

use std::cmp::Ordering;

use super::bounds::Fuel;
use super::error::{Result, fault};
use super::ops::order;
use super::value::Value;

/// Python's `<`, of values that a sort can put in order.
///
/// # Errors
/// Values that have no order, and NaN, whose place Python leaves to chance.
pub(crate) fn is_less(left: &Value, right: &Value) -> Result<bool> {
    match order(left, right)? {
        Some(order) => Ok(order == Ordering::Less),
        None => Err(fault!("nan has no place in an order")),
    }
}

/// Sorts by merging: whatever `is_less` says, it ends, and no comparison panics.
pub(crate) fn sorted<T>(items: Vec<T>, is_less: impl Fn(&T, &T) -> Result<bool>) -> Result<Vec<T>> {
    let mut runs: Vec<Vec<T>> = items.into_iter().map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut rest = runs.into_iter();
        while let Some(left) = rest.next() {
            merged.push(match rest.next() {
                Some(right) => merge(left, right, &is_less)?,
                None => left,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    is_less: &impl Fn(&T, &T) -> Result<bool>,
) -> Result<Vec<T>> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        let next = match is_less(b, a)? {
            true => right.next(),
            false => left.next(),
        };
        merged.extend(next);
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}

/// Sorts by keys, those of equal keys in the order that they have.
///
/// # Errors
/// Keys that have no order.
pub(crate) fn sorted_by_keys(
    fuel: &mut Fuel,
    keyed: Vec<(Value, Value)>,
    reverse: bool,
) -> Result<Vec<(Value, Value)>> {
    let n = keyed.len();
    let depth = n.max(2).ilog2() as usize;
    fuel.take(n * depth / 8)?;
    let bytes: usize = keyed.iter().map(|(key, _)| key.size().bytes).sum();
    fuel.take(bytes.saturating_mul(depth) / 4096)?;
    sorted(keyed, |(a, _), (b, _)| match reverse {
        true => is_less(b, a),
        false => is_less(a, b),
    })
}
