//! A model that is trained in Rust has the digest of the same model trained in Python: both tests name it,
//! this one and `python/tests/test_trained_in_rust.py`.

use hlx::prelude::*;
use hlx_core::testing::devices;

/// The SHA-256 over the parameters after the last step.
const DIGEST: &str = "49fc14099badeea85a509b3310d6853757da3fc865b4d63f0e8c6f6d344641d7";

/// Steps of the training.
const STEPS: u64 = 20;

fn trained(device: &Device) -> Result<String> {
    let model = Model::new(device, 42, |b| {
        Ok(Sequential::new(b)
            .add(|b| Linear::new(b, 12, 16))
            .add(|b| LayerNorm::new(b, 16))
            .add(|_| Activation::GELU)
            .add(|b| Linear::new(b, 16, 5)))
    })?;
    for (parameter, seed) in model.weights().parameters().iter().zip(1..) {
        let drawn = Tensor::randn(device, parameter.shape(), seed)?.mul(0.5)?;
        parameter.tensor()?.detach().copy_(&drawn)?;
    }
    let mut optimizer = AdamW::new(model.weights(), AdamWConfig::default())?;
    for step in 0..STEPS {
        let x = Tensor::randn(device, &[9, 12], 100 + step)?;
        let y = Tensor::randint(device, 0, 5, &[9], 200 + step)?.to_dtype(DType::U32)?;
        let logits = model.forward(&x, &Mode::eval())?;
        let loss = logits.cross_entropy_loss(&y, &CrossEntropyOptions::default())?;
        model.weights().zero_grad()?;
        loss.backward()?;
        optimizer.step(model.weights(), 0.01)?;
    }
    Ok(model.weights().digest()?)
}

#[test]
fn a_model_has_the_digest_of_the_one_that_python_trains() -> Result<()> {
    for device in devices() {
        assert_eq!(trained(device)?, DIGEST, "{}", device.info());
    }
    Ok(())
}
