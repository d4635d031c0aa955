//! Weights in blocks as operands of operations: products by their law, and their values for everything else.

use hlx_autograd::{DType, Result, Tensor, no_grad};
use hlx_core::testing::devices;
use hlx_core::{Arithmetic, Device};
use hlx_kernels::product::blocks::{BlockFormat, BlockRows};

/// Values of a counter, within -1 to 1.
fn values(device: &Device, seed: u32, shape: &[usize]) -> Result<Tensor> {
    let value = |at: u32| {
        let word = (at + 1000 * seed).wrapping_mul(0x9e37_79b9) >> 8;
        word as f32 / (1 << 23) as f32 - 1.0
    };
    let n = shape.iter().product::<usize>() as u32;
    Tensor::from_slice(device, &(0..n).map(value).collect::<Vec<_>>(), shape)
}

fn weight(device: &Device, name: &str, [n, k]: [usize; 2]) -> Result<Tensor> {
    let format = BlockFormat::named(name).expect("a format");
    let rows = BlockRows::new(device, format, [n, k], |row, at, block| {
        let integers = block.q.iter_mut().enumerate();
        integers.for_each(|(i, q)| *q = ((7 * row + 3 * at + i * i) % 4) as i8);
        let scales = block.scales.iter_mut().enumerate();
        scales.for_each(|(g, scale)| *scale = ((row + g) % 15) as i8);
        (block.d, block.dmin) = (0.0625, 0.125);
    })?;
    Tensor::from_blocks(device, rows)
}

fn bits(x: &Tensor) -> Result<Vec<u32>> {
    Ok(x.to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect())
}

/// All forms of a linear layer have the bits of a plain one, and few rows those of many.
#[test]
fn every_form_of_a_linear_map_has_the_same_bits() -> Result<()> {
    let mut first: Option<Vec<u32>> = None;
    for device in devices() {
        let device = &device.with_arithmetic(Arithmetic::Integer);
        let (up, gate) = (
            weight(device, "Q4_K", [48, 512])?,
            weight(device, "Q6_K", [48, 512])?,
        );
        let x = values(device, 1, &[21, 512])?;
        let gain = values(device, 3, &[512])?;
        let residual = values(device, 4, &[21, 48])?;
        let all = no_grad(|| {
            let norm = x.rms_norm(&[512], Some(&gain), 1e-5)?;
            let maps = x.linears(Some((&gain, 1e-5)), &[(&up, None), (&gate, None)])?;
            for (map, weight) in maps.iter().zip([&up, &gate]) {
                assert_eq!(bits(map)?, bits(&norm.linear(weight, None)?)?);
                for rows in [1, 3] {
                    let few = x
                        .narrow(0, 2, rows)?
                        .linears(Some((&gain, 1e-5)), &[(weight, None)])?;
                    assert_eq!(bits(&few[0])?, bits(&map.narrow(0, 2, rows)?)?);
                }
            }
            let y = norm.linear(&up, None)?;
            assert_eq!(
                bits(&norm.linear_add(&up, None, &residual)?)?,
                bits(&y.add(&residual)?)?
            );
            bits(&y)
        })?;
        assert_eq!(*first.get_or_insert_with(|| all.clone()), all, "{device:?}");
    }
    Ok(())
}

/// What the blocks stand for, in everything that is no product: and products are close to those of the values.
#[test]
fn other_operations_read_the_values() -> Result<()> {
    for device in devices() {
        let device = &device.with_arithmetic(Arithmetic::Integer);
        for name in ["Q4_K", "Q3_K", "Q8_0", "MXFP4"] {
            let weight = weight(device, name, [19, 256])?;
            assert_eq!(
                (weight.shape(), weight.dtype()),
                (&[19, 256][..], DType::F32)
            );
            let wide = Tensor::from_slice(device, &weight.to_vec::<f32>()?, &[19, 256])?;
            assert_eq!(bits(&weight.add(&wide)?)?, bits(&wide.add(&wide)?)?);
            assert_eq!(
                bits(&weight.transpose(0, 1)?.square()?)?,
                bits(&wide.transpose(0, 1)?.square()?)?
            );
            let ids = Tensor::from_slice::<u32>(device, &[3, 18, 0], &[3])?;
            assert_eq!(
                bits(&ids.embedding(&weight)?)?,
                bits(&ids.embedding(&wide)?)?
            );
            let x = values(device, 1, &[2, 256])?;
            let exact = x.detach().to_vec::<f32>()?;
            let rows = wide.to_vec::<f32>()?;
            let found = x.linear(&weight, None)?.to_vec::<f32>()?;
            for (i, found) in found.iter().enumerate() {
                let terms = exact[i / 19 * 256..][..256]
                    .iter()
                    .zip(&rows[i % 19 * 256..]);
                let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), (x, w)| {
                    let term = f64::from(*x) * f64::from(*w);
                    (sum + term, size + term.abs())
                });
                assert!(
                    (f64::from(*found) - sum).abs() <= size * 3e-5,
                    "{name} {i}: {found} {sum}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn blocks_do_not_change_and_have_no_gradient() -> Result<()> {
    let device = hlx_core::testing::cpu()?.with_arithmetic(Arithmetic::Integer);
    let mut weight = weight(&device, "Q4_0", [2, 64])?;
    let error = weight.fill_(1.0).map(|_| ()).expect_err("an error");
    assert_eq!(
        error.to_string(),
        "fill_: a weight of [2, 64] in blocks does not change"
    );
    let x = values(&device, 1, &[3, 64])?.with_gradient();
    // The gradient of the input reads the values: it is that of the widened weight.
    let wide = Tensor::from_slice(&device, &weight.to_vec::<f32>()?, &[2, 64])?;
    let slope = |weight: &Tensor| {
        let y = x.linear(weight, None)?.sum()?;
        let mut slopes = y.gradients(&[&x], false)?;
        let slope = slopes.remove(0);
        slope.expect("a gradient").to_vec::<f32>()
    };
    assert_eq!(slope(&weight)?, slope(&wide)?);
    Ok(())
}
