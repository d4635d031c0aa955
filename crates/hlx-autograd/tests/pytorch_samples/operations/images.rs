//! Pooling and interpolation.

use hlx_autograd::{AvgDivisor, Interpolation, PoolOptions, Tensor};

use super::one;
use crate::call::{Arg, Call, Outcome, no_form, number};

pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    let name = name.strip_prefix("nn.functional.")?;
    Some(match name {
        "max_pool1d" => max_pool(call, 1),
        "max_pool2d" => max_pool(call, 2),
        "avg_pool1d" => avg_pool(call, 1),
        "avg_pool2d" => avg_pool(call, 2),
        "adaptive_avg_pool1d" => adaptive(call, 1),
        "adaptive_avg_pool2d" => adaptive(call, 2),
        "interpolate/nearest" | "interpolate/bilinear" | "interpolate/linear" => interpolated(call),
        "upsample_nearest" => upsampled(call, Interpolation::Nearest),
        "upsample_bilinear" => upsampled(call, Interpolation::BilinearAligned),
        _ => return None,
    })
}

/// One number for each dimension of the image; a missing first one is `first`.
fn each(
    call: &Call,
    place: usize,
    name: &str,
    n: usize,
    first: usize,
) -> Outcome<Option<[usize; 2]>> {
    let Some(given) = call.ints(place, name)? else {
        return Ok(None);
    };
    Ok(match (super::counts(&given)?.as_slice(), n) {
        ([], _) => None,
        (&[all], 1) => Some([first, all]),
        (&[all], _) => Some([all; 2]),
        (&[first, second, ..], _) => Some([first, second]),
    })
}

/// An image of one dimension as one of height 1.
fn as_image(x: &Tensor, n: usize) -> Outcome<Tensor> {
    match n {
        1 => Ok(x.unsqueeze(-2)?),
        _ => Ok(x.clone()),
    }
}

fn from_image(y: Tensor, n: usize) -> Outcome<Vec<Tensor>> {
    match n {
        1 => one(y.squeeze(-2)),
        _ => Ok(vec![y]),
    }
}

fn options(call: &Call, n: usize, dilation: Option<usize>) -> Outcome<PoolOptions> {
    let kernel = each(call, 1, "kernel_size", n, 1)?.unwrap_or([1; 2]);
    let ceil = dilation.map_or(4, |_| 5);
    Ok(PoolOptions {
        kernel,
        stride: each(call, 2, "stride", n, 1)?.unwrap_or(kernel),
        padding: each(call, 3, "padding", n, 0)?.unwrap_or([0; 2]),
        dilation: match dilation {
            Some(place) => each(call, place, "dilation", n, 1)?.unwrap_or([1; 2]),
            None => [1; 2],
        },
        ceil_mode: call.flag(ceil, "ceil_mode", false)?,
    })
}

fn max_pool(call: &Call, n: usize) -> Outcome<Vec<Tensor>> {
    let options = options(call, n, Some(4))?;
    let x = as_image(call.x()?, n)?;
    if !call.flag(6, "return_indices", false)? {
        return from_image(x.max_pool2d(&options)?, n);
    }
    let (values, places) = x.max_pool2d_with_indices(&options)?;
    Ok([from_image(values, n)?, from_image(places, n)?].concat())
}

fn avg_pool(call: &Call, n: usize) -> Outcome<Vec<Tensor>> {
    let options = options(call, n, None)?;
    let inside = !call.flag(5, "count_include_pad", true)?;
    let divisor = match (call.int(6, "divisor_override")?, inside) {
        (Some(number), _) => AvgDivisor::Fixed(number as i32),
        (None, true) => AvgDivisor::Inside,
        (None, false) => AvgDivisor::Padded,
    };
    from_image(as_image(call.x()?, n)?.avg_pool2d(&options, divisor)?, n)
}

fn adaptive(call: &Call, n: usize) -> Outcome<Vec<Tensor>> {
    let x = as_image(call.x()?, n)?;
    let output = match call.get(1, "output_size") {
        Some(&Arg::Int(all)) if n == 1 => [1, all as usize],
        Some(&Arg::Int(all)) => [all as usize; 2],
        Some(Arg::List(sizes)) => {
            // `None` leaves the input's extent.
            let mut output = [1, 1];
            for (i, size) in sizes.iter().enumerate() {
                let axis = 2 - sizes.len() + i;
                output[axis] = match size {
                    &Arg::Int(size) => size as usize,
                    _ => x.shape()[x.rank() - 2 + axis],
                };
            }
            output
        }
        _ => return no_form("no `output_size`"),
    };
    from_image(x.adaptive_avg_pool2d(output)?, n)
}

fn interpolated(call: &Call) -> Outcome<Vec<Tensor>> {
    let aligned = call.flag(4, "align_corners", false)?;
    let mode = match (call.text(3, "mode")?.unwrap_or("nearest"), aligned) {
        ("nearest", _) => Interpolation::Nearest,
        ("bilinear" | "linear", false) => Interpolation::Bilinear,
        ("bilinear" | "linear", true) => Interpolation::BilinearAligned,
        (other, _) => return no_form(format!("`mode` `{other}`")),
    };
    upsampled(call, mode)
}

/// Interpolates to a size, or by a factor.
fn upsampled(call: &Call, mode: Interpolation) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let n = x.rank().saturating_sub(2);
    if !matches!(n, 1 | 2) {
        return no_form(format!("images of {n} dimensions"));
    }
    let recomputed = call.flag(5, "recompute_scale_factor", false)?;
    if call.flag(6, "antialias", false)? {
        return no_form("`antialias`");
    }
    let image = as_image(x, n)?;
    if let Some(size) = each(call, 1, "size", n, 1)? {
        return from_image(image.interpolate(size, mode)?, n);
    }
    let factors = match call.get(2, "scale_factor") {
        Some(Arg::List(factors)) => factors.iter().filter_map(number).collect(),
        Some(factor) => number(factor).into_iter().collect(),
        None => Vec::new(),
    };
    let factors = match (factors.as_slice(), n) {
        (&[all], 1) => [1.0, all],
        (&[all], _) => [all; 2],
        (&[first, second], 2) => [first, second],
        _ => return no_form("no `size`"),
    };
    if recomputed {
        // The ratio of the sizes takes the place of the factors.
        let sides = image.shape()[image.rank() - 2..].iter().zip(factors);
        let size: Vec<usize> = sides
            .map(|(&side, by)| (side as f64 * by) as usize)
            .collect();
        return from_image(image.interpolate([size[0], size[1]], mode)?, n);
    }
    from_image(image.interpolate_by(factors, mode)?, n)
}
