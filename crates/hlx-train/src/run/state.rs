//! `state.bin`: what a run needs besides the parameters to continue as if it had never stopped.

use std::ops::Range;

use anyhow::{Context as _, Result, anyhow, ensure};
use hlx_core::bytes::f32_from_little_endian;
use hlx_nn::{OptimizerState, StateTensor};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The checkpoint's file of everything but the parameters.
pub const STATE_FILE: &str = "state.bin";
/// The layout's number; a file of another is refused.
const VERSION: u32 = 1;

/// A run's state after a step. The file is bincode's encoding of it, in which values lie as they are.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

    /// The mean loss per byte; `None` of no byte.
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

    /// The file's bytes. A run writes them piece by piece instead, at the places of its layout.
    ///
    /// # Errors
    /// The encoder's message; it is not expected to fail.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let config = bincode::config::standard();
        Ok(bincode::serde::encode_to_vec(self, config)?)
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// Bytes that are not a state, are cut short or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut rest = bytes;
        let (version, progress, optimizer, step, n_tensors): (u32, _, _, _, u64) = take(&mut rest)?;
        ensure!(
            version == VERSION,
            "has version {version}, expected {VERSION}"
        );
        let mut tensors = Vec::new();
        for _ in 0..n_tensors {
            let (name, shape, n): (String, _, u64) = take(&mut rest)?;
            let end = usize::try_from(n).ok().and_then(|n| n.checked_mul(4));
            let values = end.and_then(|end| rest.split_at_checked(end));
            let (values, behind) =
                values.with_context(|| format!("is no training state: {name} is cut short"))?;
            rest = behind;
            tensors.push(StateTensor {
                name,
                shape,
                values: f32_from_little_endian(values),
            });
        }
        ensure!(rest.is_empty(), "has {} bytes too many", rest.len());
        let optimizer = OptimizerState {
            optimizer,
            step,
            tensors,
        };
        Ok(Self {
            version,
            progress,
            optimizer,
        })
    }
}

/// Decodes what lies at the front of the bytes and drops it. It may take a MiB: bincode allocates a string
/// of the length that the file states before it reads it, and a failed allocation aborts.
fn take<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T> {
    let config = bincode::config::standard().with_limit::<{ 1 << 20 }>();
    let decoded = bincode::serde::decode_from_slice(bytes, config);
    let (found, used) = decoded.map_err(|error| anyhow!("is no training state: {error}"))?;
    *bytes = &bytes[used..];
    Ok(found)
}

/// Where the values of each tensor lie in the file of a state, and what lies between them: ranks that
/// have a part of the state each write the file together.
pub(crate) struct StateLayout {
    /// The bytes between the values, each with its place.
    pub between: Vec<(u64, Vec<u8>)>,
    /// Where the values of each tensor lie, in the given order.
    pub values: Vec<StatePlace>,
    /// Bytes of the file.
    pub len: u64,
}

/// A tensor of a state, and the bytes of its values in the file.
pub(crate) struct StatePlace {
    pub name: String,
    pub shape: Vec<usize>,
    pub bytes: Range<u64>,
}

impl StateLayout {
    /// Lays out the state of an optimizer whose tensors have these names and shapes.
    ///
    /// # Errors
    /// The encoder's message; it is not expected to fail.
    pub fn new(
        progress: &Progress,
        optimizer: &str,
        step: u64,
        tensors: Vec<(String, Vec<usize>)>,
    ) -> Result<Self> {
        let config = bincode::config::standard();
        let head = (VERSION, progress, optimizer, step, tensors.len() as u64);
        let mut bytes = bincode::serde::encode_to_vec(head, config)?;
        let (mut between, mut values, mut at) = (Vec::new(), Vec::new(), 0);
        for (name, shape) in tensors {
            let n = shape.iter().product::<usize>() as u64;
            bytes.extend(bincode::serde::encode_to_vec((&name, &shape, n), config)?);
            let begin = at + bytes.len() as u64;
            between.push((at, std::mem::take(&mut bytes)));
            at = begin + 4 * n;
            values.push(StatePlace {
                name,
                shape,
                bytes: begin..at,
            });
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

#[cfg(test)]
mod tests {
    use hlx_core::bytes::little_endian;

    use super::*;

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

    /// The bytes between the values and the values make the file that bincode writes.
    #[test]
    fn the_file_is_the_encoding_of_the_state() {
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
            let optimizer = OptimizerState {
                optimizer: "adamw".to_owned(),
                step: 70_000,
                tensors: shapes.iter().enumerate().map(tensor).collect(),
            };
            let named = optimizer.tensors.iter();
            let named = named.map(|one| (one.name.clone(), one.shape.clone()));
            let layout = StateLayout::new(&progress, "adamw", 70_000, named.collect());
            let layout = layout.expect("lays out");
            let mut bytes = vec![0xff; layout.len as usize];
            for (at, between) in &layout.between {
                bytes[*at as usize..][..between.len()].copy_from_slice(between);
            }
            for (tensor, place) in optimizer.tensors.iter().zip(&layout.values) {
                assert_eq!((&tensor.name, &tensor.shape), (&place.name, &place.shape));
                let place = place.bytes.start as usize..place.bytes.end as usize;
                bytes[place].copy_from_slice(&little_endian(&tensor.values));
            }
            let state = State::new(progress.clone(), optimizer);
            assert_eq!(bytes, state.to_bytes().expect("encodes"));
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
