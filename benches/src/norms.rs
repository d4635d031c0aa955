//! The cases of batch norm, over all samples as one shard, and of RMS norm.

use anyhow::{Result, bail};
use hlx_core::{DType, Device};
use hlx_kernels::batch_norm::{
    BatchNorm, Running, batch_norm_apply, batch_norm_backward, batch_norm_statistics,
};
use hlx_kernels::norm::{
    Norm, NormBackwardInput, NormBackwardParams, NormForward, norm_backward_input,
    norm_backward_params, norm_forward,
};

use crate::maker::{Launches, Maker};

const EPSILON: f32 = 1e-5;

/// Prepares a case: samples, channels and the images' extent, or rows and columns.
///
/// # Errors
/// A device without the memory; an operation that does not exist.
pub fn norms(device: &Device, op: &str, sizes: &[usize]) -> Result<Launches> {
    match *sizes {
        [samples, channels, extent] => {
            let spec = BatchNorm {
                shards: 1,
                samples,
                channels,
                length: extent * extent,
            };
            batch_norm(device, op, spec)
        }
        [rows, cols] => rms_norm(device, op, rows, cols),
        _ => bail!("no operation `{op}` of norms"),
    }
}

fn batch_norm(device: &Device, op: &str, spec: BatchNorm) -> Result<Launches> {
    let make = Maker(device);
    let len = spec.samples * spec.channels * spec.length;
    let (x, y) = (make.values(len)?, make.empty(len)?);
    let (weight, bias) = (make.values(spec.channels)?, make.values(spec.channels)?);
    let (mean, variance) = (make.empty(spec.channels)?, make.empty(spec.channels)?);
    let tracked = device.alloc_typed(DType::U32, 1)?;
    device.fill(&tracked, 0)?;
    let stats = make.empty(2 * spec.channels)?;
    let device = device.clone();
    if op == "batch_norm_forward" {
        return Ok(Box::new(move || {
            let running = Running {
                mean: &mean,
                variance: &variance,
                tracked: &tracked,
                momentum: Some(0.1),
            };
            batch_norm_statistics(
                &device,
                &x,
                None,
                Some(&running),
                None,
                &stats,
                &spec,
                EPSILON,
            )?;
            let (b, t) = (&bias, Some(&tracked));
            batch_norm_apply(&device, &x, &weight, b, &stats, None, t, &y, &spec)
        }));
    }
    batch_norm_statistics(&device, &x, None, None, None, &stats, &spec, EPSILON)?;
    let dy = make.values(len)?;
    Ok(Box::new(move || {
        let sums = [&mean, &bias];
        batch_norm_backward(
            &device, &x, &weight, &stats, &dy, None, &y, sums, false, &spec,
        )
    }))
}

fn rms_norm(device: &Device, op: &str, rows: usize, cols: usize) -> Result<Launches> {
    let make = Maker(device);
    let (x, y) = (make.values(rows * cols)?, make.empty(rows * cols)?);
    let (weight, stats) = (make.values(cols)?, make.empty(rows)?);
    let device = device.clone();
    if op == "rms_norm_forward" {
        return Ok(Box::new(move || {
            norm_forward(
                &device,
                &Norm::rms(rows, cols, EPSILON),
                &NormForward {
                    x: &x,
                    weight: &weight,
                    bias: None,
                    y: &y,
                    stats: &stats,
                },
            )
        }));
    }
    norm_forward(
        &device,
        &Norm::rms(rows, cols, EPSILON),
        &NormForward {
            x: &x,
            weight: &weight,
            bias: None,
            y: &y,
            stats: &stats,
        },
    )?;
    let (dy, dweight) = (make.values(rows * cols)?, make.empty(cols)?);
    Ok(Box::new(move || {
        norm_backward_input(
            &device,
            &Norm::rms(rows, cols, EPSILON),
            &NormBackwardInput {
                x: &x,
                weight: &weight,
                stats: &stats,
                dy: &dy,
                residual: None,
                dx: &y,
            },
        )?;
        norm_backward_params(
            &device,
            &Norm::rms(rows, cols, EPSILON),
            &NormBackwardParams {
                x: &x,
                stats: &stats,
                dy: &dy,
                dweight: &dweight,
                dbias: None,
                shards: 1,
                accumulate: false,
            },
        )
    }))
}
