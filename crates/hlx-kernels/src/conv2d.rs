//! Convolution of images `[N, C, H, W]`, with stride, padding, dilation and groups, and its gradients.
//!
//! With G groups, input channels `Ci`, output channels `Co`, a kernel of KH x KW taps, output
//! extents OH x OW ([`Conv2d::output`]), and `x~` the input extended by zeros on all sides:
//!
//! - Forward: `y[n, co, oy, ox]` is the chain of `fma(weight[co, c, ky, kx], x~[n, c, iy, ix], acc)`
//!   over (c, ky, kx) in the weight's row-major order, c counting the channels of co's group,
//!   `iy = oy stride - padding + ky dilation` and ix likewise; from +0 or from `bias[co]`.
//! - Gradient of the input: `dx[n, ci, iy, ix]` is the chain of
//!   `fma(weight[co, ci, ky, kx], dy~[n, co, oy, ox], acc)` over (co, ky, kx) in that order, co counting
//!   the output channels of ci's group; dy~ is 0 where no oy and ox lead to (iy, ix) through the tap.
//!   This is also the transposed convolution, whose chains may start from a bias.
//! - Gradient of the weight: `dweight[s, co, c, ky, kx]` is the chain of
//!   `fma(dy[n, co, oy, ox], x~[n, c, iy, ix], acc)` over (n, oy, ox), n counting the samples of shard
//!   s, from +0 or from what is stored. If OH OW is at least 512, each sample's pixels are cut into the
//!   fewest runs of at most 1,024 and of equal lengths, rounded up to a multiple of 4; each run is a
//!   chain from +0, and the chains are added in order to +0 or to what is stored.
//! - Gradient of the bias: `dbias[s, co]` is the chain of additions of dy over the same (n, oy, ox).
//!
//! Each chain ends by replacing -0 by +0. A zero of the padding is a term like any other: times an
//! infinite weight it is NaN.
//!
//! A handle of the device in the integer arithmetic computes the same products of quantised operands
//! ([`crate::product::quantised`]). Patches, of the input or of dy~, are rows with two digits, and weights rows with one.
//! In the gradient of the weight, rows of dy have two digits and rows of the patches one. In that of a transposed
//! convolution's weight, rows of its x, which is the dy here, have one. These rows have pieces
//! that are cut between samples (`product/sources/patches/quantised/columns.rs`).
//!
//! In the portable one the bits are those of a [matrix product](fn@crate::product::matmul) with a
//! matrix of patches. Products load their factors from the images; only for the weight's gradient of
//! images of few pixels a GPU stores the patches first (`product/sources/patches/stored.rs`).

#[cfg(test)]
mod tests;

use hlx_core::{Buffer, Device};

use crate::elementwise::permuted;
use crate::error::{Result, check_len};
use crate::layout::{Layout, Operand};
use crate::product::Role;
use crate::product::sources::patches::{Patches, Product};
use crate::reduce::column_sum;
use crate::window::Windows;

/// The shape of a convolution: images `[batch, in_channels, input]`, a weight
/// `[out_channels, in_channels / groups, kernel]`, and results `[batch, out_channels, output]`.
/// Pairs are of y and x; a convolution of one dimension has a y of 1, 1, 1, 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    /// Samples.
    pub batch: usize,
    /// Channels of the images.
    pub in_channels: usize,
    /// Channels of the results.
    pub out_channels: usize,
    /// Parts that the channels of both sides are cut into; a part sees its counterpart alone.
    pub groups: usize,
    /// Height and width of the images.
    pub input: [usize; 2],
    /// Taps of the kernel.
    pub kernel: [usize; 2],
    /// Pixels from one patch to the next.
    pub stride: [usize; 2],
    /// Zeros on each side of the image.
    pub padding: [usize; 2],
    /// Pixels from one tap to the next.
    pub dilation: [usize; 2],
}

impl Conv2d {
    /// Returns height and width of the results:
    /// `(input + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded down.
    ///
    /// # Errors
    /// [`KernelError::Argument`](crate::KernelError::Argument) for extents, strides or dilations of 0, groups that do not divide
    /// the channels, a kernel that is larger than the padded image, or sizes beyond 2^28 along an
    /// axis or 2^31 in all.
    pub fn output(&self) -> Result<[usize; 2]> {
        self.output_for("conv2d")
    }

    fn output_for(&self, name: &'static str) -> Result<[usize; 2]> {
        let windows = Windows {
            input: self.input,
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
        };
        windows.check(name)?;
        check_that!(name, self.groups > 0 => "groups is 0, expected at least 1")?;
        for (argument, count) in [
            ("in_channels", self.in_channels),
            ("out_channels", self.out_channels),
        ] {
            let fits = count > 0 && count.is_multiple_of(self.groups);
            check_that!(name, fits =>
                "{argument} is {count}, expected a multiple of the {groups} groups",
                groups = self.groups)?;
        }
        let output = windows.output(name, false)?;
        // 31 bits count the elements of every tensor, and the steps between them.
        let [[h, w], [oh, ow], [kh, kw]] = [self.input, output, self.kernel];
        let of_group = self.in_channels / self.groups;
        for (argument, extents) in [
            ("input", [self.batch, self.in_channels, h, w]),
            ("output", [self.batch, self.out_channels, oh, ow]),
            ("weight", [self.out_channels, of_group, kh, kw]),
        ] {
            let size = extents.iter().fold(1_usize, |n, &x| n.saturating_mul(x));
            check_that!(name, size <= i32::MAX as usize =>
                "{argument} has more than {} elements", i32::MAX)?;
        }
        Ok(output)
    }

    /// The product with the patches of the input that an output pixel sees.
    fn product(&self, name: &'static str, output: [usize; 2]) -> Product {
        Product {
            name,
            batch: self.batch,
            patches: Patches {
                pixels: output,
                taps: self.kernel,
                image: self.input,
                channels: self.in_channels,
                groups: self.groups,
                scale: self.stride.map(|x| x as isize),
                first: self.padding.map(|x| -(x as isize)),
                step: self.dilation.map(|x| x as isize),
                divide: [1, 1],
            },
            rows: self.out_channels / self.groups,
            terms: self.in_channels / self.groups * area(self.kernel),
        }
    }

    /// That with the patches of the output's gradient that an input pixel sees.
    fn transposed_product(&self, name: &'static str, output: [usize; 2]) -> Product {
        let product = self.product(name, output);
        Product {
            patches: Patches {
                pixels: self.input,
                image: output,
                channels: self.out_channels,
                scale: [1, 1],
                first: product.patches.first.map(|x| -x),
                step: product.patches.step.map(|x| -x),
                divide: self.stride,
                ..product.patches
            },
            rows: self.in_channels / self.groups,
            terms: product.rows * area(self.kernel),
            ..product
        }
    }

    fn input_len(&self) -> usize {
        self.batch * self.in_channels * area(self.input)
    }
    fn weight_len(&self) -> usize {
        self.out_channels * self.in_channels / self.groups * area(self.kernel)
    }

    fn output_len(&self, output: [usize; 2]) -> usize {
        self.batch * self.out_channels * area(output)
    }
}

fn area([height, width]: [usize; 2]) -> usize {
    height * width
}

/// Computes `out = conv(x, weight) + bias`, which it overwrites. PyTorch:
/// `torch.nn.functional.conv2d`.
///
/// x is `[batch, in_channels, input]`, weight `[out_channels, in_channels / groups, kernel]`, bias
/// `[out_channels]` and out `[batch, out_channels, output]`.
///
/// # Errors
/// As [`Conv2d::output`]; [`KernelError::Length`](crate::KernelError::Length) for a buffer of another length; the device's error.
pub fn conv2d_forward(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    bias: Option<&Buffer>,
    out: &Buffer,
    spec: &Conv2d,
) -> Result<()> {
    const NAME: &str = "conv2d_forward";
    let output = spec.output_for(NAME)?;
    check_len(NAME, "x", x, spec.input_len())?;
    check_len(NAME, "weight", weight, spec.weight_len())?;
    check_len(NAME, "out", out, spec.output_len(output))?;
    check_len(NAME, "bias", bias, spec.out_channels)?;
    spec.product(NAME, output)
        .launch(device, weight, x, bias, out)
}

/// Computes the gradient of the input, dx, from that of the result, dy; dx is overwritten.
///
/// dy is `[batch, out_channels, output]`, weight `[out_channels, in_channels / groups, kernel]`
/// and dx `[batch, in_channels, input]`.
///
/// # Errors
/// As [`conv2d_forward`].
pub fn conv2d_backward_input(
    device: &Device,
    dy: &Buffer,
    weight: &Buffer,
    dx: &Buffer,
    spec: &Conv2d,
) -> Result<()> {
    let names = ["conv2d_backward_input", "dy", "dx"];
    transposed(device, names, [dy, weight, dx], None, spec)
}

/// Computes the transposed convolution: the gradient of the input of the convolution `spec`, plus
/// a bias. PyTorch: `torch.nn.functional.conv_transpose2d`, whose output extents are
/// `spec.input` (its output padding chooses among those with one `spec.output()`).
///
/// x is `[batch, spec.out_channels, spec.output()]`, weight
/// `[spec.out_channels, spec.in_channels / groups, kernel]`, bias `[spec.in_channels]` and out
/// `[batch, spec.in_channels, spec.input]`, which is overwritten. Its gradients are
/// [`conv2d_forward`] for x and [`conv_transpose2d_backward_weight`].
///
/// # Errors
/// As [`conv2d_forward`].
pub fn conv_transpose2d_forward(
    device: &Device,
    x: &Buffer,
    weight: &Buffer,
    bias: Option<&Buffer>,
    out: &Buffer,
    spec: &Conv2d,
) -> Result<()> {
    let names = ["conv_transpose2d_forward", "x", "out"];
    transposed(device, names, [x, weight, out], bias, spec)
}

/// The product with the weight transposed in each group, `[in_channels, out_channels / groups, kernel]`.
fn transposed(
    device: &Device,
    [name, name_of_dy, name_of_dx]: [&'static str; 3],
    [dy, weight, dx]: [&Buffer; 3],
    bias: Option<&Buffer>,
    spec: &Conv2d,
) -> Result<()> {
    let output = spec.output_for(name)?;
    check_len(name, name_of_dy, dy, spec.output_len(output))?;
    check_len(name, "weight", weight, spec.weight_len())?;
    check_len(name, name_of_dx, dx, spec.input_len())?;
    check_len(name, "bias", bias, spec.in_channels)?;
    if dx.is_empty() {
        return Ok(());
    }
    let product = spec.transposed_product(name, output);
    let (ci, co) = (product.rows, spec.out_channels / spec.groups);
    let layout = Layout::contiguous(&[spec.groups, co, ci, area(spec.kernel)])?;
    let transposed = permuted(device, name, Operand::new(weight, &layout), &[0, 2, 1, 3])?;
    product.launch(device, &transposed, dy, bias, dx)
}

/// Computes the gradient of the weight, a partial sum a shard of `batch / shards` samples, into
/// dweight `[shards, out_channels, in_channels / groups, kernel]`, which it overwrites, or with
/// `accumulate` continues from.
///
/// x is `[batch, in_channels, input]`, dy `[batch, out_channels, output]`.
///
/// # Errors
/// As [`conv2d_forward`], and [`KernelError::Argument`](crate::KernelError::Argument) for shards that do not divide the batch.
pub fn conv2d_backward_weight(
    device: &Device,
    x: &Buffer,
    dy: &Buffer,
    dweight: &Buffer,
    shards: usize,
    accumulate: bool,
    spec: &Conv2d,
) -> Result<()> {
    weight_gradient(device, false, [x, dy], dweight, accumulate, shards, spec)
}

/// Computes the gradient of a transposed convolution's weight, as [`conv2d_backward_weight`] with dout for its x and x for its
/// dy; in the integer arithmetic dout has two digits.
///
/// x is `[batch, spec.out_channels, spec.output()]` and dout `[batch, spec.in_channels, spec.input]`, as in
/// [`conv_transpose2d_forward`].
///
/// # Errors
/// As [`conv2d_backward_weight`].
pub fn conv_transpose2d_backward_weight(
    device: &Device,
    x: &Buffer,
    dout: &Buffer,
    dweight: &Buffer,
    shards: usize,
    accumulate: bool,
    spec: &Conv2d,
) -> Result<()> {
    weight_gradient(device, true, [dout, x], dweight, accumulate, shards, spec)
}

fn weight_gradient(
    device: &Device,
    transposed: bool,
    [images, dy]: [&Buffer; 2],
    dweight: &Buffer,
    accumulate: bool,
    shards: usize,
    spec: &Conv2d,
) -> Result<()> {
    // The roles are those of dy and of the images.
    let mut roles = [Role::Gradient, Role::Saved];
    let (name, names) = match transposed {
        false => ("conv2d_backward_weight", ["x", "dy"]),
        true => ("conv_transpose2d_backward_weight", ["dout", "x"]),
    };
    if transposed {
        roles.reverse();
    }
    let output = spec.output_for(name)?;
    check_len(name, names[0], images, spec.input_len())?;
    check_len(name, names[1], dy, spec.output_len(output))?;
    check_shards(name, shards, spec)?;
    check_len(name, "dweight", dweight, [shards, spec.weight_len()])?;
    if spec.batch == 0 {
        return start_of_nothing(device, dweight, accumulate);
    }
    let product = spec.product(name, output);
    product.launch_weight(device, [dy, images], roles, dweight, accumulate, shards)
}

/// Computes the gradient of the bias, a partial sum a shard of `batch / shards` samples, into dbias
/// `[shards, out_channels]`, which it overwrites, or with `accumulate` continues from. dy is
/// `[batch, out_channels, output]`.
///
/// # Errors
/// As [`conv2d_backward_weight`].
pub fn conv2d_backward_bias(
    device: &Device,
    dy: &Buffer,
    dbias: &Buffer,
    shards: usize,
    accumulate: bool,
    spec: &Conv2d,
) -> Result<()> {
    const NAME: &str = "conv2d_backward_bias";
    let output = spec.output_for(NAME)?;
    check_len(NAME, "dy", dy, spec.output_len(output))?;
    check_shards(NAME, shards, spec)?;
    check_len(NAME, "dbias", dbias, [shards, spec.out_channels])?;
    if spec.batch == 0 {
        return start_of_nothing(device, dbias, accumulate);
    }
    let (pixels, channels) = (area(output), spec.out_channels);
    let layout = Layout::contiguous(&[spec.batch, channels, pixels])?;
    let rows = permuted(device, NAME, Operand::new(dy, &layout), &[0, 2, 1])?;
    let per_shard = spec.batch / shards * pixels;
    column_sum(
        device, &rows, dbias, shards, per_shard, channels, accumulate,
    )
}

fn check_shards(name: &'static str, shards: usize, spec: &Conv2d) -> Result<()> {
    let batch = spec.batch;
    check_that!(name, shards > 0 && batch.is_multiple_of(shards) =>
        "{shards} shards, expected a divisor of the batch of {batch}")
}

/// The sums of no terms.
fn start_of_nothing(device: &Device, sums: &Buffer, accumulate: bool) -> Result<()> {
    match accumulate {
        true => Ok(()),
        false => Ok(device.fill(sums, 0)?),
    }
}
