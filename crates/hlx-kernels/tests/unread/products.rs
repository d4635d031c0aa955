//! Products, convolutions, pools and recurrent steps: what lies behind a row's, a tile's and an image's end, and what
//! strides and dilations leave out.

use hlx_core::{Arithmetic, Buffer, DType};
use hlx_kernels::KernelError;
use hlx_kernels::activation::Activation;
use hlx_kernels::conv2d::{
    Conv2d, conv_transpose2d_backward_weight, conv_transpose2d_forward, conv2d_backward_bias,
    conv2d_backward_input, conv2d_backward_weight, conv2d_forward,
};
use hlx_kernels::interpolate::{
    Interpolate2d, Interpolation, interpolate2d_backward, interpolate2d_forward,
};
use hlx_kernels::matmul::{
    Epilogue, MatMul, Prologue, matmul, matmul_after, matmul_integers, matmul_with,
};
use hlx_kernels::pool::{
    AvgDivisor, Pool2d, adaptive_avg_pool2d_backward, adaptive_avg_pool2d_forward,
    avg_pool2d_backward, avg_pool2d_forward, max_pool2d_backward, max_pool2d_forward,
};
use hlx_kernels::recurrent::{
    GruBackward, GruForward, LstmBackward, LstmForward, Step, gru_backward, gru_forward,
    lstm_backward, lstm_forward, step_product,
};
use hlx_kernels::testing::{ids, normal, values};

use crate::Entry;
use crate::run::Run;
use crate::ways::{CONVOLUTIONS, CUT, FEW_ROWS, FUSED_TILES, INTEGERS, PROCESSORS, PRODUCTS};

/// Products in every layout, with gaps between the matrices of a batch.
fn layouts(run: &mut Run<'_>) -> Result<(), KernelError> {
    const GAP: usize = 64;
    let (m, n, k) = (66, 35, 21);
    let [stride_a, stride_b, stride_c] = [m * k, k * n, m * n].map(|len| len + GAP);
    let of = |run: &mut Run<'_>, seed, stride: usize| {
        run.input_hiding(&normal(seed, 2 * stride - GAP), |at| {
            at % stride >= stride - GAP
        })
    };
    for [trans_a, trans_b] in [[false, false], [false, true], [true, false], [true, true]] {
        let shape = MatMul {
            batch: 2,
            trans_a,
            trans_b,
            stride_a,
            stride_b,
            stride_c,
            ..MatMul::new(m, n, k)
        };
        let (a, b) = (of(run, 1, stride_a)?, of(run, 2, stride_b)?);
        let (bias, c) = (run.input(&normal(3, n))?, run.output(2 * stride_c - GAP)?);
        matmul(run.ctx, &a, &b, Some(&bias), &c, &shape)?;
        run.keep_where(&c, |at| at % stride_c < m * n)?;
        let stored = of(run, 4, stride_c)?;
        let more = MatMul {
            accumulate: true,
            ..shape
        };
        matmul(run.ctx, &a, &b, None, &stored, &more)?;
        run.keep_where(&stored, |at| at % stride_c < m * n)?;
    }
    integers(run)
}

/// Products of integers.
fn integers(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (m, n, k) = (5, 7, 9);
    let (a, b) = (
        run.typed(&ids(1, m * k, u32::MAX))?,
        run.typed(&ids(2, k * n, u32::MAX))?,
    );
    let c = run.output_of(DType::U32, m * n)?;
    matmul_integers(run.ctx, &a, &b, &c, &MatMul::new(m, n, k))?;
    run.keep(&c)
}

/// A product whose tiles are ragged on both sides, with B as it is and stored `[N,K]`.
fn tiles(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (m, n, k) = (66, 35, 21);
    for trans_b in [false, true] {
        let shape = MatMul {
            trans_b,
            ..MatMul::new(m, n, k)
        };
        let (a, b) = (run.input(&normal(1, m * k))?, run.input(&normal(2, n * k))?);
        let c = run.output(m * n)?;
        matmul(run.ctx, &a, &b, None, &c, &shape)?;
        run.keep(&c)?;
    }
    Ok(())
}

/// What follows a product, in its launch or in one behind it.
fn epilogues(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (m, n, k) = (34, 35, 21);
    let shape = MatMul::new(m, n, k);
    let (a, b) = (run.input(&normal(1, m * k))?, run.input(&normal(2, n * k))?);
    let (bias, residual) = (run.input(&normal(3, n))?, run.input(&normal(4, m * n))?);
    let (c, out) = (run.output(m * n)?, run.output(m * n)?);
    let activation = Epilogue::Activation {
        kind: Activation::Gelu,
        out: &out,
    };
    matmul_with(run.ctx, &a, &b, Some(&bias), &c, &shape, activation)?;
    run.keep_all([&c, &out])?;
    let backward = Epilogue::ActivationBackward(Activation::Silu);
    for epilogue in [Epilogue::Add(&residual), Epilogue::Scale(0.5), backward] {
        let c = run.input(&normal(5, m * n))?;
        matmul_with(run.ctx, &a, &b, None, &c, &shape, epilogue)?;
        run.keep(&c)?;
    }
    Ok(())
}

/// Few rows, with what comes before the product, and a right operand of halves.
fn few_rows(run: &mut Run<'_>) -> Result<(), KernelError> {
    for (m, n, k) in [(3, 37, 21), (12, 20, 40)] {
        let shape = MatMul {
            trans_b: true,
            ..MatMul::new(m, n, k)
        };
        let (a, b) = (run.input(&normal(1, m * k))?, run.input(&normal(2, n * k))?);
        let bias = run.input(&normal(3, n))?;
        let (gain, up) = (run.input(&normal(6, k))?, run.input(&normal(7, m * k))?);
        let norm = Prologue::RmsNorm {
            gain: &gain,
            eps: 1e-5,
        };
        for prologue in [norm, Prologue::Gated { up: &up }] {
            let c = run.output(m * n)?;
            let of = (&a, &b, Some(&bias));
            matmul_after(run.ctx, prologue, of, &c, &shape, Epilogue::None)?;
            run.keep(&c)?;
        }
        let halves: Vec<half::bf16> = normal(8, n * k)
            .into_iter()
            .map(half::bf16::from_f32)
            .collect();
        let (halves, c) = (run.typed(&halves)?, run.output(m * n)?);
        matmul(run.ctx, &a, &halves, None, &c, &shape)?;
        run.keep(&c)?;
    }
    Ok(())
}

/// Whether a pixel of an image is seen by a tap of any patch.
fn seen_pixels(spec: &Conv2d, output: [usize; 2]) -> Vec<bool> {
    let [height, width] = spec.input;
    let mut seen = vec![false; height * width];
    for oy in 0..output[0] {
        for ox in 0..output[1] {
            for ky in 0..spec.kernel[0] {
                for kx in 0..spec.kernel[1] {
                    let place = |o: usize, k: usize, axis: usize| {
                        let at = o * spec.stride[axis] + k * spec.dilation[axis];
                        at.checked_sub(spec.padding[axis])
                            .filter(|&at| at < spec.input[axis])
                    };
                    if let (Some(y), Some(x)) = (place(oy, ky, 0), place(ox, kx, 1)) {
                        seen[y * width + x] = true;
                    }
                }
            }
        }
    }
    seen
}

/// Images, weights and gradients of a convolution.
struct Images {
    x: Buffer,
    weight: Buffer,
    dy: Buffer,
    y: Buffer,
    dx: Buffer,
    dweight: Buffer,
}

impl Images {
    /// Of two shards; pixels that no tap sees are hidden.
    fn new(run: &mut Run<'_>, spec: &Conv2d) -> Result<Self, KernelError> {
        let (output, pixels) = (spec.output()?, spec.input[0] * spec.input[1]);
        let seen = seen_pixels(spec, output);
        let x_len = spec.batch * spec.in_channels * pixels;
        let y_len = spec.batch * spec.out_channels * output[0] * output[1];
        let taps = spec.kernel[0] * spec.kernel[1];
        let weight_len = spec.out_channels * spec.in_channels / spec.groups * taps;
        Ok(Self {
            x: run.input_hiding(&normal(1, x_len), |at| !seen[at % pixels])?,
            weight: run.input(&normal(2, weight_len))?,
            dy: run.input(&normal(4, y_len))?,
            y: run.output(y_len)?,
            dx: run.output(x_len)?,
            dweight: run.output(2 * weight_len)?,
        })
    }
}

/// Convolutions of a shape, in both directions.
fn convolve(run: &mut Run<'_>, spec: &Conv2d) -> Result<(), KernelError> {
    let Images {
        x,
        weight,
        dy,
        y,
        dx,
        dweight,
    } = &Images::new(run, spec)?;
    let (bias, dbias) = (
        run.input(&normal(3, spec.out_channels))?,
        run.output(2 * spec.out_channels)?,
    );
    conv2d_forward(run.ctx, x, weight, Some(&bias), y, spec)?;
    conv2d_backward_input(run.ctx, dy, weight, dx, spec)?;
    run.keep_all([y, dx])?;
    for accumulate in [false, true] {
        conv2d_backward_weight(run.ctx, x, dy, dweight, 2, accumulate, spec)?;
        conv2d_backward_bias(run.ctx, dy, &dbias, 2, accumulate, spec)?;
    }
    run.keep_all([dweight, &dbias])?;
    let (out, turned) = (run.output(dx.len())?, run.output(dweight.len())?);
    conv_transpose2d_forward(run.ctx, dy, weight, None, &out, spec)?;
    conv_transpose2d_backward_weight(run.ctx, dy, x, &turned, 2, false, spec)?;
    run.keep_all([&out, &turned])
}

/// A convolution and its weight's gradient, for every tile.
fn convolution_tiles(run: &mut Run<'_>) -> Result<(), KernelError> {
    for spec in [PLAIN, large()] {
        let images = &Images::new(run, &spec)?;
        conv2d_forward(run.ctx, &images.x, &images.weight, None, &images.y, &spec)?;
        let (x, dy) = (&images.x, &images.dy);
        conv2d_backward_weight(run.ctx, x, dy, &images.dweight, 2, false, &spec)?;
        run.keep_all([&images.y, &images.dweight])?;
    }
    Ok(())
}

/// A plain convolution, and one whose strides, dilations and groups leave pixels and taps out.
fn convolutions(run: &mut Run<'_>) -> Result<(), KernelError> {
    convolve(run, &PLAIN)?;
    let sparse = Conv2d {
        groups: 2,
        input: [10, 11],
        kernel: [2, 3],
        stride: [4, 3],
        padding: [0, 1],
        dilation: [2, 1],
        ..PLAIN
    };
    convolve(run, &sparse)
}

const PLAIN: Conv2d = Conv2d {
    batch: 2,
    in_channels: 4,
    out_channels: 6,
    groups: 1,
    input: [5, 7],
    kernel: [3, 3],
    stride: [1, 1],
    padding: [1, 1],
    dilation: [1, 1],
};

/// Planes whose gradient has runs.
fn large() -> Conv2d {
    Conv2d {
        in_channels: 1,
        out_channels: 2,
        input: [23, 25],
        kernel: [1, 2],
        padding: [0, 0],
        ..PLAIN
    }
}

/// The same over integers.
fn integer_convolutions(run: &mut Run<'_>) -> Result<(), KernelError> {
    let ctx = run.ctx.with_arithmetic(Arithmetic::Integer);
    let mut of_integers = Run::new(&ctx, run.given);
    convolutions(&mut of_integers)?;
    run.take(of_integers)
}

/// Pixels that no window sees, padding, and windows that end behind the image.
fn pools(run: &mut Run<'_>) -> Result<(), KernelError> {
    const ONE: [usize; 2] = [1, 1];
    for (input, kernel, stride, padding, dilation, ceil_mode) in [
        ([7, 9], [3, 4], [3, 3], [1, 2], ONE, true),
        ([11, 8], [2, 1], [4, 3], [0, 0], ONE, true),
        ([9, 10], [3, 2], [2, 1], [1, 1], [2, 5], true),
    ] {
        let spec = Pool2d {
            planes: 2,
            input,
            kernel,
            stride,
            padding,
            dilation,
            ceil_mode,
        };
        let output = spec.output()?;
        let of_windows = Conv2d {
            batch: 2,
            in_channels: 1,
            out_channels: 1,
            groups: 1,
            input,
            kernel,
            stride,
            padding,
            dilation,
        };
        let seen = seen_pixels(&of_windows, output);
        let (pixels, outputs) = (input[0] * input[1], 2 * output[0] * output[1]);
        let x = run.input_hiding(&values(1, 2 * pixels), |at| !seen[at % pixels])?;
        let dy = run.input(&values(2, outputs))?;
        let (y, places) = (run.output(outputs)?, run.output_of(DType::U32, outputs)?);
        let dx = run.output(2 * pixels)?;
        max_pool2d_forward(run.ctx, &x, &y, &places, &spec)?;
        max_pool2d_backward(run.ctx, &dy, &places, &dx, &spec)?;
        run.keep_all([&y, &places, &dx])?;
        if dilation != ONE {
            continue;
        }
        let (y, dx) = (run.output(outputs)?, run.output(2 * pixels)?);
        avg_pool2d_forward(run.ctx, &x, &y, AvgDivisor::Inside, &spec)?;
        avg_pool2d_backward(run.ctx, &dy, &dx, AvgDivisor::Inside, &spec)?;
        run.keep_all([&y, &dx])?;
    }
    let (x, dy) = (run.input(&values(3, 70))?, run.input(&values(4, 24))?);
    let (y, dx) = (run.output(24)?, run.output(70)?);
    adaptive_avg_pool2d_forward(run.ctx, &x, &y, 2, [5, 7], [3, 4])?;
    adaptive_avg_pool2d_backward(run.ctx, &dy, &dx, 2, [5, 7], [3, 4])?;
    run.keep_all([&y, &dx])
}

/// Pixels that no output is made of.
fn interpolations(run: &mut Run<'_>) -> Result<(), KernelError> {
    for mode in [
        Interpolation::Nearest,
        Interpolation::Bilinear,
        Interpolation::BilinearAligned,
    ] {
        let (input, output) = ([9, 11], [3, 2]);
        let spec = Interpolate2d {
            planes: 2,
            input,
            output,
            mode,
            scale_factor: None,
        };
        // Nearest takes the pixel at o inputs / outputs, rounded down.
        let source = |at: usize, axis: usize| {
            (0..output[axis]).any(|o| o * input[axis] / output[axis] == at)
        };
        let hidden = |at: usize| {
            let (y, x) = (at / 11 % 9, at % 11);
            mode == Interpolation::Nearest && !(source(y, 0) && source(x, 1))
        };
        let x = run.input_hiding(&values(1, 2 * 99), hidden)?;
        let (dy, y, dx) = (
            run.input(&values(2, 12))?,
            run.output(12)?,
            run.output(2 * 99)?,
        );
        interpolate2d_forward(run.ctx, &x, &y, &spec)?;
        interpolate2d_backward(run.ctx, &dy, &dx, &spec)?;
        run.keep_all([&y, &dx])?;
    }
    Ok(())
}

/// A step reads its own position and, backward, the one before; other positions stay.
fn recurrent(run: &mut Run<'_>) -> Result<(), KernelError> {
    let (batch, time, width) = (3, 4, 33);
    let (units, all) = (batch * width, batch * time * width);
    for (position, previous) in [(1, Some(0)), (3, None)] {
        let step = Step {
            batch,
            time,
            width,
            position,
            previous,
        };
        let position_of = |at: usize, n: usize| at / (n * width) % time;
        let not_here = |n: usize| move |at: usize| position_of(at, n) != position;
        let here = |n: usize| move |at: usize| position_of(at, n) == position;
        let nor_before = |at: usize| {
            let at = position_of(at, 1);
            at != position && Some(at) != previous
        };
        let x = run.input_hiding(&normal(1, 4 * all), not_here(4))?;
        let (from_hidden, cell) = (
            run.input(&normal(2, 4 * units))?,
            run.input(&normal(3, units))?,
        );
        let (hidden, gates) = (run.output(units)?, run.output(4 * all)?);
        let out = run.output(2 * all)?;
        let buffers = LstmForward {
            x: &x,
            from_hidden: &from_hidden,
            cell: &cell,
            hidden: &hidden,
            gates: &gates,
            out: &out,
        };
        lstm_forward(run.ctx, step, &buffers)?;
        run.keep_all([&cell, &hidden])?;
        run.keep_where(&gates, here(4))?;
        run.keep_where(&out, here(1))?;
        let gates = run.input_hiding(&normal(4, 4 * all), not_here(4))?;
        let (out, dout) = (
            run.input_hiding(&normal(5, 2 * all), nor_before)?,
            run.input_hiding(&normal(6, 2 * all), not_here(1))?,
        );
        // With a step before, the first state is not read.
        let first = run.input_hiding(&normal(7, units), |_| previous.is_some())?;
        let (dhidden, dcell) = (run.input(&normal(8, units))?, run.input(&normal(9, units))?);
        let (dstep, dgates) = (run.output(4 * units)?, run.output(4 * all)?);
        let buffers = LstmBackward {
            gates: &gates,
            out: &out,
            first_cell: &first,
            dout: &dout,
            dhidden: &dhidden,
            dcell: &dcell,
            dstep: &dstep,
            dgates: &dgates,
        };
        lstm_backward(run.ctx, step, &buffers)?;
        run.keep_all([&dcell, &dstep])?;
        run.keep_where(&dgates, here(4))?;
        gru(run, step, [units, all], &first)?;
    }
    Ok(())
}

fn gru(
    run: &mut Run<'_>,
    step: Step,
    [units, all]: [usize; 2],
    first: &Buffer,
) -> Result<(), KernelError> {
    let position_of = |at: usize, n: usize| at / (n * step.width) % step.time;
    let not_here = |n: usize| move |at: usize| position_of(at, n) != step.position;
    let here = |n: usize| move |at: usize| position_of(at, n) == step.position;
    let x = run.input_hiding(&normal(1, 3 * all), not_here(3))?;
    let (from_hidden, hidden) = (
        run.input(&normal(2, 3 * units))?,
        run.input(&normal(3, units))?,
    );
    let (gates, out) = (run.output(4 * all)?, run.output(all)?);
    let buffers = GruForward {
        x: &x,
        from_hidden: &from_hidden,
        hidden: &hidden,
        gates: &gates,
        out: &out,
    };
    gru_forward(run.ctx, step, &buffers)?;
    run.keep(&hidden)?;
    run.keep_where(&gates, here(4))?;
    run.keep_where(&out, here(1))?;
    let gates = run.input_hiding(&normal(4, 4 * all), not_here(4))?;
    let out = run.input_hiding(&normal(5, all), |at| {
        Some(position_of(at, 1)) != step.previous
    })?;
    let dout = run.input_hiding(&normal(6, all), not_here(1))?;
    let dhidden = run.input(&normal(8, units))?;
    let (dstep, dx, dfrom) = (
        run.output(3 * units)?,
        run.output(3 * all)?,
        run.output(3 * all)?,
    );
    let buffers = GruBackward {
        gates: &gates,
        out: &out,
        first_hidden: first,
        dout: &dout,
        dhidden: &dhidden,
        dstep: &dstep,
        dx: &dx,
        dfrom_hidden: &dfrom,
    };
    gru_backward(run.ctx, step, &buffers)?;
    run.keep_all([&dhidden, &dstep])?;
    run.keep_where(&dx, here(3))?;
    run.keep_where(&dfrom, here(3))
}

/// The products of recurrent steps.
fn step_products(run: &mut Run<'_>) -> Result<(), KernelError> {
    let [m, n, k] = [17, 67, 37];
    let (x, w) = (run.input(&normal(1, m * k))?, run.input(&normal(2, k * n))?);
    let (bias, y) = (run.input(&normal(3, n))?, run.output(m * n)?);
    step_product(run.ctx, [&x, &w], Some(&bias), &y, [m, n, k], false)?;
    let stored = run.input(&normal(4, m * n))?;
    step_product(run.ctx, [&x, &w], None, &stored, [m, n, k], true)?;
    run.keep_all([&y, &stored])
}

/// The bodies.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::new("products, layouts", &[], layouts),
        Entry::new("products, tiles", PRODUCTS, tiles),
        Entry::new("products, cut", CUT, tiles),
        Entry::new("products, epilogues", FUSED_TILES, epilogues),
        Entry::new("products, few rows", FEW_ROWS, few_rows),
        Entry::new("convolutions", &[], convolutions),
        Entry::new("convolutions, tiles", CONVOLUTIONS, convolution_tiles),
        Entry::new("convolutions over integers", INTEGERS, integer_convolutions),
        Entry::new("pools", &[], pools),
        Entry::new("interpolations", &[], interpolations),
        Entry::new("recurrent steps", &[], recurrent),
        Entry::new("products of recurrent steps", PROCESSORS, step_products),
    ]
}
