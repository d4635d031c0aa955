//! Activations saved in 16 bits: the forward pass keeps its bits, and the gradients are the same ones on every device,
//! launched one by one or recorded, and where a block is computed again.

use hlx_autograd::{
    Activation, AttentionSpec, BackwardPlan, ConvOptions, Recompute, Result, Tensor,
};
use hlx_core::digest::canonical_bits;
use hlx_core::testing::own_devices_in;
use hlx_core::{Arithmetic, DType, Device, SavedFormat};

const TIME: usize = 8;
const WIDTH: usize = 16;
const SHAPES: [&[usize]; 9] = [
    &[WIDTH],
    &[3 * WIDTH, WIDTH],
    &[WIDTH, WIDTH],
    &[4 * WIDTH, WIDTH],
    &[WIDTH, 4 * WIDTH],
    &[2 * WIDTH, WIDTH],
    &[2 * WIDTH, WIDTH],
    &[WIDTH, 2 * WIDTH],
    &[TIME, TIME, 3],
];

/// Parameters and the input, \[4, 8, 16\], of two blocks of transformers and a convolution.
struct Network {
    parameters: Vec<Tensor>,
    x: Tensor,
    weights: Tensor,
}

impl Network {
    fn new(device: &Device) -> Result<Self> {
        let of = |seed: usize, shape: &[usize]| {
            let n = shape.iter().product();
            let value = |i: usize| ((i + 3) * (2 * seed + 37) % 101) as f32 / 90.0 - 0.55;
            Tensor::from_slice(device, &(0..n).map(value).collect::<Vec<_>>(), shape)
        };
        let leaf = |(seed, shape): (usize, &&[usize])| Ok(of(seed, shape)?.with_gradient());
        Ok(Self {
            parameters: SHAPES.iter().enumerate().map(leaf).collect::<Result<_>>()?,
            x: of(11, &[4, TIME, WIDTH])?.with_gradient(),
            weights: of(12, &[4, TIME, WIDTH])?,
        })
    }

    fn body(parameters: &[Tensor], x: &Tensor) -> Result<Tensor> {
        let [gain, qkv, out, up, down, gate, gated_up, gated_down, filter] = parameters else {
            unreachable!("nine parameters");
        };
        let attended = x
            .layer_norm(gain, gain, 1e-5)?
            .linear(qkv, None)?
            .packed_attention(2, &AttentionSpec::causal())?;
        let x = attended.linear_add(out, None, x)?;
        let inner = x.layer_norm(gain, gain, 1e-5)?;
        let x = inner.feed_forward((up, None), Activation::GELU, (down, None), Some(&x))?;
        let inner = x.rms_norm(&[WIDTH], Some(gain), 1e-5)?;
        let maps = [(gate, None), (gated_up, None), (gated_down, None)];
        let x = inner.gated_feed_forward(None, maps, Activation::SiLU, Some(&x))?;
        let padded = ConvOptions {
            padding: [0, 1],
            ..ConvOptions::default()
        };
        x.add(x.conv1d(filter, None, &padded)?.mul(0.25)?)
    }

    /// A pass forward and backward; the result.
    fn pass(&self, recompute: Option<Recompute>) -> Result<Tensor> {
        let x = self.x.mul(1.5)?.with_samples(0)?;
        let y = match recompute {
            None => Self::body(&self.parameters, &x)?,
            Some(recompute) => {
                let parameters = self.parameters.clone();
                x.checkpoint_with(recompute, move |x| Self::body(&parameters, x))?
            }
        };
        let loss = y.tanh()?.mul(&self.weights)?.sum()?;
        loss.backward_with(&BackwardPlan {
            shards: 2,
            ..BackwardPlan::default()
        })?;
        Ok(y)
    }

    /// The gradients' values.
    fn gradients(&self) -> Result<Vec<f32>> {
        let leaves = self.parameters.iter().chain([&self.x]);
        let of = |leaf: &Tensor| leaf.grad().expect("a gradient").to_vec::<f32>();
        Ok(leaves.map(of).collect::<Result<Vec<_>>>()?.concat())
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|&value| canonical_bits(value)).collect()
}

/// The result and the gradients of a pass that is launched or recorded.
fn outcome(device: &Device, recorded: bool, recompute: Option<Recompute>) -> Result<[Vec<f32>; 2]> {
    let network = Network::new(device)?;
    let y = match recorded {
        false => network.pass(recompute)?,
        true => {
            let (graph, y) = device.record(|| network.pass(recompute))?;
            graph.replay()?;
            y
        }
    };
    Ok([y.to_vec()?, network.gradients()?])
}

#[test]
fn gradients_have_the_same_bits_on_every_device_and_in_every_way() -> Result<()> {
    for arithmetic in Arithmetic::EVERYWHERE {
        let devices = own_devices_in(arithmetic);
        // The CPU device, whose passes in f32 have the bits of all.
        let [y, exact] = outcome(&devices[0], false, None)?;
        let half = devices[0].with_saved_format(SavedFormat::Bf16);
        let [_, rounded] = outcome(&half, false, None)?;
        let norm = |all: &mut dyn Iterator<Item = f32>| all.map(|x| x * x).sum::<f32>().sqrt();
        let error = norm(&mut rounded.iter().zip(&exact).map(|(a, b)| a - b));
        let size = norm(&mut exact.iter().copied());
        assert!(
            error > 1e-5 * size && error < 0.01 * size,
            "{error} of {size}"
        );
        for device in devices {
            let half = device.with_saved_format(SavedFormat::Bf16);
            for (recorded, recompute) in [
                (false, None),
                (true, None),
                (false, Some(Recompute::All)),
                (true, Some(Recompute::AllButAttention)),
            ] {
                if !device.is_cpu() && !recorded && recompute.is_some() {
                    continue;
                }
                let what = format!(
                    "{arithmetic} on {}, {recorded}, {recompute:?}",
                    device.info()
                );
                let [found_y, found] = outcome(&half, recorded, recompute)?;
                assert_eq!(bits(&found_y), bits(&y), "{what}: forward");
                assert_eq!(bits(&found), bits(&rounded), "{what}");
            }
        }
    }
    Ok(())
}

#[test]
fn what_is_saved_takes_half_and_a_second_derivative_reads_it() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let held = |format: SavedFormat| -> Result<u64> {
        let device = device.with_saved_format(format);
        let leaf = Tensor::ones(&device, &[64, 64], DType::F32)?.with_gradient();
        let weight = leaf.clone();
        let x = leaf.mul(0.3)?;
        let before = device.memory().in_use_bytes;
        let y = x.linear(&weight, None)?;
        drop(x);
        let held = device.memory().in_use_bytes - before + 64 * 64 * 4;
        drop(y);
        // Without the result.
        Ok(held - 64 * 64 * 4)
    };
    let [whole, half] = [held(SavedFormat::F32)?, held(SavedFormat::Bf16)?];
    assert_eq!(whole - half, 64 * 64 * 2);

    let device = device.with_saved_format(SavedFormat::Bf16);
    let x = Tensor::from_slice(&device, &[0.3_f32, -1.7, 2.9], &[3])?.with_gradient();
    let signal = x.mul(1.0)?;
    let slope = signal.gelu()?.sum()?.gradients(&[&x], true)?.remove(0);
    let second = slope
        .expect("a slope")
        .sum()?
        .gradients(&[&x], false)?
        .remove(0);
    let rounded = x
        .to_dtype(DType::BF16)?
        .to_dtype(DType::F32)?
        .detach()
        .with_gradient();
    let plain = rounded
        .mul(1.0)?
        .gelu()?
        .sum()?
        .gradients(&[&rounded], true)?
        .remove(0);
    let plain = plain
        .expect("a slope")
        .sum()?
        .gradients(&[&rounded], false)?
        .remove(0);
    let [second, plain] = [second, plain].map(|x| x.expect("a slope").to_vec::<f32>());
    assert_eq!(bits(&second?), bits(&plain?));
    Ok(())
}
