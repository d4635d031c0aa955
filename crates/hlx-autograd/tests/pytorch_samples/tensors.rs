//! Makes a sample's tensors, with the strides that PyTorch's have.

use half::{bf16, f16};
use hlx_autograd::{DType, Result, Tensor};
use hlx_core::{Bool, Device};
use serde_json::Value;

use crate::counter::drawn;
use crate::fixture::{Fixture, count, counts, dtype, list};

/// Makes a tensor from its entry.
pub fn tensor(device: &Device, fixture: &Fixture, entry: &Value) -> Result<Tensor> {
    let (shape, dtype) = (counts(&entry["s"]), dtype(&entry["t"]));
    let n: usize = shape.iter().product();
    let strides = entry.get("st").map(counts);
    let offset = entry.get("of").map_or(0, count);
    let mut values = match entry.get("c") {
        Some(recipe) => {
            let n = entry.get("n").map_or(n, count);
            recalled(fixture, entry, recipe, dtype, n)
        }
        None => fixture.elements(count(&entry["b"]), n, dtype),
    };
    if let (Some(strides), Some(_)) = (&strides, entry.get("n")) {
        let places = places(&shape, strides, offset);
        values = places.iter().map(|&place| values[place]).collect();
    }
    let made = match strides.filter(|_| n > 1) {
        Some(strides) => strided(device, &values, dtype, &shape, &strides)?,
        None => of_values(device, &values, dtype, &shape)?,
    };
    Ok(match entry.get("g") {
        Some(_) => made.with_gradient(),
        None => made,
    })
}

/// Values of the counter, except for the few that were changed.
fn recalled(fixture: &Fixture, entry: &Value, recipe: &Value, dtype: DType, n: usize) -> Vec<f64> {
    let seed = recipe[0].as_u64().expect("a seed");
    let end = |i: usize| recipe[i].as_f64().expect("the end of a range");
    let mut values = drawn(seed, (end(1), end(2)), n, !dtype.is_float());
    if let [at, changed, n] = list(&entry["at"]) {
        let places = fixture.elements(count(at), count(n), DType::U32);
        let changed = fixture.elements(count(changed), count(n), dtype);
        for (place, value) in places.iter().zip(changed) {
            values[*place as usize] = value;
        }
    }
    values
}

/// Uploads values in row-major order; floats are rounded to f32 first, as PyTorch's were.
pub fn of_values(device: &Device, values: &[f64], dtype: DType, shape: &[usize]) -> Result<Tensor> {
    macro_rules! upload {
        ($convert:expr) => {
            Tensor::from_slice(
                device,
                &values.iter().map($convert).collect::<Vec<_>>(),
                shape,
            )
        };
    }
    match dtype {
        DType::F32 => upload!(|&x| x as f32),
        DType::F16 => upload!(|&x| f16::from_f32(x as f32)),
        DType::BF16 => upload!(|&x| bf16::from_f32(x as f32)),
        DType::I32 => upload!(|&x| x as i32),
        DType::U32 => upload!(|&x| x as u32),
        DType::I8 => upload!(|&x| x as i8),
        DType::U8 => upload!(|&x| x as u8),
        DType::Bool => upload!(|&x| Bool::from(x != 0.0)),
    }
}

/// Downloads elements in row-major order.
pub fn values_of(x: &Tensor) -> Result<Vec<f64>> {
    macro_rules! download {
        ($type:ty, $convert:expr) => {
            x.to_vec::<$type>()?.into_iter().map($convert).collect()
        };
    }
    Ok(match x.dtype() {
        DType::F32 => download!(f32, f64::from),
        DType::F16 => download!(f16, f64::from),
        DType::BF16 => download!(bf16, f64::from),
        DType::I32 => download!(i32, f64::from),
        DType::U32 => download!(u32, f64::from),
        DType::I8 => download!(i8, f64::from),
        DType::U8 => download!(u8, f64::from),
        DType::Bool => download!(Bool, |held| f64::from(u8::from(bool::from(held)))),
    })
}

/// The places in memory of all elements in row-major order.
fn places(shape: &[usize], strides: &[usize], offset: usize) -> Vec<usize> {
    let mut places = vec![offset];
    for (&extent, &stride) in shape.iter().zip(strides) {
        let along = |&place: &usize| (0..extent).map(move |i| place + i * stride);
        places = places.iter().flat_map(along).collect();
    }
    places
}

/// A view with the given strides, or, where they make elements overlap without being equal to 0, a
/// contiguous tensor.
fn strided(
    device: &Device,
    values: &[f64],
    dtype: DType,
    shape: &[usize],
    strides: &[usize],
) -> Result<Tensor> {
    let mut order: Vec<usize> = (0..shape.len())
        .filter(|&axis| strides[axis] > 0 && shape[axis] > 1)
        .collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(strides[axis]));
    let fits = order.windows(2).all(|pair| {
        let (outer, inner) = (strides[pair[0]], strides[pair[1]]);
        outer % inner == 0 && outer / inner >= shape[pair[1]]
    });
    let Some(&last) = order.last().filter(|_| fits) else {
        return of_values(device, values, dtype, shape);
    };
    // The memory's extents, outermost first, each as long as the stride before it needs; the elements
    // are at the start of each, and at 0 of the innermost, which is one stride long.
    let outermost = order.first().map(|&axis| shape[axis]);
    let inner = order
        .windows(2)
        .map(|pair| strides[pair[0]] / strides[pair[1]]);
    let memory: Vec<usize> = outermost
        .into_iter()
        .chain(inner)
        .chain([strides[last]])
        .collect();
    let mut steps = vec![1; memory.len()];
    for axis in (0..memory.len() - 1).rev() {
        steps[axis] = steps[axis + 1] * memory[axis + 1];
    }
    let mut target = vec![0; shape.len()];
    for (axis, &dim) in order.iter().enumerate() {
        target[dim] = steps[axis];
    }
    let mut filled = vec![77.0; memory.iter().product()];
    for (value, place) in values.iter().zip(places(shape, &target, 0)) {
        filled[place] = *value;
    }
    let mut view = of_values(device, &filled, dtype, &memory)?.select(-1, 0)?;
    for (axis, &dim) in order.iter().enumerate() {
        view = view.narrow(axis as isize, 0, shape[dim])?;
    }
    in_place(&view, &order, shape)
}

/// Puts dimensions in their places and expands those that are left.
fn in_place(view: &Tensor, order: &[usize], shape: &[usize]) -> Result<Tensor> {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    let from = |dim: &usize| {
        order
            .iter()
            .position(|other| other == dim)
            .expect("it is there")
    };
    let permutation: Vec<isize> = sorted.iter().map(|dim| from(dim) as isize).collect();
    let mut view = view.permute(&permutation)?;
    for dim in (0..shape.len()).filter(|dim| !order.contains(dim)) {
        view = view.unsqueeze(dim as isize)?;
    }
    view.expand(shape)
}
