//! A program outside the workspace: trains a tiny transformer for some steps on the CPU.

use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_nn::{
    AdamW, AdamWConfig, Mode, Model, Module, Optimizer, Transformer, TransformerConfig,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open("cpu")?;
    let model = Model::new(&device, 42, |b| Transformer::new(b, &TransformerConfig::tiny()))?;
    let mut optimizer = AdamW::new(model.weights(), AdamWConfig::default())?;
    let ids = Tensor::from_slice::<u32>(&device, &[72, 76, 88], &[1, 3])?;
    let targets = Tensor::from_slice::<u32>(&device, &[76, 88, 10], &[1, 3])?;
    let scale = Tensor::from_slice(&device, &[1.0 / 3.0], &[1])?;
    let mode = Mode::train(&device, 42)?;
    let mut losses = Vec::new();
    for _ in 0..5 {
        let logits = model.forward(&ids, &mode)?;
        let loss = logits.cross_entropy_scaled(&targets, &scale, 0.0)?;
        loss.backward()?;
        optimizer.step(model.weights(), 1e-3)?;
        losses.extend(loss.to_vec::<f32>()?);
    }
    println!("losses {losses:?} on {}", device.info());
    if losses.last() >= losses.first() {
        return Err("the loss did not fall".into());
    }
    Ok(())
}
