//! What stands between the gradient tree and the update where several processes share a batch.

use hlx_core::{Buffer, align_words};

use crate::error::NnError;
use crate::{Optimizer, OwnLayout, Result, Weights, state_spans};

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
    optimizer: &dyn Optimizer,
) -> Result<Vec<(&'static str, Buffer)>> {
    let buffers = optimizer.buffers().into_iter();
    let whole = |(name, buffer)| {
        let layout = optimizer.layout(name);
        Ok((name, gather_buffer(exchange, weights, layout, buffer)?))
    };
    buffers.map(whole).collect()
}

/// As [`gather_state`], of one buffer with its layout.
///
/// # Errors
/// As [`Exchange::reduce`].
pub fn gather_buffer(
    exchange: &dyn Exchange,
    weights: &Weights,
    layout: Option<&OwnLayout>,
    buffer: &Buffer,
) -> Result<Buffer> {
    let device = weights.device();
    if weights.updates_all() {
        return Ok(buffer.clone());
    }
    let Some(layout) = layout else {
        let flat = weights.zeros_like()?;
        if !buffer.is_empty() {
            device.copy(buffer, &weights.updated_of(&flat)?)?;
        }
        exchange.gather(weights, &flat)?;
        return Ok(flat);
    };
    // What a rank gives: where its part begins and ends, then its words.
    let updated = weights.updated();
    let bounds = [updated.start, updated.end].map(|word| word as u64);
    let mut words: Vec<u32> = bounds
        .into_iter()
        .flat_map(|word| [word as u32, (word >> 32) as u32])
        .collect();
    if !buffer.is_empty() {
        words.extend(device.download_words(buffer)?);
    }
    let all = exchange.gather_words(&words)?;
    let places = state_spans(Some(layout), weights, "", 0..weights.n_words());
    let n_words = places
        .last()
        .map_or(0, |last| last.at + align_words(last.len));
    let mut whole = vec![0_u32; n_words];
    for (rank, words) in all.iter().enumerate() {
        let (bounds, words) = words.split_at_checked(4).unwrap_or_default();
        let bound =
            |at: usize| Some((*bounds.get(at)? as usize) | (*bounds.get(at + 1)? as usize) << 32);
        let mut of_rank = || {
            let range = bound(0)?..bound(2)?;
            let pieces = state_spans(Some(layout), weights, "", range);
            for (piece, place) in pieces
                .iter()
                .zip(&places)
                .filter(|(piece, _)| piece.len > 0)
            {
                let piece_words = words.get(piece.at..piece.at + piece.len)?;
                whole[place.at + piece.first..][..piece.len].copy_from_slice(piece_words);
            }
            Some(())
        };
        if of_rank().is_none() {
            let reason = format!(
                "rank {rank} gave {} words of the optimizer's state",
                words.len()
            );
            return Err(NnError::mismatch("optimizer state", reason));
        }
    }
    Ok(device.buffer_of::<u32>(&whole)?)
}
