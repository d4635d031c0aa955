//! Convolutions, pooling and interpolation; pairs are of height and width.

use hlx_autograd::{AvgDivisor, ConvOptions, Interpolation, PoolOptions};
use pyo3::prelude::*;

use super::{Handle, launched, placed};
use crate::arguments::{Argument, Whole};
use crate::error::value_error;
use crate::tensor::PyTensor;

type Pair = [usize; 2];

fn options(stride: Pair, padding: Pair, dilation: Pair, groups: usize, same: bool) -> ConvOptions {
    ConvOptions {
        stride,
        padding,
        dilation,
        groups,
        same,
    }
}

fn flat(stride: usize, padding: usize, dilation: usize, groups: usize, same: bool) -> ConvOptions {
    options([1, stride], [0, padding], [1, dilation], groups, same)
}

launched! {
    /// Convolves signals.
    conv1d(x, weight: Handle, bias: Option<Handle>, stride: usize, padding: usize, dilation: usize, groups: usize, same: bool)
        x.conv1d(&weight, bias.as_deref(), &flat(stride, padding, dilation, groups, same));
    /// Convolves images.
    conv2d(x, weight: Handle, bias: Option<Handle>, stride: Pair, padding: Pair, dilation: Pair, groups: usize, same: bool)
        x.conv2d(&weight, bias.as_deref(), &options(stride, padding, dilation, groups, same));
    /// Convolves signals with the transposed matrix.
    conv_transpose1d(x, weight: Handle, bias: Option<Handle>, stride: usize, padding: usize, dilation: usize, groups: usize, output_padding: usize)
        x.conv_transpose1d(&weight, bias.as_deref(), &flat(stride, padding, dilation, groups, false), output_padding);
    /// Convolves images with the transposed matrix.
    conv_transpose2d(x, weight: Handle, bias: Option<Handle>, stride: Pair, padding: Pair, dilation: Pair, groups: usize, output_padding: Pair)
        x.conv_transpose2d(&weight, bias.as_deref(), &options(stride, padding, dilation, groups, false), output_padding);
    /// The largest element of each window.
    max_pool2d(x, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool)
        x.max_pool2d(&PoolOptions { kernel, stride, padding, dilation, ceil_mode });
    /// The mean of each window: divided by all of its elements, by those inside, or by a number.
    avg_pool2d(x, kernel: Pair, stride: Pair, padding: Pair, ceil_mode: bool, count_include_pad: bool, divisor_override: Option<i32>) {
        let divisor = match (divisor_override, count_include_pad) {
            (Some(divisor), _) => AvgDivisor::Fixed(divisor),
            (None, true) => AvgDivisor::Padded,
            (None, false) => AvgDivisor::Inside,
        };
        let options = PoolOptions { kernel, stride, padding, dilation: [1; 2], ceil_mode };
        x.avg_pool2d(&options, divisor)
    };
    /// Means of as many windows as the output has pixels.
    adaptive_avg_pool2d(x, output: Pair) x.adaptive_avg_pool2d(output);
}

placed! {
    /// The largest element of each window, and its place in the plane.
    max_pool2d_with_indices(x, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool)
        x.max_pool2d_with_indices(&PoolOptions { kernel, stride, padding, dilation, ceil_mode });
}

fn interpolation(mode: &str, align_corners: bool) -> PyResult<Interpolation> {
    match (mode, align_corners) {
        ("nearest", _) => Ok(Interpolation::Nearest),
        ("bilinear", false) => Ok(Interpolation::Bilinear),
        ("bilinear", true) => Ok(Interpolation::BilinearAligned),
        (other, _) => {
            let text = format!("interpolate: mode is {other:?}, expected nearest or bilinear");
            Err(value_error(text))
        }
    }
}

/// Images of another size.
#[pyfunction]
pub fn interpolate(
    py: Python<'_>,
    x: &PyTensor,
    size: [Whole; 2],
    mode: &str,
    align_corners: bool,
) -> PyResult<PyTensor> {
    let size = Pair::of(size, "interpolate", "size")?;
    let mode = interpolation(mode, align_corners)?;
    x.apply(py, move |x| x.interpolate(size, mode))
}

/// Images larger by factors.
#[pyfunction]
pub fn interpolate_by(
    py: Python<'_>,
    x: &PyTensor,
    factors: [f64; 2],
    mode: &str,
    align_corners: bool,
) -> PyResult<PyTensor> {
    let mode = interpolation(mode, align_corners)?;
    x.apply(py, move |x| x.interpolate_by(factors, mode))
}
