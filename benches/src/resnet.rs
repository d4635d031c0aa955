//! A residual network for images of 32 by 32, whose training step stands for that of a small CNN.

use hlx_autograd::{ConvOptions, Tensor};
use hlx_nn::{BatchNorm2d, Conv2d, Linear, Mode, Module, ParameterBuilder, Result};

/// Classes that are told apart.
pub const CLASSES: usize = 10;
/// The images' channels, height and width.
pub const IMAGE: [usize; 3] = [3, 32, 32];
/// Stages, each of twice the channels and half the extent of the one before.
const STAGES: usize = 3;

/// The sizes of a [`ResNet`].
#[derive(Clone, Copy, Debug)]
pub struct ResNetConfig {
    /// Channels of the first stage.
    pub width: usize,
    /// Blocks of a stage.
    pub blocks: usize,
}

impl ResNetConfig {
    /// Operations of a training step: each product once forward and twice backward, except for the
    /// gradient of the images, which nobody wants.
    pub fn flops(&self, batch: usize) -> f64 {
        let [channels, height, width] = IMAGE;
        let pixels = (height * width) as f64;
        let stem = (channels * 9 * self.width) as f64 * pixels;
        let mut products = 0.0;
        for stage in 0..STAGES {
            let output = (self.width << stage) as f64;
            let pixels = pixels / f64::from(1_u32 << (2 * stage));
            let convolution = 9.0 * output * output * pixels;
            products += (2 * self.blocks) as f64 * convolution;
            if stage > 0 {
                // The first block has half the channels coming in, and a convolution of 1 by 1 beside.
                products += 0.5 * output * output * pixels - 0.5 * convolution;
            }
        }
        (6.0 * products + 4.0 * stem) * batch as f64
    }
}

/// Images \[B, 3, 32, 32\] to logits \[B, 10\]: a convolution, three stages of basic blocks with batch
/// norm (He et al., 2016), the mean of each channel, and an affine layer.
pub struct ResNet {
    stem: Normed,
    blocks: Vec<Block>,
    output: Linear,
}

/// A convolution without bias and the batch norm after it.
struct Normed {
    convolution: Conv2d,
    norm: BatchNorm2d,
}

/// Two convolutions beside a shortcut, which is a convolution of 1 by 1 where the shape changes.
struct Block {
    first: Normed,
    second: Normed,
    shortcut: Option<Normed>,
}

impl ResNet {
    /// Declares the network.
    pub fn new(b: &mut ParameterBuilder, config: &ResNetConfig) -> Self {
        let [channels, ..] = IMAGE;
        let stem = Normed::new(&mut b.child("stem"), [channels, config.width], 3, 1);
        let mut input = config.width;
        let mut blocks = Vec::with_capacity(STAGES * config.blocks);
        for stage in 0..STAGES {
            for place in 0..config.blocks {
                let output = config.width << stage;
                let stride = if stage > 0 && place == 0 { 2 } else { 1 };
                let mut b = b.child(format!("stages.{stage}.{place}"));
                blocks.push(Block::new(&mut b, [input, output], stride));
                input = output;
            }
        }
        let output = Linear::new(&mut b.child("output"), input, CLASSES);
        Self {
            stem,
            blocks,
            output,
        }
    }
}

impl Module for ResNet {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let mut x = self.stem.forward(x, mode)?.relu()?;
        for block in &self.blocks {
            x = block.forward(&x, mode)?;
        }
        self.output.forward(&x.mean_dim(&[2, 3], false)?, mode)
    }
}

impl Normed {
    fn new(b: &mut ParameterBuilder, channels: [usize; 2], kernel: usize, stride: usize) -> Self {
        let [input, output] = channels;
        let options = ConvOptions {
            stride: [stride; 2],
            padding: [kernel / 2; 2],
            ..ConvOptions::default()
        };
        let mut inner = b.child("convolution");
        let convolution = Conv2d::without_bias(&mut inner, input, output, [kernel; 2], options);
        let norm = BatchNorm2d::new(&mut b.child("norm"), output);
        Self { convolution, norm }
    }
}

impl Module for Normed {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let x = self.convolution.forward(x, mode)?;
        self.norm.forward(&x, mode)
    }
}

impl Block {
    fn new(b: &mut ParameterBuilder, [input, output]: [usize; 2], stride: usize) -> Self {
        let changes = stride != 1 || input != output;
        Self {
            first: Normed::new(&mut b.child("first"), [input, output], 3, stride),
            second: Normed::new(&mut b.child("second"), [output, output], 3, 1),
            shortcut: changes
                .then(|| Normed::new(&mut b.child("shortcut"), [input, output], 1, stride)),
        }
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let y = self.first.forward(x, mode)?.relu()?;
        let y = self.second.forward(&y, mode)?;
        let x = match &self.shortcut {
            Some(shortcut) => shortcut.forward(x, mode)?,
            None => x.clone(),
        };
        Ok(y.add(&x)?.relu()?)
    }
}
