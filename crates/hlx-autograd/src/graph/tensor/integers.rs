//! What a tensor keeps of its values as the integers of the `integer` arithmetic, and weights that are prepared once for many
//! passes.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hlx_core::{DType, last_moment};
use hlx_kernels::product::quantised::{Preparation, Prepared, Width, prepare_rows_and_columns};

use super::{Tensor, is_half};
use crate::Result;
use crate::graph::saved::Taken;

/// The integers of a tensor's rows and columns.
pub(super) type KeptIntegers = Mutex<Vec<Kept>>;

/// Integers of the values that a tensor had at a moment.
pub(super) struct Kept {
    prepared: Prepared,
    moment: u64,
    /// The graph that computes them, which alone may read them; none of those that lie in memory.
    recording: Option<u64>,
    taken: Taken,
}

impl Tensor {
    /// The values as integers, as `prepare` makes them unless they are kept, which they are until an element changes: those of
    /// weights of 16 bits, which are not trained, and in a graph that is being recorded those of what it computes.
    pub(crate) fn kept_integers(
        &self,
        of: &Preparation,
        prepare: impl FnOnce() -> Result<Prepared>,
    ) -> Result<Prepared> {
        let recording = self.0.device.recording();
        let fits = |kept: &&Kept| {
            kept.prepared.of == *of
                && (kept.recording.is_none() || kept.recording == recording)
                && self.0.born <= kept.moment
                && !self.changed_since(kept.moment)
        };
        let found = self.integers().and_then(|kept| {
            let found = kept.iter().find(fits)?;
            found.taken.store(true, Ordering::Relaxed);
            Some(found.prepared.clone())
        });
        if let Some(prepared) = found {
            return Ok(prepared);
        }
        let prepared = prepare()?;
        // What the tensor keeps has memory of its own if the tensor outlives the graph.
        let keeps = match recording {
            Some(_) => !self.is_of_leaf() && !is_half(self.dtype()),
            None => is_half(self.dtype()),
        };
        if keeps {
            self.keep_integers(prepared.clone(), Taken::default());
        }
        Ok(prepared)
    }

    /// Keeps integers of the values as they are now, and notes when they are taken.
    pub(crate) fn keep_integers(&self, prepared: Prepared, taken: Taken) {
        let recording = self.0.device.recording();
        let Some(mut kept) = self.integers() else {
            return;
        };
        kept.retain(|old| old.prepared.of != prepared.of && old.recording == recording);
        kept.push(Kept {
            prepared,
            moment: last_moment(),
            recording,
            taken,
        });
    }

    fn integers(&self) -> Option<MutexGuard<'_, Vec<Kept>>> {
        let kept = self.0.integers.as_ref()?;
        Some(kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The integers of a weight \[N, K\] for the products of the `integer` arithmetic: its rows for the forward pass, its columns for the
/// gradient of the input. They lie in memory of their own, so that graphs may read what another one has prepared, such as the
/// micro-batches of a step.
#[derive(Debug)]
pub struct WeightIntegers {
    weight: Tensor,
    rows: Prepared,
    columns: Prepared,
}

impl WeightIntegers {
    /// Allocates the integers of a weight and computes them.
    ///
    /// # Errors
    /// [`AutogradError::Shape`](crate::AutogradError::Shape) unless the weight has two dimensions,
    /// [`AutogradError::DType`](crate::AutogradError::DType) unless it is f32, and what the device reports.
    pub fn new(weight: &Tensor) -> Result<Self> {
        const OP: &str = "weight_integers";
        weight.expect_type(OP, "the weight", DType::F32)?;
        let &[n, k] = weight.shape() else {
            return Err(weight.shape_error(OP, "the weight", "[N, K]"));
        };
        let of_rows = Preparation::of_rows(n, k, Width::Narrow);
        let of_columns = Preparation::of_columns(1, n, k, Width::Narrow);
        let (device, values) = (weight.device(), weight.buffer()?);
        let [rows, columns] = Prepared::rows_and_columns(device, &values, of_rows, of_columns)?;
        let weight = weight.clone();
        Ok(Self {
            weight,
            rows,
            columns,
        })
    }

    /// Computes the integers of the weight's values anew.
    ///
    /// # Errors
    /// What the device reports.
    pub fn update(&self) -> Result<()> {
        let (device, values) = (self.weight.device(), self.weight.buffer()?);
        Ok(prepare_rows_and_columns(
            device,
            &values,
            [&self.rows, &self.columns],
        )?)
    }

    /// Has the graph that is being recorded read these integers wherever it multiplies by the weight, from here on until it
    /// changes the weight. Whoever replays the graph updates them before when the values have changed. Nothing happens where no
    /// graph is recorded.
    pub fn use_in_recording(&self) {
        if self.weight.device().is_recording() {
            for prepared in [&self.rows, &self.columns] {
                self.weight
                    .keep_integers(prepared.clone(), Taken::default());
            }
        }
    }
}
