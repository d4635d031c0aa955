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
//! Gradients end by turning -0 into +0. Nothing is scattered: each element collects its own terms.

mod cpu;
#[cfg(test)]
mod tests;
mod windows;

use hlx_core::{
    Binding, Buffer, CpuBindings, DType, Device, Launch, Shader, groups_1d, push_bytes,
};

use crate::error::{KernelError, check_len, check_that};
use crate::map::GROUP_THREADS;
use windows::Axis;

shader!(max_forward, pool::max_forward);
shader!(max_backward, pool::max_backward);
shader!(avg_forward, pool::avg_forward);
shader!(avg_backward, pool::avg_backward);

use avg_forward::Push;

/// The shape of a pooling. Pairs are of y and x; pooling of one dimension has a y of 1, 1, 1, 0, 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool2d {
    /// Samples times channels.
    pub planes: usize,
    /// Height and width of the planes.
    pub input: [usize; 2],
    /// Height and width of a window, in elements.
    pub kernel: [usize; 2],
    /// Elements from one window to the next.
    pub stride: [usize; 2],
    /// Elements outside of the plane on each side; at most half of the kernel.
    pub padding: [usize; 2],
    /// Elements from one of a window to the next; 1 for averages.
    pub dilation: [usize; 2],
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
    /// [`KernelError::Argument`] for extents, strides or dilations of 0, a padding of more than half
    /// of the kernel, a kernel larger than the padded plane, or sizes beyond 2^28 along an axis.
    pub fn output(&self) -> Result<[usize; 2], KernelError> {
        self.output_for("pool2d")
    }

    fn output_for(&self, name: &'static str) -> Result<[usize; 2], KernelError> {
        let pairs = [
            ("input", self.input),
            ("kernel", self.kernel),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ];
        for (argument, pair) in pairs {
            check_that(name, pair[0] > 0 && pair[1] > 0, || {
                format!("{argument} is {pair:?}, expected at least 1")
            })?;
        }
        let halves = self.kernel.map(|kernel| kernel / 2);
        let fits = self.padding[0] <= halves[0] && self.padding[1] <= halves[1];
        check_that(name, fits, || {
            let padding = self.padding;
            format!("padding is {padding:?}, expected at most half of the kernel, {halves:?}")
        })?;
        Ok([self.output_along(name, 0)?, self.output_along(name, 1)?])
    }

    fn output_along(&self, name: &'static str, axis: usize) -> Result<usize, KernelError> {
        /// Places along an axis stay far from the 32 bits that shaders count them in.
        const LONGEST: usize = 1 << 28;
        let dilation = self.dilation[axis];
        let span = (self.kernel[axis] - 1)
            .saturating_mul(dilation)
            .saturating_add(1);
        let (input, padding, stride) = (self.input[axis], self.padding[axis], self.stride[axis]);
        let padded = input.saturating_add(padding.saturating_mul(2));
        let longest = padded.max(span).max(stride).max(dilation);
        check_that(name, longest <= LONGEST, || {
            format!("padded input, kernel or stride is beyond {LONGEST} along axis {axis}")
        })?;
        check_that(name, span <= padded, || {
            let of = ["height", "width"][axis];
            format!("kernel has a {of} of {span}, expected at most {padded}, the padded input's")
        })?;
        if !self.ceil_mode {
            return Ok((padded - span) / stride + 1);
        }
        let windows = (padded - span).div_ceil(stride) + 1;
        Ok(windows - usize::from((windows - 1) * stride >= input + padding))
    }

    /// Checks the shape and the lengths of both sides, and returns the windows along both axes.
    fn axes(
        &self,
        name: &'static str,
        inputs: (&'static str, &Buffer),
        outputs: (&'static str, &Buffer),
    ) -> Result<[Axis; 2], KernelError> {
        let output = self.output_for(name)?;
        check_planes(name, self.planes, inputs, self.input)?;
        check_planes(name, self.planes, outputs, output)?;
        Ok([0, 1].map(|axis| Axis {
            inputs: self.input[axis],
            outputs: output[axis],
            kernel: self.kernel[axis],
            stride: self.stride[axis],
            padding: self.padding[axis],
            dilation: self.dilation[axis],
            adaptive: false,
        }))
    }

    fn check_average(&self, name: &'static str, divisor: AvgDivisor) -> Result<(), KernelError> {
        check_that(name, self.dilation == [1, 1], || {
            format!(
                "dilation is {:?}, expected [1, 1] for averages",
                self.dilation
            )
        })?;
        check_that(name, divisor != AvgDivisor::Fixed(0), || {
            "the divisor is 0".to_owned()
        })
    }
}

fn check_planes(
    name: &'static str,
    planes: usize,
    (argument, buffer): (&'static str, &Buffer),
    [height, width]: [usize; 2],
) -> Result<(), KernelError> {
    let len = planes.saturating_mul(height).saturating_mul(width);
    check_len(name, argument, buffer, len)?;
    check_that(name, u32::try_from(len).is_ok(), || {
        format!(
            "{argument} has {len} elements, expected at most {}",
            u32::MAX
        )
    })
}

/// Computes the maximum of each window, y, and its place in the plane, indices (u32); both have
/// `[planes, output]` and are overwritten. x is `[planes, input]` of f32, i32 or u32, y of its type.
/// PyTorch: `torch.nn.functional.max_pool2d(return_indices=True)`.
///
/// # Errors
/// As [`Pool2d::output`]; [`KernelError::Length`] for a buffer of another length,
/// [`KernelError::Argument`] for one of another type; the device's error.
pub fn max_pool2d_forward(
    device: &Device,
    x: &Buffer,
    y: &Buffer,
    indices: &Buffer,
    spec: &Pool2d,
) -> Result<(), KernelError> {
    const NAME: &str = "max_pool2d_forward";
    let axes = spec.axes(NAME, ("x", x), ("y", y))?;
    check_indices(NAME, indices, y)?;
    let dtype = x.dtype();
    let Some(number) = [DType::F32, DType::I32, DType::U32]
        .iter()
        .position(|&of| of == dtype)
    else {
        return Err(KernelError::Argument {
            operation: NAME,
            reason: format!("x has dtype {dtype}, expected f32, i32 or u32"),
        });
    };
    check_that(NAME, y.dtype() == dtype, || {
        format!("y has dtype {}, expected {dtype}", y.dtype())
    })?;
    let launch = Elements {
        name: NAME,
        shader: &max_forward::SHADER,
        axes,
        constants: &[(1, number as u32)],
        divisor: 1.0,
    };
    let bindings = [Binding::Read(x), Binding::Write(y), Binding::Write(indices)];
    launch.launch(device, &bindings, y.len(), move |bindings| {
        let ([x], [mut y, mut indices]) = bindings.split_typed::<1, 2>();
        match dtype {
            DType::I32 => cpu::max_forward::<i32>(&axes, x.of(), y.of(), indices.of()),
            DType::U32 => cpu::max_forward::<u32>(&axes, x.of(), y.of(), indices.of()),
            _ => cpu::max_forward::<f32>(&axes, x.of(), y.of(), indices.of()),
        }
    })
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
) -> Result<(), KernelError> {
    const NAME: &str = "max_pool2d_backward";
    let axes = spec.axes(NAME, ("dx", dx), ("dy", dy))?;
    check_indices(NAME, indices, dy)?;
    let launch = Elements {
        name: NAME,
        shader: &max_backward::SHADER,
        axes,
        constants: &[],
        divisor: 1.0,
    };
    let bindings = [
        Binding::Read(dy),
        Binding::Read(indices),
        Binding::Write(dx),
    ];
    launch.launch(device, &bindings, dx.len(), move |bindings| {
        let ([dy, indices], [mut dx]) = bindings.split_typed::<2, 1>();
        cpu::max_backward(&axes, dy.of(), indices.of(), dx.of());
    })
}

fn check_indices(name: &'static str, indices: &Buffer, y: &Buffer) -> Result<(), KernelError> {
    check_that(name, indices.dtype() == DType::U32, || {
        format!("indices has dtype {}, expected u32", indices.dtype())
    })?;
    check_len(name, "indices", indices, y.len())
}

/// Computes the average of each window, y `[planes, output]`, which it overwrites; x is
/// `[planes, input]`. PyTorch: `torch.nn.functional.avg_pool2d`.
///
/// # Errors
/// As [`max_pool2d_forward`], and [`KernelError::Argument`] for a dilation or a divisor of 0.
pub fn avg_pool2d_forward(
    device: &Device,
    x: &Buffer,
    y: &Buffer,
    divisor: AvgDivisor,
    spec: &Pool2d,
) -> Result<(), KernelError> {
    const NAME: &str = "avg_pool2d_forward";
    let axes = spec.axes(NAME, ("x", x), ("y", y))?;
    spec.check_average(NAME, divisor)?;
    average(device, NAME, (x, y), axes, divisor)
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
    divisor: AvgDivisor,
    spec: &Pool2d,
) -> Result<(), KernelError> {
    const NAME: &str = "avg_pool2d_backward";
    let axes = spec.axes(NAME, ("dx", dx), ("dy", dy))?;
    spec.check_average(NAME, divisor)?;
    average_backward(device, NAME, (dy, dx), axes, divisor)
}

/// Computes averages of windows that cut planes into `output` parts, y `[planes, output]`, which it
/// overwrites; x is `[planes, input]`. PyTorch: `torch.nn.functional.adaptive_avg_pool2d`.
///
/// # Errors
/// [`KernelError::Argument`] for extents of 0 or of more than 2^15; [`KernelError::Length`] for a
/// buffer of another length; the device's error.
pub fn adaptive_avg_pool2d_forward(
    device: &Device,
    x: &Buffer,
    y: &Buffer,
    planes: usize,
    input: [usize; 2],
    output: [usize; 2],
) -> Result<(), KernelError> {
    const NAME: &str = "adaptive_avg_pool2d_forward";
    let axes = adaptive_axes(NAME, input, output)?;
    check_planes(NAME, planes, ("x", x), input)?;
    check_planes(NAME, planes, ("y", y), output)?;
    average(device, NAME, (x, y), axes, AvgDivisor::Inside)
}

/// Computes the gradient of the adaptive average's input, dx `[planes, input]`, which it overwrites,
/// from dy `[planes, output]`.
///
/// # Errors
/// As [`adaptive_avg_pool2d_forward`].
pub fn adaptive_avg_pool2d_backward(
    device: &Device,
    dy: &Buffer,
    dx: &Buffer,
    planes: usize,
    input: [usize; 2],
    output: [usize; 2],
) -> Result<(), KernelError> {
    const NAME: &str = "adaptive_avg_pool2d_backward";
    let axes = adaptive_axes(NAME, input, output)?;
    check_planes(NAME, planes, ("dx", dx), input)?;
    check_planes(NAME, planes, ("dy", dy), output)?;
    average_backward(device, NAME, (dy, dx), axes, AvgDivisor::Inside)
}

fn adaptive_axes(
    name: &'static str,
    input: [usize; 2],
    output: [usize; 2],
) -> Result<[Axis; 2], KernelError> {
    /// The product of an input's and an output's extent stays below 2^31.
    const LONGEST: usize = 1 << 15;
    for (argument, pair) in [("input", input), ("output", output)] {
        check_that(name, pair.iter().all(|x| (1..=LONGEST).contains(x)), || {
            format!("{argument} is {pair:?}, expected from 1 to {LONGEST}")
        })?;
    }
    Ok([0, 1].map(|axis| Axis::adaptive(input[axis], output[axis])))
}

fn average(
    device: &Device,
    name: &'static str,
    (x, y): (&Buffer, &Buffer),
    axes: [Axis; 2],
    divisor: AvgDivisor,
) -> Result<(), KernelError> {
    let launch = Elements {
        name,
        shader: &avg_forward::SHADER,
        axes,
        constants: &[divisor.constant()],
        divisor: divisor.value(),
    };
    let bindings = [Binding::Read(x), Binding::Write(y)];
    launch.launch(device, &bindings, y.len(), move |bindings| {
        let ([x], [y]) = bindings.split::<1, 1>();
        cpu::avg_forward(&axes, divisor, x, y);
    })
}

fn average_backward(
    device: &Device,
    name: &'static str,
    (dy, dx): (&Buffer, &Buffer),
    axes: [Axis; 2],
    divisor: AvgDivisor,
) -> Result<(), KernelError> {
    let launch = Elements {
        name,
        shader: &avg_backward::SHADER,
        axes,
        constants: &[divisor.constant()],
        divisor: divisor.value(),
    };
    let bindings = [Binding::Read(dy), Binding::Write(dx)];
    launch.launch(device, &bindings, dx.len(), move |bindings| {
        let ([dy], [dx]) = bindings.split::<1, 1>();
        cpu::avg_backward(&axes, divisor, dy, dx);
    })
}

impl AvgDivisor {
    /// The shaders' constant 1.
    fn constant(self) -> (u32, u32) {
        let kind = match self {
            Self::Padded => 0,
            Self::Inside => 1,
            Self::Fixed(_) => 2,
        };
        (1, kind)
    }

    /// The divisor, where it is the same for all windows.
    fn value(self) -> f32 {
        match self {
            Self::Padded | Self::Inside => 1.0,
            Self::Fixed(divisor) => divisor as f32,
        }
    }
}

/// A kernel of one thread an element.
struct Elements<'a> {
    name: &'static str,
    shader: &'static Shader,
    axes: [Axis; 2],
    /// The shader's constants apart from 0.
    constants: &'a [(u32, u32)],
    divisor: f32,
}

impl Elements<'_> {
    fn launch(
        &self,
        device: &Device,
        bindings: &[Binding<'_>],
        count: usize,
        body: impl Fn(&mut CpuBindings<'_>) + Send + Sync + 'static,
    ) -> Result<(), KernelError> {
        if count == 0 {
            return Ok(());
        }
        let [y, x] = &self.axes;
        let mut specialization = vec![(0, u32::from(y.adaptive))];
        specialization.extend(self.constants);
        let push = Push {
            count: count as u32,
            input_height: y.inputs as u32,
            input_width: x.inputs as u32,
            output_height: y.outputs as u32,
            output_width: x.outputs as u32,
            kernel_height: y.kernel as u32,
            kernel_width: x.kernel as u32,
            stride_y: y.stride as u32,
            stride_x: x.stride as u32,
            padding_y: y.padding as u32,
            padding_x: x.padding as u32,
            dilation_y: y.dilation as u32,
            dilation_x: x.dilation as u32,
            divisor: self.divisor,
        };
        let launch = Launch {
            name: self.name,
            shader: self.shader,
            specialization: &specialization,
            bindings,
            push: push_bytes(&push),
            groups: groups_1d(count.div_ceil(GROUP_THREADS)),
        };
        Ok(device.launch(launch, body)?)
    }
}
