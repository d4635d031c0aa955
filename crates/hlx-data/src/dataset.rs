//! Data sets: items by index, and parts of them.

use std::sync::Arc;

use crate::{BoxError, DataError, Result};

/// A set of samples that are read by index, as `torch.utils.data.Dataset`. Worker threads read
/// several at a time.
pub trait Dataset: Send + Sync + 'static {
    /// A sample, such as `(HostArray<u8>, u32)`.
    type Item: Send;

    /// The number of samples.
    fn len(&self) -> usize;

    /// Whether there is no sample.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the sample of this index, which is below [`Dataset::len`]. The same index gives the same
    /// sample every time: what is random belongs into a [`Transform`](crate::Transform).
    ///
    /// # Errors
    /// Whatever prevents the sample from being read; the loader adds the index.
    fn get(&self, index: usize) -> Result<Self::Item, BoxError>;
}

impl<D: Dataset> Dataset for Arc<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        D::len(self)
    }

    fn get(&self, index: usize) -> Result<Self::Item, BoxError> {
        D::get(self, index)
    }
}

impl<T: Clone + Send + Sync + 'static> Dataset for Vec<T> {
    type Item = T;

    fn len(&self) -> usize {
        self.as_slice().len()
    }

    fn get(&self, index: usize) -> Result<T, BoxError> {
        let found = self.as_slice().get(index).cloned();
        found.ok_or_else(|| format!("the set has {} samples", self.as_slice().len()).into())
    }
}

/// Some samples of a data set, in a stated order, as `torch.utils.data.Subset`.
#[derive(Clone, Debug)]
pub struct Subset<D> {
    dataset: D,
    indices: Vec<usize>,
}

impl<D: Dataset> Subset<D> {
    /// Takes the samples of these indices, such as `0..8000`.
    ///
    /// # Errors
    /// [`DataError::Argument`] for an index that the set does not have.
    pub fn new(dataset: D, indices: impl IntoIterator<Item = usize>) -> Result<Self> {
        let indices: Vec<usize> = indices.into_iter().collect();
        let n = dataset.len();
        match indices.iter().find(|&&index| index >= n) {
            Some(index) => Err(DataError::argument(
                "subset",
                format!("the index {index} is out of range: the set has {n} samples"),
            )),
            None => Ok(Self { dataset, indices }),
        }
    }

    /// The set that this is a part of.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }

    /// The indices taken of it.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn get(&self, index: usize) -> Result<D::Item, BoxError> {
        self.dataset.get(self.indices[index])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subset_has_its_indices_in_their_order() -> Result<(), BoxError> {
        let part = Subset::new(vec![10, 20, 30, 40], [3, 0, 3])?;
        let items: Vec<i32> = (0..3).map(|at| part.get(at)).collect::<Result<_, _>>()?;
        assert_eq!(items, [40, 10, 40]);
        assert_eq!((part.len(), part.is_empty()), (3, false));
        let error = Subset::new(vec![1], [0, 1]).expect_err("one sample");
        let expected = "subset: the index 1 is out of range: the set has 1 samples";
        assert_eq!(error.to_string(), expected);
        Ok(())
    }
}
