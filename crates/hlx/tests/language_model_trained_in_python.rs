//! A language model that is trained in Rust has the digest of the same model trained in Python: both tests name it,
//! this one and `python/tests/test_models.py`.

use hlx::prelude::*;
use hlx_core::testing::devices;

/// The SHA-256 over the parameters after the last step.
const DIGEST: &str = "ad4de2b7336d9a7d27388ced59f3f35dd237ef9d0a8069b119eb566fc21845d3";

/// Steps of the training.
const STEPS: u64 = 10;

fn trained(device: &Device) -> Result<String> {
    let mut config = CausalConfig::preset("qwen3").expect("a name from CausalConfig::PRESETS");
    (config.vocabulary, config.width, config.n_layers) = (64, 32, 2);
    (config.n_heads, config.n_kv_heads, config.head_width) = (4, 2, 8);
    (config.feed_forward_width, config.max_positions) = (64, 16);
    config.tied_output = true;
    let model = Model::new(device, 7, |b| CausalLm::new(b, &config))?;
    let mut optimizer = AdamW::new(model.weights(), AdamWConfig::default())?;
    for step in 0..STEPS {
        let ids = Tensor::randint(device, 0, 64, &[3, 9], 100 + step)?.to_dtype(DType::U32)?;
        let (input, targets) = (ids.narrow(1, 0, 8)?, ids.narrow(1, 1, 8)?);
        let logits = model.forward(&input, &Mode::eval())?.flatten(0, 1)?;
        let loss =
            logits.cross_entropy_loss(&targets.flatten(0, 1)?, &CrossEntropyOptions::default())?;
        model.weights().zero_grad()?;
        loss.backward()?;
        optimizer.step(model.weights(), 0.01)?;
    }
    Ok(model.weights().digest()?)
}

#[test]
fn a_language_model_has_the_digest_of_the_one_that_python_trains() -> Result<()> {
    for device in devices() {
        assert_eq!(trained(device)?, DIGEST, "{}", device.info());
    }
    Ok(())
}
