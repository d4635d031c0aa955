//! Convolutions, forward and transposed.

use hlx_autograd::{ConvOptions, Tensor};

use super::weight_and_bias;
use crate::{Init, Mode, Module, Parameter, ParameterBuilder, Result};

/// Convolves signals \[N, C, L\] to \[N, O, L'\], as `torch.nn.Conv1d`; of each pair of the options the
/// second counts.
#[derive(Clone, Debug)]
pub struct Conv1d {
    /// \[O, C / groups, l\].
    pub weight: Parameter,
    /// \[O\].
    pub bias: Option<Parameter>,
    /// Stride, padding with zeros, dilation, groups.
    pub options: ConvOptions,
}

/// Convolves images \[N, C, H, W\] to \[N, O, H', W'\], as `torch.nn.Conv2d`.
///
/// ```
/// use hlx_autograd::{ConvOptions, DType, Tensor};
/// use hlx_core::Device;
/// use hlx_nn::{Conv2d, Mode, Model, Module};
///
/// let device = Device::open("cpu")?;
/// let padded = ConvOptions { padding: [1, 1], ..ConvOptions::default() };
/// let conv = Model::new(&device, 42, |b| Ok(Conv2d::new(b, 3, 8, [3, 3], padded)))?;
/// let images = Tensor::zeros(&device, &[2, 3, 16, 16], DType::F32)?;
/// let y = conv.forward(&images, &Mode::eval())?;
/// assert_eq!(y.shape(), [2, 8, 16, 16]);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Conv2d {
    /// \[O, C / groups, h, w\].
    pub weight: Parameter,
    /// \[O\].
    pub bias: Option<Parameter>,
    /// Stride, padding with zeros, dilation, groups.
    pub options: ConvOptions,
}

/// Convolves images \[N, C, H, W\] backward to \[N, O, H', W'\], as `torch.nn.ConvTranspose2d`.
#[derive(Clone, Debug)]
pub struct ConvTranspose2d {
    /// \[C, O / groups, h, w\].
    pub weight: Parameter,
    /// \[O\].
    pub bias: Option<Parameter>,
    /// Stride, padding, dilation, groups.
    pub options: ConvOptions,
    /// Rows and columns more at the end of the output.
    pub output_padding: [usize; 2],
}

/// Declares `weight` and, unless it is left out, `bias`: both uniform within +-1 / sqrt(fan_in), where
/// `fan_in` is the number of elements of one of the weight's first dimension, as PyTorch counts it.
fn declare(
    builder: &mut ParameterBuilder,
    weight: &[usize],
    bias: Option<usize>,
) -> (Parameter, Option<Parameter>) {
    let fan_in = weight[1..].iter().copied().fold(1, usize::saturating_mul);
    let init = Init::uniform_of(fan_in);
    let weight = builder.parameter("weight", weight, init);
    let bias = bias.map(|channels| builder.parameter("bias", &[channels], init));
    (weight, bias)
}

/// Channels of a group; those of 0 groups are none, and the forward pass reports them.
fn per_group(channels: usize, options: &ConvOptions) -> usize {
    channels.checked_div(options.groups).unwrap_or(0)
}

impl Conv1d {
    /// Declares `weight` and `bias`, both uniform within +-1 / sqrt(C / groups · l), as PyTorch does.
    pub fn new(
        builder: &mut ParameterBuilder,
        input: usize,
        output: usize,
        kernel: usize,
        options: ConvOptions,
    ) -> Self {
        Self::declare(builder, [input, output, kernel], true, options)
    }

    /// As [`Conv1d::new`], without `bias`.
    pub fn without_bias(
        builder: &mut ParameterBuilder,
        input: usize,
        output: usize,
        kernel: usize,
        options: ConvOptions,
    ) -> Self {
        Self::declare(builder, [input, output, kernel], false, options)
    }

    fn declare(
        builder: &mut ParameterBuilder,
        [input, output, kernel]: [usize; 3],
        has_bias: bool,
        options: ConvOptions,
    ) -> Self {
        let shape = [output, per_group(input, &options), kernel];
        let (weight, bias) = declare(builder, &shape, has_bias.then_some(output));
        Self {
            weight,
            bias,
            options,
        }
    }
}

impl Conv2d {
    /// Declares `weight` and `bias`, both uniform within +-1 / sqrt(C / groups · h · w), as PyTorch
    /// does; `kernel` is its height and width.
    pub fn new(
        builder: &mut ParameterBuilder,
        input: usize,
        output: usize,
        kernel: [usize; 2],
        options: ConvOptions,
    ) -> Self {
        Self::declare(builder, [input, output], kernel, true, options)
    }

    /// As [`Conv2d::new`], without `bias`: in front of a batch norm, which has its own.
    pub fn without_bias(
        builder: &mut ParameterBuilder,
        input: usize,
        output: usize,
        kernel: [usize; 2],
        options: ConvOptions,
    ) -> Self {
        Self::declare(builder, [input, output], kernel, false, options)
    }

    fn declare(
        builder: &mut ParameterBuilder,
        [input, output]: [usize; 2],
        [height, width]: [usize; 2],
        has_bias: bool,
        options: ConvOptions,
    ) -> Self {
        let shape = [output, per_group(input, &options), height, width];
        let (weight, bias) = declare(builder, &shape, has_bias.then_some(output));
        Self {
            weight,
            bias,
            options,
        }
    }
}

impl ConvTranspose2d {
    /// Declares `weight` and `bias`, both uniform within +-1 / sqrt(O / groups · h · w), as PyTorch
    /// does.
    pub fn new(
        builder: &mut ParameterBuilder,
        input: usize,
        output: usize,
        kernel: [usize; 2],
        options: ConvOptions,
    ) -> Self {
        Self::declare(builder, [input, output], kernel, true, options)
    }

    /// As [`ConvTranspose2d::new`], without `bias`.
    pub fn without_bias(
        builder: &mut ParameterBuilder,
        input: usize,
        output: usize,
        kernel: [usize; 2],
        options: ConvOptions,
    ) -> Self {
        Self::declare(builder, [input, output], kernel, false, options)
    }

    /// The layer with this many rows and columns more at the end of its output, fewer than the stride.
    #[must_use]
    pub fn with_output_padding(mut self, output_padding: [usize; 2]) -> Self {
        self.output_padding = output_padding;
        self
    }

    fn declare(
        builder: &mut ParameterBuilder,
        [input, output]: [usize; 2],
        [height, width]: [usize; 2],
        has_bias: bool,
        options: ConvOptions,
    ) -> Self {
        let shape = [input, per_group(output, &options), height, width];
        let (weight, bias) = declare(builder, &shape, has_bias.then_some(output));
        Self {
            weight,
            bias,
            options,
            output_padding: [0, 0],
        }
    }
}

impl Module for Conv1d {
    /// \[N, C, L\] to \[N, O, L'\].
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        let (weight, bias) = weight_and_bias(&self.weight, self.bias.as_ref())?;
        Ok(x.conv1d(&weight, bias.as_ref(), &self.options)?)
    }
}

impl Module for Conv2d {
    /// \[N, C, H, W\] to \[N, O, H', W'\].
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        let (weight, bias) = weight_and_bias(&self.weight, self.bias.as_ref())?;
        Ok(x.conv2d(&weight, bias.as_ref(), &self.options)?)
    }
}

impl Module for ConvTranspose2d {
    /// \[N, C, H, W\] to \[N, O, H', W'\].
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        let (weight, bias) = weight_and_bias(&self.weight, self.bias.as_ref())?;
        let (options, more) = (&self.options, self.output_padding);
        Ok(x.conv_transpose2d(&weight, bias.as_ref(), options, more)?)
    }
}
