//! A convolutional network that learns to read digits which HLX draws itself: docs/tutorial.md.
//!
//! `cargo run --release --example 05_cnn`
#![allow(clippy::print_stdout)] // An example shows what it computes.

use hlx_autograd::{AutogradError, ConvOptions, DType, PoolOptions, Tensor, no_grad};
use hlx_core::Context;
use hlx_data::{Cursor, DataError, DataLoader, ImageSet, ImageTransform, LastBatch, LoaderOptions};

/// The errors of tensors and of data, for `?`.
type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The network's parameters, all leaves.
struct Net {
    conv1: Tensor,
    conv2: Tensor,
    full: Tensor,
    bias: Tensor,
}

impl Net {
    /// Draws weights from U(-b, b) with b = 1 / sqrt(inputs), as PyTorch's layers do.
    fn new(ctx: &Context) -> Result<Self, AutogradError> {
        let drawn = |shape: &[usize], seed: u64| {
            let inputs: usize = shape[1..].iter().product();
            let bound = 1.0 / (inputs as f32).sqrt();
            let weight = Tensor::rand(ctx, shape, seed)?.mul(2.0)?.sub(1.0)?;
            Ok::<_, AutogradError>(weight.mul(bound)?.with_gradient())
        };
        Ok(Self {
            conv1: drawn(&[8, 1, 5, 5], 1)?,
            conv2: drawn(&[16, 8, 3, 3], 2)?,
            full: drawn(&[10, 16 * 5 * 5], 3)?,
            bias: Tensor::zeros(ctx, &[10], DType::F32)?.with_gradient(),
        })
    }

    /// Images \[N, 1, 28, 28\] to logits \[N, 10\].
    fn logits(&self, images: &Tensor) -> Result<Tensor, AutogradError> {
        let (plain, halves) = (ConvOptions::default(), PoolOptions::square(2));
        let x = images.conv2d(&self.conv1, None, &plain)?.relu()?; // [N, 8, 24, 24]
        let x = x.max_pool2d(&halves)?; // [N, 8, 12, 12]
        let x = x.conv2d(&self.conv2, None, &plain)?.relu()?; // [N, 16, 10, 10]
        let x = x.max_pool2d(&halves)?.flatten(1, -1)?; // [N, 400]
        x.linear(&self.full, Some(&self.bias))
    }

    /// One step of gradient descent; returns the loss.
    fn step(
        &mut self,
        images: &Tensor,
        labels: &Tensor,
        rate: f32,
    ) -> Result<Tensor, AutogradError> {
        let (ctx, n) = (images.context(), labels.n_elements());
        let scale = Tensor::full(ctx, &[1], 1.0 / n as f32, DType::F32)?;
        let loss = self.logits(images)?.cross_entropy(labels, &scale, 0.0)?;
        loss.backward()?;
        let parameters = [
            &mut self.conv1,
            &mut self.conv2,
            &mut self.full,
            &mut self.bias,
        ];
        for parameter in parameters {
            let gradient = parameter.grad().expect("a gradient");
            no_grad(|| parameter.sub_(gradient.mul(rate)?).map(drop))?;
            parameter.zero_grad();
        }
        Ok(loss.detach())
    }

    /// The share of images that are read right.
    fn accuracy(&self, images: &Tensor, labels: &Tensor) -> Result<f32, AutogradError> {
        let read = no_grad(|| self.logits(images))?.argmax(Some(1), false)?;
        read.eq(labels)?.to_dtype(DType::F32)?.mean()?.item()
    }
}

/// Batches of drawn digits, shuffled by a counter.
fn loader(
    n: usize,
    seed: u64,
    batch_size: usize,
) -> Result<DataLoader<ImageSet, ImageTransform>, DataError> {
    let options = LoaderOptions {
        batch_size,
        shuffle: true,
        last: LastBatch::Drop,
        ..LoaderOptions::default()
    };
    let digits = ImageSet::drawn_digits(n, seed)?;
    Ok(DataLoader::new(digits, options)?.with_transform(ImageTransform::new(&[0.5], &[0.5])?))
}

/// Trains for some epochs of `n` digits; returns the network and the last loss.
fn train(ctx: &Context, n: usize, epochs: u64, batch_size: usize) -> Result<(Net, f32)> {
    let (mut net, loader) = (Net::new(ctx)?, loader(n, 1, batch_size)?);
    let mut last = f32::NAN;
    for epoch in 0..epochs {
        let mut losses = Vec::new();
        for batch in loader.batches(Cursor::start_of(epoch))?.to_device(ctx, 1) {
            let (images, labels) = batch?.data;
            losses.push(net.step(&images, &labels, 0.1)?);
        }
        // Only here the host waits for the device.
        last = losses.last().map_or(Ok(f32::NAN), Tensor::item)?;
        println!("epoch {epoch}: loss {last:.4}");
    }
    Ok((net, last))
}

fn main() -> Result<()> {
    let ctx = Context::open_from_env("auto")?;
    let (net, _) = train(&ctx, 2000, 5, 32)?;
    let unseen = loader(500, 2, 500)?
        .load(Cursor::start_of(0))?
        .to_device(&ctx)?;
    let (images, labels) = unseen.data;
    let accuracy = net.accuracy(&images, &labels)?;
    println!("{:.1}% of 500 unseen digits read right", 100.0 * accuracy);
    Ok(())
}

#[test]
fn it_learns_to_the_same_bits_on_every_device() -> Result<()> {
    let contexts = hlx_core::testing::contexts();
    let losses = contexts.iter().map(|ctx| Ok(train(ctx, 64, 2, 16)?.1));
    let losses = losses.collect::<Result<Vec<f32>>>()?;
    // ln 10 before the first step.
    assert!(losses[0] < 2.3, "{losses:?}");
    assert!(losses.iter().all(|loss| *loss == losses[0]), "{losses:?}");
    Ok(())
}
