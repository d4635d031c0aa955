//! A training step of Python is that of the program: gradients by shards, a limit on their norm, AdamW. Both tests name the
//! digest, this one and `python/tests/test_steps.py`.

use hlx::prelude::*;
use hlx_autograd::BackwardPlan;
use hlx_core::testing::devices;

/// The SHA-256 over the parameters after the last step.
const DIGEST: &str = "ac7c0a2e0e120d8dc3b7e507a050ee2e38a0539a4b239f720f33a6600b5aa37e";

const STEPS: u64 = 6;

fn trained(device: &Device) -> Result<String> {
    let config = TransformerConfig {
        vocabulary: 64,
        width: 32,
        n_layers: 1,
        n_heads: 2,
        feed_forward_width: 64,
        positions: 16,
        dropout: 0.0,
        attention_dropout: 0.0,
    };
    let model = Model::new(device, 7, |b| CausalLm::new(b, &config.into()))?;
    let adamw = AdamWConfig {
        common: Common {
            clip_norm: Some(0.5),
            ..AdamWConfig::default().common
        },
        ..AdamWConfig::default()
    };
    let mut optimizer = AdamW::new(model.weights(), adamw)?;
    let plan = BackwardPlan {
        shards: 8,
        ..BackwardPlan::default()
    };
    let scale = Tensor::from_slice(device, &[1.0 / 128.0], &[1])?;
    let mode = Mode::train(device, 7)?.with_shards(8, false);
    for step in 0..STEPS {
        let ids = Tensor::randint(device, 0, 64, &[8, 17], 100 + step)?.to_dtype(DType::U32)?;
        let (input, targets) = (ids.narrow(1, 0, 16)?, ids.narrow(1, 1, 16)?);
        let logits = model.forward(&input.with_samples(0)?, &mode)?;
        let loss = logits.cross_entropy_scaled(&targets.contiguous()?, &scale, 0.0)?;
        loss.backward_with(&plan)?;
        optimizer.step(model.weights(), 0.01)?;
    }
    Ok(model.weights().digest()?)
}

#[test]
fn a_step_has_the_bits_of_the_one_in_python() -> Result<()> {
    for device in devices() {
        assert_eq!(trained(device)?, DIGEST, "{}", device.info());
    }
    Ok(())
}
