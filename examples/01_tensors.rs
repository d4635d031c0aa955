//! Tensors: making them, their types, views, broadcasting, reductions, changes in place.
//!
//! `cargo run --release --example 01_tensors`; `HLX_DEVICE=cpu` or `vulkan:0` selects the device.
#![allow(clippy::print_stdout)] // An example shows what it computes.

use hlx::prelude::*;

fn main() -> Result<()> {
    show(&Device::open_from_env("auto")?)
}

fn show(device: &Device) -> Result<()> {
    // From host values, from a rule, from a counter-based generator: the same numbers on any device.
    let x = Tensor::from_slice(device, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    let steps = Tensor::arange(device, 0.0, 3.0, 1.0)?;
    let noise = Tensor::randn(device, &[2, 3], 7)?;
    println!("x = {x}\nsteps = {steps}\nnoise = {noise}\n");

    // Operators take tensors and numbers, broadcast, and promote types as PyTorch does.
    let y = ((&x * 2.0)? + &steps)?;
    assert_eq!(y.to_vec::<f32>()?, [2.0, 5.0, 8.0, 8.0, 11.0, 14.0]);
    let counts = Tensor::from_slice(device, &[1_i32, 2, 3], &[3])?;
    assert_eq!(counts.add(&x)?.dtype(), DType::F32);
    assert_eq!(counts.div(2)?.dtype(), DType::F32);

    // Movements are views over the same memory.
    let transposed = x.transpose(0, 1)?;
    let corner = transposed.slice(0, 0..3, 2)?;
    println!("x transposed, every second row = {corner}\n");
    assert_eq!(corner.to_vec::<f32>()?, [1.0, 4.0, 3.0, 6.0]);

    // So a change in place of a view changes x.
    x.select(1, 0)?.fill_(9.0)?;
    assert_eq!(x.to_vec::<f32>()?, [9.0, 2.0, 3.0, 9.0, 5.0, 6.0]);

    // Reductions over any dimensions; a maximum brings its place.
    let (largest, places) = x.max_dim(1, false)?;
    println!(
        "sum = {}, largest of each row = {largest} at {places}",
        x.sum()?
    );
    assert_eq!(x.sum_dim(&[0], false)?.to_vec::<f32>()?, [18.0, 7.0, 9.0]);
    assert_eq!(places.to_vec::<u32>()?, [0, 0]);

    // Indexing by tensors and masks.
    let chosen = x.index_select(1, &Tensor::from_slice(device, &[2_i32, 0], &[2])?)?;
    assert_eq!(chosen.to_vec::<f32>()?, [3.0, 9.0, 6.0, 9.0]);
    assert_eq!(
        x.masked_select(&x.gt(4.0)?)?.to_vec::<f32>()?,
        [9.0, 9.0, 5.0, 6.0]
    );

    // Mistakes are errors that say what was found and what was expected.
    let error = x.matmul(&x).expect_err("shapes [2, 3] and [2, 3]");
    println!("{error}");
    assert_eq!(
        error.to_string(),
        "matmul: the right operand has shape [2, 3], expected [3, N]"
    );
    Ok(())
}

#[test]
fn it_runs_on_every_device() -> Result<()> {
    hlx::device::testing::devices().iter().try_for_each(show)
}
