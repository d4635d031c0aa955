//! Reading and writing by places.

use hlx_autograd::Index;
use pyo3::prelude::*;

use super::{Handle, launched};
use crate::tensor::PyTensor;
use crate::wait::checked;

launched! {
    /// Elements by places along a dimension.
    gather(x, dim: isize, index: Handle) checked(x, x.gather(dim, &index)?);
    /// A copy with elements of a source written at places; of several for one place the last counts.
    scatter(x, dim: isize, index: Handle, source: Handle) checked(x, x.scatter(dim, &index, &source)?);
    /// A copy with elements of a source added at places, in their order.
    scatter_add(x, dim: isize, index: Handle, source: Handle) checked(x, x.scatter_add(dim, &index, &source)?);
    /// Parts by their places in a dimension.
    index_select(x, dim: isize, index: Handle) checked(x, x.index_select(dim, &index)?);
    /// A copy with parts added at places of a dimension.
    index_add(x, dim: isize, index: Handle, source: Handle) checked(x, x.index_add(dim, &index, &source)?);
    /// Elements by places along a dimension, or of all, that broadcast.
    take_along_dim(x, index: Handle, dim: Option<isize>) checked(x, x.take_along_dim(&index, dim)?);
    /// The elements where a mask holds.
    masked_select(x, mask: Handle) x.masked_select(&mask);
    /// A copy with values written, or added, at the places of index tensors; None is a whole dimension.
    index_put(x, indices: Vec<Option<Handle>>, values: Handle, accumulate: bool) {
        let items: Vec<Index> = indices.into_iter().map(|places| match places {
            Some(places) => Index::Tensor(places.0),
            None => (..).into(),
        }).collect();
        checked(x, x.index_put(&items, &values, accumulate)?)
    };
}
