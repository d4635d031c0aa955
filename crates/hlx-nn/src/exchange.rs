//! What stands between the gradient tree and the update where several processes share a batch.

use hlx_core::Buffer;

use crate::{Result, Weights};

/// The exchange between the processes (ranks) that train one model.
///
/// Each rank leaves the root of its own shards in its gradient buffer. [`Exchange::reduce`] carries out
/// the upper levels of the tree, after which each rank holds its part of the whole batch's gradient; the
/// rank updates that part ([`Parts`](crate::Parts)), and [`Exchange::gather`] brings the values of all
/// parts to all ranks. Every method is called by all ranks in the same order.
///
/// Buffers are those of the rank's device: an implementation may copy them through the host or from
/// device to device. It copies; the sums are [`add_assign`](hlx_kernels::elementwise::add_assign).
pub trait Exchange {
    /// The number of this rank.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn n_ranks(&self) -> usize;

    /// Sums the gradients of all ranks, those of other uses of parameters too, by the tree: afterwards
    /// the words of this rank's part are those of the whole batch, and the others are undefined.
    ///
    /// # Errors
    /// [`NnError::Exchange`](crate::NnError::Exchange) for a rank that no longer answers, and what the
    /// device reports.
    fn reduce(&self, weights: &Weights) -> Result<()>;

    /// Fills the other ranks' parts of a flat buffer in the layout of the values; this rank's part is
    /// what the others get.
    ///
    /// # Errors
    /// As [`Exchange::reduce`].
    fn gather(&self, weights: &Weights, flat: &Buffer) -> Result<()>;

    /// Returns the words that each rank gives, in the order of the ranks.
    ///
    /// # Errors
    /// As [`Exchange::reduce`].
    fn gather_words(&self, words: &[u32]) -> Result<Vec<Vec<u32>>>;
}

/// The exchange of a process that has all shards: there is nothing to exchange.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Exchange for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn n_ranks(&self) -> usize {
        1
    }

    fn reduce(&self, _: &Weights) -> Result<()> {
        Ok(())
    }

    fn gather(&self, _: &Weights, _: &Buffer) -> Result<()> {
        Ok(())
    }

    fn gather_words(&self, words: &[u32]) -> Result<Vec<Vec<u32>>> {
        Ok(vec![words.to_vec()])
    }
}

/// The whole of each buffer of an optimizer's state, of which this rank has its part; all ranks call it.
///
/// # Errors
/// As [`Exchange::reduce`].
pub fn gather_state(
    exchange: &dyn Exchange,
    weights: &Weights,
    buffers: &[(&'static str, &Buffer)],
) -> Result<Vec<(&'static str, Buffer)>> {
    let whole = |&(name, buffer): &(&'static str, &Buffer)| {
        if weights.updates_all() {
            return Ok((name, buffer.clone()));
        }
        let flat = weights.zeros_like()?;
        if !buffer.is_empty() {
            weights.device().copy(buffer, &weights.updated_of(&flat)?)?;
        }
        exchange.gather(weights, &flat)?;
        Ok((name, flat))
    };
    buffers.iter().map(whole).collect()
}
