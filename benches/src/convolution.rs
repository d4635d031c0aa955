//! The cases of convolutions: kernels of one stride, padded to the images' own size.

use anyhow::{Result, bail};
use hlx_core::Device;
use hlx_kernels::conv2d::{Conv2d, conv2d_backward_input, conv2d_backward_weight, conv2d_forward};

use crate::maker::{Launches, Maker, SHARDS};

/// Prepares a case: samples, channels of both sides, the images' extent, the kernel's.
///
/// # Errors
/// A device without the memory; an operation that does not exist.
pub fn convolution(device: &Device, op: &str, sizes: [usize; 5]) -> Result<Launches> {
    let [batch, in_channels, out_channels, extent, kernel] = sizes;
    let spec = Conv2d {
        batch,
        in_channels,
        out_channels,
        groups: 1,
        input: [extent; 2],
        kernel: [kernel; 2],
        stride: [1; 2],
        padding: [kernel / 2; 2],
        dilation: [1; 2],
    };
    let [height, width] = spec.output()?;
    let make = Maker(device);
    let x_len = batch * in_channels * extent * extent;
    let (y_len, weight_len) = (
        batch * out_channels * height * width,
        out_channels * in_channels * kernel * kernel,
    );
    let device = device.clone();
    match op {
        "conv2d_forward" => {
            let (x, weight) = (make.values(x_len)?, make.values(weight_len)?);
            let y = make.empty(y_len)?;
            Ok(Box::new(move || {
                conv2d_forward(&device, &x, &weight, None, &y, &spec)
            }))
        }
        "conv2d_backward_input" => {
            let (dy, weight) = (make.values(y_len)?, make.values(weight_len)?);
            let dx = make.empty(x_len)?;
            Ok(Box::new(move || {
                conv2d_backward_input(&device, &dy, &weight, &dx, &spec)
            }))
        }
        "conv2d_backward_weight" => {
            let shards = if batch.is_multiple_of(SHARDS) {
                SHARDS
            } else {
                1
            };
            let (x, dy) = (make.values(x_len)?, make.values(y_len)?);
            let dweight = make.empty(shards * weight_len)?;
            Ok(Box::new(move || {
                conv2d_backward_weight(&device, &x, &dy, &dweight, shards, false, &spec)
            }))
        }
        _ => bail!("no operation `{op}` of convolutions"),
    }
}
