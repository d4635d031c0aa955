//! Pooling of images: maximum, average, adaptive average.

use hlx_autograd::{AvgDivisor, PoolOptions, Tensor};

use crate::{Mode, Module, Result};

/// Takes the largest element of each window of \[.., H, W\], as `torch.nn.MaxPool2d`.
#[derive(Clone, Copy, Debug)]
pub struct MaxPool2d {
    /// The windows.
    pub options: PoolOptions,
}

impl MaxPool2d {
    /// Square windows that touch, as `torch.nn.MaxPool2d(size)`.
    pub fn new(size: usize) -> Self {
        Self {
            options: PoolOptions::square(size),
        }
    }
}

/// Averages each window of \[.., H, W\], as `torch.nn.AvgPool2d`.
#[derive(Clone, Copy, Debug)]
pub struct AvgPool2d {
    /// The windows.
    pub options: PoolOptions,
    /// What a window's sum is divided by.
    pub divisor: AvgDivisor,
}

impl AvgPool2d {
    /// Square windows that touch, padding counted, as `torch.nn.AvgPool2d(size)`.
    pub fn new(size: usize) -> Self {
        Self {
            options: PoolOptions::square(size),
            divisor: AvgDivisor::Padded,
        }
    }
}

/// Averages \[.., H, W\] to a fixed height and width, as `torch.nn.AdaptiveAvgPool2d`.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveAvgPool2d {
    /// Height and width of the output.
    pub output: [usize; 2],
}

impl AdaptiveAvgPool2d {
    /// An output of this height and width.
    pub fn new(output: [usize; 2]) -> Self {
        Self { output }
    }
}

impl Module for MaxPool2d {
    /// \[.., H, W\] to \[.., H', W'\].
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        Ok(x.max_pool2d(&self.options)?)
    }
}

impl Module for AvgPool2d {
    /// \[.., H, W\] to \[.., H', W'\].
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        Ok(x.avg_pool2d(&self.options, self.divisor)?)
    }
}

impl Module for AdaptiveAvgPool2d {
    /// \[.., H, W\] to \[.., H', W'\].
    fn forward(&self, x: &Tensor, _mode: &Mode) -> Result<Tensor> {
        Ok(x.adaptive_avg_pool2d(self.output)?)
    }
}
