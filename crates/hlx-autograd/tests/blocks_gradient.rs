//! Gradients through frozen weights in blocks, by their own law: widened, and in `integer` quantised again by column.

use hlx_autograd::{Result, Tensor};
use hlx_core::testing::devices;
use hlx_core::{Arithmetic, Device};
use hlx_kernels::product::blocks::{BLOCK_FORMATS, BlockFormat, BlockRows};

/// Values of a counter, within -1 to 1.
fn values(seed: u32, n: usize) -> Vec<f32> {
    let value = |at: u32| {
        let word = (at + 1000 * seed).wrapping_mul(0x9e37_79b9) >> 8;
        word as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n as u32).map(value).collect()
}

fn weight(device: &Device, format: &'static BlockFormat, sizes: [usize; 2]) -> Result<Tensor> {
    Tensor::from_blocks(device, BlockRows::drawn(device, format, sizes, 7)?)
}

/// The gradient of x of a linear map, with a residual and without, from a gradient dy of its result.
fn slopes(x: &Tensor, weight: &Tensor, dy: &Tensor) -> Result<[Vec<f32>; 2]> {
    let x = &x.detach().with_gradient();
    let slope = |y: Tensor| {
        let mut slopes = y.mul(dy)?.sum()?.gradients(&[x], false)?;
        slopes.remove(0).expect("a gradient").to_vec::<f32>()
    };
    let alone = slope(x.linear(weight, None)?)?;
    let twice = slope(x.linear(weight, None)?.add(&x.linear(weight, None)?)?)?;
    Ok([alone, twice])
}

fn words(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Of every format: the bits of the widened weight's product in both arithmetics on every device, and close to a sum in f64.
#[test]
fn gradients_are_those_of_the_widened_weight() -> Result<()> {
    let [rows, n, k] = [5, 37, 256];
    for format in &BLOCK_FORMATS {
        // In portable the format shows in nothing but the values.
        let portable = format.name == "Q4_K";
        let arithmetics = [Arithmetic::Integer, Arithmetic::Portable];
        for &arithmetic in &arithmetics[..1 + usize::from(portable)] {
            let mut first = None;
            for device in devices() {
                let device = &device.with_arithmetic(arithmetic);
                let x = Tensor::from_slice(device, &values(1, rows * k), &[rows, k])?;
                let dy = Tensor::from_slice(device, &values(2, rows * n), &[rows, n])?;
                let weight = weight(device, format, [n, k])?;
                let found = slopes(&x, &weight, &dy)?;
                let wide = weight.to_vec::<f32>()?;
                let plain = Tensor::from_slice(device, &wide, &[n, k])?;
                let expected = slopes(&x, &plain, &dy)?;
                let name = format.name;
                assert_eq!(
                    found.each_ref().map(|x| words(x)),
                    expected.map(|x| words(&x)),
                    "{name}"
                );
                let dy = dy.to_vec::<f32>()?;
                for (at, found) in found[0].iter().enumerate() {
                    let (row, column) = (at / k, at % k);
                    let exact =
                        |j: usize| f64::from(dy[row * n + j]) * f64::from(wide[j * k + column]);
                    let sum: f64 = (0..n).map(exact).sum();
                    // Half a step of 8 bits for each term, of the column's largest magnitude, 0.035.
                    let bound = match arithmetic {
                        Arithmetic::Integer => n as f64 * 0.035 / 127.0,
                        _ => 1e-6,
                    };
                    let off = (f64::from(*found) - sum).abs();
                    assert!(off <= bound, "{name} {at}: {found}, in f64 {sum}");
                }
                let bits = words(&found[0]);
                assert_eq!(
                    *first.get_or_insert_with(|| bits.clone()),
                    bits,
                    "{device:?}"
                );
            }
        }
    }
    Ok(())
}

/// Rows past a piece of 4,096, whose results are added in order, and a graph that is replayed over another gradient.
#[test]
fn a_recorded_pass_computes_the_values_again() -> Result<()> {
    let [rows, n, k] = [3, 4100, 64];
    let format = BlockFormat::named("Q4_0").expect("a format");
    let mut first = None;
    for device in hlx_core::testing::own_devices() {
        let device = &device.with_arithmetic(Arithmetic::Integer);
        let weight = weight(device, format, [n, k])?;
        let before = device.memory().in_use_bytes;
        let x = Tensor::from_slice(device, &values(1, rows * k), &[rows, k])?.with_gradient();
        let dy = Tensor::from_slice(device, &values(2, rows * n), &[rows, n])?;
        let plain = Tensor::from_slice(device, &values(2, rows * n), &[rows, n])?;
        let (graph, dx) = device.record(|| {
            let y = x.linear(&weight, None)?.mul(&dy)?.sum()?;
            let mut slopes = y.gradients(&[&x], false)?;
            Ok::<_, hlx_autograd::AutogradError>(slopes.remove(0).expect("a gradient"))
        })?;
        graph.replay()?;
        let once = words(&dx.to_vec::<f32>()?);
        device.copy(&plain.buffer()?, &dy.buffer()?)?;
        graph.replay()?;
        assert_eq!(words(&dx.to_vec::<f32>()?), once);
        assert_eq!(
            *first.get_or_insert_with(|| once.clone()),
            once,
            "{device:?}"
        );
        drop((graph, dx, x, dy, plain));
        // Nothing of the widened weight, 1 MB, stays behind.
        let left = device.memory().in_use_bytes.saturating_sub(before);
        assert!(left < 200_000, "{left} bytes of {device:?}");
    }
    Ok(())
}
