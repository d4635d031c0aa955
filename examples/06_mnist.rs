//! MNIST with everything that `hlx-nn` and `hlx-data` give for it: augmented batches made by worker threads,
//! batch norm, dropout, AdamW under a schedule, and the share of unseen digits that are read right.
//!
//! `cargo run --release --example 06_mnist -- FOLDER` reads `t10k-images-idx3-ubyte` and
//! `t10k-labels-idx1-ubyte` in FOLDER, plain or with the ending `.gz`. Without a folder HLX draws 2,000 digits
//! itself. The last fifth is held out.
#![allow(clippy::print_stdout)] // An example shows what it computes.

use std::path::Path;
use std::sync::Arc;

use hlx::prelude::*;

type Digits = DataLoader<Subset<Arc<ImageSet>>, ImageTransform>;

/// The peak of the learning rate.
const PEAK: f64 = 3e-3;

/// Images \[N, 1, 28, 28\] to logits \[N, 10\]. The convolutions' biases are those of the norms.
fn network(b: &ParameterBuilder) -> Sequential {
    let padded = ConvOptions {
        padding: [1, 1],
        ..ConvOptions::default()
    };
    Sequential::new(b)
        .add(|b| Conv2d::without_bias(b, 1, 16, [3, 3], padded))
        .add(|b| BatchNorm2d::new(b, 16))
        .add(|_| Activation::ReLU)
        .add(|_| MaxPool2d::new(2)) // [N, 16, 14, 14]
        .add(|b| Conv2d::without_bias(b, 16, 32, [3, 3], padded))
        .add(|b| BatchNorm2d::new(b, 32))
        .add(|_| Activation::ReLU)
        .add(|_| MaxPool2d::new(2)) // [N, 32, 7, 7]
        .add(|_| Flatten::new())
        .add(|b| Linear::new(b, 32 * 7 * 7, 64))
        .add(|_| Activation::ReLU)
        .add(|b| Dropout::new(b, 0.2))
        .add(|b| Linear::new(b, 64, 10))
}

/// Loaders of the images to train on, which are shifted by up to 2 pixels, and of those held out.
fn loaders(set: ImageSet, batch_size: usize) -> Result<[Digits; 2]> {
    let set = Arc::new(set);
    let n_train = set.len() - set.len() / 5;
    let plain = ImageTransform::new(&[0.1307], &[0.3081])?;
    let shifted = plain.clone().with_augment(Augment {
        crop_padding: 2,
        ..Augment::default()
    })?;
    let held_out = LoaderOptions {
        batch_size,
        ..LoaderOptions::default()
    };
    let training = LoaderOptions {
        shuffle: true,
        last: LastBatch::Drop,
        workers: 2,
        ..held_out.clone()
    };
    let train = Subset::new(Arc::clone(&set), 0..n_train)?;
    let rest = Subset::new(Arc::clone(&set), n_train..set.len())?;
    Ok([
        DataLoader::new(train, training)?.with_transform(shifted),
        DataLoader::new(rest, held_out)?.with_transform(plain),
    ])
}

/// Trains and evaluates epoch by epoch; returns the weights' digest and the last share of right answers.
fn train(device: &Device, [digits, held_out]: &[Digits; 2], epochs: u64) -> Result<(String, f64)> {
    let net = Model::new(device, 1, |b| Ok(network(b)))?;
    let mut optimizer = AdamW::new(net.weights(), AdamWConfig::default())?;
    let schedule = Schedule::OneCycle(OneCycle::new(epochs * digits.len() as u64));
    let mode = Mode::train(device, 1)?;
    let (mut step, mut right) = (0, 0.0);
    for epoch in 0..epochs {
        let mut loss = None;
        for batch in digits
            .batches(Cursor::start_of(epoch))?
            .to_device(device, 1)
        {
            let (images, labels) = batch?.data;
            let logits = net.forward(&images, &mode)?;
            let options = CrossEntropyOptions {
                label_smoothing: 0.05,
                ..CrossEntropyOptions::default()
            };
            let of_batch = logits.cross_entropy_loss(&labels, &options)?;
            net.weights().zero_grad()?;
            of_batch.backward()?;
            optimizer.step(net.weights(), schedule.rate(PEAK, step))?;
            step += 1;
            loss = Some(of_batch.detach());
        }
        let loss = loss.map_or(Ok(f32::NAN), |loss: Tensor| loss.item())?;
        right = accuracy(device, &net, held_out)?;
        let percent = 100.0 * right;
        println!("epoch {epoch}: loss {loss:.4}, {percent:.2}% of those held out read right");
    }
    Ok((net.weights().digest()?, right))
}

/// The share of images that are read right.
fn accuracy(device: &Device, net: &Model<Sequential>, digits: &Digits) -> Result<f64> {
    let mut n_right = 0.0;
    for batch in digits.batches(Cursor::start_of(0))?.to_device(device, 1) {
        let (images, labels) = batch?.data;
        let logits = no_grad(|| net.forward(&images, &Mode::eval()))?;
        let right = logits.argmax(Some(1), false)?.eq(&labels)?;
        n_right += f64::from(right.to_dtype(DType::F32)?.sum()?.item::<f32>()?);
    }
    Ok(n_right / digits.dataset().len() as f64)
}

fn main() -> Result<()> {
    let device = Device::open_from_env("auto")?;
    let set = match std::env::args().nth(1) {
        Some(folder) => ImageSet::from_idx_folder(Path::new(&folder), "t10k")?,
        None => ImageSet::drawn_digits(2000, 1)?,
    };
    let (digest, _) = train(&device, &loaders(set, 64)?, 8)?;
    println!("the parameters' SHA-256 is {digest}");
    Ok(())
}

#[test]
fn it_learns_to_the_same_bits_on_every_device() -> Result<()> {
    let loaders = loaders(ImageSet::drawn_digits(120, 1)?, 16)?;
    let devices = hlx::device::testing::devices();
    let found = devices.iter().map(|device| train(device, &loaders, 3));
    let found = found.collect::<Result<Vec<_>>>()?;
    // A tenth by chance.
    assert!(found[0].1 > 0.3, "{found:?}");
    assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
    Ok(())
}
