//! Comparing a recomputed state with a record of the chain, and with a checkpoint.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use hlx_core::Device;
use hlx_core::digest::canonical_bits;
use hlx_kernels::tree_digest::{TensorRoot, tree_digest_f32};
use hlx_nn::{MODEL_FILE, ParameterBuilder, StateDigest};

use super::report::{Difference, ElementDifference, Mismatch, Source, TensorDifference};
use crate::run::{
    Bits, ChainRecord, Checkpoint, LossSum, Progress, STATE_FILE, State, read_schedule_state,
    tensor_digits,
};
use crate::task::build_stored;
use crate::train::Engine;

/// Compares a record with the one made now; `state` holds the digests of the latter.
pub(super) fn records(
    recorded: &ChainRecord,
    found: &ChainRecord,
    state: &StateDigest,
    equal_to: Option<u64>,
) -> Option<Difference> {
    let first_step = recorded.step - recorded.losses.len() as u64 + 1;
    let mut mismatches = Vec::new();
    let mut step = recorded.step;
    for (what, ours, theirs) in [
        ("loss", &found.losses, &recorded.losses),
        ("gradient norm", &found.norms, &recorded.norms),
    ] {
        let unequal = |(ours, theirs): (&Bits, &Bits)| ours != theirs;
        if let Some(at) = ours.iter().zip(theirs).position(unequal) {
            let place = first_step + at as u64;
            step = step.min(place);
            let what = format!("{what} of step {place}");
            mismatches.push(mismatch(what, text(theirs[at]), text(ours[at])));
        }
    }
    let cursor =
        |record: &ChainRecord| format!("epoch {}, batch {}", record.epoch, record.batch_idx);
    for (what, theirs, ours) in [
        ("data cursor", cursor(recorded), cursor(found)),
        (
            "parameters",
            recorded.parameters.clone(),
            found.parameters.clone(),
        ),
        (
            "optimizer",
            recorded.optimizer.clone(),
            found.optimizer.clone(),
        ),
    ] {
        if ours != theirs {
            mismatches.push(mismatch(what.to_owned(), theirs, ours));
        }
    }
    let tensor = first_tensor(recorded, state);
    (tensor.is_some() || !mismatches.is_empty()).then_some(Difference {
        source: Source::Chain,
        record: recorded.step,
        equal_to,
        step,
        mismatches,
        tensor,
    })
}

fn mismatch(what: String, recorded: String, recomputed: String) -> Mismatch {
    Mismatch {
        what,
        recorded,
        recomputed,
    }
}

fn text(bits: Bits) -> String {
    format!("{} (bits {bits})", bits.value())
}

/// The tensors of a state in the order of a record.
fn tensors(state: &StateDigest) -> impl Iterator<Item = &TensorRoot> {
    let StateDigest {
        parameters,
        optimizer,
    } = state;
    parameters.tensors.iter().chain(&optimizer.tensors)
}

/// The first tensor whose digits differ.
fn first_tensor(recorded: &ChainRecord, state: &StateDigest) -> Option<TensorDifference> {
    let theirs = |at: usize| recorded.tensors.get(at).map_or("none", String::as_str);
    let (at, tensor) = tensors(state)
        .enumerate()
        .find(|(at, tensor)| theirs(*at) != tensor_digits(&tensor.root))?;
    Some(TensorDifference {
        name: tensor.name.clone(),
        recorded: theirs(at).to_owned(),
        recomputed: tensor.root.to_string(),
        element: None,
    })
}

/// Names the first element that differs from a checkpoint, in the tensor that a record has shown
/// to differ.
pub(super) fn add_element(
    engine: &Engine,
    state: &StateDigest,
    checkpoint: &Checkpoint,
    mut difference: Difference,
) -> Result<Difference> {
    if let Some(tensor) = &mut difference.tensor {
        let (saved, found) = (saved_tensors(engine, checkpoint)?, values(engine)?);
        let named = tensors(state).find(|root| root.name == tensor.name);
        let seen = named.and_then(|root| unequal_tensor(root, &saved, &found));
        tensor.element = seen.and_then(|seen| seen.element);
    }
    Ok(difference)
}

/// Compares a checkpoint's tensors and place with the state made now.
pub(super) fn checkpoint(
    engine: &Engine,
    (found, progress): (&ChainRecord, &Progress),
    state: &StateDigest,
    checkpoint: &Checkpoint,
    equal_to: Option<u64>,
) -> Result<Option<Difference>> {
    let (saved, values) = (saved_tensors(engine, checkpoint)?, values(engine)?);
    let tensor = tensors(state).find_map(|root| unequal_tensor(root, &saved, &values));
    let mut mismatches = places(engine, found, &read_state(checkpoint)?);
    mismatches.extend(schedules(engine, progress, checkpoint)?);
    let differs = tensor.is_some() || !mismatches.is_empty();
    Ok(differs.then_some(Difference {
        source: Source::Checkpoint,
        record: found.step,
        equal_to,
        step: found.step,
        mismatches,
        tensor,
    }))
}

/// Where a checkpoint is another place of the run than the one reached now.
fn places(engine: &Engine, found: &ChainRecord, saved: &State) -> Vec<Mismatch> {
    let at = &saved.progress;
    let place = |step, epoch, batch_idx| format!("step {step}, epoch {epoch}, batch {batch_idx}");
    let theirs = place(at.step, at.epoch, at.batch_idx);
    let ours = place(found.step, found.epoch, found.batch_idx);
    let count = engine.optimizer.step_count();
    let all = [
        ("data cursor", theirs, ours),
        (
            "optimizer's step",
            saved.optimizer.step.to_string(),
            count.to_string(),
        ),
    ];
    let differ = all.into_iter().filter(|(_, theirs, ours)| theirs != ours);
    differ
        .map(|(what, theirs, ours)| mismatch(what.to_owned(), theirs, ours))
        .collect()
}

/// Where the state of a schedule that follows the losses differs, of those that have one.
fn schedules(
    engine: &Engine,
    progress: &Progress,
    checkpoint: &Checkpoint,
) -> Result<Vec<Mismatch>> {
    let Some(ours) = engine.schedule_state() else {
        return Ok(Vec::new());
    };
    let theirs = read_schedule_state(checkpoint)?;
    let losses = read_state(checkpoint)?.progress.epoch_loss;
    let sum = |losses: LossSum| {
        let bits = losses.sum.to_bits();
        format!(
            "{} over {} (bits {bits:016x})",
            losses.sum, losses.n_targets
        )
    };
    let all = [
        (
            "schedule's state",
            format!("{theirs:?}"),
            format!("{ours:?}"),
        ),
        ("epoch's losses", sum(losses), sum(progress.epoch_loss)),
    ];
    let differ = all.into_iter().filter(|(_, theirs, ours)| theirs != ours);
    Ok(differ
        .map(|(what, theirs, ours)| mismatch(what.to_owned(), theirs, ours))
        .collect())
}

type Values = HashMap<String, Vec<f32>>;

/// The engine's parameters and optimizer tensors by name.
pub(super) fn values(engine: &Engine) -> Result<Values> {
    let weights = engine.weights();
    let mut values: Values = weights.snapshot()?.into_named().collect();
    let state = engine.optimizer.state(weights)?.tensors.into_iter();
    values.extend(state.map(|tensor| (tensor.name, tensor.values)));
    Ok(values)
}

/// A checkpoint's parameters and optimizer tensors by name.
fn saved_tensors(engine: &Engine, checkpoint: &Checkpoint) -> Result<Values> {
    let path = || checkpoint.path().display().to_string();
    let mut builder = ParameterBuilder::new();
    if let Some(lora) = engine.config.lora() {
        builder.with_lora(lora);
    }
    engine.task.sizes().declare(&mut builder)?;
    let weights = build_stored(checkpoint, builder, &Device::cpu()?)?;
    weights
        .load_safetensors(checkpoint.file(MODEL_FILE)?)
        .with_context(path)?;
    let mut values: Values = weights.snapshot()?.into_named().collect();
    let state = read_state(checkpoint)?.optimizer.tensors.into_iter();
    values.extend(state.map(|tensor| (tensor.name, tensor.values)));
    Ok(values)
}

fn read_state(checkpoint: &Checkpoint) -> Result<State> {
    let name = || format!("{}/{STATE_FILE}", checkpoint.path().display());
    State::from_bytes(checkpoint.file(STATE_FILE)?).with_context(name)
}

/// The difference of one tensor, if there is one.
fn unequal_tensor(root: &TensorRoot, saved: &Values, found: &Values) -> Option<TensorDifference> {
    let theirs = saved.get(&root.name).map_or(&[][..], Vec::as_slice);
    let ours = found.get(&root.name).map_or(&[][..], Vec::as_slice);
    let unequal = |at: &usize| canonical_bits(theirs[*at]) != canonical_bits(ours[*at]);
    let first = (0..theirs.len().min(ours.len())).find(unequal);
    (first.is_some() || theirs.len() != ours.len()).then(|| TensorDifference {
        name: root.name.clone(),
        recorded: tree_digest_f32(theirs).to_string(),
        recomputed: root.root.to_string(),
        element: first.map(|index| ElementDifference {
            index,
            recorded: format!("{:08x}", theirs[index].to_bits()),
            recomputed: format!("{:08x}", ours[index].to_bits()),
        }),
    })
}
