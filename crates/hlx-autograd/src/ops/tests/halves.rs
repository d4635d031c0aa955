//! Products in the `fast` arithmetic as layers have them.

use hlx_core::{Arithmetic, Half};
use hlx_kernels::KernelTuning;

use crate::ops::test_support::values;
use crate::{BackwardPlan, Result, Tensor};

/// The shards of a weight's gradient one after the other, from windows of the values, as those of large weights are, have the bits
/// of all at once.
#[test]
fn shards_in_turn_have_the_bits_of_all_at_once() -> Result<()> {
    for half in [Half::Bf16, Half::F16] {
        let devices = hlx_core::testing::devices().iter();
        let in_fast =
            devices.filter_map(|device| device.in_arithmetic(Arithmetic::Fast(half)).ok());
        for device in in_fast {
            let mut in_turn = KernelTuning::of(&device).clone();
            in_turn.shards_in_turn_from = 1;
            let gradients = [device.clone(), in_turn.on(&device)?].map(|device| {
                let x = Tensor::from_slice(&device, &values(1, 8 * 16 * 12), &[8, 16, 12])?;
                let x = x.with_gradient().with_samples(0)?;
                let weight = Tensor::from_slice(&device, &values(2, 20 * 12), &[20, 12])?;
                let weight = weight.with_gradient();
                let upstream = Tensor::from_slice(&device, &values(3, 8 * 16 * 20), &[8, 16, 20])?;
                let plan = BackwardPlan {
                    shards: 8,
                    ..BackwardPlan::default()
                };
                let y = x.linear(&weight, None)?;
                y.mul(&upstream)?.sum()?.backward_with(&plan)?;
                let gradient = |x: &Tensor| x.grad().expect("a gradient").to_vec::<f32>();
                Ok::<_, crate::AutogradError>([gradient(&weight)?, gradient(&x)?])
            });
            let [all, one_by_one] = gradients;
            assert_eq!(all?, one_by_one?, "{half:?}, {}", device.info());
        }
    }
    Ok(())
}
