//! Squared error of each element, and its derivative.
//!
//! `loss[i] = (pred[i] - target[i])^2` and `dpred[i] = (2 (pred[i] - target[i])) scale[0]`, each
//! operation rounded. The mean is a [`sum`](crate::reduce::sum) of the losses times 1/n; `scale`
//! then holds 1/n.

use hlx_core::{Binding, Buffer, Device};

use crate::error::Result;
use crate::map::{Arg, Map, chunks, each2};

shader!(mse::{forward, backward});

/// Computes `loss_rows = (pred - target)^2`, element by element.
///
/// # Errors
/// A shape error if the lengths differ, or the device's error.
pub fn mse_forward(
    device: &Device,
    pred: &Buffer,
    target: &Buffer,
    loss_rows: &Buffer,
) -> Result<()> {
    Map::new("mse_forward", &forward::SHADER).each(
        device,
        [("pred", pred), ("target", target)],
        ("loss_rows", loss_rows),
        |[pred, target], loss| loss_chunk(pred, target, loss),
    )
}

/// Computes `dpred = 2 (pred - target) scale[0]`.
///
/// # Errors
/// As [`mse_forward`].
pub fn mse_backward(
    device: &Device,
    pred: &Buffer,
    target: &Buffer,
    scale: &Buffer,
    dpred: &Buffer,
) -> Result<()> {
    let map = Map::new("mse_backward", &backward::SHADER);
    let args = [
        Arg::Each("pred", Binding::Read(pred)),
        Arg::Each("target", Binding::Read(target)),
        Arg::Each("dpred", Binding::Write(dpred)),
        Arg::Whole("scale", scale, 1),
    ];
    map.launch(device, &args, |bindings| {
        let ([pred, target, scale], [dpred]) = bindings.split::<3, 1>();
        chunks([pred, target], dpred, |[pred, target], dpred| {
            slope_chunk(scale[0], pred, target, dpred);
        });
    })
}

multiversion! {
    fn loss_chunk<A>(pred: &[f32], target: &[f32], loss: &mut [f32]) {
        each2(pred, target, loss, |p, t| A::mul(p - t, p - t));
    }

    fn slope_chunk<A>(scale: f32, pred: &[f32], target: &[f32], dpred: &mut [f32]) {
        each2(pred, target, dpred, |p, t| A::mul(2.0 * (p - t), scale));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, normal, run_everywhere};

    #[test]
    fn loss_and_derivative_match_the_reference() {
        for n in [1, 31, 32, 33, 1009, 4096] {
            let (pred, target) = (normal(1, n), normal(2, n));
            let got = run_everywhere("mse", |device, mem| {
                let (p, t) = (mem.input(device, &pred)?, mem.input(device, &target)?);
                let scale = mem.input(device, &[0.3])?;
                let (loss, dpred) = (mem.output(device, n)?, mem.output(device, n)?);
                mse_forward(device, &p, &t, &loss)?;
                mse_backward(device, &p, &t, &scale, &dpred)?;
                Ok(vec![loss, dpred])
            });
            let difference: Vec<f64> = pred
                .iter()
                .zip(&target)
                .map(|(p, t)| f64::from(*p) - f64::from(*t))
                .collect();
            let loss: Vec<f64> = difference.iter().map(|d| d * d).collect();
            let slope: Vec<f64> = difference.iter().map(|d| 0.6 * d).collect();
            assert_close("mse_forward", &got[0], &loss, 1e-6, 1e-12);
            assert_close("mse_backward", &got[1], &slope, 1e-6, 1e-7);
        }
    }
}
