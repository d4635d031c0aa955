//! Elements by index and by mask.

use hlx_autograd::{DType, Result, Tensor};

use super::{one, operand};
use crate::call::{Arg, Call, Outcome, kind, no_form, number};

pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    Some(match name {
        "gather" => gathered(call),
        "take_along_dim" => along(call),
        "scatter" => scattered(call),
        "scatter_add" => written(call, Tensor::scatter_add),
        "index_add" => added(call),
        "index_select" => selected(call),
        "masked_fill" => filled(call),
        "masked_select" => call
            .x()
            .and_then(|x| one(x.masked_select(call.tensor(1, "mask")?))),
        "repeat_interleave" => interleaved(call),
        "__getitem__" => indexed(call),
        _ => return None,
    })
}

fn gathered(call: &Call) -> Outcome<Vec<Tensor>> {
    call.flag(3, "sparse_grad", false)?;
    one(call
        .x()?
        .gather(call.dim(1, "dim", 0)?, call.tensor(2, "index")?))
}

/// Gathers along a dimension, with what broadcasts expanded, or in the flattened tensor.
fn along(call: &Call) -> Outcome<Vec<Tensor>> {
    let (x, index) = (call.x()?, call.tensor(1, "indices")?);
    let Some(dim) = call.int(2, "dim")? else {
        return one(x.flatten(0, -1)?.gather(0, &index.flatten(0, -1)?));
    };
    let axis = dim.rem_euclid(x.rank().max(1) as i64) as usize;
    let with = |own: &Tensor, other: &Tensor| -> Vec<usize> {
        let extents = own.shape().iter().zip(other.shape()).enumerate();
        let extent = |(i, (&own, &other))| match (i == axis, own) {
            (false, 1) => other,
            _ => own,
        };
        extents.map(extent).collect()
    };
    let expanded = x.expand(&with(x, index))?;
    one(expanded.gather(dim as isize, &index.expand(&with(index, x))?))
}

type Writer = fn(&Tensor, isize, &Tensor, &Tensor) -> Result<Tensor>;

fn written(call: &Call, operation: Writer) -> Outcome<Vec<Tensor>> {
    let (x, index) = (call.x()?, call.tensor(2, "index")?);
    let source = match call.get(3, "src") {
        Some(Arg::Tensor(source)) => source.clone(),
        // One value for all places.
        value => operand(x, value)?
            .to_dtype(x.dtype())?
            .expand(index.shape())?,
    };
    one(operation(x, call.dim(1, "dim", 0)?, index, &source))
}

fn scattered(call: &Call) -> Outcome<Vec<Tensor>> {
    match call.text(4, "reduce")? {
        Some("add") => written(call, Tensor::scatter_add),
        Some(other) => no_form(format!("`reduce` `{other}`")),
        None => written(call, Tensor::scatter),
    }
}

fn added(call: &Call) -> Outcome<Vec<Tensor>> {
    let (x, index) = (call.x()?, call.tensor(2, "index")?);
    let mut source = call.tensor(3, "source")?.clone();
    if let Some(alpha) = call.get(4, "alpha") {
        source = source
            .mul(operand(&source, Some(alpha))?)?
            .to_dtype(x.dtype())?;
    }
    one(x.index_add(call.dim(1, "dim", 0)?, index, &source))
}

fn selected(call: &Call) -> Outcome<Vec<Tensor>> {
    one(call
        .x()?
        .index_select(call.dim(1, "dim", 0)?, call.tensor(2, "index")?))
}

fn filled(call: &Call) -> Outcome<Vec<Tensor>> {
    let (x, mask) = (call.x()?, call.tensor(1, "mask")?);
    match call.get(2, "value") {
        // A tensor without dimensions, of the same type, with a gradient of its own.
        Some(Arg::Tensor(value)) => one(value.where_(mask, x)),
        Some(value) => match number(value) {
            Some(value) => one(x.masked_fill(mask, value as f32)),
            None => no_form(format!("`value` {}", kind(value))),
        },
        None => no_form("no `value`"),
    }
}

fn interleaved(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let Some(&Arg::Int(count)) = call.get(1, "repeats") else {
        return no_form("`repeats` that is a tensor");
    };
    match call.int(2, "dim")? {
        Some(dim) => one(x.repeat_interleave(count as usize, dim as isize)),
        None => one(x.flatten(0, -1)?.repeat_interleave(count as usize, 0)),
    }
}

/// `x[...]` by views, one index after the other.
fn indexed(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let index = match call.get(1, "index") {
        // A list of numbers alone is one index, not one a dimension.
        Some(Arg::List(items)) if !items.iter().all(|item| matches!(item, Arg::Int(_))) => {
            items.clone()
        }
        Some(item) => vec![item.clone()],
        None => vec![Arg::None],
    };
    let taken = index
        .iter()
        .filter(|item| !matches!(item, Arg::None | Arg::Ellipsis))
        .count();
    let mut result = x.clone();
    let (mut axis, mut tensors) = (0_isize, 0);
    for item in &index {
        match item {
            Arg::None => {
                result = result.unsqueeze(axis)?;
                axis += 1;
            }
            Arg::Ellipsis => axis += (x.rank() - taken) as isize,
            &Arg::Int(place) => {
                let extent = result.shape()[axis as usize] as i64;
                result = result.select(axis, place.rem_euclid(extent.max(1)) as usize)?;
            }
            &Arg::Slice([start, end, step]) => {
                let extent = result.shape()[axis as usize] as i64;
                let place = |place: i64| {
                    (if place < 0 { place + extent } else { place }).clamp(0, extent) as usize
                };
                let range = place(start.unwrap_or(0))..place(end.unwrap_or(extent));
                result = result.slice(axis, range, step.unwrap_or(1) as usize)?;
                axis += 1;
            }
            Arg::Tensor(index)
                if index.dtype() == DType::Bool && index.shape() == result.shape() =>
            {
                result = result.masked_select(index)?;
                axis += 1;
                tensors += 1;
            }
            Arg::Tensor(index) if index.rank() == 1 && index.dtype() == DType::I32 => {
                result = result.index_select(axis, index)?;
                axis += 1;
                tensors += 1;
            }
            Arg::List(places) => {
                let place = |place: &Arg| number(place).map(|place| place as i32);
                let places: Vec<i32> = places.iter().filter_map(place).collect();
                let n = places.len();
                result = result.index_select(axis, &Tensor::from_vec(&call.ctx, places, &[n])?)?;
                axis += 1;
                tensors += 1;
            }
            other => return no_form(format!("an index {}", kind(other))),
        }
    }
    match tensors {
        0 | 1 => Ok(vec![result]),
        _ => no_form("several tensors in one index"),
    }
}
