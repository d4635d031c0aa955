//! Pooling of planes `[planes, H, W]` (samples times channels): maximum, average, adaptive average.
//!
//! Output o of an axis sees the inputs `o stride - padding + t dilation`, t below the kernel's
//! extent, that are inside. With adaptive pooling it sees those from `floor(o I / O)` to before
//! `ceil((o + 1) I / O)`. A window is the rows and columns that an output sees.
//!
//! - Maximum: the window's largest element and its place `y W + x` in the plane. Of equal elements
//!   the first in row-major order is taken, zeros of either sign are equal, and NaN is larger than
//!   all; of several NaNs the last one's place is kept. A window without an element gives minus
//!   infinity, of integers the least, and the place 2^32 - 1. Its gradient: `dx[i]` is the chain of additions of dy over the
//!   windows that took element i, in their row-major order, from +0.
//! - Average: a chain of additions of the window in row-major order from +0, in which -0 becomes +0
//!   at the end, divided by the divisor (correctly rounded). Its gradient: `dx[i]` is the chain of
//!   additions of `dy / divisor` over the windows that see i, in their row-major order, from +0.
//!
//! Gradients end by replacing -0 by +0. Nothing is scattered: each element collects its own terms.

mod cpu;
#[cfg(test)]
mod tests;
mod windows;

use hlx_core::{Buffer, DType, Device, ReadSlice, WriteSlice};

use crate::error::{Result, check_typed};
use crate::kernel::{Kernel, PushConstants};
use crate::window::{Windows, check_extents, check_planes, launch_elements};
use windows::Axis;

shader!(pool::{max_forward, max_backward, avg_forward, avg_backward});

/// The shape of a pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool2d {
    /// Samples times channels.
    pub planes: usize,
    /// The windows, whose padding is at most half of the kernel, and whose dilation is 1 for averages; pooling of one
    /// dimension has a y of 1, 1, 1, 0, 1.
    pub windows: Windows,
    /// Windows that pass the end of the padded plane count, if they begin before its padding's end.
    pub ceil_mode: bool,
}

/// What an average is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AvgDivisor {
    /// The window's elements with those in the padding: PyTorch's `count_include_pad=True`.
    Padded,
    /// The window's elements inside of the plane: `count_include_pad=False`.
    Inside,
    /// A number that is not 0: `divisor_override`.
    Fixed(i32),
}

impl Pool2d {
    /// Returns height and width of the results, as PyTorch has them:
    /// `(input + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded down, or with
    /// `ceil_mode` up, less a last window that begins past the plane and its first padding.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for extents, strides or dilations of 0, a
    /// padding of more than half of the kernel, a kernel larger than the padded plane, or sizes beyond 2^28
    /// along an axis.
    pub fn output(&self) -> Result<[usize; 2]> {
        self.output_for("pool2d")
    }

    fn output_for(&self, name: &'static str) -> Result<[usize; 2]> {
        self.windows.check(name)?;
        let padding = self.windows.padding;
        let halves = self.windows.kernel.map(|kernel| kernel / 2);
        let fits = padding[0] <= halves[0] && padding[1] <= halves[1];
        check_that!(name, fits =>
            "padding is {padding:?}, expected at most half of the kernel, {halves:?}")?;
        self.windows.output(name, self.ceil_mode)
    }

    /// Checks the shape and the lengths of both sides, and returns the windows along both axes.
    fn axes(
        &self,
        name: &'static str,
        inputs: (&'static str, &Buffer),
        outputs: (&'static str, &Buffer),
    ) -> Result<[Axis; 2]> {
        let output = self.output_for(name)?;
        check_planes(name, self.planes, inputs, self.windows.input)?;
        check_planes(name, self.planes, outputs, output)?;
        Ok([0, 1].map(|axis| Axis::of(&self.windows, axis, output[axis])))
    }
}

/// Averages over planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AvgPool2d {
    /// Of windows without dilation.
    Windows(Pool2d, AvgDivisor),
    /// Of windows that cut each plane into `output` parts.
    Adaptive {
        /// Samples times channels.
        planes: usize,
        /// Height and width of the planes, at most 2^15.
        input: [usize; 2],
        /// Height and width of the results, at most 2^15.
        output: [usize; 2],
    },
}

impl AvgPool2d {
    /// Checks the shape and the lengths of both sides; returns the windows along both axes, and the divisor.
    fn axes(
        &self,
        name: &'static str,
        inputs: (&'static str, &Buffer),
        outputs: (&'static str, &Buffer),
    ) -> Result<([Axis; 2], AvgDivisor)> {
        /// The product of an input's and an output's extent stays below 2^31.
        const LONGEST: usize = 1 << 15;
        match *self {
            Self::Windows(pool, divisor) => {
                let (axes, dilation) = (pool.axes(name, inputs, outputs)?, pool.windows.dilation);
                check_that!(name, dilation == [1, 1] =>
                    "dilation is {dilation:?}, expected [1, 1] for averages")?;
                check_that!(name, divisor != AvgDivisor::Fixed(0) => "the divisor is 0")?;
                Ok((axes, divisor))
            }
            Self::Adaptive {
                planes,
                input,
                output,
            } => {
                check_extents(name, input, output, LONGEST)?;
                check_planes(name, planes, inputs, input)?;
                check_planes(name, planes, outputs, output)?;
                let axes = [0, 1].map(|axis| Axis::adaptive(input[axis], output[axis]));
                Ok((axes, AvgDivisor::Inside))
            }
        }
    }
}

/// Computes the maximum of each window, y, and its place in the plane, indices (u32); both have
/// `[planes, output]` and are overwritten. x is `[planes, input]` of f32, i32 or u32, y of its type.
/// PyTorch: `torch.nn.functional.max_pool2d(return_indices=True)`.
///
/// # Errors
/// As [`Pool2d::output`]; [`KernelError::Length`](crate::KernelError::Length) for a buffer of another length,
/// [`KernelError::Argument`](crate::KernelError::Argument) for one of another type; the device's error.
pub fn max_pool2d_forward(
    device: &Device,
    x: &Buffer,
    y: &Buffer,
    indices: &Buffer,
    spec: &Pool2d,
) -> Result<()> {
    const NAME: &str = "max_pool2d_forward";
    let axes = spec.axes(NAME, ("x", x), ("y", y))?;
    check_typed(NAME, "indices", indices, DType::U32, y.len())?;
    let dtype = x.dtype();
    let types = [DType::F32, DType::I32, DType::U32];
    let number = types.iter().position(|&of| of == dtype);
    check_that!(NAME, number.is_some() => "x has dtype {dtype}, expected f32, i32 or u32")?;
    check_typed(NAME, "y", y, dtype, y.len())?;
    let kernel = Kernel::new(NAME, &max_forward::SHADER)
        .constants(constants!(0: 0_u32, number.unwrap_or(0) as u32))
        .reads([x])
        .writes([y, indices]);
    let push = push_of(&axes, y.len(), 1.0);
    let body = move |[x]: [ReadSlice<'_>; 1], [mut y, mut indices]: [WriteSlice<'_>; 2]| match dtype
    {
        DType::I32 => cpu::max_forward::<i32>(&axes, x.of(), y.of(), indices.of()),
        DType::U32 => cpu::max_forward::<u32>(&axes, x.of(), y.of(), indices.of()),
        _ => cpu::max_forward::<f32>(&axes, x.of(), y.of(), indices.of()),
    };
    launch_elements(device, &kernel, push, y.len(), body)
}

/// Computes the gradient of the maximum's input, dx `[planes, input]`, which it overwrites, from dy
/// and the forward pass's indices, both `[planes, output]`.
///
/// # Errors
/// As [`max_pool2d_forward`].
pub fn max_pool2d_backward(
    device: &Device,
    dy: &Buffer,
    indices: &Buffer,
    dx: &Buffer,
    spec: &Pool2d,
) -> Result<()> {
    const NAME: &str = "max_pool2d_backward";
    let axes = spec.axes(NAME, ("dx", dx), ("dy", dy))?;
    check_typed(NAME, "indices", indices, DType::U32, dy.len())?;
    let kernel = Kernel::new(NAME, &max_backward::SHADER)
        .constants([(0, 0)])
        .reads([dy, indices])
        .writes([dx]);
    let push = push_of(&axes, dx.len(), 1.0);
    let count = dx.len();
    launch_elements(
        device,
        &kernel,
        push,
        count,
        move |[dy, indices], [mut dx]| {
            cpu::max_backward(&axes, dy.of(), indices.of(), dx.of());
        },
    )
}

/// Computes the average of each window, y `[planes, output]`, which it overwrites; x is
/// `[planes, input]`. PyTorch: `torch.nn.functional.avg_pool2d` and `adaptive_avg_pool2d`.
///
/// # Errors
/// As [`max_pool2d_forward`], and [`KernelError::Argument`](crate::KernelError::Argument) for a dilation, a
/// divisor of 0, or extents that [`AvgPool2d`] does not allow.
pub fn avg_pool2d_forward(device: &Device, x: &Buffer, y: &Buffer, spec: &AvgPool2d) -> Result<()> {
    average(device, spec, false, [("x", x), ("y", y)])
}

/// Computes the gradient of the average's input, dx `[planes, input]`, which it overwrites, from dy
/// `[planes, output]`.
///
/// # Errors
/// As [`avg_pool2d_forward`].
pub fn avg_pool2d_backward(
    device: &Device,
    dy: &Buffer,
    dx: &Buffer,
    spec: &AvgPool2d,
) -> Result<()> {
    average(device, spec, true, [("dx", dx), ("dy", dy)])
}

fn average(
    device: &Device,
    spec: &AvgPool2d,
    backward: bool,
    [inputs, outputs]: [(&'static str, &Buffer); 2],
) -> Result<()> {
    let name = match (spec, backward) {
        (AvgPool2d::Windows(..), false) => "avg_pool2d_forward",
        (AvgPool2d::Windows(..), true) => "avg_pool2d_backward",
        (AvgPool2d::Adaptive { .. }, false) => "adaptive_avg_pool2d_forward",
        (AvgPool2d::Adaptive { .. }, true) => "adaptive_avg_pool2d_backward",
    };
    let (axes, divisor) = spec.axes(name, inputs, outputs)?;
    let (constants, number) = divisor.constants(&axes);
    let (shader, [from, to]) = match backward {
        false => (&avg_forward::SHADER, [inputs.1, outputs.1]),
        true => (&avg_backward::SHADER, [outputs.1, inputs.1]),
    };
    let kernel = Kernel::new(name, shader)
        .constants(constants)
        .reads([from])
        .writes([to]);
    let push = push_of(&axes, to.len(), number);
    launch_elements(
        device,
        &kernel,
        push,
        to.len(),
        move |[from], [mut to]| match backward {
            true => cpu::avg_backward(&axes, divisor, from.of(), to.of()),
            false => cpu::avg_forward(&axes, divisor, from.of(), to.of()),
        },
    )
}

impl AvgDivisor {
    /// The specialization constants of averages, and the divisor where it is the same for all windows.
    fn constants(self, [y, _]: &[Axis; 2]) -> ([(u32, u32); 2], f32) {
        let (kind, divisor): (u32, f32) = match self {
            Self::Padded => (0, 1.0),
            Self::Inside => (1, 1.0),
            Self::Fixed(divisor) => (2, divisor as f32),
        };
        (constants!(0: y.adaptive, kind), divisor)
    }
}

fn push_of([y, x]: &[Axis; 2], count: usize, divisor: f32) -> PushConstants {
    push!(avg_forward =>
        count, input_height: y.inputs, input_width: x.inputs, output_height: y.outputs,
        output_width: x.outputs, kernel_height: y.kernel, kernel_width: x.kernel, stride_y: y.stride,
        stride_x: x.stride, padding_y: y.padding, padding_x: x.padding, dilation_y: y.dilation,
        dilation_x: x.dilation, divisor
    )
}
