//! Movements: other shapes, orders and parts.

use hlx_autograd::{Padding, Tensor};

use super::{counts, dims, one};
use crate::call::{Arg, Call, Outcome, kind, no_form, number};
use crate::tensors::values_of;

pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    Some(match name {
        "clone" | "contiguous" => call.x().and_then(|x| one(x.contiguous())),
        "reshape" => shaped(call, Tensor::reshape),
        "view" => shaped(call, Tensor::view),
        "reshape_as" => like(call, |x, shape| x.reshape(shape)),
        "view_as" => like(call, |x, shape| x.view(shape)),
        "expand_as" => like(call, |x, shape| x.expand(shape)),
        "transpose" | "t" | "T" | "mT" => transposed(name, call),
        "permute" => permuted(call),
        "movedim" => moved(call),
        "expand" | "broadcast_to" => expanded(call),
        "squeeze" | "squeeze/multiple" => squeezed(call),
        "unsqueeze" => call
            .dim(1, "dim", 0)
            .and_then(|dim| one(call.x()?.unsqueeze(dim))),
        "flatten" => flattened(call),
        "unflatten" => unflattened(call),
        "slice" | "narrow" | "select" => part(name, call),
        "diagonal" => diagonal(call),
        "flip" => flipped(call),
        "fliplr" => call.x().and_then(|x| one(x.flip(&[1]))),
        "flipud" => call.x().and_then(|x| one(x.flip(&[0]))),
        "roll" => rolled(call),
        "cat" | "stack" | "hstack" | "vstack" => joined(name, call),
        "split" | "split/list_args" | "split_with_sizes" | "chunk" | "unbind" => parts(name, call),
        "nn.functional.pad/constant"
        | "nn.functional.pad/reflect"
        | "nn.functional.pad/replicate"
        | "nn.functional.pad/replicate_negative"
        | "constant_pad_nd" => padded(name, call),
        "tril" => band(call, Tensor::tril),
        "triu" => band(call, Tensor::triu),
        "repeat" | "tile" => repeated(name, call),
        "unfold" => unfolded(call),
        _ => return None,
    })
}

/// The shape that a call names, with what -1 stands for.
fn shaped(
    call: &Call,
    operation: fn(&Tensor, &[i64]) -> hlx_autograd::Result<Tensor>,
) -> Outcome<Vec<Tensor>> {
    one(operation(call.x()?, &call.rest(1, "shape")?))
}

fn like(
    call: &Call,
    operation: fn(&Tensor, &[usize]) -> hlx_autograd::Result<Tensor>,
) -> Outcome<Vec<Tensor>> {
    one(operation(call.x()?, call.tensor(1, "other")?.shape()))
}

fn transposed(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    match (name, x.rank()) {
        ("transpose", _) => one(x.transpose(call.dim(1, "dim0", 0)?, call.dim(2, "dim1", 0)?)),
        ("t", 0 | 1) => Ok(vec![x.clone()]),
        ("T", rank) => one(x.permute(&(0..rank as isize).rev().collect::<Vec<_>>())),
        _ => one(x.transpose(-2, -1)),
    }
}

fn permuted(call: &Call) -> Outcome<Vec<Tensor>> {
    one(call.x()?.permute(&dims(&call.rest(1, "dims")?)))
}

fn moved(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let axis = |dim: &i64| dim.rem_euclid(x.rank().max(1) as i64) as isize;
    let axes = |place, name| -> Outcome<Vec<isize>> {
        Ok(call
            .ints(place, name)?
            .unwrap_or_default()
            .iter()
            .map(axis)
            .collect())
    };
    let (from, to) = (axes(1, "source")?, axes(2, "destination")?);
    let mut rest = (0..x.rank() as isize).filter(|axis| !from.contains(axis));
    let order = (0..x.rank() as isize).filter_map(|axis| {
        let place = to.iter().position(|&other| other == axis);
        place.map(|place| from[place]).or_else(|| rest.next())
    });
    one(x.permute(&order.collect::<Vec<_>>()))
}

fn expanded(call: &Call) -> Outcome<Vec<Tensor>> {
    one(call.x()?.expand(&call.rest(1, "size")?))
}

fn squeezed(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let rank = x.rank() as i64;
    let named = call.ints(1, "dim")?.unwrap_or_else(|| (0..rank).collect());
    if rank == 0 {
        return Ok(vec![x.clone()]);
    }
    let mut axes: Vec<i64> = named.iter().map(|dim| dim.rem_euclid(rank)).collect();
    axes.sort_unstable();
    let mut x = x.clone();
    for axis in axes.into_iter().rev() {
        x = x.squeeze(axis as isize)?;
    }
    Ok(vec![x])
}

fn flattened(call: &Call) -> Outcome<Vec<Tensor>> {
    one(call
        .x()?
        .flatten(call.dim(1, "start_dim", 0)?, call.dim(2, "end_dim", -1)?))
}

fn unflattened(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let sizes = call.ints(2, "sizes")?.unwrap_or_default();
    one(x.unflatten(call.dim(1, "dim", 0)?, &sizes))
}

/// A place that may be counted from the end.
fn from_start(place: i64, extent: usize) -> usize {
    let extent = extent as i64;
    (if place < 0 { place + extent } else { place }).clamp(0, extent) as usize
}

fn part(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let dim = call.dim(1, "dim", 0)?;
    let extent = match x.rank() {
        0 => 0,
        rank => x.shape()[dim.rem_euclid(rank as isize) as usize],
    };
    match name {
        "slice" => {
            let start = from_start(call.int(2, "start")?.unwrap_or(0), extent);
            let end = from_start(call.int(3, "end")?.unwrap_or(i64::MAX), extent);
            let step = call.int(4, "step")?.unwrap_or(1) as usize;
            one(x.slice(dim, start..end, step))
        }
        "narrow" => {
            let start = match call.get(2, "start") {
                Some(&Arg::Int(start)) => from_start(start, extent),
                // PyTorch reads the number, too.
                Some(Arg::Tensor(start)) => from_start(values_of(start)?[0] as i64, extent),
                Some(other) => return no_form(format!("`start` {}", kind(other))),
                None => 0,
            };
            one(x.narrow(dim, start, call.int(3, "length")?.unwrap_or(0) as usize))
        }
        _ => one(x.select(dim, from_start(call.int(2, "index")?.unwrap_or(0), extent))),
    }
}

fn diagonal(call: &Call) -> Outcome<Vec<Tensor>> {
    let distance = call.dim(1, "offset", 0)?;
    one(call
        .x()?
        .diagonal(distance, call.dim(2, "dim1", 0)?, call.dim(3, "dim2", 1)?))
}

fn flipped(call: &Call) -> Outcome<Vec<Tensor>> {
    one(call.x()?.flip(&dims(&call.rest(1, "dims")?)))
}

fn rolled(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let shifts = dims(&call.ints(1, "shifts")?.unwrap_or_default());
    match call.ints(2, "dims")? {
        Some(named) => one(x.roll(&shifts, &dims(&named))),
        // Without dimensions the flattened elements are rolled.
        None => one(x.flatten(0, -1)?.roll(&shifts, &[0])?.reshape(x.shape())),
    }
}

fn joined(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    // `stack(a, b, c)` of the variants by method has its tensors one by one.
    let tensors = call.tensors(0, "tensors")?;
    let rank = tensors.first().map_or(0, |first| first.rank());
    match (name, rank) {
        ("stack", _) => one(Tensor::stack(&tensors, call.dim(1, "dim", 0)?)),
        ("cat", _) => one(Tensor::cat(&tensors, call.dim(1, "dim", 0)?)),
        ("hstack", 0) | ("vstack", 0) => no_form("tensors without dimensions"),
        ("hstack", 1) => one(Tensor::cat(&tensors, 0)),
        ("hstack", _) => one(Tensor::cat(&tensors, 1)),
        ("vstack", 1) => one(Tensor::stack(&tensors, 0)),
        _ => one(Tensor::cat(&tensors, 0)),
    }
}

fn parts(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    if name == "unbind" {
        let dim = call.dim(1, "dim", 0)?;
        let extent = x.shape()[dim.rem_euclid(x.rank() as isize) as usize];
        return Ok((0..extent)
            .map(|i| x.select(dim, i))
            .collect::<Result<_, _>>()?);
    }
    let dim = call.dim(2, "dim", 0)?;
    let size = if name == "chunk" {
        "chunks"
    } else {
        "split_size_or_sections"
    };
    match call.get(1, size) {
        Some(&Arg::Int(chunks)) if name == "chunk" => Ok(x.chunk(chunks as usize, dim)?),
        Some(&Arg::Int(size)) => Ok(x.split(size as usize, dim)?),
        _ => {
            let sizes = counts(&call.ints(1, size)?.unwrap_or_default())?;
            let mut start = 0;
            let part = |&size: &usize| {
                start += size;
                x.narrow(dim, start - size, size)
            };
            Ok(sizes.iter().map(part).collect::<Result<_, _>>()?)
        }
    }
}

fn padded(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let widths = call.ints(1, "pad")?.unwrap_or_default();
    let mode = if name == "constant_pad_nd" {
        None
    } else {
        call.text(2, "mode")?
    };
    let (place, value) = if name == "constant_pad_nd" {
        (2, "value")
    } else {
        (3, "value")
    };
    let value = match call.get(place, value) {
        None => 0.0,
        Some(argument) => match number(argument) {
            Some(value) => value as f32,
            None => return no_form(format!("`value` {}", kind(argument))),
        },
    };
    let padding = match mode {
        None | Some("constant") => Padding::Constant(value),
        Some("reflect") => Padding::Reflect,
        Some("replicate") => Padding::Replicate,
        Some(other) => return no_form(format!("`mode` `{other}`")),
    };
    let pair = |pair: &[i64]| match *pair {
        [before, after] => Ok((before as isize, after as isize)),
        _ => no_form("an odd number of widths"),
    };
    let widths = widths.chunks(2).map(pair).collect::<Outcome<Vec<_>>>()?;
    one(x.pad(&widths, padding))
}

fn band(
    call: &Call,
    operation: fn(&Tensor, isize) -> hlx_autograd::Result<Tensor>,
) -> Outcome<Vec<Tensor>> {
    one(operation(call.x()?, call.dim(1, "diagonal", 0)?))
}

fn repeated(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let key = if name == "tile" { "dims" } else { "repeats" };
    let mut counts = counts(&call.rest(1, key)?)?;
    if name == "tile" {
        let missing = x.rank().saturating_sub(counts.len());
        counts.splice(0..0, vec![1; missing]);
    }
    one(x.repeat(&counts))
}

fn unfolded(call: &Call) -> Outcome<Vec<Tensor>> {
    let size = call.int(2, "size")?.unwrap_or(1) as usize;
    let step = call.int(3, "step")?.unwrap_or(1) as usize;
    one(call.x()?.unfold(call.dim(1, "dimension", 0)?, size, step))
}
