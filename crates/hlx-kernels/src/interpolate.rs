//! Interpolation of planes `[planes, H, W]` (samples times channels) to other extents.
//!
//! Along an axis of I inputs and O outputs, `scale` is I / O, or 1 / the scale factor, in f32; with
//! aligned corners (I - 1) / (O - 1), or 0 for one output. Output o lies at place
//! - nearest and aligned: `o scale`;
//! - linear: `fma(scale, o + 1/2, -1/2)`, at least 0.
//!
//! Its source i0 is the input at or before its place, I - 1 at most.
//!
//! - Nearest: the source.
//! - Bilinear: with i1 = min(i0 + 1, I - 1), `r = min(place - i0, 1)` and `l = 1 - r` along x, b and t
//!   likewise along y: `y = fma(b, fma(r, x11, l x10), t fma(r, x01, l x00))`.
//! - Gradient of nearest: the chain of additions of dy over the outputs whose source an element is.
//! - Gradient of bilinear: the chain of `fma(wy wx, dy, acc)` over the outputs that an element is a
//!   source of; wy is t where its row is i0, b where it is i1, and `t + b` where it is both.
//!
//! Chains run over the outputs in row-major order, from +0, and end by turning -0 into +0.

mod cpu;
#[cfg(test)]
mod tests;

use hlx_core::{Binding, Buffer, CpuBindings, Device, Launch, Shader, groups_1d, push_bytes};

use crate::error::{KernelError, check_len, check_that};
use crate::map::GROUP_THREADS;
use cpu::Axis;

shader!(nearest_forward, interpolate::nearest_forward);
shader!(nearest_backward, interpolate::nearest_backward);
shader!(bilinear_forward, interpolate::bilinear_forward);
shader!(bilinear_backward, interpolate::bilinear_backward);

use nearest_forward::Push;

/// How outputs are made of the inputs around them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    /// PyTorch's `mode="nearest"`.
    Nearest,
    /// `mode="bilinear", align_corners=False`.
    Bilinear,
    /// `mode="bilinear", align_corners=True`.
    BilinearAligned,
}

/// The shape of an interpolation. Pairs are of y and x; one dimension has a y of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interpolate2d {
    /// Samples times channels.
    pub planes: usize,
    /// Height and width of the planes.
    pub input: [usize; 2],
    /// Height and width of the results.
    pub output: [usize; 2],
    /// How outputs are made.
    pub mode: Interpolation,
    /// The factors that take the place of output / input: PyTorch's `scale_factor` without
    /// `recompute_scale_factor`. Aligned corners do not read them.
    pub scale_factor: Option<[f64; 2]>,
}

impl Interpolate2d {
    /// The axes of a shape whose two sides have these lengths.
    fn axes(
        &self,
        name: &'static str,
        (input_name, input): (&'static str, &Buffer),
        (output_name, output): (&'static str, &Buffer),
    ) -> Result<[Axis; 2], KernelError> {
        /// Extents are exact as floats.
        const LONGEST: usize = 1 << 24;
        for (argument, pair) in [("input", self.input), ("output", self.output)] {
            check_that(name, pair.iter().all(|x| (1..=LONGEST).contains(x)), || {
                format!("{argument} is {pair:?}, expected from 1 to {LONGEST}")
            })?;
        }
        for (argument, buffer, [height, width]) in [
            (input_name, input, self.input),
            (output_name, output, self.output),
        ] {
            let len = self.planes.saturating_mul(height).saturating_mul(width);
            check_len(name, argument, buffer, len)?;
            check_that(name, u32::try_from(len).is_ok(), || {
                format!(
                    "{argument} has {len} elements, expected at most {}",
                    u32::MAX
                )
            })?;
        }
        Ok([self.axis(name, 0)?, self.axis(name, 1)?])
    }

    fn axis(&self, name: &'static str, axis: usize) -> Result<Axis, KernelError> {
        let (inputs, outputs) = (self.input[axis], self.output[axis]);
        let scale = match (self.mode, self.scale_factor) {
            (Interpolation::BilinearAligned, _) if outputs == 1 => 0.0,
            (Interpolation::BilinearAligned, _) => (inputs - 1) as f32 / (outputs - 1) as f32,
            (_, Some(factors)) => (1.0 / factors[axis]) as f32,
            (_, None) => inputs as f32 / outputs as f32,
        };
        // Places stay below 2^31, which integers hold.
        let fits = scale >= 0.0 && f64::from(scale) * outputs as f64 <= 1e9;
        check_that(name, fits && !scale.is_subnormal(), || {
            let factors = self.scale_factor;
            format!("scale_factor is {factors:?}, expected positive numbers near output / input")
        })?;
        Ok(Axis {
            inputs,
            outputs,
            scale,
            mode: self.mode,
        })
    }
}

/// Computes y `[planes, output]`, which it overwrites, from x `[planes, input]`. PyTorch:
/// `torch.nn.functional.interpolate`.
///
/// # Errors
/// [`KernelError::Argument`] for extents of 0 or beyond 2^24, or factors that are not positive;
/// [`KernelError::Length`] for a buffer of another length; the device's error.
pub fn interpolate2d_forward(
    device: &Device,
    x: &Buffer,
    y: &Buffer,
    spec: &Interpolate2d,
) -> Result<(), KernelError> {
    const NAME: &str = "interpolate2d_forward";
    let axes = spec.axes(NAME, ("x", x), ("y", y))?;
    let nearest = spec.mode == Interpolation::Nearest;
    let shader = match nearest {
        true => &nearest_forward::SHADER,
        false => &bilinear_forward::SHADER,
    };
    let bindings = [Binding::Read(x), Binding::Write(y)];
    launch(
        device,
        (NAME, shader),
        &axes,
        &bindings,
        y.len(),
        move |bindings| {
            let ([x], [y]) = bindings.split::<1, 1>();
            match nearest {
                true => cpu::nearest_forward(&axes, x, y),
                false => cpu::bilinear_forward(&axes, x, y),
            }
        },
    )
}

/// Computes the gradient of the input, dx `[planes, input]`, which it overwrites, from dy
/// `[planes, output]`.
///
/// # Errors
/// As [`interpolate2d_forward`].
pub fn interpolate2d_backward(
    device: &Device,
    dy: &Buffer,
    dx: &Buffer,
    spec: &Interpolate2d,
) -> Result<(), KernelError> {
    const NAME: &str = "interpolate2d_backward";
    let axes = spec.axes(NAME, ("dx", dx), ("dy", dy))?;
    let nearest = spec.mode == Interpolation::Nearest;
    let shader = match nearest {
        true => &nearest_backward::SHADER,
        false => &bilinear_backward::SHADER,
    };
    let bindings = [Binding::Read(dy), Binding::Write(dx)];
    launch(
        device,
        (NAME, shader),
        &axes,
        &bindings,
        dx.len(),
        move |bindings| {
            let ([dy], [dx]) = bindings.split::<1, 1>();
            match nearest {
                true => cpu::nearest_backward(&axes, dy, dx),
                false => cpu::bilinear_backward(&axes, dy, dx),
            }
        },
    )
}

/// Launches a kernel of one thread an element.
fn launch(
    device: &Device,
    (name, shader): (&'static str, &'static Shader),
    [y, x]: &[Axis; 2],
    bindings: &[Binding<'_>],
    count: usize,
    body: impl Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
) -> Result<(), KernelError> {
    if count == 0 {
        return Ok(());
    }
    let mode = match y.mode {
        Interpolation::Nearest => 0,
        Interpolation::Bilinear => 1,
        Interpolation::BilinearAligned => 2,
    };
    let push = Push {
        count: count as u32,
        input_height: y.inputs as u32,
        input_width: x.inputs as u32,
        output_height: y.outputs as u32,
        output_width: x.outputs as u32,
        scale_y: y.scale,
        scale_x: x.scale,
    };
    let launch = Launch {
        name,
        shader,
        specialization: &[(0, mode)],
        bindings,
        push: push_bytes(&push),
        groups: groups_1d(count.div_ceil(GROUP_THREADS)),
    };
    Ok(device.launch(launch, body)?)
}
