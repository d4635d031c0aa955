//! Answers that the model's positions do not hold: each token takes a whole pass over the last tokens that they hold.

use anyhow::Result;
use hlx_autograd::Tensor;
use hlx_core::Device;
use hlx_nn::{CausalInput, CausalLm, CausalModel, Mode, likeliest};

use super::sequence::{Next, Sequence};
use super::turns::Turns;

/// The answers that slide.
#[derive(Default)]
pub(super) struct Sliding<'m>(pub Vec<Sequence<'m>>);

impl<'m> Sliding<'m> {
    /// Draws a token of each answer. Returns how many were added.
    ///
    /// # Errors
    /// What the device reports.
    pub fn step(
        &mut self,
        model: &CausalLm,
        (device, turns): (&Device, &Turns),
        capacity: usize,
    ) -> Result<usize> {
        if self.0.is_empty() {
            return Ok(0);
        }
        let turn = turns.take();
        let logits = self.logits(model, device)?;
        let vocabulary = model.vocabulary();
        let mut n_drawn = 0;
        let mut advance = |one: &mut Sequence<'m>, next: &Next<'_>| {
            n_drawn += usize::from(one.advance(next, capacity));
        };
        if self.0.iter().all(|one| one.request().takes_likeliest()) {
            let words = likeliest(&logits)?.to_vec::<u32>()?;
            drop(turn);
            for (one, id) in self.0.iter_mut().zip(words) {
                let id = ((id as usize) < vocabulary).then_some(id);
                advance(one, &Next::Likeliest(id));
            }
        } else {
            let logits = logits.to_vec::<f32>()?;
            drop(turn);
            for (one, row) in self.0.iter_mut().zip(logits.chunks(vocabulary)) {
                advance(one, &Next::Logits(row));
            }
        }
        self.0.retain(|one| !one.has_ended());
        Ok(n_drawn)
    }

    /// The logits \[n, V\] behind each answer.
    fn logits(&self, model: &CausalLm, device: &Device) -> Result<Tensor> {
        let (batch, time) = (self.0.len(), model.max_positions());
        let windows = self.0.iter().map(|one| &one.ids[one.ids.len() - time..]);
        let ids: Vec<u32> = windows.flatten().copied().collect();
        let last: Vec<u32> = (1..=batch).map(|row| (row * time - 1) as u32).collect();
        let ids = Tensor::from_slice::<u32>(device, &ids, &[batch, time])?.with_samples(0)?;
        let last = Tensor::from_slice::<u32>(device, &last, &[batch])?;
        let input = CausalInput {
            rows: Some(&last),
            ..CausalInput::new(&ids)
        };
        Ok(model.logits(&input, &Mode::eval())?)
    }
}
