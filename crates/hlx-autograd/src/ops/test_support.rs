//! What the operations' tests share: inputs and the check against finite differences.

use hlx_core::arith::philox4x32;
use hlx_core::{Arithmetic, Device};

use crate::{GradCheck, Result, Tensor, gradcheck};

/// `n` values in [-1.5, 1.5), a different series for each seed.
pub fn values(seed: u32, n: usize) -> Vec<f32> {
    let unit =
        |i: usize| (philox4x32([i as u32, 0, 0, 0], [seed, 7])[0] >> 8) as f32 / 16_777_216.0;
    (0..n).map(|i| 3.0 * unit(i) - 1.5).collect()
}

/// The CPU device, one device for all operands.
fn device() -> Device {
    hlx_core::testing::devices()[0].clone()
}

/// A tensor of such values on the CPU device.
pub fn input(seed: u32, shape: &[usize]) -> Tensor {
    let device = device();
    let n = shape.iter().product();
    Tensor::from_slice(&device, &values(seed, n), shape).expect("the input uploads")
}

/// A tensor of ids below `limit` on the CPU device.
pub fn ids(seed: u32, limit: u32, shape: &[usize]) -> Tensor {
    let device = device();
    let n: usize = shape.iter().product();
    let ids: Vec<u32> = (0..n)
        .map(|i| philox4x32([i as u32, 0, 0, 0], [seed, 9])[0] % limit)
        .collect();
    Tensor::from_slice::<u32>(&device, &ids, shape).expect("the ids upload")
}

/// Compares every derivative of `operation` with finite differences.
pub fn check(op: &str, inputs: &[Tensor], operation: impl Fn(&[Tensor]) -> Result<Tensor>) {
    gradcheck(op, inputs, operation, &GradCheck::default()).expect("derivatives agree");
}

/// The message of an operation that must fail.
pub fn message(result: Result<Tensor>) -> String {
    result
        .expect_err("the operation refuses its arguments")
        .to_string()
}

/// Every device in the integer arithmetic.
pub(crate) fn in_integer() -> Vec<Device> {
    let devices = hlx_core::testing::devices().iter();
    devices
        .map(|device| device.with_arithmetic(Arithmetic::Integer))
        .collect()
}
