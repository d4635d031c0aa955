//! Targets that are no class, in every form of cross-entropy.

use hlx_autograd::{CrossEntropyOptions, DType, IGNORE_INDEX, LossReduction, Result, Tensor};
use hlx_core::testing::cpu;

/// A reduction, a smoothing, and whether the classes have weights: the kernel's form and those of operations.
const FORMS: [(LossReduction, f32, bool); 5] = [
    (LossReduction::None, 0.0, false),
    (LossReduction::Mean, 0.0, false),
    (LossReduction::Sum, 0.25, false),
    (LossReduction::Mean, 0.0, true),
    (LossReduction::Sum, 1.0, true),
];

/// The losses of two rows of logits, of which the second has `target`, and the second row's gradient.
fn second_row(
    x: &Tensor,
    target: u32,
    options: &CrossEntropyOptions<'_>,
) -> Result<(Vec<f32>, Vec<f32>)> {
    let targets = Tensor::from_slice::<u32>(x.device(), &[1, target], &[2])?;
    let leaf = x.with_gradient();
    let loss = leaf.cross_entropy_loss(&targets, options)?;
    loss.sum()?.backward()?;
    let slopes = leaf.grad().expect("a gradient").to_vec::<f32>()?;
    Ok((loss.to_vec::<f32>()?, slopes[3..].to_vec()))
}

/// One form was NaN, and the other one an error of the next call that waits.
#[test]
fn a_target_that_is_no_class_is_nan_in_every_form() -> Result<()> {
    let device = cpu().expect("the CPU device opens");
    let x = Tensor::from_slice(&device, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    let weight = Tensor::ones(&device, &[3], DType::F32)?;
    for (reduction, label_smoothing, weighted) in FORMS {
        for ignore_index in [IGNORE_INDEX, 5] {
            let options = CrossEntropyOptions {
                weight: weighted.then_some(&weight),
                ignore_index,
                label_smoothing,
                reduction,
            };
            let bad = [3, 7, u32::MAX - 1, u32::MAX].into_iter();
            for target in bad.filter(|&target| target != ignore_index) {
                let (losses, slopes) = second_row(&x, target, &options)?;
                assert!(losses[losses.len() - 1].is_nan(), "{options:?}: {losses:?}");
                assert!(slopes.iter().all(|d| d.is_nan()), "{options:?}: {slopes:?}");
            }
            let (losses, slopes) = second_row(&x, ignore_index, &options)?;
            assert!(losses.iter().all(|loss| loss.is_finite()), "{options:?}");
            assert_eq!(slopes, [0.0; 3], "{options:?}");
        }
    }
    Ok(())
}
