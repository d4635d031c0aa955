//! Elements by index and by mask.

use hlx_autograd::{Index, Result, Tensor};
use hlx_core::Bool;

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
        "index_put" => put(call),
        _ => return None,
    })
}

fn gathered(call: &Call) -> Outcome<Vec<Tensor>> {
    call.flag(3, "sparse_grad", false)?;
    one(call
        .x()?
        .gather(call.dim(1, "dim", 0)?, call.tensor(2, "index")?))
}

fn along(call: &Call) -> Outcome<Vec<Tensor>> {
    let dim = call.int(2, "dim")?.map(|dim| dim as isize);
    one(call.x()?.take_along_dim(call.tensor(1, "indices")?, dim))
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
    call.int(9, "output_size")?;
    let (x, dim) = match call.int(2, "dim")? {
        Some(dim) => (call.x()?.clone(), dim as isize),
        None => (call.x()?.flatten(0, -1)?, 0),
    };
    match call.get(1, "repeats") {
        Some(&Arg::Int(count)) => one(x.repeat_interleave(count as usize, dim)),
        Some(Arg::Tensor(repeats)) => one(x.repeat_interleave_by(repeats, dim)),
        _ => no_form("no `repeats`"),
    }
}

fn indexed(call: &Call) -> Outcome<Vec<Tensor>> {
    let items = match call.get(1, "index") {
        // A list of numbers alone is one index, not one per dimension.
        Some(Arg::List(items)) if !items.iter().all(|item| matches!(item, Arg::Int(_))) => {
            items.clone()
        }
        Some(item) => vec![item.clone()],
        None => vec![Arg::None],
    };
    let items = items.iter().map(|item| index_item(call, item));
    one(call.x()?.index(&items.collect::<Outcome<Vec<_>>>()?))
}

fn index_item(call: &Call, item: &Arg) -> Outcome<Index> {
    Ok(match item {
        Arg::None => Index::New,
        Arg::Ellipsis => Index::Ellipsis,
        &Arg::Int(place) => Index::At(place as isize),
        &Arg::Slice([start, end, step]) => Index::Range {
            start: start.map(|place| place as isize),
            end: end.map(|place| place as isize),
            step: step.unwrap_or(1) as usize,
        },
        Arg::Tensor(places) => places.into(),
        &Arg::Bool(held) => {
            let mask = Tensor::from_slice(&call.device, &[Bool::from(held)], &[])?;
            Index::Tensor(mask)
        }
        Arg::List(places) => {
            let place = |place: &Arg| number(place).map(|place| place as i32);
            let places: Vec<i32> = places.iter().filter_map(place).collect();
            let n = places.len();
            Index::Tensor(Tensor::from_slice(&call.device, &places, &[n])?)
        }
        other => return no_form(format!("an index {}", kind(other))),
    })
}

fn put(call: &Call) -> Outcome<Vec<Tensor>> {
    let Some(Arg::List(items)) = call.get(1, "indices") else {
        return no_form("no `indices`");
    };
    let items = items.iter().map(|item| index_item(call, item));
    let items = items.collect::<Outcome<Vec<_>>>()?;
    let accumulate = call.flag(3, "accumulate", false)?;
    one(call
        .x()?
        .index_put(&items, call.tensor(2, "values")?, accumulate))
}
