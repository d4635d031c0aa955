//! Windows over planes, of convolutions and pooling, and what kernels over planes share: their checks, and the launch of
//! a thread per element of the result.

use hlx_core::{Buffer, Device, ReadSlice, WriteSlice};

use crate::error::{Result, check_indexable, check_len};
use crate::kernel::{Kernel, PushConstants};
use crate::map::GROUP_THREADS;
use crate::parallel::{self, write};

/// Places along an axis stay far from the 32 bits that shaders count them in.
const LONGEST: usize = 1 << 28;

/// Windows over a plane. Pairs are of y and x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Height and width of the plane.
    pub input: [usize; 2],
    /// Elements of a window.
    pub kernel: [usize; 2],
    /// Elements from one window to the next.
    pub stride: [usize; 2],
    /// Elements outside of the plane on each side.
    pub padding: [usize; 2],
    /// Elements from one of a window to the next.
    pub dilation: [usize; 2],
}

impl Windows {
    /// Checks that nothing is 0 but the padding.
    pub(crate) fn check(&self, name: &'static str) -> Result<()> {
        let pairs = [
            ("input", self.input),
            ("kernel", self.kernel),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ];
        pairs.into_iter().try_for_each(|(argument, pair)| {
            check_that!(name, pair[0] > 0 && pair[1] > 0 =>
                "{argument} is {pair:?}, expected at least 1")
        })
    }

    /// Height and width of the results, for windows that [`Windows::check`] has passed:
    /// `(input + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded down, or with `ceil_mode` up, less a last
    /// window that begins past the plane and its first padding.
    pub(crate) fn output(&self, name: &'static str, ceil_mode: bool) -> Result<[usize; 2]> {
        let along = |axis| self.output_along(name, axis, ceil_mode);
        Ok([along(0)?, along(1)?])
    }

    fn output_along(&self, name: &'static str, axis: usize, ceil_mode: bool) -> Result<usize> {
        let (input, kernel, stride) = (self.input[axis], self.kernel[axis], self.stride[axis]);
        let (padding, dilation) = (self.padding[axis], self.dilation[axis]);
        let span = dilation.saturating_mul(kernel - 1).saturating_add(1);
        let padded = input.saturating_add(padding.saturating_mul(2));
        let longest = padded.max(span).max(stride).max(dilation);
        check_that!(name, longest <= LONGEST =>
            "padded input, kernel or stride is beyond {LONGEST} along axis {axis}")?;
        check_that!(name, span <= padded =>
            "kernel has a {of} of {span}, expected at most {padded}, the padded input's",
            of = ["height", "width"][axis])?;
        if !ceil_mode {
            return Ok((padded - span) / stride + 1);
        }
        let windows = (padded - span).div_ceil(stride) + 1;
        Ok(windows - usize::from((windows - 1) * stride >= input + padding))
    }
}

/// Checks the extents of planes that have no windows.
pub(crate) fn check_extents(
    name: &'static str,
    input: [usize; 2],
    output: [usize; 2],
    longest: usize,
) -> Result<()> {
    let pairs = [("input", input), ("output", output)];
    pairs.into_iter().try_for_each(|(argument, pair)| {
        check_that!(name, pair.iter().all(|x| (1..=longest).contains(x)) =>
            "{argument} is {pair:?}, expected from 1 to {longest}")
    })
}

/// Checks the length of `[planes, height, width]`, and that 32 bits count it.
pub(crate) fn check_planes(
    name: &'static str,
    planes: usize,
    named: (&'static str, &Buffer),
    [height, width]: [usize; 2],
) -> Result<()> {
    let (argument, buffer) = named;
    let len = planes.saturating_mul(height).saturating_mul(width);
    check_len(name, argument, buffer, len)?;
    check_indexable(name, argument, len)
}

/// Launches a kernel over planes with a thread for each of `count` results.
pub(crate) fn launch_elements<const R: usize, const W: usize>(
    device: &Device,
    kernel: &Kernel<'_>,
    push: PushConstants,
    count: usize,
    body: impl Fn([ReadSlice<'_>; R], [WriteSlice<'_>; W]) + Send + Sync + 'static,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let groups = count.div_ceil(GROUP_THREADS);
    kernel.launch_bound(device, push, groups, move |bindings| {
        let (read, written) = bindings.split_typed();
        body(read, written);
    })
}

/// Calls `body(plane, row, results)` for every row of the results of planes, in tasks of about 4,096 results.
pub(crate) fn each_row(
    results: &mut [f32],
    [height, width]: [usize; 2],
    body: impl Fn(usize, usize, &mut [f32]) + Sync,
) {
    let rows = rows_a_task(width);
    parallel::for_each(write(results, rows * width), |task, results| {
        for (row, results) in (task * rows..).zip(results.chunks_mut(width)) {
            body(row / height, row % height, results);
        }
    });
}

/// Rows of results of a task.
pub(crate) fn rows_a_task(width: usize) -> usize {
    (4096 / width).max(1)
}
