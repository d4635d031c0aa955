//! A convolutional network that learns to read digits which HLX draws itself: docs/tutorial.md.
//!
//! `cargo run --release --example 05_cnn`
#![allow(clippy::print_stdout)] // An example shows what it computes.

use hlx::prelude::*;

/// Images \[N, 1, 28, 28\] to logits \[N, 10\].
fn network(b: &ParameterBuilder) -> Sequential {
    let plain = ConvOptions::default();
    Sequential::new(b)
        .add(|b| Conv2d::new(b, 1, 8, [5, 5], plain)) // [N, 8, 24, 24]
        .add(|_| Activation::ReLU)
        .add(|_| MaxPool2d::new(2)) // [N, 8, 12, 12]
        .add(|b| Conv2d::new(b, 8, 16, [3, 3], plain)) // [N, 16, 10, 10]
        .add(|_| Activation::ReLU)
        .add(|_| MaxPool2d::new(2)) // [N, 16, 5, 5]
        .add(|_| Flatten::new())
        .add(|b| Linear::new(b, 16 * 5 * 5, 10))
}

/// Batches of drawn digits, shuffled by a counter.
fn loader(n: usize, seed: u64, batch_size: usize) -> Result<DataLoader<ImageSet, ImageTransform>> {
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
fn train(
    device: &Device,
    n: usize,
    epochs: u64,
    batch_size: usize,
) -> Result<(Model<Sequential>, f32)> {
    let net = Model::new(device, 1, |b| Ok(network(b)))?;
    let mut optimizer = SGD::new(net.weights(), SGDConfig::default())?;
    let mode = Mode::train(device, 1)?;
    let loader = loader(n, 1, batch_size)?;
    let mut last = f32::NAN;
    for epoch in 0..epochs {
        let mut losses = Vec::new();
        for batch in loader
            .batches(Cursor::start_of(epoch))?
            .to_device(device, 1)
        {
            let (images, labels) = batch?.data;
            let logits = net.forward(&images, &mode)?;
            let loss = logits.cross_entropy_loss(&labels, &CrossEntropyOptions::default())?;
            net.weights().zero_grad()?;
            loss.backward()?;
            optimizer.step(net.weights(), 0.1)?;
            losses.push(loss.detach());
        }
        // Only here the host waits for the device.
        last = losses.last().map_or(Ok(f32::NAN), Tensor::item)?;
        println!("epoch {epoch}: loss {last:.4}");
    }
    Ok((net, last))
}

/// The share of images that are read right.
fn accuracy(net: &Model<Sequential>, images: &Tensor, labels: &Tensor) -> Result<f32> {
    let logits = no_grad(|| net.forward(images, &Mode::eval()))?;
    let right = logits.argmax(Some(1), false)?.eq(labels)?;
    Ok(right.to_dtype(DType::F32)?.mean()?.item()?)
}

fn main() -> Result<()> {
    let device = Device::open_from_env("auto")?;
    let (net, _) = train(&device, 2000, 5, 32)?;
    let unseen = loader(500, 2, 500)?
        .load(Cursor::start_of(0))?
        .to_device(&device)?;
    let (images, labels) = unseen.data;
    let accuracy = accuracy(&net, &images, &labels)?;
    println!("{:.1}% of 500 unseen digits read right", 100.0 * accuracy);
    Ok(())
}

#[test]
fn it_learns_to_the_same_bits_on_every_device() -> Result<()> {
    let devices = hlx::device::testing::devices();
    let losses = devices.iter().map(|device| Ok(train(device, 64, 2, 16)?.1));
    let losses = losses.collect::<Result<Vec<f32>>>()?;
    // ln 10 before the first step.
    assert!(losses[0] < 2.3, "{losses:?}");
    assert!(losses.iter().all(|loss| *loss == losses[0]), "{losses:?}");
    Ok(())
}
