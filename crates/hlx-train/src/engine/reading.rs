//! Prompts that are being read, a piece of each in a pass.

use anyhow::Result;
use hlx_nn::{CausalLm, CausalModel, Piece, Slots};

use super::draw::log_probabilities;
use super::pages::Held;
use super::request::Logprobs;
use super::sequence::Sequence;
use super::watch::Watch;

/// A request that has pages.
pub(super) struct Running<'m> {
    pub sequence: Sequence<'m>,
    pub held: Held,
    /// Those that came earlier have a lower number.
    pub age: u64,
}

/// A request whose tokens are being read: its prompt, and the answer so far of one that had given its pages back.
pub(super) struct Reading<'m> {
    pub running: Running<'m>,
    logprobs: Vec<Logprobs>,
}

/// What a pass has read of a request.
pub(super) struct Read {
    /// The number of its tokens that are in the cache.
    pub n_held: usize,
    /// Those that are known of its prompt.
    logprobs: Vec<Logprobs>,
    /// The logits behind its last token, once that is read.
    pub logits: Option<Vec<f32>>,
}

impl<'m> Reading<'m> {
    pub fn new(running: Running<'m>) -> Self {
        Self {
            running,
            logprobs: Vec::new(),
        }
    }

    /// The tokens that are not read yet.
    pub fn n_left(&self) -> usize {
        self.running.sequence.ids.len() - self.running.held.n_tokens
    }

    /// Whether these tokens begin with full pages that this prompt will hold, more than `n_found` of them.
    pub fn will_hold(&self, ids: &[u32], n_found: usize) -> bool {
        let own = self.running.sequence.ids.iter().zip(ids);
        let n_alike = own.take_while(|(a, b)| a == b).count();
        let n_whole = n_alike.min(ids.len() - 1) / hlx_nn::PagePool::PAGE;
        n_whole > n_found
    }

    /// The log-probabilities of the prompt's tokens from the second on, if they are wanted.
    pub fn take_logprobs(&mut self) -> Vec<Logprobs> {
        std::mem::take(&mut self.logprobs)
    }

    /// Notes what was read.
    pub fn note(&mut self, read: &mut Read) {
        self.logprobs.append(&mut read.logprobs);
    }

    /// How many log-probabilities of each of the prompt's tokens are wanted.
    fn wanted(&self) -> Option<usize> {
        let sequence = &self.running.sequence;
        sequence
            .request()
            .prompt_logprobs
            .filter(|_| !sequence.is_read())
    }

    /// Whether the logits behind all of the next `n` tokens are wanted.
    fn wants_all(&self, n: usize) -> bool {
        let end = self.running.held.n_tokens + n;
        self.wanted().is_some() || self.watch().is_some_and(|watch| watch.from < end)
    }

    /// Who gets the logits behind the prompt's tokens.
    fn watch(&self) -> Option<&Watch> {
        let sequence = &self.running.sequence;
        let watch = sequence.request().watch.as_ref();
        watch.filter(|_| !sequence.is_read())
    }

    /// What the rows of logits say of the `n` tokens that were read.
    fn read(&self, n: usize, rows: &[&[f32]]) -> Read {
        let (ids, first) = (&self.running.sequence.ids, self.running.held.n_tokens);
        let n_held = first + n;
        let is_last = n_held == ids.len();
        let logprobs = self.wanted().map_or_else(Vec::new, |n_top| {
            let next = ids[first + 1..].iter().zip(rows);
            let known = next.map(|(&id, row)| log_probabilities(row, id, n_top));
            known.collect()
        });
        if let Some(watch) = self.watch().filter(|_| rows.len() == n) {
            watch.look(first, rows);
        }
        let last = rows.last().filter(|_| is_last);
        Read {
            n_held,
            logprobs,
            logits: last.map(|row| row.to_vec()),
        }
    }
}

/// Reads the next tokens of the first prompts in one pass, at most `room` of them. Returns what was read of each, and how many
/// tokens.
///
/// # Errors
/// What the device reports.
pub(super) fn read(
    readings: &[Reading<'_>],
    model: &CausalLm,
    slots: &Slots,
    room: usize,
) -> Result<(Vec<Read>, usize)> {
    let (mut n_tokens, mut numbers) = (0, Vec::new());
    let (mut pieces, mut rows) = (Vec::new(), Vec::new());
    for reading in readings {
        let n = reading.n_left().min(room - n_tokens);
        if n == 0 {
            break;
        }
        let Held {
            pages,
            n_tokens: held,
            ..
        } = &reading.running.held;
        let ids = &reading.running.sequence.ids[*held..][..n];
        pieces.push(Piece {
            ids,
            held: *held,
            pages,
        });
        let n_rows = match (reading.wants_all(n), n == reading.n_left()) {
            (true, _) => n,
            (false, true) => 1,
            (false, false) => 0,
        };
        n_tokens += n;
        numbers.extend((n_tokens - n_rows..n_tokens).map(|row| row as u32));
        rows.push((n, n_rows));
    }
    // A pass has logits, though nobody may want them.
    let is_wanted = !numbers.is_empty();
    if !is_wanted {
        numbers.push(0);
    }
    let logits = slots.read(model, &pieces, &numbers)?;
    let logits = match is_wanted {
        true => logits.to_vec::<f32>()?,
        false => Vec::new(),
    };
    let mut logits = logits.chunks(model.vocabulary());
    let read = readings.iter().zip(rows).map(|(reading, (n, n_rows))| {
        let rows: Vec<&[f32]> = logits.by_ref().take(n_rows).collect();
        reading.read(n, &rows)
    });
    Ok((read.collect(), n_tokens))
}
