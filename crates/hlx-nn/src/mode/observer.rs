//! What a pass shows of the inputs of its linear layers.

use std::fmt::Debug;
use std::sync::Arc;

use hlx_autograd::Tensor;

use super::Mode;
use crate::{Parameter, Result};

/// Receives the inputs of a language model's linear layers during a pass, such as to measure which columns of a weight
/// count.
pub trait InputObserver: Debug + Send + Sync {
    /// The layers with weights of these names multiply `x`, \[.., in\]. Of an expert of a mixture they are the rows of
    /// its own tokens, \[n, in\], in the order of the tokens.
    ///
    /// # Errors
    /// What the device reports.
    fn observe(&self, weights: &[&str], x: &Tensor) -> Result<()>;
}

impl Mode {
    /// Shows the inputs of all linear layers but routers to an observer. The pass has the same results; where an
    /// operation computes several layers at once, they are computed one by one.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn InputObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The same without an observer.
    pub(crate) fn unobserved(&self) -> Self {
        Self {
            observer: None,
            ..self.clone()
        }
    }

    /// Whether there is an observer.
    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// Shows what weights multiply.
    pub(crate) fn observe(&self, weights: &[&Parameter], x: &Tensor) -> Result<()> {
        let Some(observer) = &self.observer else {
            return Ok(());
        };
        let names: Vec<&str> = weights.iter().map(|weight| weight.name()).collect();
        observer.observe(&names, x)
    }
}
