//! Operations that a device computes in fewer launches for few rows, without gradients: the bits of their parts, for any
//! number of rows, on every device.

use hlx_autograd::{Activation, DType, Result, Tensor, no_grad};
use hlx_core::{Arithmetic, Device};

const K: usize = 64;
const F: usize = 128;

/// The matrices of a network, one behind the other in memory, and its vectors.
struct Network {
    gate: Tensor,
    up: Tensor,
    down: Tensor,
    biases: [Tensor; 3],
    gain: Tensor,
}

impl Network {
    fn new(device: &Device, dtype: DType) -> Result<Self> {
        let random = |shape: &[usize], seed| Tensor::randn(device, shape, seed);
        let both = random(&[2 * F, K], 1)?.to_dtype(dtype)?;
        Ok(Self {
            gate: both.narrow(0, 0, F)?,
            up: both.narrow(0, F, F)?,
            down: random(&[K, F], 2)?.to_dtype(dtype)?,
            biases: [random(&[F], 3)?, random(&[F], 4)?, random(&[K], 5)?],
            gain: random(&[K], 6)?,
        })
    }

    /// The maps of gate, up and down.
    fn maps(&self, biased: bool) -> [(&Tensor, Option<&Tensor>); 3] {
        let [a, b, c] = self.biases.each_ref().map(|bias| biased.then_some(bias));
        [(&self.gate, a), (&self.up, b), (&self.down, c)]
    }
}

/// Compares both operations with their parts, for an input of this many rows.
fn compare(device: &Device, network: &Network, rows: usize) -> Result<()> {
    let x = Tensor::randn(device, &[1, rows, K], 7)?;
    let residual = Tensor::randn(device, &[1, rows, K], 8)?;
    let bits = |y: &Tensor| -> Result<Vec<u32>> {
        Ok(y.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
    };
    for (is_normed, biased) in [(true, false), (true, true), (false, false)] {
        let norm = is_normed.then_some((&network.gain, 1e-5));
        let normed = match norm {
            Some((gain, eps)) => x.rms_norm(&[K], Some(gain), eps)?,
            None => x.clone(),
        };
        let what = format!(
            "{rows} rows, norm {is_normed}, biases {biased}, {:?}",
            device.info()
        );
        let maps = network.maps(biased);
        let [gate, up, down] = maps;
        let expected = [normed.linear(gate.0, gate.1)?, normed.linear(up.0, up.1)?];
        let found = x.linears(norm, &maps[..2])?;
        assert_eq!(found.len(), 2);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.shape(), [1, rows, F]);
            assert_eq!(bits(found)?, bits(expected)?, "linears, {what}");
        }
        for kind in [Activation::SiLU, Activation::GELUTanh] {
            let hidden = expected[0].activation(kind)?.mul(&expected[1])?;
            let y = hidden.linear(down.0, down.1)?;
            let sum = residual.add(&y)?;
            let found = x.gated_feed_forward(norm, maps, kind, None)?;
            assert_eq!(bits(&found)?, bits(&y)?, "{kind:?}, {what}");
            let found = x.gated_feed_forward(norm, maps, kind, Some(&residual))?;
            assert_eq!(bits(&found)?, bits(&sum)?, "{kind:?}, residual, {what}");
        }
    }
    Ok(())
}

#[test]
fn they_have_the_bits_of_their_parts() -> Result<()> {
    let devices = Arithmetic::EVERYWHERE.map(hlx_core::testing::own_devices_in);
    for device in devices.into_iter().flatten() {
        for dtype in [DType::F32, DType::BF16] {
            let network = Network::new(&device, dtype)?;
            for rows in [1, 3, 17] {
                no_grad(|| compare(&device, &network, rows))?;
            }
        }
    }
    Ok(())
}

#[test]
fn one_row_of_weights_side_by_side_is_one_launch_on_a_gpu() -> Result<()> {
    for device in hlx_core::testing::vulkan_devices() {
        let network = Network::new(&device, DType::F32)?;
        let x = Tensor::randn(&device, &[1, K], 7)?;
        let norm = Some((&network.gain, 1e-5));
        let maps = network.maps(false);
        let (graph, _) = device.record(|| x.linears(norm, &maps[..2]))?;
        assert_eq!(graph.len(), 1);
        let kind = Activation::SiLU;
        let (graph, _) = device.record(|| x.gated_feed_forward(norm, maps, kind, Some(&x)))?;
        assert_eq!(graph.len(), 2);
        // Where a gradient is wanted, the norm and each product are launches of their own.
        let x = x.with_gradient();
        let (graph, _) = device.record(|| x.linears(norm, &maps[..2]))?;
        assert_eq!(graph.len(), 3);
    }
    Ok(())
}

#[test]
fn gradients_are_those_of_the_parts() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let network = Network::new(&device, DType::F32)?;
    let maps = network.maps(true);
    let [gate, up, down] = maps;
    let kind = Activation::SiLU;
    let slope = |network: &dyn Fn(&Tensor) -> Result<Tensor>| -> Result<Vec<f32>> {
        let x = Tensor::randn(&device, &[3, K], 7)?.with_gradient();
        network(&x)?.square()?.sum()?.backward()?;
        x.grad().expect("a gradient").to_vec::<f32>()
    };
    let norm = Some((&network.gain, 1e-5));
    let found = slope(&|x| x.gated_feed_forward(norm, maps, kind, Some(x)))?;
    let expected = slope(&|x| {
        let normed = x.rms_norm(&[K], Some(&network.gain), 1e-5)?;
        let up = normed.linear(up.0, up.1)?;
        let gate = normed.linear(gate.0, gate.1)?;
        let hidden = gate.activation(kind)?.mul(&up)?;
        hidden.linear_add(down.0, down.1, x)
    })?;
    assert_eq!(found, expected);
    Ok(())
}

#[test]
fn samples_and_empty_maps_are_those_of_the_parts() -> Result<()> {
    for device in hlx_core::testing::own_devices() {
        let network = Network::new(&device, DType::F32)?;
        let maps = network.maps(true);
        no_grad(|| {
            let x = Tensor::randn(&device, &[1, 2, K], 7)?.with_samples(1)?;
            let expected = x.linear(maps[0].0, maps[0].1)?.samples();
            assert_eq!(x.linears(None, &maps[..1])?[0].samples(), expected);
            let y = x.gated_feed_forward(None, maps, Activation::SiLU, None)?;
            assert_eq!(y.samples(), expected);

            let [none, down] =
                [[0, K], [K, 0]].map(|shape| Tensor::zeros(&device, &shape, DType::F32));
            let (none, down) = (none?, down?);
            assert_eq!(x.linears(None, &[(&none, None)])?[0].shape(), [1, 2, 0]);
            let maps = [(&none, None), (&none, None), (&down, None)];
            let y = x.gated_feed_forward(None, maps, Activation::SiLU, Some(&x))?;
            assert_eq!(y.to_vec::<f32>()?, x.to_vec::<f32>()?);
            Ok::<(), hlx_autograd::AutogradError>(())
        })?;
    }
    Ok(())
}

#[test]
fn unfitting_maps_are_refused() -> Result<()> {
    let device = hlx_core::testing::cpu()?;
    let network = Network::new(&device, DType::F32)?;
    let x = Tensor::randn(&device, &[3, K], 7)?;
    let [gate, up, down] = network.maps(false);
    let text = |result: Result<()>| result.expect_err("refused").to_string();
    let found = text(
        x.linears(Some((&network.biases[0], 1e-5)), &[gate])
            .map(drop),
    );
    assert_eq!(found, "linears: the gain has shape [128], expected [64]");
    let found = text(x.linears(None, &[gate, down]).map(drop));
    assert_eq!(
        found,
        "linears: a weight has shape [64, 128], expected [N, 64]"
    );
    let short = network.up.narrow(0, 0, 5)?;
    let maps = [gate, (&short, None), down];
    let found = text(
        x.gated_feed_forward(None, maps, Activation::SiLU, None)
            .map(drop),
    );
    let expected = "gated_feed_forward: the weight up has shape [5, 64], expected [128, 64]";
    assert_eq!(found, expected);
    let residual = Some(&network.gain);
    let maps = [gate, up, down];
    let found = text(
        x.gated_feed_forward(None, maps, Activation::SiLU, residual)
            .map(drop),
    );
    let expected = "gated_feed_forward: the residual has shape [64], expected [3, 64]";
    assert_eq!(found, expected);
    Ok(())
}
