//! A prompt that is being read, a piece at a time.

use anyhow::Result;
use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_nn::{CausalLm, CausalModel, KvCache};

use super::draw::log_probabilities;
use super::request::Logprobs;
use super::sequence::Sequence;

/// A request whose prompt is being read for a place.
pub(super) struct Reading<'m> {
    pub sequence: Sequence<'m>,
    pub place: usize,
    logprobs: Vec<Logprobs>,
}

impl<'m> Reading<'m> {
    pub fn new(sequence: Sequence<'m>, place: usize) -> Self {
        Self {
            sequence,
            place,
            logprobs: Vec::new(),
        }
    }

    /// Reads the next piece behind what the cache holds, of at most `room` tokens. Returns how many were read, and the
    /// logits behind the prompt once it is read.
    ///
    /// # Errors
    /// What the device reports.
    pub fn read(
        &mut self,
        model: &CausalLm,
        device: &Device,
        cache: &mut KvCache,
        room: usize,
    ) -> Result<(usize, Option<Vec<f32>>)> {
        let held: usize = cache.lengths().iter().sum();
        let prompt = &self.sequence.request().prompt;
        let end = prompt.len().min(held + room);
        let piece = &prompt[held..end];
        let ids = Tensor::from_slice::<u32>(device, piece, &[1, piece.len()])?.with_samples(0)?;
        let n_top = self.sequence.request().prompt_logprobs;
        let is_last = end == prompt.len();
        let watch = self.sequence.request().watch.as_ref();
        let watch = watch.filter(|watch| watch.from < end);
        let wants_all = n_top.is_some() || watch.is_some();
        let last = [piece.len() as u32 - 1];
        let rows = match wants_all {
            true => None,
            false => Some(Tensor::from_slice::<u32>(device, &last, &[1])?),
        };
        let logits = model.logits_cached(&ids, &[piece.len()], rows.as_ref(), cache)?;
        if !wants_all && !is_last {
            return Ok((piece.len(), None));
        }
        let logits = logits.to_vec::<f32>()?;
        let rows: Vec<&[f32]> = logits.chunks(model.vocabulary()).collect();
        if let Some(n_top) = n_top {
            let next = prompt[held + 1..].iter().zip(&rows);
            let known = next.map(|(&id, row)| log_probabilities(row, id, n_top));
            self.logprobs.extend(known);
        }
        if let Some(watch) = watch {
            let first = watch.from.saturating_sub(held);
            watch.look(&logits[first * model.vocabulary()..]);
        }
        let n_read = piece.len();
        let last = rows.last().filter(|_| is_last);
        Ok((n_read, last.map(|row| row.to_vec())))
    }

    /// The log-probabilities of the prompt's tokens from the second on, if they are wanted.
    pub fn take_logprobs(&mut self) -> Vec<Logprobs> {
        std::mem::take(&mut self.logprobs)
    }
}
