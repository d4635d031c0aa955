//! What a causal language model reads.

use hlx_autograd::Tensor;

use crate::Result;
use crate::error::NnError;

/// What a causal language model reads.
#[derive(Clone, Copy, Debug)]
pub struct CausalInput<'a> {
    /// The tokens, ids \[B, T\], with the samples in the first dimension.
    pub ids: &'a Tensor,
    /// For each token the place in its row where its document begins, ids \[B, T\]: no attention
    /// crosses documents, and positions count from there. Without it each row is one document.
    pub documents: Option<&'a Tensor>,
    /// The position of each token, ids \[B, T\], where it is not the distance from its document's first.
    pub positions: Option<&'a Tensor>,
    /// The places b T + t whose logits are wanted, ids \[n\]; all if left out.
    pub rows: Option<&'a Tensor>,
    /// For rows that are padded on the right, how many tokens each has, ids \[B\]: what follows does not count
    /// in the balance loss ([`CausalModel::logits_and_balance`](crate::CausalModel::logits_and_balance)).
    pub lengths: Option<&'a Tensor>,
}

impl<'a> CausalInput<'a> {
    /// Rows of one document each, with all logits.
    pub fn new(ids: &'a Tensor) -> Self {
        Self {
            ids,
            documents: None,
            positions: None,
            rows: None,
            lengths: None,
        }
    }
}

/// The batch and the time of ids.
pub(crate) fn shape_of(ids: &Tensor, limit: usize) -> Result<(usize, usize)> {
    match *ids.shape() {
        [batch, time] if time <= limit => Ok((batch, time)),
        _ => {
            let expected = format!("[batch, time] with at most {limit} positions");
            Err(unfitting("ids", ids, expected))
        }
    }
}

pub(crate) fn unfitting(argument: &'static str, found: &Tensor, expected: String) -> NnError {
    NnError::Shape {
        op: "causal model",
        argument,
        found: found.shape().to_vec(),
        expected,
    }
}
