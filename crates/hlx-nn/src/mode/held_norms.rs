//! The norms of weight-decomposed adapters, computed once for all passes of a cache.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hlx_autograd::Tensor;

use crate::Result;

/// Norms of rows by the names of the magnitudes that they belong to. They are those of the weights at the first pass, as
/// the keys and values of the cache are. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldNorms(Arc<Mutex<HashMap<String, Tensor>>>);

impl HeldNorms {
    /// The norms of a name. What is computed in a recording is not held: a replay computes it again.
    pub fn of(&self, name: &str, compute: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
        let held = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(norms) = held().get(name) {
            return Ok(norms.clone());
        }
        let norms = compute()?;
        if !norms.device().is_recording() {
            held().insert(name.to_owned(), norms.clone());
        }
        Ok(norms)
    }
}
