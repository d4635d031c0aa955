//! What a verification found.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The outcome of a verification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The run folder.
    pub run: PathBuf,
    /// The specification of the arithmetic that the run began with.
    pub specification: u32,
    /// The device that recomputed it.
    pub device: String,
    /// The checkpoint that it began with; none for the initial parameters.
    pub base: Option<PathBuf>,
    /// Steps done in the state that it began with.
    pub from: u64,
    /// The step of the last requested record.
    pub to: u64,
    /// Records compared.
    pub records: u64,
    /// Checkpoints compared, element by element.
    pub checkpoints: u64,
    /// The step of the last record that is equal.
    pub equal_to: Option<u64>,
    /// The digest of that record.
    pub digest: String,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// Where a run and its recomputation first differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// What the recomputation differs from.
    pub source: Source,
    /// The step of the record, or checkpoint, that differs.
    pub record: u64,
    /// The step of the last record that is equal.
    pub equal_to: Option<u64>,
    /// The first step that shows it: whose loss or norm differs, else the record's.
    pub step: u64,
    /// What differs besides tensors, in the order of its making.
    pub mismatches: Vec<Mismatch>,
    /// The first tensor that differs: of the parameters, then of the optimizer.
    pub tensor: Option<TensorDifference>,
}

/// What a run left to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A record of the chain.
    Chain,
    /// The tensors of a checkpoint.
    Checkpoint,
}

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// What it is, such as `loss of step 12`.
    pub what: String,
    /// What the run says.
    pub recorded: String,
    /// What was found now.
    pub recomputed: String,
}

/// The first tensor that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorDifference {
    /// Its name; of the optimizer's tensors with the buffer's: `mean/output.weight`.
    pub name: String,
    /// The tree digest of its recorded values: 16 digits of it from a record.
    pub recorded: String,
    /// That of the values found now.
    pub recomputed: String,
    /// Its first element that differs, where a checkpoint holds the values.
    pub element: Option<ElementDifference>,
}

/// The first element that differs, in row-major order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElementDifference {
    /// Its place in the tensor.
    pub index: usize,
    /// The bits that the checkpoint holds, in hexadecimal.
    pub recorded: String,
    /// The bits found now.
    pub recomputed: String,
}
