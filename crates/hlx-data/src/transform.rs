//! What is done to each sample before it goes into a batch.

use crate::{BoxError, Result, SampleKey};

/// Changes a sample on a worker thread: decodes, normalises, augments. The result may depend on the
/// sample and on the key alone; then the bits of a run do not depend on workers.
///
/// Closures are transforms: `|item, key| Ok(..)`. They run with subnormals flushed to zero, but float
/// functions of the platform differ from machine to machine: take those of `hlx_core::arith`.
pub trait Transform<I>: Send + Sync + 'static {
    /// What goes into the batch.
    type Output: Send;

    /// Transforms one sample.
    ///
    /// # Errors
    /// Whatever is wrong with it; the loader adds the sample's index.
    fn apply(&self, item: I, key: SampleKey) -> Result<Self::Output, BoxError>;
}

/// Leaves samples as they are: the transform of a new loader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain;

impl<I: Send> Transform<I> for Plain {
    type Output = I;

    fn apply(&self, item: I, _key: SampleKey) -> Result<I, BoxError> {
        Ok(item)
    }
}

impl<I, O, F> Transform<I> for F
where
    O: Send,
    F: Fn(I, SampleKey) -> Result<O, BoxError> + Send + Sync + 'static,
{
    type Output = O;

    fn apply(&self, item: I, key: SampleKey) -> Result<O, BoxError> {
        self(item, key)
    }
}
