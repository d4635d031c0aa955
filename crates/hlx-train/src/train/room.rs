//! Whether a step can fit into memory at all, found out before a run has a folder.
//!
//! What is counted is less than any step takes, so that no run is refused that could continue.

use anyhow::{Result, ensure};

use super::Engine;
use crate::config::{Format, RowKind};
use crate::task::{Sizes, Task};

/// What a sample takes at least.
struct Needs {
    /// Elements of the largest tensor of a pass.
    elements: u128,
    /// Bytes of the device: the inputs of all blocks, or an image.
    on_device: u128,
    /// Bytes of the machine: ids and targets, or an image.
    on_host: u128,
}

/// Fails for batches that need more memory than the device or the machine has, or larger tensors than there are.
///
/// # Errors
/// One line with the key, what is needed, and what there is.
pub(super) fn check_room(engine: &Engine, n_ranks: usize) -> Result<()> {
    const MICRO: &str = "train.micro_batch_size";
    const MOST: u128 = u32::MAX as u128;
    let (config, info) = (&engine.config, engine.device.info());
    let own = config.train.batch_size.div_ceil(n_ranks.max(1)) as u128;
    let micro = own.min(config.micro_batch_size() as u128);
    let needs = needs(engine);
    let elements = micro.saturating_mul(needs.elements);
    ensure!(
        elements <= MOST,
        "{MICRO}: {micro} samples are a tensor of {elements} elements, expected at most {MOST}"
    );
    for (key, samples, each, owner, memory) in [
        (
            MICRO,
            micro,
            needs.on_device,
            &info.name[..],
            info.memory_bytes,
        ),
        (
            "train.batch_size",
            own,
            needs.on_host,
            "the machine",
            hlx_core::cpu::memory_budget(),
        ),
    ] {
        let bytes = samples.saturating_mul(each);
        ensure!(
            bytes <= u128::from(memory),
            "{key}: {samples} samples take more than {bytes} bytes, and {owner} has {memory}"
        );
    }
    Ok(())
}

fn needs(engine: &Engine) -> Needs {
    let product = |sizes: &[usize]| {
        let sizes = sizes.iter().map(|&size| size as u128);
        sizes.fold(1, u128::saturating_mul)
    };
    let (width, n_layers) = match engine.task.sizes() {
        Sizes::Language(sizes) => (sizes.width, sizes.n_layers),
        Sizes::Classifier(sizes) => {
            let elements = product(&sizes.input);
            return Needs {
                elements,
                on_device: 4 * elements,
                on_host: 4 * elements,
            };
        }
    };
    let time = least_time(engine);
    Needs {
        elements: product(&[time, width]),
        on_device: product(&[4, time, width, n_layers]),
        on_host: product(&[2, 4, time]),
    }
}

/// The least number of columns of a batch's rows: that of its longest sample, which is the longest of all
/// where a batch has all of them.
fn least_time(engine: &Engine) -> usize {
    let config = &engine.config;
    if config.data.format == Format::Shards {
        return match config.data.rows() {
            RowKind::Padded => 1,
            RowKind::Windows | RowKind::SeparateWindows | RowKind::Packed => config.row_length(),
        };
    }
    let Task::Bytes(task) = &engine.task else {
        return 1;
    };
    if task.windows.is_some() {
        return 1;
    }
    let train = &engine.split.train;
    let times = train.iter().map(|&index| task.data.time(index));
    let time = match config.train.batch_size >= train.len() {
        true => times.max(),
        false => times.min(),
    };
    time.unwrap_or(1).max(1)
}
