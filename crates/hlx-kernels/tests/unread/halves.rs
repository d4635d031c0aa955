//! Convolutions and experts of operands rounded to 16 bits, of small integers, whose sums are exact in every order: a device without
//! matrices of such numbers computes the same in f32 of the rounded operands.

use hlx_core::{Arithmetic, Buffer, DType, Device, Half};
use hlx_kernels::KernelError;
use hlx_kernels::conv2d::{Conv2d, conv2d_backward_weight, conv2d_forward};
use hlx_kernels::experts::{Choices, experts_bounds, experts_table};
use hlx_kernels::product::{
    ExpertsGradient, ExpertsProduct, Matrices, Operand, Role, experts_product,
};
use hlx_kernels::testing::{ids, normal};

use crate::Entry;
use crate::products::rounded_back;
use crate::run::Run;

fn integers(seed: u64, len: usize) -> Vec<f32> {
    let numbers = normal(seed, len).into_iter();
    numbers.map(|x| (2.0 * x).round()).collect()
}

/// The device in `fast`, and what its operands are made of; without matrices of the type the device itself, and rounded numbers.
fn in_fast(
    device: &Device,
    half: Half,
) -> (
    Device,
    impl Fn(Buffer) -> Result<Buffer, KernelError> + use<>,
) {
    let fast = device.in_arithmetic(Arithmetic::Fast(half)).ok();
    let (of_floats, rounds) = (device.clone(), fast.is_none());
    let read = move |x: Buffer| match rounds {
        true => rounded_back(&of_floats, half, &x),
        false => Ok(x),
    };
    (fast.unwrap_or_else(|| device.clone()), read)
}

/// Groups, and patches whose ends are no whole units.
fn convolutions(run: &mut Run<'_>) -> Result<(), KernelError> {
    let spec = Conv2d {
        batch: 2,
        in_channels: 6,
        out_channels: 4,
        groups: 2,
        input: [5, 7],
        kernel: [3, 2],
        stride: [2, 1],
        padding: [1, 0],
        dilation: [1, 1],
    };
    let [height, width] = spec.output()?;
    let n_weights = 4 * 3 * 3 * 2;
    for half in Half::ALL {
        let (device, read) = in_fast(run.device, half);
        let x = read(run.input(&integers(1, 2 * 6 * 5 * 7))?)?;
        let weight = read(run.input(&integers(2, n_weights))?)?;
        let bias = run.input(&integers(3, 4))?;
        let y = run.output(2 * 4 * height * width)?;
        conv2d_forward(&device, &x, &weight, Some(&bias), &y, &spec)?;
        let dy = read(run.input(&integers(4, y.len()))?)?;
        let dweight = run.output(2 * n_weights)?;
        conv2d_backward_weight(&device, &x, &dy, &dweight, 2, false, &spec)?;
        run.collect_all([&y, &dweight])?;
    }
    Ok(())
}

/// Experts with and without rows.
fn experts(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (tokens, n, k) = (24, 33, 20);
    let choices = Choices {
        tokens,
        per_token: 1,
        experts: 3,
    };
    let picks = ids(1, tokens, 2)
        .iter()
        .map(|e| 2 * e)
        .collect::<Vec<u32>>();
    for half in Half::ALL {
        let (device, read) = in_fast(run.device, half);
        let picks = run.typed(&picks)?;
        let table = experts_table(&device, &picks, &choices)?;
        let [bounds, by_shards] = [4, 7].map(|len| run.device.alloc_typed(DType::U32, len));
        let (bounds, by_shards) = (bounds?, by_shards?);
        experts_bounds(&device, &table, &bounds, 1, &choices)?;
        experts_bounds(&device, &table, &by_shards, 2, &choices)?;
        let window = read(run.input(&integers(1, 3 * n * k))?)?;
        let weights: Result<Vec<_>, _> = (0..3).map(|e| window.slice(e * n * k, n * k)).collect();
        let x = read(run.input(&integers(2, tokens * k))?)?;
        let (y, product) = (
            run.output(tokens * n)?,
            ExpertsProduct {
                rows: tokens,
                n,
                k,
                trans_b: true,
            },
        );
        let rows = Operand::new(&device, Role::Signal, &x, Matrices::rows(1, tokens, k))?;
        experts_product(&device, &rows, &weights?, &bounds, &y, &product)?;
        let dy = read(run.input(&integers(3, tokens * n))?)?;
        let of = ExpertsGradient::new(&device, [&dy, &x], None, [n, k], &by_shards, tokens / 2)?;
        let dweight = run.output(2 * n * k)?;
        of.of_weight(&device, [2, 2], &dweight, false)?;
        run.collect_all([&y, &dweight])?;
    }
    Ok(())
}

pub fn entries() -> Vec<Entry> {
    vec![
        Entry::new("convolutions of rounded operands", &[], convolutions),
        Entry::new("experts of rounded operands", &[], experts),
    ]
}
