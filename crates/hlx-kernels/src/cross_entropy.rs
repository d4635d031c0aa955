//! Cross-entropy of rows of logits with one target class each.
//!
//! With `t = target_r`, `m = max_v x[r, v]`, `z = log(sum_v exp(x[r, v] - m))` and the label
//! smoothing `e`, forward: `loss_r = z - (x[r, t] - m)` for `e = 0`, otherwise
//! `loss_r = fma(1 - e, z - (x[r, t] - m), (e / V) * sum_v (z - (x[r, v] - m)))`; `stats` keeps
//! `(m, z)`. Backward: `dlogits[r, v] = scale * (exp((x[r, v] - m) - z) - q[r, v])` with
//! `q = (1 - e) + e / V` at the target and `e / V` elsewhere.
//!
//! A row whose target is [`IGNORE_INDEX`] has loss 0 and gradient +0; one whose target is no
//! class has NaN for both, so that it cannot go unnoticed. Shapes: logits, dlogits `[rows, V]`;
//! targets, loss_rows `[rows]`; stats `[rows, 2]`; scale `[1]` (one over the number of targets of
//! the global batch). Row sums have the order of [`lanes`].
//! PyTorch: `torch.nn.functional.cross_entropy(..., reduction="none")`.

use hlx_core::cpu::with_flush;
use hlx_core::{Binding, Buffer, Device, arith, as_u32};

use crate::Result;
use crate::kernel::Kernel;
use crate::lanes::{self, LANES, check_rows, rows_a_task};
use crate::map::GROUP_THREADS;
use crate::parallel::{self, read, write};
use crate::tuning::{KernelTuning, RowCut};

#[cfg(test)]
mod tests;

shader!(cross_entropy::{forward, backward});

/// The target of a row that does not count: padding, or the input of a pair.
pub const IGNORE_INDEX: u32 = u32::MAX;

/// The constants that label smoothing makes: `1 - e` and `e / V`.
fn smoothing_constants(
    operation: &'static str,
    label_smoothing: f32,
    vocabulary: usize,
) -> Result<(f32, f32)> {
    check_that!(operation, (0.0..1.0).contains(&label_smoothing) =>
        "label_smoothing is {label_smoothing}, expected at least 0 and below 1")?;
    Ok(with_flush(|| {
        let spread = arith::div(label_smoothing, vocabulary as f32);
        (1.0 - label_smoothing, spread)
    }))
}

/// Computes each row's loss and the statistics that the backward needs; overwrites both.
///
/// `logits`: `[rows, vocabulary]`; `targets`: `[rows]`, ids; `loss_rows`: `[rows]`; `stats`:
/// `[rows, 2]`.
///
/// # Errors
/// If a buffer has another length, `label_smoothing` is not in [0, 1), or the launch fails.
#[allow(clippy::too_many_arguments)] // One kernel's buffers and shape, flat as everywhere here.
pub fn cross_entropy_forward(
    device: &Device,
    logits: &Buffer,
    targets: &Buffer,
    loss_rows: &Buffer,
    stats: &Buffer,
    rows: usize,
    vocabulary: usize,
    label_smoothing: f32,
) -> Result<()> {
    let name = "cross_entropy_forward";
    check_rows(name, rows, vocabulary)?;
    let kernel = Kernel::new(name, &forward::SHADER)
        .read("logits", logits, [rows, vocabulary])?
        .read("targets", targets, rows)?
        .write("loss_rows", loss_rows, rows)?
        .write("stats", stats, [rows, 2])?;
    let (keep, spread) = smoothing_constants(name, label_smoothing, vocabulary)?;
    let group = RowCut::streamed(device, vocabulary);
    // The shader holds no row: one pipeline serves every vocabulary.
    let kernel = kernel
        .constants(group.specialization(LANES))
        .constants(constants!(4: group.blocks_ahead));
    let push = push!(forward => rows, vocabulary, keep, spread);
    let groups = group.groups(rows);
    kernel.launch(device, push, groups, move |inputs, outputs| {
        let ([logits, targets], [loss_rows, stats]) = (inputs, outputs);
        let rows = rows_a_task(vocabulary);
        let pieces = (
            read(logits, rows * vocabulary),
            read(as_u32(targets), rows),
            write(loss_rows, rows),
            write(stats, rows * 2),
        );
        parallel::for_each(pieces, |_, (logits, targets, loss_rows, stats)| {
            forward_rows(logits, targets, loss_rows, stats, keep, spread);
        });
    })
}

/// Computes `dlogits`, times `scale[0]`; overwrites it.
///
/// `logits`, `dlogits`: `[rows, vocabulary]`; `targets`: `[rows]`, ids; `stats`: `[rows, 2]`, from
/// the forward; `scale`: `[1]`.
///
/// # Errors
/// As [`cross_entropy_forward`].
#[allow(clippy::too_many_arguments)] // As above.
pub fn cross_entropy_backward(
    device: &Device,
    logits: &Buffer,
    targets: &Buffer,
    stats: &Buffer,
    scale: &Buffer,
    dlogits: &Buffer,
    rows: usize,
    vocabulary: usize,
    label_smoothing: f32,
) -> Result<()> {
    let name = "cross_entropy_backward";
    check_rows(name, rows, vocabulary)?;
    let kernel = Kernel::new(name, &backward::SHADER)
        .read("logits", logits, [rows, vocabulary])?
        .read("targets", targets, rows)?
        .read("stats", stats, [rows, 2])?
        .read("scale", scale, 1)?
        // Each thread reads its logits first.
        .checked("dlogits", Binding::Replace(dlogits), [rows, vocabulary])?;
    let (keep, spread) = smoothing_constants(name, label_smoothing, vocabulary)?;
    let hit = with_flush(|| keep + spread);
    let len = rows * vocabulary;
    let vectors = KernelTuning::of(device).maps.vectors_a_thread(len);
    let push = push!(backward => rows, vocabulary, hit, spread);
    let groups = len.div_ceil(4 * vectors * GROUP_THREADS);
    let kernel = kernel.constants([(0, vectors as u32)]);
    kernel.launch(device, push, groups, move |inputs, outputs| {
        let ([logits, targets, stats, scale], [dlogits]) = (inputs, outputs);
        let rows = rows_a_task(vocabulary);
        let pieces = (
            read(logits, rows * vocabulary),
            read(as_u32(targets), rows),
            read(stats, rows * 2),
            write(dlogits, rows * vocabulary),
        );
        parallel::for_each(pieces, |_, (logits, targets, stats, dlogits)| {
            backward_rows(logits, targets, stats, scale[0], dlogits, hit, spread);
        });
    })
}

multiversion! {
    fn forward_rows<A>(
        logits: &[f32],
        targets: &[u32],
        loss_rows: &mut [f32],
        stats: &mut [f32],
        keep: f32,
        spread: f32,
    ) {
        let rows = logits.chunks_exact(logits.len() / targets.len()).zip(targets);
        for (((x, &target), loss), stats) in rows.zip(loss_rows).zip(stats.chunks_exact_mut(2)) {
            let top = lanes::max(x);
            let log_sum = A::log(lanes::sum([x], |[x]| A::exp(x - top)));
            *loss = match x.get(target as usize) {
                _ if target == IGNORE_INDEX => 0.0,
                None => f32::NAN,
                Some(&hit) if spread == 0.0 => log_sum - (hit - top),
                Some(&hit) => {
                    let all = lanes::sum([x], |[x]| log_sum - (x - top));
                    A::fma(keep, log_sum - (hit - top), A::mul(spread, all))
                }
            };
            stats[0] = top;
            stats[1] = log_sum;
        }
    }

    fn backward_rows<A>(
        logits: &[f32],
        targets: &[u32],
        stats: &[f32],
        scale: f32,
        dlogits: &mut [f32],
        hit: f32,
        spread: f32,
    ) {
        let cols = logits.len() / targets.len();
        let rows = logits.chunks_exact(cols).zip(dlogits.chunks_exact_mut(cols));
        for (((x, dx), &target), stats) in rows.zip(targets).zip(stats.chunks_exact(2)) {
            let (top, log_sum) = (stats[0], stats[1]);
            if target == IGNORE_INDEX {
                dx.fill(0.0);
                continue;
            }
            if target as usize >= cols {
                dx.fill(f32::NAN);
                continue;
            }
            for (dx, &x) in dx.iter_mut().zip(x) {
                *dx = A::mul(scale, A::exp((x - top) - log_sum) - spread);
            }
            let target = target as usize;
            dx[target] = A::mul(scale, A::exp((x[target] - top) - log_sum) - hit);
        }
    }
}
