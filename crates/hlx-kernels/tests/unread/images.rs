//! Convolutions, pools and interpolation: pixels that strides and dilations leave out, padding, windows that end behind
//! an image.

use hlx_core::{Arithmetic, Buffer, DType};
use hlx_kernels::conv2d::{
    Conv2d, conv_transpose2d_backward_weight, conv_transpose2d_forward, conv2d_backward_bias,
    conv2d_backward_input, conv2d_backward_weight, conv2d_forward,
};
use hlx_kernels::interpolate::{
    Interpolate2d, Interpolation, interpolate2d_backward, interpolate2d_forward,
};
use hlx_kernels::pool::{
    AvgDivisor, AvgPool2d, Pool2d, avg_pool2d_backward, avg_pool2d_forward, max_pool2d_backward,
    max_pool2d_forward,
};
use hlx_kernels::testing::{normal, values};
use hlx_kernels::{KernelError, Windows};

use crate::Entry;
use crate::run::Run;
use crate::ways::{CONVOLUTIONS, INTEGERS};

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
    conv2d_forward(run.device, x, weight, Some(&bias), y, spec)?;
    conv2d_backward_input(run.device, dy, weight, dx, spec)?;
    run.collect_all([y, dx])?;
    for accumulate in [false, true] {
        conv2d_backward_weight(run.device, x, dy, dweight, 2, accumulate, spec)?;
        conv2d_backward_bias(run.device, dy, &dbias, 2, accumulate, spec)?;
    }
    run.collect_all([dweight, &dbias])?;
    let (out, dweight_of_transposed) = (run.output(dx.len())?, run.output(dweight.len())?);
    conv_transpose2d_forward(run.device, dy, weight, None, &out, spec)?;
    conv_transpose2d_backward_weight(run.device, dy, x, &dweight_of_transposed, 2, false, spec)?;
    run.collect_all([&out, &dweight_of_transposed])
}

/// A convolution and its weight's gradient, for every tile.
fn convolution_tiles(run: &mut Run<'_>) -> Result<(), KernelError> {
    for spec in [PLAIN, large()] {
        let images = &Images::new(run, &spec)?;
        conv2d_forward(
            run.device,
            &images.x,
            &images.weight,
            None,
            &images.y,
            &spec,
        )?;
        let (x, dy) = (&images.x, &images.dy);
        conv2d_backward_weight(run.device, x, dy, &images.dweight, 2, false, &spec)?;
        run.collect_all([&images.y, &images.dweight])?;
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

/// The same in the integer arithmetic.
fn quantised_convolutions(run: &mut Run<'_>) -> Result<(), KernelError> {
    let device = run.device.with_arithmetic(Arithmetic::Integer);
    let mut quantised = Run::new(&device, run.given);
    convolutions(&mut quantised)?;
    pixels_without_a_gradient(&mut quantised)?;
    run.take(quantised)
}

/// In the integer arithmetic, pixels at which the operand with two digits is zeros enter no maximum and no sum of the weight's gradient.
fn pixels_without_a_gradient(run: &mut Run<'_>) -> Result<(), KernelError> {
    let spec = Conv2d {
        kernel: [1, 1],
        padding: [0, 0],
        ..PLAIN
    };
    let pixels = spec.input[0] * spec.input[1];
    let no_gradient = |at: usize| (at % pixels).is_multiple_of(3);
    let of = |seed, channels| -> Vec<f32> {
        let mut gradient = normal(seed, spec.batch * channels * pixels);
        let all = gradient.iter_mut().enumerate();
        all.filter(|(at, _)| no_gradient(*at))
            .for_each(|(_, x)| *x = 0.0);
        gradient
    };
    let weight_len = spec.in_channels * spec.out_channels;
    // Of a transposed convolution the images are the gradient of its output. Specials would make one of zeros.
    for (channels, seed) in [(spec.out_channels, 1), (spec.in_channels, 2)] {
        let others = spec.in_channels + spec.out_channels - channels;
        let gradient = run.memory.input(run.device, &of(seed, channels))?;
        let x = run.input_hiding(&normal(3, spec.batch * others * pixels), no_gradient)?;
        let dweight = run.output(2 * weight_len)?;
        match channels == spec.out_channels {
            true => conv2d_backward_weight(run.device, &x, &gradient, &dweight, 2, false, &spec)?,
            false => conv_transpose2d_backward_weight(
                run.device, &x, &gradient, &dweight, 2, false, &spec,
            )?,
        }
        run.collect(&dweight)?;
    }
    Ok(())
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
            windows: Windows {
                input,
                kernel,
                stride,
                padding,
                dilation,
            },
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
        max_pool2d_forward(run.device, &x, &y, &places, &spec)?;
        max_pool2d_backward(run.device, &dy, &places, &dx, &spec)?;
        run.collect_all([&y, &places, &dx])?;
        if dilation != ONE {
            continue;
        }
        let (y, dx) = (run.output(outputs)?, run.output(2 * pixels)?);
        avg_pool2d_forward(
            run.device,
            &x,
            &y,
            &AvgPool2d::Windows(spec, AvgDivisor::Inside),
        )?;
        avg_pool2d_backward(
            run.device,
            &dy,
            &dx,
            &AvgPool2d::Windows(spec, AvgDivisor::Inside),
        )?;
        run.collect_all([&y, &dx])?;
    }
    let (x, dy) = (run.input(&values(3, 70))?, run.input(&values(4, 24))?);
    let (y, dx) = (run.output(24)?, run.output(70)?);
    let spec = AvgPool2d::Adaptive {
        planes: 2,
        input: [5, 7],
        output: [3, 4],
    };
    avg_pool2d_forward(run.device, &x, &y, &spec)?;
    avg_pool2d_backward(run.device, &dy, &dx, &spec)?;
    run.collect_all([&y, &dx])
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
        interpolate2d_forward(run.device, &x, &y, &spec)?;
        interpolate2d_backward(run.device, &dy, &dx, &spec)?;
        run.collect_all([&y, &dx])?;
    }
    Ok(())
}

/// The bodies.
pub fn entries() -> Vec<Entry> {
    vec![
        Entry::new("convolutions", &[], convolutions),
        Entry::new("convolutions, tiles", CONVOLUTIONS, convolution_tiles),
        Entry::new(
            "convolutions of quantised operands",
            INTEGERS,
            quantised_convolutions,
        ),
        Entry::new("pools", &[], pools),
        Entry::new("interpolations", &[], interpolations),
    ]
}
