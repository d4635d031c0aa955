//! `state.bin`: what a run needs besides the parameters to go on as if it had never stopped.

use std::ops::Range;

use anyhow::{Result, anyhow, ensure};
use hlx_nn::OptimizerState;
use serde::{Deserialize, Serialize};

/// The checkpoint's file of everything but the parameters.
pub const STATE_FILE: &str = "state.bin";
/// The layout's number; a file of another is refused.
const VERSION: u32 = 1;

/// A run's state after a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    /// The progress of the run.
    pub progress: Progress,
    /// The optimizer's step and moments.
    pub optimizer: OptimizerState,
}

/// The progress of a run. Random numbers come from counters, so the seed, the step and the place in
/// the epoch are the whole state of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Keys every random number.
    pub seed: u64,
    /// Steps done.
    pub step: u64,
    /// The epoch of the next step.
    pub epoch: u64,
    /// The next step's batch within the epoch.
    pub batch_idx: u64,
    /// The losses of the epoch so far.
    pub epoch_loss: LossSum,
    /// The losses of the log period so far.
    pub period_loss: LossSum,
    /// The newest evaluation's loss, which ranks the checkpoints of the run.
    pub ranking_loss: Option<f64>,
    /// Whether the target loss has been reached.
    pub reached_target: bool,
}

/// A sum of losses and the number of bytes that they are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LossSum {
    /// The sum.
    pub sum: f64,
    /// Bytes predicted.
    pub n_targets: u64,
}

impl LossSum {
    /// Adds a step's losses.
    pub fn add(&mut self, sum: f64, n_targets: u64) {
        self.sum += sum;
        self.n_targets += n_targets;
    }

    /// The mean loss a byte; `None` of no byte.
    pub fn mean(&self) -> Option<f64> {
        (self.n_targets > 0).then(|| self.sum / self.n_targets as f64)
    }
}

impl State {
    /// Puts a state together.
    pub fn new(progress: Progress, optimizer: OptimizerState) -> Self {
        Self {
            version: VERSION,
            progress,
            optimizer,
        }
    }

    /// The file's bytes.
    ///
    /// # Errors
    /// The encoder's message; it is not expected to fail.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(bincode::serde::encode_to_vec(
            self,
            bincode::config::standard(),
        )?)
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// Bytes that are no state, are cut short or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (state, used): (Self, usize) =
            decode(bytes).map_err(|error| anyhow!("is no training state: {error}"))?;
        ensure!(
            used == bytes.len(),
            "has {} bytes too many",
            bytes.len() - used
        );
        ensure!(
            state.version == VERSION,
            "has version {}, expected {VERSION}",
            state.version
        );
        Ok(state)
    }
}

/// Where the values of each tensor lie in the file of a state, and what lies between them: ranks that
/// have a part of the state each write the file together.
pub(crate) struct StateLayout {
    /// The bytes between the values, each with its place.
    pub between: Vec<(u64, Vec<u8>)>,
    /// Of each tensor, in the order of the names: its name and the bytes of its values.
    pub values: Vec<(String, Range<u64>)>,
    /// Bytes of the file.
    pub len: u64,
}

impl StateLayout {
    /// Lays out the state of an optimizer whose tensors have these names and shapes.
    ///
    /// # Errors
    /// The encoder's message; it is not expected to fail.
    pub fn new(
        progress: &Progress,
        (optimizer, step): (&str, u64),
        mut tensors: Vec<(String, Vec<usize>)>,
    ) -> Result<Self> {
        let config = bincode::config::standard();
        tensors.sort();
        let head = (VERSION, progress, optimizer, step, tensors.len() as u64);
        let mut bytes = bincode::serde::encode_to_vec(head, config)?;
        let (mut between, mut values, mut at) = (Vec::new(), Vec::new(), 0);
        for (name, shape) in tensors {
            let n = shape.iter().product::<usize>() as u64;
            bytes.extend(bincode::serde::encode_to_vec((&name, &shape, n), config)?);
            let begin = at + bytes.len() as u64;
            between.push((at, std::mem::take(&mut bytes)));
            at = begin + 4 * n;
            values.push((name, begin..at));
        }
        if !bytes.is_empty() {
            at = bytes.len() as u64;
            between.push((0, bytes));
        }
        Ok(Self {
            between,
            values,
            len: at,
        })
    }
}

/// Decodes bytes, none of whose lengths may exceed the file's by much: bincode allocates a string
/// of the length that the file states before it reads it, and a failed allocation aborts. Its
/// limits are constants, so the smallest that has room is chosen.
fn decode(bytes: &[u8]) -> Result<(State, usize), bincode::error::DecodeError> {
    const MIB: usize = 1 << 20;
    const GIB: usize = 1 << 30;
    const TIB: usize = 1 << 40;
    let config = bincode::config::standard();
    // A number of one byte counts as the eight that it may take.
    let bound = bytes.len().saturating_mul(8);
    if bound <= MIB {
        bincode::serde::decode_from_slice(bytes, config.with_limit::<MIB>())
    } else if bound <= GIB {
        bincode::serde::decode_from_slice(bytes, config.with_limit::<GIB>())
    } else if bound <= TIB {
        bincode::serde::decode_from_slice(bytes, config.with_limit::<TIB>())
    } else {
        bincode::serde::decode_from_slice(bytes, config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hlx_nn::StateTensor;

    /// Found by fuzzing: the name of a tensor stated a length of 4e18 bytes.
    #[test]
    fn a_string_longer_than_the_file_is_an_error_and_no_abort() {
        let found = include_bytes!("../../../../fuzz/corpus/state/long-string");
        let error = State::from_bytes(found).expect_err("no state");
        assert!(
            error.to_string().starts_with("is no training state"),
            "{error}"
        );
    }

    /// The bytes between the values and the values make the file that one process writes.
    #[test]
    fn a_layout_is_that_of_the_file() {
        let progress = Progress {
            step: 70_000,
            ranking_loss: Some(0.5),
            ..Progress::default()
        };
        for shapes in [vec![], vec![vec![3]], vec![vec![300, 2], vec![], vec![7]]] {
            let tensor = |(at, shape): (usize, &Vec<usize>)| StateTensor {
                name: format!("mean/{at}"),
                shape: shape.clone(),
                values: (0..shape.iter().product())
                    .map(|n| (n + at) as f32)
                    .collect(),
            };
            let tensors: Vec<StateTensor> = shapes.iter().enumerate().map(tensor).collect();
            let named = tensors.iter().rev();
            let named = named
                .map(|one| (one.name.clone(), one.shape.clone()))
                .collect();
            let layout = StateLayout::new(&progress, ("adamw", 70_000), named).expect("lays out");
            let mut bytes = vec![0xff; layout.len as usize];
            for (at, between) in &layout.between {
                bytes[*at as usize..][..between.len()].copy_from_slice(between);
            }
            for (tensor, (name, place)) in tensors.iter().zip(&layout.values) {
                assert_eq!(tensor.name, *name);
                let values = tensor.values.iter().flat_map(|value| value.to_le_bytes());
                let place = place.start as usize..place.end as usize;
                bytes[place].copy_from_slice(&values.collect::<Vec<u8>>());
            }
            let optimizer = OptimizerState {
                optimizer: "adamw".to_owned(),
                step: 70_000,
                tensors,
            };
            let whole = State::new(progress.clone(), optimizer)
                .to_bytes()
                .expect("encodes");
            assert_eq!(bytes, whole);
        }
    }

    #[test]
    fn states_come_back_whole_or_not_at_all() {
        let progress = Progress {
            seed: 9,
            step: 40,
            ..Progress::default()
        };
        let (name, shape, values) = ("mean/a".to_owned(), vec![2], vec![1.5, -0.0]);
        let tensors = vec![StateTensor {
            name,
            shape,
            values,
        }];
        let moments = OptimizerState {
            optimizer: "adamw".to_owned(),
            step: 40,
            tensors,
        };
        let state = State::new(progress, moments);
        let bytes = state.to_bytes().expect("encodes");
        assert_eq!(State::from_bytes(&bytes).expect("decodes"), state);
        for cut in 0..bytes.len() {
            assert!(State::from_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(State::from_bytes(&[bytes, vec![0]].concat()).is_err());
    }
}
