//! `[data]`: what is trained on.

use anyhow::Result;
use hlx_data::{Augment, ImageTransform};
use serde::{Deserialize, Serialize};

/// `[data]`: where the corpus lies and how it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSection {
    /// The file, or the folder of images, relative to the configuration file; drawn digits need none,
    /// and `idx` without it is drawn digits.
    #[serde(default)]
    pub path: String,
    /// `pairs` (JSONL), `ascii_pairs`, `text`, `shards`, `idx` or `digits`.
    pub format: Format,
    /// The part of the samples held out for evaluation, from 0 (none) to below 1.
    #[serde(default)]
    pub eval_fraction: f64,
    /// With `format = "text"`: where the windows of training begin; `fixed` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<WindowKind>,
    /// With `format = "shards"`: what a row is; `windows` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowKind>,
    /// With `format = "shards"`: the predicted tokens of a row; the model's positions if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<usize>,
    /// With `format = "idx"`: which files: `PART-images-idx3-ubyte` and `PART-labels-idx1-ubyte`; `train` if left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// With `format = "digits"` and `"ascii_pairs"`: how many are drawn; 2,000 and 50,000 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// For images: what is subtracted from every value, which is from 0 to 1; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// For images: what every value is divided by then; 1 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub std: Option<f64>,
    /// For images: by how many pixels a training image is shifted at most; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crop_padding: Option<usize>,
    /// For images: the probability that a training image is flipped; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flip: Option<f64>,
    /// For images: the deviation of the noise that is added to a training image; 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// For images and prepared tokens: the threads that make training batches ahead, 0 for none; 2 for images
    /// and 1 for tokens if left out. No bit depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
}

/// Where the windows of a text lie that a run trains on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// One after the other, the same in every epoch.
    Fixed,
    /// At random places, new ones in every epoch.
    Random,
}

/// What a row of tokens is that a run trains on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A window at a random offset, whatever documents it crosses.
    #[default]
    Windows,
    /// The same, in which no position sees another document than its own.
    SeparateWindows,
    /// Documents one after another, none of which sees another.
    Packed,
    /// One document, padded to the longest of the batch.
    Padded,
}

/// How a corpus is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A line holds `{"input": ..., "output": ...}`; the loss is on the output alone.
    Pairs,
    /// Pairs of English and HLX's text notation that the project draws itself, keyed by the seed.
    AsciiPairs,
    /// Plain text, cut into contiguous windows.
    Text,
    /// Tokens in the folder that `hlx data prepare` writes, or in a `.bin` of nanoGPT or llm.c.
    Shards,
    /// Images and labels in IDX files, such as MNIST's.
    Idx,
    /// Digits that the project draws itself, keyed by the seed.
    Digits,
    /// CIFAR-10's binary files.
    Cifar10,
    /// Digits in colours, of the size of CIFAR-10's images, that the project draws itself, keyed by the seed.
    ColouredDigits,
}

impl Format {
    /// Whether samples are rows of bytes or tokens, which a language model reads; else they are images.
    pub fn is_of_texts(self) -> bool {
        matches!(
            self,
            Self::Pairs | Self::AsciiPairs | Self::Text | Self::Shards
        )
    }

    /// Whether a sample is an input and an output.
    pub fn is_of_pairs(self) -> bool {
        matches!(self, Self::Pairs | Self::AsciiPairs)
    }

    /// Whether the project draws the samples itself.
    pub fn is_drawn(self) -> bool {
        matches!(self, Self::AsciiPairs | Self::Digits | Self::ColouredDigits)
    }

    /// Whether its files are of several parts, of which one is read.
    pub fn has_parts(self) -> bool {
        matches!(self, Self::Idx | Self::Cifar10)
    }

    /// Whether the data lie in a file or a folder.
    pub fn has_path(self) -> bool {
        !self.is_drawn()
    }
}

impl DataSection {
    /// Fills in what a key's absence means. Images without a path are drawn digits: what a run writes
    /// down says so.
    pub(super) fn resolve(&mut self) {
        if self.windows == Some(WindowKind::Fixed) {
            // Left out and named, it is the same run.
            self.windows = None;
        }
        if self.format == Format::Idx && self.path.is_empty() {
            (self.format, self.part) = (Format::Digits, None);
        }
        if self.format == Format::Cifar10 && self.path.is_empty() {
            (self.format, self.part) = (Format::ColouredDigits, None);
        }
        match self.format {
            Format::Idx | Format::Cifar10 => {
                _ = self.part.get_or_insert_with(|| "train".to_owned())
            }
            Format::Digits | Format::ColouredDigits => _ = self.count.get_or_insert(2000),
            Format::AsciiPairs => {
                self.count.get_or_insert(50_000);
                return;
            }
            Format::Shards => {
                self.rows.get_or_insert_default();
                return;
            }
            Format::Pairs | Format::Text => return,
        }
        self.mean.get_or_insert(0.0);
        self.std.get_or_insert(1.0);
        self.crop_padding.get_or_insert(0);
        self.flip.get_or_insert(0.0);
        self.noise.get_or_insert(0.0);
    }

    /// Whether the windows that a run trains on begin anywhere in the text.
    pub fn has_random_windows(&self) -> bool {
        self.windows == Some(WindowKind::Random)
    }

    /// What a row of tokens is.
    pub fn rows(&self) -> RowKind {
        self.rows.unwrap_or_default()
    }

    /// Which files of a folder of images are read.
    pub fn part(&self) -> &str {
        self.part.as_deref().unwrap_or("train")
    }

    /// What is done to every image of this many channels.
    ///
    /// # Errors
    /// A deviation of 0.
    pub fn transform(&self, channels: usize) -> Result<ImageTransform> {
        let (mean, std) = (self.mean.unwrap_or(0.0), self.std.unwrap_or(1.0));
        let (mean, std) = (vec![mean as f32; channels], vec![std as f32; channels]);
        Ok(ImageTransform::new(&mean, &std)?)
    }

    /// The threads that make training batches ahead.
    pub fn workers(&self) -> usize {
        let usual = if self.format == Format::Shards { 1 } else { 2 };
        self.workers.unwrap_or(usual)
    }

    /// How training images are varied.
    pub fn augment(&self) -> Augment {
        Augment {
            crop_padding: self.crop_padding.unwrap_or(0),
            flip: self.flip.unwrap_or(0.0) as f32,
            noise: self.noise.unwrap_or(0.0) as f32,
        }
    }
}
