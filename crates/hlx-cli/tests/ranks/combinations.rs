//! Every optimizer with what may surround its update, in both arithmetics, on 2 and 4 ranks: the files of one
//! process. Checks of the ranks run in each step ([`check`] logs each), without a false alarm.

use super::threads::CPU;
use super::{ARITHMETICS, check};
use crate::common::Scratch;

/// The optimizers of docs/optimizers.md with numbers that use all of their state, and clipping, groups,
/// frozen parameters, moving averages.
const UPDATES: [&[&str]; 13] = [
    &["train.optimizer=sgd", "train.clip_norm=0.1"],
    &[
        "train.optimizer=sgd",
        "optimizer.nesterov=true",
        "train.ema_decay=0.5",
    ],
    &["train.optimizer=adam", "train.clip_value=0.01"],
    &["train.optimizer=adamw", "train.weight_decay=0.1"],
    &[
        "train.optimizer=adagrad",
        "optimizer.initial_accumulator_value=0.1",
    ],
    &[
        "train.optimizer=rmsprop",
        "optimizer.centered=true",
        "optimizer.momentum=0.5",
    ],
    &["train.optimizer=lion", "train.clip_norm=0"],
    &["train.optimizer=muon", "train.ema_decay=0.9"],
    &["train.optimizer=muon", "train.clip_norm=0.1"],
    &[
        "train.optimizer=adamw8bit",
        "model.width=36",
        "train.freeze=[\"*bias\"]",
        "train.ema_decay=0.5",
    ],
    &["train.optimizer=adafactor", "train.ema_decay=0.5"],
    &["train.freeze=[\"*bias\"]", "train.ema_decay=0.5"],
    &["groups=[{parameters=[\"*bias\"], weight_decay=0.0, lr_factor=2.0}]"],
];

/// What surrounds the update: nothing, gradients of several passes, steps that may be skipped.
const AROUND: [&[&str]; 3] = [
    &[],
    &["train.micro_batch_size=2"],
    &["train.micro_batch_size=2", "train.skip_non_finite=true"],
];

const COMMON: [&str; 3] = [
    "train.max_steps=3",
    "train.eval_every=2",
    "data.eval_fraction=0.2",
];

#[test]
fn every_optimizer_updates_by_parts() {
    let place = Scratch::new("ranks-optimizers");
    for update in hlx_core::testing::cases(UPDATES, 3) {
        for arithmetic in ARITHMETICS {
            for around in hlx_core::testing::cases(AROUND, 2) {
                let sets = [&COMMON[..], update, around, &[arithmetic]].concat();
                check(&place, &sets, &[&[CPU; 2], &[CPU; 4]]);
            }
        }
    }
}

/// Passes of all shards, of two and of one leave one digest: accumulation changes nothing, over
/// ranks either.
#[test]
fn passes_of_any_size_leave_one_digest() {
    let place = Scratch::new("ranks-passes");
    for arithmetic in ARITHMETICS {
        let digests = [8, 4, 2].map(|size| {
            let size = format!("train.micro_batch_size={size}");
            let sets = [&COMMON[..], &[&size, arithmetic]].concat();
            check(&place, &sets, &[&[CPU; 2], &[CPU; 4]]).digests
        });
        let proofs = digests.each_ref().map(crate::common::proof);
        assert!(proofs.iter().all(|one| *one == proofs[0]), "{proofs:?}");
    }
}
