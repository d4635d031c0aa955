//! Convolutions, forward and transposed. Their derivatives are convolutions again, and so have
//! derivatives themselves.
//!
//! Three maps make all of it. With y = C(x, w) a convolution, T(y, w) is the map from the
//! gradient of y to that of x (a transposed convolution), and W(x, y) makes that of w. Each is linear
//! in both arguments, and the gradients of each are the other two.

mod options;

use hlx_core::{Buffer, Device};
use hlx_kernels::conv2d::{
    Conv2d, conv_transpose2d_backward_weight, conv_transpose2d_forward, conv2d_backward_bias,
    conv2d_backward_input, conv2d_backward_weight, conv2d_forward,
};
use hlx_kernels::{KernelError, Layout};

use super::join::Padding;
use crate::graph::saved_tensor::SavedTensor;
use crate::samples::Samples;
use crate::{AutogradError, Backward, DType, Input, Result, Tensor};

pub use options::ConvOptions;

impl Tensor {
    /// Convolves images \[N, C, H, W\] with weights \[O, C / groups, h, w\] and adds a bias \[O\], as
    /// `torch.nn.functional.conv2d`. Each element is one chain over channels and taps in the weight's
    /// order; the weight's gradient is summed by shards over samples and pixels in order. An image
    /// \[C, H, W\] gives one.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape), and a kernel error for options that do not
    /// fit the shapes.
    #[doc = example!(
        "let image = Tensor::ones(&device, &[1, 1, 4, 4], DType::F32)?;",
        "let weight = Tensor::ones(&device, &[2, 1, 3, 3], DType::F32)?;",
        "let y = image.conv2d(&weight, None, &ConvOptions::default())?;",
        "assert_eq!((y.shape(), y.to_vec::<f32>()?[0]), (&[1, 2, 2, 2][..], 9.0));"
    )]
    pub fn conv2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: &ConvOptions,
    ) -> Result<Tensor> {
        const OP: &str = "conv2d";
        if self.rank() == 3 && weight.rank() == 4 {
            return self.unsqueeze(0)?.conv2d(weight, bias, options)?.squeeze(0);
        }
        if self.is_half() && weight.dtype() == self.dtype() {
            let convolve = |x: &Tensor, weight: &Tensor, bias: Option<&Tensor>| {
                x.conv2d(weight, bias, options)
            };
            return self.weighted_in_f32(weight, bias, convolve);
        }
        let &[_, channels, _, _] = self.shape() else {
            return Err(self.shape_error(OP, "the input", "[N, C, H, W]"));
        };
        let unfitting = || {
            let expected = format!("[O, {}, h, w]", channels / options.groups.max(1));
            weight.shape_error(OP, "weight", expected)
        };
        let &[outer, per_group, kh, kw] = weight.shape() else {
            return Err(unfitting());
        };
        let (x, options) = options.same_padded(OP, self, [kh, kw])?;
        let spec = spec_of(&x, [outer, per_group, kh, kw], &options).ok_or_else(unfitting)?;
        correlation(OP, &x, weight, bias, spec)
    }

    /// Convolves signals \[N, C, L\] with weights \[O, C / groups, l\], as `torch.nn.functional.conv1d`:
    /// the second of each pair of the options counts.
    ///
    /// # Errors
    /// As [`Tensor::conv2d`].
    #[doc = example!(
        "let signal = Tensor::ones(&device, &[1, 1, 5], DType::F32)?;",
        "let weight = Tensor::ones(&device, &[1, 1, 3], DType::F32)?;",
        "let y = signal.conv1d(&weight, None, &ConvOptions::default())?;",
        "assert_eq!(y.to_vec::<f32>()?, [3.0, 3.0, 3.0]);"
    )]
    pub fn conv1d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: &ConvOptions,
    ) -> Result<Tensor> {
        const OP: &str = "conv1d";
        if self.rank() == 2 && weight.rank() == 3 {
            return self.unsqueeze(0)?.conv1d(weight, bias, options)?.squeeze(0);
        }
        if self.is_half() && weight.dtype() == self.dtype() {
            let convolve = |x: &Tensor, weight: &Tensor, bias: Option<&Tensor>| {
                x.conv1d(weight, bias, options)
            };
            return self.weighted_in_f32(weight, bias, convolve);
        }
        let &[_, channels, _] = self.shape() else {
            return Err(self.shape_error(OP, "the input", "[N, C, L]"));
        };
        let unfitting = || {
            let expected = format!("[O, {}, l]", channels / options.groups.max(1));
            weight.shape_error(OP, "weight", expected)
        };
        let &[outer, per_group, taps] = weight.shape() else {
            return Err(unfitting());
        };
        let flat = options.flat();
        let (x, flat) = flat.same_padded(OP, &self.unsqueeze(-2)?, [1, taps])?;
        let spec = spec_of(&x, [outer, per_group, 1, taps], &flat).ok_or_else(unfitting)?;
        // The weight is the operand as it is: the sum of a parameter's gradient goes on from one part of
        // a shard to the next, and that of a view of it cannot.
        correlation(OP, &x, weight, bias, spec)?.squeeze(-2)
    }

    /// Convolves signals \[N, O, L\] backward, as `torch.nn.functional.conv_transpose1d`: the second of
    /// each pair of the options counts.
    ///
    /// # Errors
    /// As [`Tensor::conv2d`].
    pub fn conv_transpose1d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: &ConvOptions,
        output_padding: usize,
    ) -> Result<Tensor> {
        let (x, weight) = (self.unsqueeze(-2)?, weight.unsqueeze(-2)?);
        let more = [0, output_padding];
        x.conv_transpose2d(&weight, bias, &options.flat(), more)?
            .squeeze(-2)
    }

    /// Convolves images \[N, O, H, W\] backward with weights \[O, C / groups, h, w\] and adds a bias
    /// \[C\], as `torch.nn.functional.conv_transpose2d`: the gradient of [`Tensor::conv2d`] by its
    /// input, with `output_padding` more rows and columns at the end.
    ///
    /// # Errors
    /// As [`Tensor::conv2d`].
    #[doc = example!(
        "let image = Tensor::ones(&device, &[1, 1, 2, 2], DType::F32)?;",
        "let weight = Tensor::ones(&device, &[1, 1, 2, 2], DType::F32)?;",
        "let y = image.conv_transpose2d(&weight, None, &ConvOptions::default(), [0, 0])?;",
        "assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]);"
    )]
    pub fn conv_transpose2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: &ConvOptions,
        output_padding: [usize; 2],
    ) -> Result<Tensor> {
        const OP: &str = "conv_transpose2d";
        if self.rank() == 3 && weight.rank() == 4 {
            let y = self.unsqueeze(0)?;
            return y
                .conv_transpose2d(weight, bias, options, output_padding)?
                .squeeze(0);
        }
        if self.is_half() && weight.dtype() == self.dtype() {
            let convolve = |x: &Tensor, weight: &Tensor, bias: Option<&Tensor>| {
                x.conv_transpose2d(weight, bias, options, output_padding)
            };
            return self.weighted_in_f32(weight, bias, convolve);
        }
        if options.same {
            let reason = "`same` is for convolutions forward".to_owned();
            return Err(AutogradError::Argument { op: OP, reason });
        }
        let &[batch, out_channels, height, width] = self.shape() else {
            return Err(self.shape_error(OP, "the input", "[N, C, H, W]"));
        };
        let &[outer, per_group, kh, kw] = weight.shape() else {
            return Err(weight.shape_error(OP, "weight", "[C, O / groups, h, w]"));
        };
        if outer != out_channels {
            let expected = format!("[{out_channels}, O / groups, h, w]");
            return Err(weight.shape_error(OP, "weight", expected));
        }
        let stride = options.stride.map(|stride| stride.max(1));
        if (0..2).any(|axis| output_padding[axis] >= stride[axis].max(options.dilation[axis])) {
            let (more, dilation) = (output_padding, options.dilation);
            return Err(AutogradError::Argument {
                op: OP,
                reason: format!(
                    "output_padding is {more:?}, expected less than the stride {stride:?} or the \
                     dilation {dilation:?}"
                ),
            });
        }
        if (0..2).any(|axis| output_padding[axis] >= stride[axis]) {
            // As many zeros at the input's end move the output's by whole strides.
            let zeros = |axis: usize| (0, (output_padding[axis] / stride[axis]) as isize);
            let longer = self.pad(&[zeros(1), zeros(0)], Padding::Constant(0.0))?;
            let rest = [0, 1].map(|axis| output_padding[axis] % stride[axis]);
            return longer.conv_transpose2d(weight, bias, options, rest);
        }
        let extent = |axis: usize, n: usize, taps: usize| {
            // An extent past all bounds is refused below.
            let taps = options.dilation[axis].saturating_mul(taps.saturating_sub(1));
            let steps = options.stride[axis].saturating_mul(n.saturating_sub(1));
            let reach = steps
                .saturating_add(taps)
                .saturating_add(output_padding[axis] + 1);
            reach.checked_sub(options.padding[axis].saturating_mul(2))
        };
        let (Some(h), Some(w)) = (extent(0, height, kh), extent(1, width, kw)) else {
            return Err(AutogradError::Argument {
                op: OP,
                reason: format!("padding {:?} leaves no output", options.padding),
            });
        };
        let spec = Conv2d {
            batch,
            in_channels: per_group * options.groups,
            out_channels,
            groups: options.groups,
            input: [h, w],
            kernel: [kh, kw],
            stride: options.stride,
            padding: options.padding,
            dilation: options.dilation,
        };
        transposed(OP, self, weight, bias, spec)
    }
}

/// The sizes of a convolution of images \[N, C, H, W\] with a weight \[O, C / groups, h, w\]; `None` if
/// the channels differ.
fn spec_of(x: &Tensor, weight: [usize; 4], options: &ConvOptions) -> Option<Conv2d> {
    let &[batch, in_channels, height, width] = x.shape() else {
        return None;
    };
    let [out_channels, per_group, kh, kw] = weight;
    (per_group * options.groups.max(1) == in_channels).then_some(Conv2d {
        batch,
        in_channels,
        out_channels,
        groups: options.groups,
        input: [height, width],
        kernel: [kh, kw],
        stride: options.stride,
        padding: options.padding,
        dilation: options.dilation,
    })
}

fn check(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<(&Tensor, usize)>,
) -> Result<()> {
    let bias_only = bias.map(|(bias, _)| bias);
    x.same_device(op, [("weight", Some(weight)), ("bias", bias_only)])?;
    x.expect_type(op, "the input", DType::F32)?;
    weight.expect_type(op, "weight", DType::F32)?;
    match bias {
        Some((bias, channels)) => bias.expect_shape(op, "bias", &[channels]),
        None => Ok(()),
    }
}

/// Samples of images: those of the first dimension stay, others are lost.
fn samples_of(x: &Tensor) -> Samples {
    x.samples().moved(|axis| (axis == 0).then_some(0))
}

/// The gradient of a bias: a sum over samples and pixels.
fn add_bias_gradient(
    pass: &mut Backward<'_>,
    bias: Option<&Input>,
    dy: &Tensor,
    spec: Conv2d,
    batch: crate::Batch,
) -> Result<()> {
    let Some(bias) = bias.filter(|bias| bias.requires_grad()) else {
        return Ok(());
    };
    if pass.is_recorded() {
        return pass.add_tensor(bias, &dy.sum_dim(&[0, 2, 3], false)?);
    }
    let values = dy.buffer()?;
    pass.parameter(bias, batch, |device, target, shards| {
        conv2d_backward_bias(
            device,
            &values,
            &target.buffer,
            shards,
            target.accumulate,
            &spec,
        )
    })
}

/// y = C(x, w) + bias.
fn correlation(
    op: &'static str,
    x: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: Conv2d,
) -> Result<Tensor> {
    check(op, x, weight, bias.map(|bias| (bias, spec.out_channels)))?;
    let [h, w] = spec.output()?;
    let shape = [spec.batch, spec.out_channels, h, w];
    let device = x.device();
    let y = device.alloc(Layout::count(&shape)?)?;
    let bias_values = bias.map(Tensor::buffer).transpose()?;
    let (x_values, weight_values) = (x.buffer()?, weight.buffer()?);
    conv2d_forward(
        device,
        &x_values,
        &weight_values,
        bias_values.as_ref(),
        &y,
        &spec,
    )?;
    let inputs: Vec<&Tensor> = [x, weight].into_iter().chain(bias).collect();
    let places = [x.input(), weight.input()];
    let saved = [
        weight
            .requires_grad()
            .then(|| SavedTensor::of(x))
            .transpose()?,
        x.requires_grad()
            .then(|| SavedTensor::Whole(weight.clone())),
    ];
    let (bias, batch) = (bias.map(Tensor::input), x.batch());
    let weight_shape = weight.shape().to_vec();
    let output = Tensor::of_rule(op, &inputs, (y, &shape), move |pass, dy, _| {
        add_bias_gradient(pass, bias.as_ref(), dy, spec, batch)?;
        if let Some(x) = &saved[0] {
            let (map, x) = (Map::Convolution, &x.tensor()?);
            add_weight_gradient(pass, &places[1], &weight_shape, [x, dy], spec, map, batch)?;
        }
        match &saved[1] {
            Some(weight) => {
                let dx = input_gradient(dy, &weight.tensor()?, spec)?;
                pass.add_tensor(&places[0], &dx)
            }
            None => Ok(()),
        }
    })?;
    Ok(output.with_samples_of(samples_of(x)))
}

/// x = T(y, w) + bias.
fn transposed(
    op: &'static str,
    y: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    spec: Conv2d,
) -> Result<Tensor> {
    check(op, y, weight, bias.map(|bias| (bias, spec.in_channels)))?;
    let shape = [spec.batch, spec.in_channels, spec.input[0], spec.input[1]];
    let device = y.device();
    let x = device.alloc(Layout::count(&shape)?)?;
    let (y_values, weight_values) = (y.buffer()?, weight.buffer()?);
    match bias {
        Some(bias) => {
            let bias = Some(bias.buffer()?);
            conv_transpose2d_forward(device, &y_values, &weight_values, bias.as_ref(), &x, &spec)?;
        }
        None => conv2d_backward_input(device, &y_values, &weight_values, &x, &spec)?,
    }
    let inputs: Vec<&Tensor> = [y, weight].into_iter().chain(bias).collect();
    let places = [y.input(), weight.input()];
    let saved = [
        weight
            .requires_grad()
            .then(|| SavedTensor::of(y))
            .transpose()?,
        y.requires_grad()
            .then(|| SavedTensor::Whole(weight.clone())),
    ];
    let (bias, batch, samples) = (bias.map(Tensor::input), y.batch(), samples_of(y));
    let weight_shape = weight.shape().to_vec();
    let output = Tensor::of_rule(op, &inputs, (x, &shape), move |pass, dx, _| {
        if let Some(bias) = bias.as_ref().filter(|bias| bias.requires_grad()) {
            match pass.is_recorded() {
                true => pass.add_tensor(bias, &dx.sum_dim(&[0, 2, 3], false)?)?,
                false => pass.add_expanded(bias, &[spec.in_channels, 1, 1], dx, samples)?,
            }
        }
        if let Some(y) = &saved[0] {
            let (map, y) = (Map::Transposed, &y.tensor()?);
            add_weight_gradient(pass, &places[1], &weight_shape, [dx, y], spec, map, batch)?;
        }
        match &saved[1] {
            Some(weight) => {
                let dy = correlation("conv2d", dx, &weight.tensor()?, None, spec)?;
                pass.add_tensor(&places[0], &dy)
            }
            None => Ok(()),
        }
    })?;
    Ok(output.with_samples_of(samples))
}

fn input_gradient(dy: &Tensor, weight: &Tensor, spec: Conv2d) -> Result<Tensor> {
    transposed("conv2d_backward_input", dy, weight, None, spec)
}

/// The map whose weight's gradient is wanted: it says which operand of W comes in as a gradient.
#[derive(Clone, Copy)]
enum Map {
    /// C(x, w): y's gradient.
    Convolution,
    /// T(y, w): x's.
    Transposed,
}

impl Map {
    /// Computes W(x, y) by shards.
    fn weight_gradient(
        self,
        device: &Device,
        [x, y]: [&Buffer; 2],
        w: &Buffer,
        accumulate: bool,
        shards: usize,
        spec: &Conv2d,
    ) -> std::result::Result<(), KernelError> {
        match self {
            Self::Convolution => conv2d_backward_weight(device, x, y, w, shards, accumulate, spec),
            Self::Transposed => {
                conv_transpose2d_backward_weight(device, y, x, w, shards, accumulate, spec)
            }
        }
    }
}

/// Adds W(x, y) to a weight's gradient: by the shard rule, or as an operation in a recorded pass.
fn add_weight_gradient(
    pass: &mut Backward<'_>,
    weight: &Input,
    shape: &[usize],
    [x, y]: [&Tensor; 2],
    spec: Conv2d,
    map: Map,
    batch: crate::Batch,
) -> Result<()> {
    if pass.is_recorded() {
        let gradient = weight_gradient(x, y, spec, map, shape)?;
        return pass.add_tensor(weight, &gradient);
    }
    let (x, y) = (x.buffer()?, y.buffer()?);
    pass.parameter(weight, batch, |device, target, shards| {
        let accumulate = target.accumulate;
        map.weight_gradient(device, [&x, &y], &target.buffer, accumulate, shards, &spec)
    })
}

/// w = W(x, y) of the weight's shape, with its own derivatives.
fn weight_gradient(
    x: &Tensor,
    y: &Tensor,
    spec: Conv2d,
    map: Map,
    shape: &[usize],
) -> Result<Tensor> {
    let device = x.device();
    let w = device.alloc(Layout::count(shape)?)?;
    map.weight_gradient(device, [&x.buffer()?, &y.buffer()?], &w, false, 1, &spec)?;
    let places = [x.input(), y.input()];
    let saved = [
        y.requires_grad().then(|| x.clone()),
        x.requires_grad().then(|| y.clone()),
    ];
    let op = "conv2d_backward_weight";
    let output = Tensor::of_rule(op, &[x, y], (w, shape), move |pass, dw, _| {
        if let Some(y) = &saved[1] {
            pass.add_tensor(&places[0], &input_gradient(y, dw, spec)?)?;
        }
        match &saved[0] {
            Some(x) => pass.add_tensor(&places[1], &correlation("conv2d", x, dw, None, spec)?),
            None => Ok(()),
        }
    })?;
    Ok(output.with_samples_of(Samples::Lost))
}

#[cfg(test)]
mod tests;
