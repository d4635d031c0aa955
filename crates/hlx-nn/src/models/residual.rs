//! The layers of a small residual network for images (He et al. 2015, "Deep Residual Learning for Image Recognition").

use hlx_autograd::{Activation, ConvOptions, Tensor};

use crate::layers::{BatchNorm2d, Conv2d};
use crate::{Mode, Module, ParameterBuilder, Result};

/// A convolution without bias, and a batch norm behind it.
#[derive(Clone, Debug)]
struct NormedConv {
    convolution: Conv2d,
    norm: BatchNorm2d,
}

impl NormedConv {
    /// Declares `NAME.weight` and the norm `NAME_norm`.
    fn new(
        b: &mut ParameterBuilder,
        name: &str,
        [input, output]: [usize; 2],
        (size, stride): (usize, usize),
    ) -> Self {
        let options = ConvOptions {
            stride: [stride, stride],
            padding: [size / 2, size / 2],
            ..ConvOptions::default()
        };
        let kernel = [size, size];
        Self {
            convolution: Conv2d::without_bias(&mut b.child(name), input, output, kernel, options),
            norm: BatchNorm2d::new(&mut b.child(format!("{name}_norm")), output),
        }
    }

    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.norm.forward(&self.convolution.forward(x, mode)?, mode)
    }
}

/// A block of two convolutions of 3 by 3, each with a batch norm, around which the input is added.
///
/// `relu(norm(conv(relu(norm(conv(x))))) + shortcut(x))`. The first convolution has the stride; where the size or
/// the channels
/// change, the shortcut is a convolution of 1 by 1 with a batch norm.
#[derive(Clone, Debug)]
struct Block {
    first: NormedConv,
    second: NormedConv,
    shortcut: Option<NormedConv>,
}

impl Block {
    fn new(b: &mut ParameterBuilder, [input, output]: [usize; 2], stride: usize) -> Self {
        let changes = input != output || stride != 1;
        Self {
            first: NormedConv::new(b, "first", [input, output], (3, stride)),
            second: NormedConv::new(b, "second", [output, output], (3, 1)),
            shortcut: changes.then(|| NormedConv::new(b, "shortcut", [input, output], (1, stride))),
        }
    }

    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let inner = self.first.forward(x, mode)?.activation(Activation::ReLU)?;
        let inner = self.second.forward(&inner, mode)?;
        let beside = match &self.shortcut {
            Some(shortcut) => shortcut.forward(x, mode)?,
            None => x.clone(),
        };
        Ok(inner.add(&beside)?.activation(Activation::ReLU)?)
    }
}

/// Images \[B, C, H, W\] to features \[B, F\], F the last of the channels.
///
/// A convolution of 3 by 3 to the first number of channels, with a batch norm and ReLU; for each number of
/// channels a block, which
/// halves the image in all but the first; then the mean over the pixels.
#[derive(Clone, Debug)]
pub(super) struct Residual {
    /// `stem`.
    stem: NormedConv,
    /// `blocks.0` and so on.
    blocks: Vec<Block>,
}

impl Residual {
    /// Declares the layers for images of `input` channels; `channels` holds one number at least.
    pub fn new(b: &mut ParameterBuilder, input: usize, channels: &[usize]) -> Self {
        let mut before = channels.first().copied().unwrap_or(input);
        let stem = NormedConv::new(b, "stem", [input, before], (3, 1));
        let mut blocks = Vec::with_capacity(channels.len());
        for (number, &output) in channels.iter().enumerate() {
            let mut own = b.child(format!("blocks.{number}"));
            let stride = if number == 0 { 1 } else { 2 };
            blocks.push(Block::new(&mut own, [before, output], stride));
            before = output;
        }
        Self { stem, blocks }
    }

    pub fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let mut x = self.stem.forward(x, mode)?.activation(Activation::ReLU)?;
        for block in &self.blocks {
            x = block.forward(&x, mode)?;
        }
        Ok(x.mean_dim(&[-2, -1], false)?)
    }
}
