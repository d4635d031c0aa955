//! Gradients: backward passes, descent by hand, second derivatives, hooks.
//!
//! `cargo run --release --example 02_gradients`
#![allow(clippy::print_stdout)] // An example shows what it computes.

use hlx::prelude::*;

fn main() -> Result<()> {
    show(&Device::open_from_env("auto")?)
}

fn show(device: &Device) -> Result<()> {
    // A leaf collects its gradient.
    let x = Tensor::from_slice(device, &[1.0, 2.0, 3.0], &[3])?.with_gradient();
    x.square()?.sum()?.backward()?;
    assert_eq!(
        x.grad().expect("a gradient").to_vec::<f32>()?,
        [2.0, 4.0, 6.0]
    );

    fit_a_line(device)?;

    // The gradient of a gradient: d/dx of 3 x^2 is 6 x.
    let x = Tensor::full(device, &[], 2.0, DType::F32)?.with_gradient();
    let slope = x
        .pow(3.0)?
        .gradients(&[&x], true)?
        .remove(0)
        .expect("x is used");
    let curvature = slope.gradients(&[&x], false)?.remove(0).expect("x is used");
    println!("at 2, x^3 has the slope {slope} and the curvature {curvature}");
    assert_eq!(curvature.item::<f32>()?, 12.0);

    // A hook sees a gradient on its way, here to bound it.
    let h = x.mul(1000.0)?;
    let hook = h.register_hook(|gradient| Ok(Some(gradient.clamp(-1.0, 1.0)?)))?;
    h.square()?.backward()?;
    assert_eq!(x.grad().expect("a gradient").item::<f32>()?, 1000.0);
    hook.remove();
    Ok(())
}

/// Finds the slope and the offset of noisy points by gradient descent.
fn fit_a_line(device: &Device) -> Result<()> {
    let x = Tensor::linspace(device, -1.0, 1.0, 64)?;
    let noise = Tensor::randn(device, &[64], 1)?.mul(0.1)?;
    let y = ((&x * 3.0)? - 0.5)?.add(&noise)?;
    let mut slope = Tensor::zeros(device, &[], DType::F32)?.with_gradient();
    let mut offset = Tensor::zeros(device, &[], DType::F32)?.with_gradient();
    for step in 0..100 {
        let error = x.mul(&slope)?.add(&offset)?.sub(&y)?;
        let loss = error.square()?.mean()?;
        loss.backward()?;
        for parameter in [&mut slope, &mut offset] {
            let gradient = parameter.grad().expect("a gradient");
            no_grad(|| parameter.sub_(gradient.mul(0.3)?).map(drop))?;
            parameter.zero_grad();
        }
        if step % 25 == 0 {
            println!("step {step}: loss {loss}");
        }
    }
    println!("slope {slope}, offset {offset}");
    let (slope, offset) = (slope.item::<f32>()?, offset.item::<f32>()?);
    assert!((slope - 3.0).abs() < 0.1 && (offset + 0.5).abs() < 0.1);
    Ok(())
}

#[test]
fn it_runs_on_every_device() -> Result<()> {
    hlx::device::testing::devices().iter().try_for_each(show)
}
