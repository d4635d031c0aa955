//! Rows of products, convolutions, pools and norms.

use hlx_autograd::{
    AvgDivisor, BatchNormOptions, ConvOptions, DType, Interpolation, PoolOptions, Result,
    RunningStatistics, Tensor,
};

use crate::row::{Row, rows};

#[rustfmt::skip] // One line per row.
pub fn products() -> Vec<Row> {
    rows! { x:
        [[2, 3], [3, 4]] (x[0]).matmul(&x[1]);
        [[2, 2, 3], [3, 4]] (x[0]).matmul(&x[1]);
        [[2, 1, 2, 3], [5, 3, 2]] (x[0]).matmul(&x[1]);
        [[3], [3]] (x[0]).matmul(&x[1]);
        [[3], [4]] (x[0]).outer(&x[1]);
        [[5, 3], [4, 3]] (x[0]).linear(&x[1], None);
        [[5, 3], [4, 3], [4]] (x[0]).linear(&x[1], Some(&x[2]));
        [[5, 3], [3], [1]] (x[0]).linear(&x[1], Some(&x[2]));
    }
}

fn plain() -> ConvOptions {
    ConvOptions::default()
}

#[rustfmt::skip] // One line per row.
pub fn images() -> Vec<Row> {
    rows! { x:
        [[2, 4, 7], [6, 2, 3], [6]] (x[0]).conv1d(&x[1], Some(&x[2]), &ConvOptions { stride: [2, 3], padding: [1, 2], dilation: [1, 2], groups: 2, ..plain() });
        [[2, 2, 7], [3, 2, 2]] (x[0]).conv1d(&x[1], None, &ConvOptions { same: true, dilation: [1, 2], ..plain() });
        [[2, 7], [3, 2, 2]] (x[0]).conv1d(&x[1], None, &plain());
        [[2, 4, 5, 7], [6, 2, 2, 3], [6]] (x[0]).conv2d(&x[1], Some(&x[2]), &ConvOptions { stride: [2, 3], padding: [1, 2], dilation: [1, 2], groups: 2, ..plain() });
        [[1, 2, 4, 5], [3, 2, 2, 2]] (x[0]).conv2d(&x[1], None, &ConvOptions { same: true, dilation: [1, 2], ..plain() });
        [[2, 4, 5], [3, 2, 2, 2]] (x[0]).conv2d(&x[1], None, &plain());
        [[2, 4, 7], [4, 3, 3], [6]] (x[0]).conv_transpose1d(&x[1], Some(&x[2]), &ConvOptions { stride: [2, 3], padding: [1, 2], dilation: [1, 2], groups: 2, ..plain() }, 1);
        [[2, 4, 7], [4, 3, 3]] (x[0]).conv_transpose1d(&x[1], None, &plain(), 0);
        [[2, 4, 3, 5], [4, 3, 2, 3], [6]] (x[0]).conv_transpose2d(&x[1], Some(&x[2]), &ConvOptions { stride: [2, 3], padding: [1, 2], dilation: [1, 2], groups: 2, ..plain() }, [1, 2]);
        [[4, 3, 5], [4, 3, 2, 3]] (x[0]).conv_transpose2d(&x[1], None, &plain(), [0, 0]);
        [[2, 7, 8]] (x[0]).max_pool2d(&PoolOptions::square(2));
        [[2, 7, 8]] (x[0]).max_pool2d(&PoolOptions { kernel: [2, 3], stride: [2, 1], padding: [1, 0], dilation: [2, 1], ceil_mode: true });
        [[2, 7, 8]] (x[0]).max_pool2d_with_indices(&PoolOptions::square(2));
        [[2, 7, 8]] (x[0]).max_pool2d_with_indices(&PoolOptions { kernel: [2, 3], stride: [2, 1], padding: [1, 0], dilation: [2, 1], ceil_mode: true });
        [[2, 7, 8]] (x[0]).avg_pool2d(&PoolOptions::square(2), AvgDivisor::Inside);
        [[2, 7, 8]] (x[0]).avg_pool2d(&PoolOptions { kernel: [2, 3], stride: [2, 2], padding: [1, 1], dilation: [1, 1], ceil_mode: true }, AvgDivisor::Padded);
        [[2, 7, 8]] (x[0]).avg_pool2d(&PoolOptions { padding: [1, 1], ..PoolOptions::square(3) }, AvgDivisor::Inside);
        [[2, 7, 8]] (x[0]).avg_pool2d(&PoolOptions::square(3), AvgDivisor::Fixed(7));
        [[2, 7, 8]] (x[0]).adaptive_avg_pool2d([1, 1]);
        [[2, 7, 8]] (x[0]).adaptive_avg_pool2d([3, 5]);
        [[2, 3, 4]] (x[0]).interpolate([5, 9], Interpolation::Nearest);
        [[2, 3, 4]] (x[0]).interpolate([5, 9], Interpolation::Bilinear);
        [[2, 3, 4]] (x[0]).interpolate([7, 2], Interpolation::BilinearAligned);
        [[2, 3, 4]] (x[0]).interpolate_by([1.7, 2.3], Interpolation::Nearest);
        [[2, 3, 4]] (x[0]).interpolate_by([1.7, 2.3], Interpolation::Bilinear);
        [[2, 3, 4]] (x[0]).interpolate_by([2.0, 0.6], Interpolation::BilinearAligned);
    }
}

/// A batch norm in training, and the running values that it leaves.
fn batch_normed(
    x: &Tensor,
    affine: Option<[&Tensor; 2]>,
    options: &BatchNormOptions<'_>,
) -> Result<Vec<Tensor>> {
    let device = x.device();
    let running = [
        Tensor::zeros(device, &[3], DType::F32)?,
        Tensor::ones(device, &[3], DType::F32)?,
        Tensor::zeros(device, &[1], DType::U32)?,
    ];
    let [mean, variance, tracked] = &running;
    let statistics = RunningStatistics {
        mean,
        variance,
        tracked,
    };
    let y = x
        .with_samples(0)?
        .batch_norm(affine, Some(statistics), options)?;
    Ok([y].into_iter().chain(running).collect())
}

/// Batch norms in training; the last normalises two shards, of which the first begins with an empty
/// sample.
fn batch_norms() -> [Row; 3] {
    let plain = Row::new(
        "batch_norm",
        &["None", "None", "&eps"],
        &[&[4, 3, 2]],
        |x| {
            let options = BatchNormOptions::default();
            Ok(vec![x[0].batch_norm(None, None, &options)?])
        },
    );
    let arguments = ["Some(gain and bias)", "Some(running)", "&eps, momentum"];
    let shapes: [&[usize]; 3] = [&[4, 3, 2], &[3], &[3]];
    let whole = Row::new("batch_norm", &arguments, &shapes, |x| {
        let options = BatchNormOptions {
            eps: 0.1,
            momentum: None,
            ..BatchNormOptions::default()
        };
        batch_normed(&x[0], Some([&x[1], &x[2]]), &options)
    });
    let arguments = [
        "Some(gain and bias)",
        "Some(running)",
        "&shards, empty, partials",
    ];
    let mut sharded = Row::new("batch_norm", &arguments, &shapes, |x| {
        let device = x[0].device();
        let (empty, partials) = (device.buffer_of::<u32>(&[1])?, device.alloc(2 * 3 * 2)?);
        let options = BatchNormOptions {
            shards: 2,
            empty: Some(&empty),
            partials: Some(&partials),
            ..BatchNormOptions::default()
        };
        batch_normed(&x[0], Some([&x[1], &x[2]]), &options)
    });
    sharded.shards = 2;
    [plain, whole, sharded]
}

#[rustfmt::skip] // One line per row.
pub fn norms() -> Vec<Row> {
    let mut all: Vec<Row> = rows! { x:
        [[2, 3, 5], [5], [5]] (x[0]).layer_norm(&x[1], &x[2], 1e-5);
        [[2, 3, 5], [3, 5], [3, 5]] (x[0]).layer_norm(&x[1], &x[2], 0.1);
        [[2, 3, 5]] (x[0]).rms_norm(&[5], None, 1e-5);
        [[2, 3, 5], [3, 5]] (x[0]).rms_norm(&[3, 5], Some(&x[1]), 0.1);
        [[2, 3, 5], [5]] (x[0]).rms_norm_one_plus(&[5], &x[1], 1e-5);
        [[2, 3, 5], [3, 5]] (x[0]).rms_norm_one_plus(&[3, 5], &x[1], 0.1);
        [[2, 4, 3], [4], [4]] (x[0]).group_norm(2, Some([&x[1], &x[2]]), 1e-5);
        [[2, 4, 3]] (x[0]).group_norm(1, None, 0.1);
        [[2, 4, 3], [4], [4], [4], [4]] (x[0]).batch_norm_by(&x[1], &x[2].abs()?, Some([&x[3], &x[4]]), 1e-5);
        [[2, 4, 3], [4], [4]] (x[0]).batch_norm_by(&x[1], &x[2].abs()?, None, 0.1);
    };
    all.extend(batch_norms());
    all
}
