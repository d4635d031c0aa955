//! Classifiers of images: a multilayer perceptron, a small convolutional network and a small residual one.

use hlx_autograd::{Activation, ConvOptions, PoolOptions, Tensor};
use serde::{Deserialize, Serialize};

use super::residual::Residual;
use crate::error::NnError;
use crate::layers::{BatchNorm2d, Conv2d, Dropout, Linear};
use crate::limits::check_parameters;
use crate::{Mode, Module, ParameterBuilder, Result};

/// The largest size: far above what any device holds.
const LARGEST: usize = 1 << 16;

/// The most convolutions, and the most hidden layers.
const MAX_CLASSIFIER_LAYERS: usize = 1 << 10;

/// What a classifier is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClassifierKind {
    /// Affine layers alone.
    Mlp,
    /// Convolutions with pooling, then affine layers.
    Cnn,
    /// Residual blocks with batch norms, the mean over the pixels, then affine layers.
    Resnet,
}

/// The sizes of a [`Classifier`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassifierConfig {
    /// What it is made of.
    pub kind: ClassifierKind,
    /// Channels, height and width of an image.
    pub input: [usize; 3],
    /// The number of classes.
    pub classes: usize,
    /// The channels of each convolution, or of each residual block; none of an mlp.
    pub channels: Vec<usize>,
    /// The widths of the hidden affine layers.
    pub hidden: Vec<usize>,
    /// The probability of the dropout behind each hidden affine layer, in [0, 1).
    pub dropout: f32,
    /// Whether a batch norm follows each convolution, which then has no bias; never of an mlp.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batch_norm: bool,
}

impl ClassifierConfig {
    /// Fails for more weights than a model may have.
    fn check_count(&self) -> Result<(), String> {
        let [channels, height, width] = self.input;
        let filters = [&[channels], &self.channels[..]].concat();
        let pixels = |n_halvings: usize| (height >> n_halvings) * (width >> n_halvings);
        let last = filters.last().copied().unwrap_or(1);
        let is_residual = self.kind == ClassifierKind::Resnet;
        let row = match is_residual {
            true => last,
            false => last * pixels(self.channels.len()),
        };
        let widths = [&[row], &self.hidden[..], &[self.classes]].concat();
        let mut convolutions: Vec<_> = filters
            .windows(2)
            .map(|pair| vec![9, pair[0], pair[1]])
            .collect();
        if is_residual {
            // The second convolution of each block; shortcuts are smaller than the first.
            convolutions.extend(self.channels.iter().map(|&n| vec![9, n, n]));
            convolutions.extend(filters.windows(2).map(|pair| vec![pair[0], pair[1]]));
        }
        let layers = widths.windows(2).map(<[usize]>::to_vec);
        let products: Vec<Vec<usize>> = convolutions.into_iter().chain(layers).collect();
        let products: Vec<&[usize]> = products.iter().map(Vec::as_slice).collect();
        check_parameters(&products)
    }

    /// Checks that such a model can be made.
    ///
    /// # Errors
    /// [`NnError::Config`] with the size that cannot be.
    pub fn validate(&self) -> Result<()> {
        let fail = |reason: String| {
            Err(NnError::Config {
                what: "classifier",
                reason,
            })
        };
        let named = [
            ("input", &self.input[..]),
            ("classes", &[self.classes]),
            ("channels", &self.channels),
            ("hidden", &self.hidden),
        ];
        for (name, sizes) in named {
            let n = sizes.len();
            if n > MAX_CLASSIFIER_LAYERS {
                return fail(format!(
                    "{name} holds {n} sizes, expected at most {MAX_CLASSIFIER_LAYERS}"
                ));
            }
            if let Some(size) = sizes.iter().find(|size| !(1..=LARGEST).contains(*size)) {
                return fail(format!("{name} holds {size}, expected 1 to {LARGEST}"));
            }
        }
        if self.kind == ClassifierKind::Mlp && !self.channels.is_empty() {
            return fail("an mlp has no channels".to_owned());
        }
        if self.kind == ClassifierKind::Mlp && self.batch_norm {
            return fail("an mlp has no batch norm".to_owned());
        }
        if self.kind == ClassifierKind::Resnet && self.channels.is_empty() {
            return fail("a resnet has one residual block at least".to_owned());
        }
        if self.kind == ClassifierKind::Resnet && self.batch_norm {
            return fail("a resnet has its batch norms without batch_norm".to_owned());
        }
        let [_, height, width] = self.input;
        // Each convolution is followed by a pooling that halves the image.
        let halvings = height.min(width).ilog2() as usize;
        if self.channels.len() > halvings {
            let n = self.channels.len();
            return fail(format!(
                "{n} convolutions halve an image of {height} by {width} below one pixel, \
                 expected at most {halvings}"
            ));
        }
        if let Err(reason) = self.check_count() {
            return fail(reason);
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return fail(format!(
                "dropout is {}, expected 0 or more, below 1",
                self.dropout
            ));
        }
        Ok(())
    }
}

/// Images \[B, C, H, W\] to one logit a class, \[B, classes\].
///
/// For each of `channels` a convolution of 3 by 3 that keeps the size, with `batch_norm` a batch norm,
/// ReLU and maximum pooling by 2; then the pixels in one row, for each of `hidden` an affine layer, ReLU
/// and dropout; then the affine layer of the classes. In PyTorch a `Sequential` of `Conv2d(padding=1)`
/// (with `bias=False` in front of a batch norm), `BatchNorm2d`, `ReLU`, `MaxPool2d(2)`, `Flatten`,
/// `Linear` and `Dropout`; initial values have PyTorch's distribution.
///
/// A `resnet` has a convolution of 3 by 3 with a batch norm and ReLU, for each of `channels` a residual block of
/// two of them (all but the
/// first halve the image), and the mean over the pixels in front of the affine layers.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// `residual.stem`, `residual.blocks.0` and so on; none of another kind.
    residual: Option<Residual>,
    /// `convolutions.0` and so on.
    convolutions: Vec<Conv2d>,
    /// `norms.0` and so on, one a convolution; none without `batch_norm`.
    norms: Vec<BatchNorm2d>,
    /// `hidden.0` and so on.
    hidden: Vec<Linear>,
    /// One a hidden layer.
    dropouts: Vec<Dropout>,
    /// `output`.
    output: Linear,
    config: ClassifierConfig,
}

/// Declares a convolution of 3 by 3 that keeps the image's size.
fn convolution(b: &mut ParameterBuilder, [input, output]: [usize; 2], has_bias: bool) -> Conv2d {
    let padded = ConvOptions {
        padding: [1, 1],
        ..ConvOptions::default()
    };
    match has_bias {
        true => Conv2d::new(b, input, output, [3, 3], padded),
        false => Conv2d::without_bias(b, input, output, [3, 3], padded),
    }
}

impl Classifier {
    /// Declares a classifier.
    ///
    /// # Errors
    /// [`NnError::Config`].
    pub fn new(builder: &mut ParameterBuilder, config: &ClassifierConfig) -> Result<Self> {
        config.validate()?;
        let b = builder;
        let [mut channels, mut height, mut width] = config.input;
        let mut convolutions = Vec::with_capacity(config.channels.len());
        let mut norms = Vec::new();
        let residual = (config.kind == ClassifierKind::Resnet)
            .then(|| Residual::new(&mut b.child("residual"), channels, &config.channels));
        let convolved = match residual {
            Some(_) => &[][..],
            None => &config.channels[..],
        };
        for (layer_idx, &output) in convolved.iter().enumerate() {
            let mut own = b.child(format!("convolutions.{layer_idx}"));
            let sizes = [channels, output];
            convolutions.push(convolution(&mut own, sizes, !config.batch_norm));
            if config.batch_norm {
                norms.push(BatchNorm2d::new(
                    &mut b.child(format!("norms.{layer_idx}")),
                    output,
                ));
            }
            (channels, height, width) = (output, height / 2, width / 2);
        }
        let mut input = match residual {
            Some(_) => config.channels.last().copied().unwrap_or(channels),
            None => channels.saturating_mul(height).saturating_mul(width),
        };
        let (mut hidden, mut dropouts) = (Vec::new(), Vec::new());
        for (layer_idx, &output) in config.hidden.iter().enumerate() {
            let mut b = b.child(format!("hidden.{layer_idx}"));
            hidden.push(Linear::new(&mut b, input, output));
            dropouts.push(Dropout::new(&mut b, config.dropout));
            input = output;
        }
        Ok(Self {
            residual,
            convolutions,
            norms,
            hidden,
            dropouts,
            output: Linear::new(&mut b.child("output"), input, config.classes),
            config: config.clone(),
        })
    }

    /// The sizes.
    pub fn config(&self) -> &ClassifierConfig {
        &self.config
    }
}

impl Module for Classifier {
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let image = self.config.input;
        let &[batch, channels, height, width] = x.shape() else {
            return Err(unfitting(x, image));
        };
        if [channels, height, width] != image {
            return Err(unfitting(x, image));
        }
        let mut x = match &self.residual {
            Some(residual) => residual.forward(x, mode)?,
            None => x.clone(),
        };
        for (layer_idx, convolution) in self.convolutions.iter().enumerate() {
            x = convolution.forward(&x, mode)?;
            if let Some(norm) = self.norms.get(layer_idx) {
                x = norm.forward(&x, mode)?;
            }
            x = x.activation(Activation::ReLU)?;
            x = x.max_pool2d(&PoolOptions::square(2))?;
        }
        let pixels = x.shape().iter().skip(1).product();
        let mut x = x.reshape(&[batch, pixels])?;
        for (layer, dropout) in self.hidden.iter().zip(&self.dropouts) {
            x = layer.forward(&x, mode)?.activation(Activation::ReLU)?;
            x = dropout.forward(&x, mode)?;
        }
        self.output.forward(&x, mode)
    }
}

fn unfitting(x: &Tensor, [channels, height, width]: [usize; 3]) -> NnError {
    NnError::Shape {
        op: "classifier",
        argument: "the images",
        found: x.shape().to_vec(),
        expected: format!("[batch, {channels}, {height}, {width}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Model;
    use hlx_autograd::{BackwardPlan, DType};

    fn config() -> ClassifierConfig {
        ClassifierConfig {
            kind: ClassifierKind::Cnn,
            input: [1, 9, 8],
            classes: 5,
            channels: vec![3, 4],
            hidden: vec![6],
            dropout: 0.25,
            batch_norm: false,
        }
    }

    #[test]
    fn a_cnn_declares_what_pytorchs_would_and_reaches_every_parameter() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let model = Model::new(&device, 3, |b| Classifier::new(b, &config()))?;
        let shapes = model.weights().parameters().iter();
        let shapes: Vec<String> = shapes
            .map(|one| format!("{} {:?}", one.name(), one.shape()))
            .collect();
        let expected = [
            "convolutions.0.weight [3, 1, 3, 3]",
            "convolutions.0.bias [3]",
            "convolutions.1.weight [4, 3, 3, 3]",
            "convolutions.1.bias [4]",
            "hidden.0.weight [6, 16]",
            "hidden.0.bias [6]",
            "output.weight [5, 6]",
            "output.bias [5]",
        ];
        assert_eq!(shapes, expected);
        assert_eq!(model.weights().parameters().len(), 8);
        let x = Tensor::randn(&device, &[4, 1, 9, 8], 1)?.with_samples(0)?;
        let logits = model.forward(&x, &Mode::train(&device, 7)?)?;
        assert_eq!(logits.shape(), [4, 5]);
        let plan = BackwardPlan {
            shards: 2,
            ..BackwardPlan::default()
        };
        logits.sum()?.backward_with(&plan)?;
        model.weights().check_gradients()
    }

    #[test]
    fn a_resnet_adds_its_input_and_reaches_every_parameter() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let residual = ClassifierConfig {
            kind: ClassifierKind::Resnet,
            input: [3, 9, 8],
            channels: vec![4, 6],
            hidden: vec![],
            ..config()
        };
        let model = Model::new(&device, 3, |b| Classifier::new(b, &residual))?;
        let parameters = model.weights().parameters().iter();
        let shapes: Vec<String> = parameters
            .filter(|one| one.shape().len() > 1)
            .map(|one| format!("{} {:?}", one.name(), one.shape()))
            .collect();
        let expected = [
            "residual.stem.weight [4, 3, 3, 3]",
            "residual.blocks.0.first.weight [4, 4, 3, 3]",
            "residual.blocks.0.second.weight [4, 4, 3, 3]",
            "residual.blocks.1.first.weight [6, 4, 3, 3]",
            "residual.blocks.1.second.weight [6, 6, 3, 3]",
            "residual.blocks.1.shortcut.weight [6, 4, 1, 1]",
            "output.weight [5, 6]",
        ];
        assert_eq!(shapes, expected);
        let x = Tensor::randn(&device, &[4, 3, 9, 8], 1)?.with_samples(0)?;
        let logits = model.forward(&x, &Mode::train(&device, 7)?)?;
        assert_eq!(logits.shape(), [4, 5]);
        logits.sum()?.backward()?;
        model.weights().check_gradients()?;
        let without = ClassifierConfig {
            channels: vec![],
            ..residual
        };
        let error = without.validate().expect_err("has no block").to_string();
        assert!(error.contains("one residual block"), "{error}");
        Ok(())
    }

    #[test]
    fn with_batch_norm_convolutions_have_no_bias_and_evaluation_takes_running_values() -> Result<()>
    {
        let device = hlx_core::testing::cpu()?;
        let with_norm = ClassifierConfig {
            batch_norm: true,
            ..config()
        };
        let model = Model::new(&device, 3, |b| Classifier::new(b, &with_norm))?;
        let parameters = model.weights().parameters();
        let names: Vec<&str> = parameters.iter().map(|one| one.name()).collect();
        let expected = [
            "convolutions.0.weight",
            "norms.0.weight",
            "norms.0.bias",
            "convolutions.1.weight",
            "norms.1.weight",
            "norms.1.bias",
        ];
        assert_eq!(names[..6], expected);
        let names: Vec<&str> = model
            .weights()
            .buffers()
            .iter()
            .map(|one| one.name())
            .collect();
        assert_eq!(names[3], "norms.1.running_mean");
        assert_eq!(names.len(), 6);
        let x = Tensor::randn(&device, &[4, 1, 9, 8], 1)?.with_samples(0)?;
        let before = model.forward(&x, &Mode::eval())?.to_vec::<f32>()?;
        model
            .forward(&x, &Mode::train(&device, 7)?)?
            .sum()?
            .backward()?;
        model.weights().check_gradients()?;
        let after = model.forward(&x, &Mode::eval())?.to_vec::<f32>()?;
        assert_ne!(after, before, "the running values have moved");
        Ok(())
    }

    #[test]
    fn impossible_sizes_and_other_images_are_refused() -> Result<()> {
        type Change = fn(&mut ClassifierConfig);
        let cases: [(Change, &str); 5] = [
            (
                |c| c.channels = vec![1; 4],
                "4 convolutions halve an image of 9 by 8 below one pixel, expected at most 3",
            ),
            (
                |c| c.hidden = vec![0],
                "hidden holds 0, expected 1 to 65536",
            ),
            (|c| c.kind = ClassifierKind::Mlp, "an mlp has no channels"),
            (
                |c| {
                    c.kind = ClassifierKind::Mlp;
                    c.channels = Vec::new();
                    c.batch_norm = true;
                },
                "an mlp has no batch norm",
            ),
            (
                |c| c.dropout = 1.0,
                "dropout is 1, expected 0 or more, below 1",
            ),
        ];
        for (change, expected) in cases {
            let mut changed = config();
            change(&mut changed);
            let line = changed.validate().expect_err("refused").to_string();
            assert_eq!(line, format!("classifier: {expected}"));
        }
        let device = hlx_core::testing::cpu()?;
        let model = Model::new(&device, 3, |b| Classifier::new(b, &config()))?;
        let x = Tensor::zeros(&device, &[2, 1, 8, 8], DType::F32)?;
        let error = model.forward(&x, &Mode::eval()).expect_err("refused");
        let expected = "classifier: the images has shape [2, 1, 8, 8], expected [batch, 1, 9, 8]";
        assert_eq!(error.to_string(), expected);
        Ok(())
    }
}
