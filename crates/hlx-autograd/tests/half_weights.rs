//! Products of f32 inputs with weights of 16 bits: the bits of the widened weights.

use hlx_autograd::{Activation, AutogradError, DType, Result, Tensor};
use hlx_core::{Arithmetic, Device};

/// Values of a counter, within -1 to 1.
fn values(device: &Device, seed: u32, shape: &[usize]) -> Result<Tensor> {
    let value = |at: u32| {
        let word = (at + 1000 * seed).wrapping_mul(0x9e37_79b9) >> 8;
        word as f32 / (1 << 23) as f32 - 1.0
    };
    let n = shape.iter().product::<usize>() as u32;
    Tensor::from_slice(device, &(0..n).map(value).collect::<Vec<_>>(), shape)
}

#[test]
fn a_weight_of_16_bits_has_the_bits_of_the_widened_one() -> Result<()> {
    for device in hlx_core::testing::devices() {
        let (weight, bias) = (values(device, 2, &[40, 24])?, values(device, 3, &[40])?);
        for (dtype, rows) in [(DType::BF16, 3), (DType::F16, 3), (DType::BF16, 19)] {
            let x = values(device, 1, &[rows, 24])?.with_gradient();
            let residual = values(device, 4, &[rows, 40])?;
            let half = weight.to_dtype(dtype)?;
            let wide = half.to_dtype(DType::F32)?;
            let results = |weight: &Tensor| {
                let y = x.linear(weight, Some(&bias))?;
                let sum = x.linear_add(weight, None, &residual)?;
                let mut slopes = y.square()?.sum()?.gradients(&[&x], false)?;
                let slope = slopes.remove(0).expect("x has a gradient");
                Ok::<_, AutogradError>([
                    y.to_vec::<f32>()?,
                    sum.to_vec::<f32>()?,
                    slope.to_vec::<f32>()?,
                ])
            };
            let (found, expected) = (results(&half)?, results(&wide)?);
            assert_eq!(found, expected, "{dtype}, {rows} rows, {device:?}");
        }
    }
    Ok(())
}

/// The maps of a feed-forward network, with all that their products take besides: bias, activation,
/// residual, in both arithmetics.
#[test]
fn a_network_of_16_bit_weights_has_the_bits_of_the_widened_ones() -> Result<()> {
    let devices = hlx_core::testing::devices();
    let integer = devices[0].with_arithmetic(Arithmetic::Integer);
    for device in devices.iter().chain([&integer]) {
        let (up, down) = (values(device, 2, &[40, 24])?, values(device, 3, &[24, 40])?);
        let (bias, after) = (values(device, 4, &[40])?, values(device, 5, &[24])?);
        for (dtype, rows) in [(DType::BF16, 3), (DType::F16, 19)] {
            let x = values(device, 1, &[rows, 24])?.with_gradient();
            let residual = values(device, 6, &[rows, 24])?;
            let half = [up.to_dtype(dtype)?, down.to_dtype(dtype)?];
            let wide = [half[0].to_dtype(DType::F32)?, half[1].to_dtype(DType::F32)?];
            let results = |[up, down]: &[Tensor; 2]| {
                let (up, down) = ((up, Some(&bias)), (down, Some(&after)));
                let y = x.feed_forward(up, Activation::GELUTanh, down, Some(&residual))?;
                let mut slopes = y.square()?.sum()?.gradients(&[&x], false)?;
                let slope = slopes.remove(0).expect("x has a gradient");
                Ok::<_, AutogradError>([y.to_vec::<f32>()?, slope.to_vec::<f32>()?])
            };
            assert_eq!(
                results(&half)?,
                results(&wide)?,
                "{dtype}, {rows} rows, {device:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn weights_of_other_types_are_refused() -> Result<()> {
    let device = &hlx_core::testing::cpu()?;
    let (x, weight) = (values(device, 1, &[3, 5])?, values(device, 2, &[4, 5])?);
    let refused = |weight: &Tensor| {
        let refused = x.linear(weight, None).map(drop);
        refused.expect_err("it is refused").to_string()
    };
    let trained = weight.to_dtype(DType::BF16)?.detach().with_gradient();
    let text = refused(&trained);
    assert_eq!(text, "linear: weight has elements of bf16, expected f32");
    let text = refused(&weight.to_dtype(DType::I32)?);
    assert_eq!(text, "linear: weight has elements of i32, expected f32");
    Ok(())
}
