//! Golden runs: four small trainings whose digests are part of the repository.
//!
//! Between them they go through every kind of layer, dropout, clipping, accumulation over
//! micro-batches, and the optimizers. Whoever doubts that a device gives HLX's bits can train
//! them in seconds and compare. `hlx verify --golden` does, and with `--write` makes the file anew
//! after a kernel's specification has changed.

mod perceptron;
mod scalar;
mod transformer;

use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use hlx_core::digest::TensorHasher;
use hlx_core::{Arithmetic, Device, files};
use serde::{Deserialize, Serialize};

/// The digests that every device must give.
const EXPECTED: &str = include_str!("../../golden.json");
/// The file's number; it counts changes of what is trained.
const VERSION: u32 = 2;

/// The golden runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GoldenRun {
    /// A transformer with dropout, label smoothing, clipping, micro-batches and AdamW.
    Transformer,
    /// The same in the integer arithmetic, whose micro-batches are whole shards.
    Integer,
    /// A multilayer perceptron with tanh, clipping, weight decay and momentum.
    Perceptron,
    /// One weight, learnt by gradient descent: HLX's founding experiment.
    Scalar,
}

impl GoldenRun {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Transformer,
        Self::Integer,
        Self::Perceptron,
        Self::Scalar,
    ];

    /// The name that the file has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Integer => "integer",
            Self::Perceptron => "perceptron",
            Self::Scalar => "scalar",
        }
    }

    /// Trains it on a device, and digests the result.
    ///
    /// # Errors
    /// What the device reports.
    pub fn train(self, device: &Device) -> Result<GoldenDigests> {
        match self {
            Self::Transformer => transformer::train(device, Arithmetic::Portable),
            Self::Integer => transformer::train(device, Arithmetic::Integer),
            Self::Perceptron => perceptron::train(device),
            Self::Scalar => scalar::train(device),
        }
    }
}

/// What a golden run ends with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenDigests {
    /// SHA-256 over the parameters.
    pub parameters: String,
    /// SHA-256 over the optimizer's state: its tensors and its step.
    pub optimizer: String,
    /// SHA-256 over the trained model's outputs for its samples.
    pub logits: String,
}

impl GoldenDigests {
    /// The digests with their names.
    pub fn named(&self) -> [(&'static str, &str); 3] {
        [
            ("parameters", &self.parameters),
            ("optimizer", &self.optimizer),
            ("logits", &self.logits),
        ]
    }
}

/// The file of golden digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenFile {
    version: u32,
    transformer: GoldenDigests,
    integer: GoldenDigests,
    perceptron: GoldenDigests,
    scalar: GoldenDigests,
}

impl GoldenFile {
    /// The digests that this program was built with.
    ///
    /// # Errors
    /// None: the tests read the file.
    pub fn expected() -> Result<Self> {
        Self::parse(EXPECTED.as_bytes()).context("golden.json")
    }

    /// Reads a file that [`GoldenFile::write`] has written.
    ///
    /// # Errors
    /// The file and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        let bytes = files::read_settings(path).with_context(name)?;
        Self::parse(&bytes).with_context(name)
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        let file: Self = serde_json::from_slice(bytes)
            .map_err(|error| anyhow!("is no list of golden digests: {error}"))?;
        ensure!(
            file.version == VERSION,
            "is of version {} of the golden runs, expected {VERSION}",
            file.version
        );
        Ok(file)
    }

    /// Makes a file of the digests of all runs, in [`GoldenRun::ALL`]'s order.
    pub fn new([transformer, integer, perceptron, scalar]: [GoldenDigests; 4]) -> Self {
        Self {
            version: VERSION,
            transformer,
            integer,
            perceptron,
            scalar,
        }
    }

    /// The digests of a run.
    pub fn of(&self, run: GoldenRun) -> &GoldenDigests {
        match run {
            GoldenRun::Transformer => &self.transformer,
            GoldenRun::Integer => &self.integer,
            GoldenRun::Perceptron => &self.perceptron,
            GoldenRun::Scalar => &self.scalar,
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The file and the system's message.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self).context("golden digests")?;
        text.push(b'\n');
        let written = files::write_atomically(path, &text);
        written.with_context(|| format!("{}: cannot be written", path.display()))
    }
}

/// The digest of a model's answers.
fn logits_digest(shape: &[usize], values: &[f32]) -> String {
    let mut hasher = TensorHasher::new();
    hasher.add("logits", shape, values);
    hasher.finish()
}
