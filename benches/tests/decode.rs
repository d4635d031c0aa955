//! The step that `hlx-bench decode` measures.

use hlx_autograd::DType;
use hlx_bench::decode::small_logits;

#[test]
fn a_step_has_the_same_bits_on_every_device() -> anyhow::Result<()> {
    for dtype in [DType::BF16, DType::F32] {
        let mut logits = Vec::new();
        for device in hlx_core::testing::own_devices() {
            logits.push(small_logits(&device, dtype)?);
        }
        assert!(logits[0].iter().all(|logit| logit.is_finite()));
        assert!(logits[0].iter().any(|logit| *logit != 0.0));
        assert!(logits.windows(2).all(|pair| pair[0] == pair[1]), "{dtype}");
    }
    Ok(())
}
