//! Reductions, running results and orders.

use pyo3::prelude::*;

use super::{launched, placed, places};
use crate::tensor::PyTensor;

launched! {
    /// Sums over dimensions; none are all.
    sum_dim(x, dims: Vec<isize>, keepdim: bool) match (dims.is_empty() && !keepdim, x.rank()) {
        // The sum of all elements has a kernel of its own.
        (true, _) => x.sum()?.reshape::<usize>(&[]),
        _ => x.sum_dim(&dims, keepdim),
    };
    /// Means over dimensions.
    mean_dim(x, dims: Vec<isize>, keepdim: bool) match dims.is_empty() && !keepdim {
        true => x.mean()?.reshape::<usize>(&[]),
        false => x.mean_dim(&dims, keepdim),
    };
    /// The largest elements.
    amax(x, dims: Vec<isize>, keepdim: bool) x.amax(&dims, keepdim);
    /// The smallest elements.
    amin(x, dims: Vec<isize>, keepdim: bool) x.amin(&dims, keepdim);
    /// Products over dimensions.
    prod(x, dims: Vec<isize>, keepdim: bool) x.prod(&dims, keepdim);
    /// Whether any element is not 0.
    any(x, dims: Vec<isize>, keepdim: bool) x.any(&dims, keepdim);
    /// Whether no element is 0.
    all(x, dims: Vec<isize>, keepdim: bool) x.all(&dims, keepdim);
    /// Variances, with the divisor n - correction.
    var(x, dims: Vec<isize>, correction: f64, keepdim: bool) x.var(&dims, correction, keepdim);
    /// Their roots.
    std(x, dims: Vec<isize>, correction: f64, keepdim: bool) x.std(&dims, correction, keepdim);
    /// Norms of order p.
    norm(x, p: f32, dims: Vec<isize>, keepdim: bool) x.norm(p, &dims, keepdim);
    /// Logarithms of sums of powers of e.
    logsumexp(x, dims: Vec<isize>, keepdim: bool) x.logsumexp(&dims, keepdim);
    /// The place of the largest element, of all or along a dimension.
    argmax(x, dim: Option<isize>, keepdim: bool) places(x.argmax(dim, keepdim)?);
    /// The place of the smallest.
    argmin(x, dim: Option<isize>, keepdim: bool) places(x.argmin(dim, keepdim)?);
    /// The places in order of their elements.
    argsort(x, dim: isize, descending: bool) places(x.argsort(dim, descending)?);
    /// Running sums.
    cumsum(x, dim: isize) x.cumsum(dim);
    /// Running products.
    cumprod(x, dim: isize) x.cumprod(dim);
}

placed! {
    /// The largest elements along a dimension, and their places.
    max_dim(x, dim: isize, keepdim: bool) x.max_dim(dim, keepdim);
    /// The smallest.
    min_dim(x, dim: isize, keepdim: bool) x.min_dim(dim, keepdim);
    /// The elements in order along a dimension, and their places; equal ones stay in order.
    sort(x, dim: isize, descending: bool) x.sort(dim, descending);
    /// The k largest or smallest, and their places.
    topk(x, k: usize, dim: isize, largest: bool) x.topk(k, dim, largest);
}
