//! A program outside the workspace: trains a tiny transformer for some steps on the CPU.

use hlx::prelude::*;

fn main() -> Result<()> {
    let device = Device::open("cpu")?;
    let model = Model::new(&device, 42, |b| CausalLm::new(b, &TransformerConfig::tiny().into()))?;
    let mut optimizer = AdamW::new(model.weights(), AdamWConfig::default())?;
    let ids = Tensor::from_slice(&device, &[72_u32, 76, 88], &[1, 3])?;
    let targets = Tensor::from_slice(&device, &[76_u32, 88, 10], &[3])?;
    let mode = Mode::train(&device, 42)?;
    let mut losses = Vec::new();
    for _ in 0..5 {
        let logits = model.forward(&ids, &mode)?.flatten(0, 1)?;
        let loss = logits.cross_entropy_loss(&targets, &CrossEntropyOptions::default())?;
        loss.backward()?;
        optimizer.step(model.weights(), 1e-3)?;
        losses.push(loss.item::<f32>()?);
    }
    println!("losses {losses:?} on {}", device.info());
    assert!(losses.last() < losses.first(), "the loss did not fall");
    Ok(())
}
