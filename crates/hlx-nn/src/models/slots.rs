//! Sequences that come and go while others grow: their tokens in the pages of a pool, and steps that append to some of them.

use hlx_autograd::{DType, Tensor};
use hlx_core::{ALIGNMENT_WORDS, Buffer, Device};

use super::causal_model::CausalModel;
use super::token_step::Recorded;
use crate::decoder::cache_step::{CacheStep, Group};
use crate::decoder::pool::{PagePool, refused};
use crate::{NnError, Result};

/// A pool of pages, and passes that append tokens to sequences in it. Which pages a sequence has says the caller: several
/// may have the same ones, as far as they are full. No bit of a sequence depends on which pages it has, on the other
/// sequences of a pass or on how many there are.
///
/// A step appends one token to each of some sequences. It computes the first 1, 2, 4, 8, .. places, as few as hold its
/// sequences, and is recorded once for each of these numbers.
///
/// ```
/// use hlx_autograd::no_grad;
/// use hlx_core::Device;
/// use hlx_nn::{CausalConfig, CausalLm, Model, Piece, Slots};
///
/// let device = Device::open("cpu")?;
/// let mut config = CausalConfig::preset("llama3").expect("a preset");
/// (config.vocabulary, config.width, config.n_layers) = (256, 32, 1);
/// (config.n_heads, config.n_kv_heads, config.head_width) = (4, 2, 8);
/// (config.feed_forward_width, config.max_positions) = (64, 16);
/// let model = Model::new(&device, 42, |b| CausalLm::new(b, &config))?;
///
/// // Four places for sequences of at most 16 tokens, and seven pages.
/// let mut slots = Slots::new(&*model, &device, [4, 16], 7)?;
/// let prompt = Piece { ids: &[7, 8], held: 0, pages: &[3] };
/// let logits = no_grad(|| slots.read(&*model, &[prompt], &[1]))?;
/// assert_eq!(logits.shape(), [1, 256]);
/// let next = Piece { ids: &[9], held: 2, pages: &[3] };
/// let logits = slots.logits(&*model, &[None, None, Some(next)])?;
/// assert_eq!(logits.shape(), [4, 256]);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub struct Slots {
    device: Device,
    pool: PagePool,
    /// The pages of each place, words \[places, blocks\].
    table: Buffer,
    /// What the table holds.
    uploaded: Vec<u32>,
    n_places: usize,
    capacity: usize,
    steps: Vec<Recorded>,
}

/// Tokens that a pass appends to a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The tokens.
    pub ids: &'a [u32],
    /// The tokens that the sequence has before.
    pub held: usize,
    /// The sequence's pages, for [`PagePool::PAGE`] of its tokens each; those of the new tokens are no other's.
    pub pages: &'a [u32],
}

impl Piece<'_> {
    fn end(&self) -> usize {
        self.held + self.ids.len()
    }

    /// The pages of the tokens that it ends with.
    fn pages(&self) -> &[u32] {
        &self.pages[..PagePool::pages_of(self.end())]
    }
}

impl Slots {
    /// Allocates the memory of `n_pages` pages, and tables for steps of as many sequences as there are places, of at most
    /// `capacity` tokens each.
    ///
    /// # Errors
    /// No place, page or token at all, and what the device reports.
    pub fn new(
        model: &dyn CausalModel,
        device: &Device,
        [n_places, capacity]: [usize; 2],
        n_pages: usize,
    ) -> Result<Self> {
        if n_places == 0 || capacity == 0 || n_pages == 0 {
            return Err(refused(format!(
                "{n_places} places of {capacity} tokens in {n_pages} pages"
            )));
        }
        let blocks = PagePool::pages_of(capacity);
        // Any page will do for blocks that a sequence does not have.
        let table = device.alloc_shape_typed(DType::U32, &[n_places, blocks])?;
        device.fill(&table, 0)?;
        Ok(Self {
            device: device.clone(),
            pool: model.page_pool(device, n_pages)?,
            table,
            uploaded: vec![0; n_places * blocks],
            n_places,
            capacity,
            steps: Vec::new(),
        })
    }

    /// The number of places.
    pub fn n_places(&self) -> usize {
        self.n_places
    }

    /// The tokens that a sequence can have.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The number of pages.
    pub fn n_pages(&self) -> usize {
        self.pool.n_pages()
    }

    /// Appends the token of `tokens[p]` to its sequence, where there is one, and returns the logits behind it: \[n, V\] of
    /// the first n places, at least as many as `tokens`. Rows of places without a token mean nothing. The next step
    /// overwrites them.
    ///
    /// # Errors
    /// [`NnError::Cache`] for more tokens than there are places, for several tokens of one sequence, for pages that there
    /// are not or that do not suffice, and where a sequence has no room; nothing is appended then.
    pub fn logits(
        &mut self,
        model: &dyn CausalModel,
        tokens: &[Option<Piece<'_>>],
    ) -> Result<Tensor> {
        self.step(model, tokens, false)
    }

    /// As [`Slots::logits`], but returns the [likeliest](super::likeliest) tokens alone, ids \[n\].
    ///
    /// # Errors
    /// As [`Slots::logits`].
    pub fn likeliest(
        &mut self,
        model: &dyn CausalModel,
        tokens: &[Option<Piece<'_>>],
    ) -> Result<Tensor> {
        self.step(model, tokens, true)
    }

    /// Appends the tokens of all pieces, of one sequence each, in one pass, and returns the logits behind those whose
    /// numbers are given, which count the tokens of all pieces in order: \[numbers, V\].
    ///
    /// # Errors
    /// As [`Slots::logits`], for no piece, a piece without tokens, and a number that there is not.
    pub fn read(
        &self,
        model: &dyn CausalModel,
        pieces: &[Piece<'_>],
        numbers: &[u32],
    ) -> Result<Tensor> {
        for piece in pieces {
            self.check(piece)?;
        }
        let n: usize = pieces.iter().map(|piece| piece.ids.len()).sum();
        if pieces.is_empty() || numbers.iter().any(|&number| number as usize >= n) {
            return Err(refused(format!(
                "the logits of the tokens {numbers:?} of {n} of {} pieces",
                pieces.len()
            )));
        }
        let ids: Vec<u32> = pieces.iter().flat_map(|piece| piece.ids).copied().collect();
        let positions = pieces.iter().flat_map(|piece| piece.held..piece.end());
        let positions: Vec<u32> = positions.map(|position| position as u32).collect();
        let ids = Tensor::from_slice::<u32>(&self.device, &ids, &[1, n])?.with_samples(0)?;
        let positions = Tensor::from_slice::<u32>(&self.device, &positions, &[1, n])?;
        let rows = Tensor::from_slice::<u32>(&self.device, numbers, &[numbers.len()])?;
        let step = CacheStep::new(&self.pool, positions, self.groups(pieces)?);
        model.logits_of_step(&ids, Some(&rows), step)
    }

    /// The number of steps that are recorded.
    pub fn n_recorded(&self) -> usize {
        self.steps.len()
    }

    fn check(&self, piece: &Piece<'_>) -> Result<()> {
        let (n, end, limit) = (piece.ids.len(), piece.end(), self.capacity);
        if n == 0 || end > limit {
            let held = piece.held;
            return Err(refused(format!(
                "{n} tokens behind {held} of a sequence, room is for {limit}"
            )));
        }
        let (needed, found) = (PagePool::pages_of(end), piece.pages.len());
        if found < needed {
            return Err(refused(format!(
                "{end} tokens of a sequence need {needed} pages, and it has {found}"
            )));
        }
        let n_pages = self.n_pages();
        match piece.pages.iter().find(|&&page| page as usize >= n_pages) {
            Some(page) => Err(refused(format!("page {page} of {n_pages}"))),
            None => Ok(()),
        }
    }

    /// A group for neighbouring pieces of as many tokens, whose words are one upload.
    fn groups(&self, pieces: &[Piece<'_>]) -> Result<Vec<Group>> {
        let mut words: Vec<u32> = Vec::new();
        let mut part = |part: &mut dyn Iterator<Item = u32>| {
            let first = words.len().next_multiple_of(ALIGNMENT_WORDS);
            words.resize(first, 0);
            words.extend(part);
            [first, words.len() - first]
        };
        let alike = pieces.chunk_by(|one, next| one.ids.len() == next.ids.len());
        let parts = alike.map(|pieces| {
            let held = part(&mut pieces.iter().map(|piece| piece.held as u32));
            let ends = part(&mut pieces.iter().map(|piece| piece.end() as u32));
            let blocks = pieces.iter().map(|piece| piece.pages().len()).max();
            let table = part(&mut pieces.iter().flat_map(|piece| {
                // Any page will do for blocks that a sequence does not have.
                let pages = piece.pages().iter().copied().chain(std::iter::repeat(0));
                pages.take(blocks.unwrap_or(0))
            }));
            (pieces[0].ids.len(), [held, ends, table])
        });
        let parts: Vec<_> = parts.collect();
        let words = Tensor::from_slice::<u32>(&self.device, &words, &[words.len()])?.buffer()?;
        let groups = parts.into_iter().map(|(time, parts)| {
            let [held, ends, table] = parts.map(|[first, n]| words.slice(first, n));
            let numbers = |words: Buffer| {
                let n = words.len();
                Tensor::from_buffer(&self.device, words, &[n])
            };
            Ok(Group::new(table?, time, numbers(held?)?, numbers(ends?)?))
        });
        groups.collect()
    }

    fn step(
        &mut self,
        model: &dyn CausalModel,
        tokens: &[Option<Piece<'_>>],
        is_likeliest: bool,
    ) -> Result<Tensor> {
        let (n, n_places) = (tokens.len(), self.n_places);
        if n > n_places {
            return Err(refused(format!("{n} places, and there are {n_places}")));
        }
        for piece in tokens.iter().flatten() {
            self.check(piece)?;
            if let [_, _, ..] = piece.ids {
                let n = piece.ids.len();
                return Err(refused(format!("{n} tokens of a sequence in a step")));
            }
        }
        if tokens.iter().all(Option::is_none) {
            let words = match is_likeliest {
                true => Tensor::full(&self.device, &[0], 0.0, DType::U32)?,
                false => Tensor::full(&self.device, &[0, model.vocabulary()], 0.0, DType::F32)?,
            };
            return Ok(words);
        }
        self.upload_pages(tokens)?;
        let at = self.recorded(model, n, is_likeliest)?;
        let rows = tokens.iter().map(|piece| match piece {
            Some(piece) => (piece.ids[0], piece.held as u32, piece.end() as u32),
            // A place without a token is an empty sequence, whose token is padding.
            None => (0, 0, 0),
        });
        self.steps[at].run(&self.device, rows)
    }

    /// Writes the pages that have changed into the table.
    fn upload_pages(&mut self, tokens: &[Option<Piece<'_>>]) -> Result<()> {
        let blocks = self.uploaded.len() / self.n_places;
        let mut changed: Option<[usize; 2]> = None;
        for (place, piece) in tokens.iter().enumerate() {
            let pages = piece.as_ref().map_or(&[][..], Piece::pages);
            let known = &mut self.uploaded[place * blocks..][..pages.len()];
            if known != pages {
                known.copy_from_slice(pages);
                let end = place * blocks + pages.len();
                changed = Some([changed.map_or(place, |[first, _]| first), end]);
            }
        }
        let Some([first_place, end]) = changed else {
            return Ok(());
        };
        let first = first_place * blocks / ALIGNMENT_WORDS * ALIGNMENT_WORDS;
        let part = self.table.slice(first, end - first)?;
        Ok(self
            .device
            .upload_words(&part, &self.uploaded[first..end])?)
    }

    /// The number of the recorded step over as few places as hold `n`; records it where there is none.
    fn recorded(&mut self, model: &dyn CausalModel, n: usize, is_likeliest: bool) -> Result<usize> {
        let n_rows = n.next_power_of_two().min(self.n_places);
        let mut steps = self.steps.iter();
        let known =
            steps.position(|step| step.batch() == n_rows && step.is_likeliest == is_likeliest);
        if let Some(known) = known {
            return Ok(known);
        }
        let Some((_, memory)) = self.pool.memory() else {
            return Err(refused("the cache has no layers".to_owned()));
        };
        let (pool, blocks) = (&self.pool, self.uploaded.len() / self.n_places);
        let table = self.table.slice(0, n_rows * blocks)?;
        let step = |first: Tensor, lengths| {
            let positions = first.reshape(&[n_rows, 1])?;
            let group = Group::new(table, 1, first, lengths);
            Ok::<_, NnError>(CacheStep::new(pool, positions, vec![group]))
        };
        let step = Recorded::new(model, n_rows, step, &memory, is_likeliest, &self.device)?;
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (n_places, n_pages, n_steps) = (self.n_places, self.n_pages(), self.steps.len());
        write!(
            out,
            "Slots({n_places} places, {n_pages} pages, {n_steps} steps)"
        )
    }
}
