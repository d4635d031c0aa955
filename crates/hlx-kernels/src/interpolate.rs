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
//! Chains run over the outputs in row-major order, from +0, and end by replacing -0 by +0.

mod cpu;
#[cfg(test)]
mod tests;

use hlx_core::{Buffer, Device, Shader};

use crate::error::Result;
use crate::kernel::Kernel;
use crate::window::{check_extents, check_planes, launch_elements};
use cpu::Axis;

shader!(interpolate::{nearest_forward, nearest_backward, bilinear_forward, bilinear_backward});

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
        input: (&'static str, &Buffer),
        output: (&'static str, &Buffer),
    ) -> Result<[Axis; 2]> {
        /// Extents are exact as floats.
        const LONGEST: usize = 1 << 24;
        check_extents(name, self.input, self.output, LONGEST)?;
        check_planes(name, self.planes, input, self.input)?;
        check_planes(name, self.planes, output, self.output)?;
        Ok([self.axis(name, 0)?, self.axis(name, 1)?])
    }

    fn axis(&self, name: &'static str, axis: usize) -> Result<Axis> {
        let (inputs, outputs) = (self.input[axis], self.output[axis]);
        let scale = match (self.mode, self.scale_factor) {
            (Interpolation::BilinearAligned, _) if outputs == 1 => 0.0,
            (Interpolation::BilinearAligned, _) => (inputs - 1) as f32 / (outputs - 1) as f32,
            (_, Some(factors)) => (1.0 / factors[axis]) as f32,
            (_, None) => inputs as f32 / outputs as f32,
        };
        // Places stay below 2^31, which integers hold.
        let fits = scale >= 0.0 && f64::from(scale) * outputs as f64 <= 1e9;
        check_that!(name, fits && !scale.is_subnormal() =>
            "scale_factor is {factors:?}, expected positive numbers near output / input",
            factors = self.scale_factor)?;
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
/// [`KernelError::Argument`](crate::KernelError::Argument) for extents of 0 or beyond 2^24, or factors that are
/// not positive; [`KernelError::Length`](crate::KernelError::Length) for a buffer of another length; the
/// device's error.
pub fn interpolate2d_forward(
    device: &Device,
    x: &Buffer,
    y: &Buffer,
    spec: &Interpolate2d,
) -> Result<()> {
    const NAME: &str = "interpolate2d_forward";
    let axes = spec.axes(NAME, ("x", x), ("y", y))?;
    let (shader, body) = match spec.mode {
        Interpolation::Nearest => (&nearest_forward::SHADER, cpu::nearest_forward as Body),
        _ => (&bilinear_forward::SHADER, cpu::bilinear_forward as Body),
    };
    launch(device, NAME, shader, axes, [x, y], body)
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
) -> Result<()> {
    const NAME: &str = "interpolate2d_backward";
    let axes = spec.axes(NAME, ("dx", dx), ("dy", dy))?;
    let (shader, body) = match spec.mode {
        Interpolation::Nearest => (&nearest_backward::SHADER, cpu::nearest_backward as Body),
        _ => (&bilinear_backward::SHADER, cpu::bilinear_backward as Body),
    };
    launch(device, NAME, shader, axes, [dy, dx], body)
}

/// The CPU body of a kernel: from axes, what is read and what is written.
type Body = fn(&[Axis; 2], &[f32], &mut [f32]);

fn launch(
    device: &Device,
    name: &'static str,
    shader: &'static Shader,
    axes: [Axis; 2],
    [from, to]: [&Buffer; 2],
    body: Body,
) -> Result<()> {
    let [y, x] = &axes;
    let mode = match y.mode {
        Interpolation::Nearest => 0,
        Interpolation::Bilinear => 1,
        Interpolation::BilinearAligned => 2,
    };
    let push = push!(nearest_forward =>
        count: to.len(), input_height: y.inputs, input_width: x.inputs, output_height: y.outputs,
        output_width: x.outputs, scale_y: y.scale, scale_x: x.scale
    );
    let kernel = Kernel::new(name, shader)
        .constants([(0, mode)])
        .reads([from])
        .writes([to]);
    launch_elements(device, &kernel, push, to.len(), move |[from], [mut to]| {
        body(&axes, from.of(), to.of());
    })
}
