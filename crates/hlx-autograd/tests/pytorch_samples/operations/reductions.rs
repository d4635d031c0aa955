//! Reductions, scans and sorts.

use hlx_autograd::{DType, Result, Tensor};

use super::{dims, one, pair};
use crate::call::{Arg, Call, Outcome, kind, no_form, number};
use crate::tensors::values_of;

type Reduction = fn(&Tensor, &[isize], bool) -> Result<Tensor>;

fn reduction(name: &str) -> Option<Reduction> {
    Some(match name {
        "sum" => Tensor::sum_dim,
        "mean" => Tensor::mean_dim,
        "prod" => Tensor::prod,
        "amax" => Tensor::amax,
        "amin" => Tensor::amin,
        "any" => Tensor::any,
        "all" => Tensor::all,
        "logsumexp" => Tensor::logsumexp,
        _ => return None,
    })
}

pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    if let Some(operation) = reduction(name) {
        let results = reduced(call, operation);
        return Some(match name {
            "any" | "all" => results.and_then(|results| truth_values(call, results)),
            _ => results,
        });
    }
    Some(match name {
        "max/reduction_no_dim" => call.x().and_then(|x| one(x.amax(&[], false))),
        "min/reduction_no_dim" => call.x().and_then(|x| one(x.amin(&[], false))),
        "max/reduction_with_dim" => extreme(call, Tensor::max_dim),
        "min/reduction_with_dim" => extreme(call, Tensor::min_dim),
        "var" | "std" | "var/unbiased" | "std/unbiased" => spread(name, call),
        "norm" | "norm/inf" | "norm/fro" => norm(call, "p", 2.0),
        "linalg.vector_norm" => norm(call, "ord", 2.0),
        "argmax" => place(call, Tensor::argmax),
        "argmin" => place(call, Tensor::argmin),
        "cumsum" => scanned(call, Tensor::cumsum),
        "cumprod" => scanned(call, Tensor::cumprod),
        "sort" | "msort" => sorted(name, call),
        "argsort" => argsort(call),
        "topk" => topk(call),
        _ => return None,
    })
}

/// An operation in the type that a call names, which its result has too.
fn typed(
    call: &Call,
    place: usize,
    operation: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    match call.dtype(place, "dtype")? {
        Some(dtype) => one(operation(&x.to_dtype(dtype)?).and_then(|y| y.to_dtype(dtype))),
        None => one(operation(x)),
    }
}

fn reduced(call: &Call, operation: Reduction) -> Outcome<Vec<Tensor>> {
    let named = dims(&call.ints(1, "dim")?.unwrap_or_default());
    let keepdim = call.flag(2, "keepdim", false)?;
    typed(call, 3, |x| operation(x, &named, keepdim))
}

/// PyTorch's truth values of u8 are u8; HLX's are bool like all others.
fn truth_values(call: &Call, results: Vec<Tensor>) -> Outcome<Vec<Tensor>> {
    match call.x()?.dtype() {
        DType::U8 => Ok(results
            .iter()
            .map(|y| y.to_dtype(DType::U8))
            .collect::<Result<_>>()?),
        _ => Ok(results),
    }
}

type Extreme = fn(&Tensor, isize, bool) -> Result<(Tensor, Tensor)>;

fn extreme(call: &Call, operation: Extreme) -> Outcome<Vec<Tensor>> {
    let (dim, keepdim) = (call.dim(1, "dim", 0)?, call.flag(2, "keepdim", false)?);
    pair(operation(call.x()?, dim, keepdim))
}

fn spread(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let correction = match (call.get(9, "correction"), call.get(9, "unbiased")) {
        (Some(given), _) => match number(given) {
            Some(correction) => correction,
            None => return no_form(format!("`correction` {}", kind(given))),
        },
        (None, Some(&Arg::Bool(unbiased))) => f64::from(u8::from(unbiased)),
        _ => 1.0,
    };
    // The one argument by place is `dim`, or the older `unbiased`.
    let (named, correction) = match call.get(1, "dim") {
        Some(&Arg::Bool(unbiased)) => (Vec::new(), f64::from(u8::from(unbiased))),
        _ => (dims(&call.ints(1, "dim")?.unwrap_or_default()), correction),
    };
    let correction = match call.get(2, "unbiased") {
        Some(&Arg::Bool(unbiased)) => f64::from(u8::from(unbiased)),
        _ => correction,
    };
    let keepdim = call.flag(3, "keepdim", false)?;
    match name.starts_with("var") {
        true => one(x.var(&named, correction, keepdim)),
        false => one(x.std(&named, correction, keepdim)),
    }
}

fn norm(call: &Call, name: &str, default: f64) -> Outcome<Vec<Tensor>> {
    let p = match call.get(1, name) {
        None => default,
        Some(Arg::Text(text)) if text == "fro" => 2.0,
        Some(argument) => match number(argument) {
            Some(p) => p,
            None => return no_form(format!("`{name}` {}", kind(argument))),
        },
    };
    let named = dims(&call.ints(2, "dim")?.unwrap_or_default());
    let keepdim = call.flag(3, "keepdim", false)?;
    typed(call, 4, |x| x.norm(p as f32, &named, keepdim))
}

type Place = fn(&Tensor, Option<isize>, bool) -> Result<Tensor>;

fn place(call: &Call, operation: Place) -> Outcome<Vec<Tensor>> {
    let dim = call.int(1, "dim")?.map(|dim| dim as isize);
    one(operation(call.x()?, dim, call.flag(2, "keepdim", false)?))
}

fn scanned(call: &Call, operation: fn(&Tensor, isize) -> Result<Tensor>) -> Outcome<Vec<Tensor>> {
    let dim = call.dim(1, "dim", 0)?;
    typed(call, 2, |x| operation(x, dim))
}

fn sorted(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    if name == "msort" {
        return Ok(vec![x.sort(0, false)?.0]);
    }
    call.flag(9, "stable", false)?;
    let dim = call.dim(1, "dim", -1)?;
    pair(x.sort(dim, call.flag(2, "descending", false)?))
}

fn argsort(call: &Call) -> Outcome<Vec<Tensor>> {
    call.flag(9, "stable", false)?;
    let dim = call.dim(1, "dim", -1)?;
    one(call.x()?.argsort(dim, call.flag(2, "descending", false)?))
}

fn topk(call: &Call) -> Outcome<Vec<Tensor>> {
    let k = call.int(1, "k")?.unwrap_or(1) as usize;
    let (dim, largest) = (call.dim(2, "dim", -1)?, call.flag(3, "largest", true)?);
    // Sorted results are among those that `sorted=False` allows.
    call.flag(4, "sorted", true)?;
    pair(call.x()?.topk(k, dim, largest))
}

/// Whether places that PyTorch leaves open, those of equal elements, name the values that they should:
/// the ones beside them, or, of `argsort`, ones in order.
pub fn names_the_values(name: &str, call: &Call, results: &[Tensor]) -> Outcome<bool> {
    let place = if name == "topk" { 2 } else { 1 };
    let dim = call.dim(place, "dim", -1)?;
    let x = call.x()?;
    let places = results.last().map_or(x, |places| places);
    if places.n_elements() == 0 {
        return Ok(true);
    }
    let named = x.gather(dim, places)?;
    if let [values, _] = results {
        return Ok(values_of(&named)? == values_of(values)?);
    }
    let rows = match named.rank() {
        0 => named,
        _ => named.transpose(dim, -1)?.contiguous()?,
    };
    let descending = call.flag(2, "descending", false)?;
    let columns = rows.shape().last().map_or(1, |&columns| columns);
    let in_order = |pair: &[f64]| match descending {
        true => pair[0] >= pair[1] || pair[0].is_nan(),
        false => pair[0] <= pair[1] || pair[1].is_nan(),
    };
    let values = values_of(&rows)?;
    let mut rows = values.chunks(columns);
    Ok(rows.all(|row| row.windows(2).all(in_order)))
}
