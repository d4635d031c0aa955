//! Rows, columns, reductions, running sums and sorts: what lies behind a row's end, a piece's, a shard's.

use half::f16;
use hlx_core::DType;
use hlx_kernels::KernelError;
use hlx_kernels::batch_norm::{
    BatchNorm, Running, batch_norm_apply, batch_norm_backward, batch_norm_statistics,
};
use hlx_kernels::cross_entropy::{cross_entropy_backward, cross_entropy_forward};
use hlx_kernels::norm::{
    Norm, NormBackwardInput, NormBackwardParams, NormForward, norm_backward_input,
    norm_backward_params, norm_forward,
};
use hlx_kernels::reduce::{column_sum, global_norm, row_sum, shard_sum, sum};
use hlx_kernels::reduce_axes::{Reduction, reduce};
use hlx_kernels::scan::{cumprod, cumsum};
use hlx_kernels::softmax::{softmax_backward, softmax_forward};
use hlx_kernels::sort::{sort, topk};
use hlx_kernels::testing::{ids, normal, values};

use crate::Entry;
use crate::run::{Run, Tensor};
use crate::ways::{COLUMNS, MAPS, REDUCTIONS, ROWS};

/// Softmax, norms and sums of rows.
fn rows(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (rows, cols) = (3, 133);
    let n = rows * cols;
    let (x, dy) = (run.input(&normal(1, n))?, run.input(&normal(2, n))?);
    let (weight, bias) = (run.input(&normal(3, cols))?, run.input(&normal(4, cols))?);
    let outs: Result<Vec<_>, _> = (0..8).map(|_| run.output(n)).collect();
    let outs = outs?;
    let sums = run.output(rows)?;
    row_sum(run.device, &x, &sums, rows, cols)?;
    softmax_forward(run.device, &x, &outs[0], rows, cols)?;
    softmax_backward(run.device, &outs[0], &dy, &outs[1], rows, cols)?;
    let stats = run.output(2 * rows)?;
    norm_forward(
        run.device,
        &Norm::layer(rows, cols, 1e-5),
        &NormForward {
            x: &x,
            weight: &weight,
            bias: Some(&bias),
            y: &outs[2],
            stats: &stats,
        },
    )?;
    norm_backward_input(
        run.device,
        &Norm::layer(rows, cols, 1e-5),
        &NormBackwardInput {
            x: &x,
            weight: &weight,
            stats: &stats,
            dy: &dy,
            residual: None,
            dx: &outs[3],
        },
    )?;
    norm_backward_input(
        run.device,
        &Norm::layer(rows, cols, 1e-5),
        &NormBackwardInput {
            x: &x,
            weight: &weight,
            stats: &stats,
            dy: &dy,
            residual: Some(&outs[1]),
            dx: &outs[4],
        },
    )?;
    let rms = run.output(rows)?;
    norm_forward(
        run.device,
        &Norm::rms(rows, cols, 1e-5),
        &NormForward {
            x: &x,
            weight: &weight,
            bias: None,
            y: &outs[5],
            stats: &rms,
        },
    )?;
    norm_backward_input(
        run.device,
        &Norm::rms(rows, cols, 1e-5),
        &NormBackwardInput {
            x: &x,
            weight: &weight,
            stats: &rms,
            dy: &dy,
            residual: None,
            dx: &outs[6],
        },
    )?;
    norm_backward_input(
        run.device,
        &Norm::rms(rows, cols, 1e-5),
        &NormBackwardInput {
            x: &x,
            weight: &weight,
            stats: &rms,
            dy: &dy,
            residual: Some(&outs[1]),
            dx: &outs[7],
        },
    )?;
    run.collect_all(&outs)?;
    run.collect_all([&sums, &stats, &rms])
}

/// Sums of columns by shards, and parameters' gradients of norms.
fn columns(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (shards, per_shard, cols) = (2, 35, 41);
    let rows = shards * per_shard;
    let (x, dy) = (
        run.input(&normal(1, rows * cols))?,
        run.input(&normal(2, rows * cols))?,
    );
    let (stats, rms) = (
        run.input(&normal(3, 2 * rows))?,
        run.input(&normal(4, rows))?,
    );
    let outs: Result<Vec<_>, _> = (0..4).map(|_| run.output(shards * cols)).collect();
    let outs = outs?;
    for accumulate in [false, true] {
        let (s, r, c, a) = (shards, per_shard, cols, accumulate);
        column_sum(run.device, &x, &outs[0], s, r, c, a)?;
        norm_backward_params(
            run.device,
            &Norm::layer(s * r, c, 1e-5),
            &NormBackwardParams {
                x: &x,
                stats: &stats,
                dy: &dy,
                dweight: &outs[1],
                dbias: Some(&outs[2]),
                shards: s,
                accumulate: a,
            },
        )?;
        norm_backward_params(
            run.device,
            &Norm::rms(s * r, c, 1e-5),
            &NormBackwardParams {
                x: &x,
                stats: &rms,
                dy: &dy,
                dweight: &outs[3],
                dbias: None,
                shards: s,
                accumulate: a,
            },
        )?;
    }
    run.collect_all(&outs)?;
    let total = run.output(cols)?;
    shard_sum(run.device, &outs[0], &total, shards, cols, false)?;
    run.collect(&total)
}

/// Logits of rows without a target are not read, and their loss and gradient are zero.
fn cross_entropy(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (rows, vocabulary) = (5, 67);
    let mut targets = ids(1, rows, vocabulary as u32);
    for ignored in [1, 4] {
        targets[ignored] = u32::MAX;
    }
    for smoothing in [0.0, 0.1] {
        let logits = run.input_hiding(&normal(2, rows * vocabulary), |at| {
            targets[at / vocabulary] == u32::MAX
        })?;
        let of_targets = run.ids(&targets)?;
        let (loss, stats) = (run.output(rows)?, run.output(2 * rows)?);
        let (scale, dlogits) = (run.input(&[0.25])?, run.output(rows * vocabulary)?);
        let (r, v) = (rows, vocabulary);
        cross_entropy_forward(
            run.device,
            &logits,
            &of_targets,
            &loss,
            &stats,
            r,
            v,
            smoothing,
        )?;
        let is_real = |row: usize| targets[row] != u32::MAX;
        let words = run.device.download::<f32>(&stats)?;
        let stats = run.input_hiding(&words, |at| !is_real(at / 2))?;
        cross_entropy_backward(
            run.device,
            &logits,
            &of_targets,
            &stats,
            &scale,
            &dlogits,
            r,
            v,
            smoothing,
        )?;
        run.collect_all([&loss, &dlogits])?;
        run.collect_where(&stats, |at| is_real(at / 2))?;
    }
    Ok(())
}

/// Empty samples at the front enter no sum, and have a gradient of zeros; their y is that of their own x.
fn batch_norm(run: &mut Run<'_>) -> Result<(), KernelError> {
    for length in [1, 6, 33] {
        let (empty, spec) = (
            3,
            BatchNorm {
                shards: 2,
                samples: 4,
                channels: 3,
                length,
            },
        );
        let of_sample = spec.channels * length;
        let n = spec.shards * spec.samples * of_sample;
        let is_empty = |at: usize| at / of_sample < empty;
        let (x, dy) = (
            run.input_hiding(&normal(1, n), is_empty)?,
            run.input_hiding(&normal(2, n), is_empty)?,
        );
        let (weight, bias) = (run.input(&normal(3, 3))?, run.input(&normal(4, 3))?);
        let counts = run.ids(&[empty as u32])?;
        let running = [run.input(&[0.5; 3])?, run.input(&[2.0; 3])?];
        let tracked = run.ids(&[3])?;
        let of_running = Running {
            mean: &running[0],
            variance: &running[1],
            tracked: &tracked,
            momentum: Some(0.1),
        };
        let stats = run.output(2 * spec.shards * 3)?;
        let counts = Some(&counts);
        batch_norm_statistics(
            run.device,
            &x,
            counts,
            Some(&of_running),
            None,
            &stats,
            &spec,
            1e-5,
        )?;
        let (y, dx) = (run.output(n)?, run.output(n)?);
        let t = Some(&tracked);
        batch_norm_apply(run.device, &x, &weight, &bias, &stats, counts, t, &y, &spec)?;
        let sums = [run.output(spec.shards * 3)?, run.output(spec.shards * 3)?];
        let to = [&sums[0], &sums[1]];
        batch_norm_backward(
            run.device, &x, &weight, &stats, &dy, counts, &dx, to, false, &spec,
        )?;
        run.collect_where(&y, |at| !is_empty(at))?;
        run.collect_all([&dx, &stats, &tracked])?;
        run.collect_all(running.iter().chain(&sums))?;
    }
    Ok(())
}

/// Reductions over any axes, running sums and whole buffers.
fn reductions(run: &mut Run<'_>) -> Result<(), KernelError> {
    let shape = [5, 7, 33];
    let n: usize = shape.iter().product();
    let x = Tensor::new(&run.input(&normal(1, n))?, &shape)?;
    for reduction in [
        Reduction::Sum,
        Reduction::Prod,
        Reduction::Max,
        Reduction::SumOfSquares,
        Reduction::ArgMin,
        Reduction::Any,
    ] {
        for axes in [&[0][..], &[2], &[0, 1]] {
            let n: usize = (0..3)
                .filter(|axis| !axes.contains(axis))
                .map(|a| shape[a])
                .product();
            let out = run.output_of(reduction.output_dtype(DType::F32), n)?;
            reduce(run.device, reduction, x.operand(), axes, &out)?;
            run.collect(&out)?;
        }
    }
    for axis in [0, 2] {
        let (sums, products) = (run.output(n)?, run.output(n)?);
        cumsum(run.device, x.operand(), axis, &sums)?;
        cumprod(run.device, x.operand(), axis, &products)?;
        run.collect_all([&sums, &products])?;
    }
    let long = run.input(&normal(2, 4100))?;
    let (total, norm) = (run.output(1)?, run.output(1)?);
    sum(run.device, &long, &total)?;
    global_norm(run.device, &long, &norm)?;
    let running = run.output(4100)?;
    cumsum(
        run.device,
        Tensor::new(&long, &[4100])?.operand(),
        0,
        &running,
    )?;
    run.collect_all([&total, &norm, &running])?;
    let halves: Vec<f16> = normal(3, 7).into_iter().map(f16::from_f32).collect();
    let halves = Tensor::new(&run.typed(&halves)?, &[7])?;
    for reduction in [
        Reduction::Sum,
        Reduction::Max,
        Reduction::ArgMax,
        Reduction::All,
    ] {
        let out = run.output_of(reduction.output_dtype(DType::F16), 1)?;
        reduce(run.device, reduction, halves.operand(), &[0], &out)?;
        run.collect(&out)?;
    }
    Ok(())
}

/// Sorted lines, short and long, and their first few.
fn sorts(run: &mut Run<'_>) -> Result<(), KernelError> {
    for shape in [[3, 37], [2, 600], [1, 1100], [1, 4200]] {
        let n: usize = shape.iter().product();
        let x = Tensor::new(&run.input(&values(1, n))?, &shape)?;
        let (sorted, places) = (run.output(n)?, run.output_of(DType::U32, n)?);
        sort(run.device, x.operand(), 1, false, &sorted, &places)?;
        let k = 5;
        let (top, at) = (
            run.output(shape[0] * k)?,
            run.output_of(DType::U32, shape[0] * k)?,
        );
        topk(run.device, x.operand(), k, 1, true, &top, &at)?;
        run.collect_all([&sorted, &places, &top, &at])?;
    }
    let bytes: Vec<u8> = ids(2, 37, 256).into_iter().map(|id| id as u8).collect();
    let x = Tensor::new(&run.typed(&bytes)?, &[37])?;
    let (sorted, places) = (
        run.output_of(DType::U8, 37)?,
        run.output_of(DType::U32, 37)?,
    );
    sort(run.device, x.operand(), 0, true, &sorted, &places)?;
    run.collect_all([&sorted, &places])
}

/// The bodies.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::new("rows", ROWS, rows),
        Entry::new("columns", COLUMNS, columns),
        Entry::new("cross-entropy", ROWS, cross_entropy),
        Entry::new("cross-entropy, maps", MAPS, cross_entropy),
        Entry::new("batch norm", COLUMNS, batch_norm),
        Entry::new("reductions", REDUCTIONS, reductions),
        Entry::new("sorts", &[], sorts),
    ]
}
