//! Rows of losses.

use hlx_autograd::LossReduction::{self, BatchMean, Mean, Sum};
use hlx_autograd::{CrossEntropyOptions, Tensor};

use crate::row::{Row, ids, ones, rows};

/// Ids of six positions, one of which is ignored by `ignore_index` 9.
fn targets(x: &Tensor) -> Tensor {
    ids(x, &[0, 3, 9, 1, 2, 2], &[3, 2])
}

fn options(weight: Option<&Tensor>) -> CrossEntropyOptions<'_> {
    CrossEntropyOptions {
        weight,
        ignore_index: 9,
        ..CrossEntropyOptions::default()
    }
}

#[rustfmt::skip] // One line per row.
pub fn losses() -> Vec<Row> {
    rows! { x:
        [[3, 4], [3, 4]] (x[0]).mse_loss(&x[1], LossReduction::None);
        [[3, 4], [4]] (x[0]).mse_loss(&x[1], Mean);
        [[3, 4], [3, 4]] (x[0]).mse_loss(&x[1], Sum);
        [[3, 4], [3, 4]] (x[0]).mse_loss(&x[1], BatchMean);
        [[3, 4], [3, 4]] (x[0]).l1_loss(&x[1], LossReduction::None);
        [[3, 4], [4]] (x[0]).l1_loss(&x[1], Mean);
        [[3, 4], [3, 4]] (x[0]).l1_loss(&x[1], Sum);
        [[3, 4], [3, 4]] (x[0]).l1_loss(&x[1], BatchMean);
        [[3, 4], [3, 4]] (x[0]).huber_loss(&x[1], 0.7, LossReduction::None);
        [[3, 4], [4]] (x[0]).huber_loss(&x[1], 1.3, Mean);
        [[3, 4], [3, 4]] (x[0]).huber_loss(&x[1], 0.3, Sum);
        [[3, 4], [3, 4]] (x[0]).huber_loss(&x[1], 0.7, BatchMean);
        [[3, 4], [3, 4]] (x[0]).smooth_l1_loss(&x[1], 0.7, LossReduction::None);
        [[3, 4], [4]] (x[0]).smooth_l1_loss(&x[1], 0.0, Mean);
        [[3, 4], [3, 4]] (x[0]).smooth_l1_loss(&x[1], 0.3, Sum);
        [[3, 4], [3, 4]] (x[0]).smooth_l1_loss(&x[1], 0.7, BatchMean);
        [[3, 4], [3, 4]] (x[0]).binary_cross_entropy_with_logits(&x[1], None, None, LossReduction::None);
        [[3, 4], [3, 4], [4], [3, 1]] (x[0]).binary_cross_entropy_with_logits(&x[1], Some(&x[2]), Some(&x[3]), Mean);
        [[3, 4], [3, 4], [4]] (x[0]).binary_cross_entropy_with_logits(&x[1], Some(&x[2]), None, Sum);
        [[3, 4], [3, 4], [4]] (x[0]).binary_cross_entropy_with_logits(&x[1], None, Some(&x[2]), BatchMean);
        [[3, 4], [3, 4]] (x[0]).kl_div(&x[1], false, LossReduction::None);
        [[3, 4], [4]] (x[0]).kl_div(&x[1], true, Mean);
        [[3, 4], [3, 4]] (x[0]).kl_div(&x[1], false, Sum);
        [[3, 4], [2, 3, 4]] (x[0]).kl_div(&x[1], true, BatchMean);
        [[3, 4, 2]] (x[0]).nll_loss(&targets(&x[0]), &CrossEntropyOptions { reduction: LossReduction::None, ..options(None) });
        [[3, 4, 2], [4]] (x[0]).nll_loss(&targets(&x[0]), &CrossEntropyOptions { weight: Some(&x[1]), ignore_index: 9, ..options(None) });
        [[3, 4, 2]] (x[0]).nll_loss(&targets(&x[0]), &CrossEntropyOptions { reduction: Sum, ..options(None) });
        [[3, 4, 2], [4]] (x[0]).nll_loss(&targets(&x[0]), &CrossEntropyOptions { reduction: BatchMean, ..options(Some(&x[1])) });
        [[4]] (x[0]).nll_loss(&ids(&x[0], &[2], &[]), &CrossEntropyOptions::default());
        [[3, 4, 2]] (x[0]).cross_entropy_loss(&targets(&x[0]), &CrossEntropyOptions { reduction: LossReduction::None, ..options(None) });
        [[3, 4, 2]] (x[0]).cross_entropy_loss(&targets(&x[0]), &CrossEntropyOptions { label_smoothing: 0.3, ..options(None) });
        [[3, 4, 2], [4]] (x[0]).cross_entropy_loss(&targets(&x[0]), &CrossEntropyOptions { weight: Some(&x[1]), ignore_index: 9, label_smoothing: 0.1, reduction: Mean });
        [[3, 4, 2]] (x[0]).cross_entropy_loss(&targets(&x[0]), &CrossEntropyOptions { reduction: Sum, ..options(None) });
        [[3, 4, 2], [4]] (x[0]).cross_entropy_loss(&targets(&x[0]), &CrossEntropyOptions { reduction: BatchMean, ..options(Some(&x[1])) });
        [[3, 4, 2], [3, 4, 2]] (x[0]).cross_entropy_loss(&x[1], &CrossEntropyOptions { label_smoothing: 0.3, ..options(None) });
        [[3, 4], [3, 4], [4]] (x[0]).cross_entropy_loss(&x[1], &CrossEntropyOptions { reduction: LossReduction::None, ..options(Some(&x[2])) });
        [[3, 4, 2]] (x[0]).loss_with_rows(&ones(&x[0], &[1]).mul(0.3)?);
        [[3]] (x[0]).loss_with_rows(&ones(&x[0], &[1]));
    }
}
