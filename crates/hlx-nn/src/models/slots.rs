//! Sequences that come and go while others grow: places of one cache, and steps over its first places.

use hlx_autograd::{DType, Tensor};
use hlx_core::Device;

use super::causal_model::CausalModel;
use super::token_step::Recorded;
use crate::Result;
use crate::decoder::KvCache;
use crate::decoder::cache::refused;

/// A cache of sequences in numbered places that are filled and freed one by one. A step appends a token to those
/// sequences that have one, and leaves the others as they are. No bit of a sequence depends on what is in other places,
/// on its own place or on how many there are.
///
/// A step computes the first 1, 2, 4, 8, .. places, as few as hold its tokens, and is recorded once for each of these
/// numbers; a cache of the `integer` arithmetic computes all of them.
///
/// ```
/// use hlx_autograd::{Tensor, no_grad};
/// use hlx_core::Device;
/// use hlx_nn::{CausalConfig, CausalLm, CausalModel, Model, Slots};
///
/// let device = Device::open("cpu")?;
/// let mut config = CausalConfig::preset("llama3").expect("a preset");
/// (config.vocabulary, config.width, config.n_layers) = (256, 32, 1);
/// (config.n_heads, config.n_kv_heads, config.head_width) = (4, 2, 8);
/// (config.feed_forward_width, config.max_positions) = (64, 16);
/// let model = Model::new(&device, 42, |b| CausalLm::new(b, &config))?;
///
/// let mut slots = Slots::new(&*model, &device, 4, 16)?;
/// let mut prompt = model.cache(&device, 1, 16)?;
/// let ids = Tensor::from_slice::<u32>(&device, &[7, 8], &[1, 2])?;
/// no_grad(|| model.logits_cached(&ids, &[2], None, &mut prompt))?;
/// slots.fill(2, &prompt)?;
/// let logits = slots.logits(&*model, &[None, None, Some(9)])?;
/// assert_eq!((logits.shape(), slots.lengths()), (&[4, 256][..], &[0, 0, 3, 0][..]));
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub struct Slots {
    device: Device,
    cache: KvCache,
    steps: Vec<Recorded>,
}

impl Slots {
    /// Allocates the memory of `n` places for sequences of at most `capacity` tokens.
    ///
    /// # Errors
    /// No place at all, and what the device reports.
    pub fn new(
        model: &dyn CausalModel,
        device: &Device,
        n: usize,
        capacity: usize,
    ) -> Result<Self> {
        if n == 0 || capacity == 0 {
            return Err(refused(format!("{n} places of {capacity} tokens")));
        }
        Ok(Self {
            device: device.clone(),
            cache: model.cache(device, n, capacity)?,
            steps: Vec::new(),
        })
    }

    /// The tokens of the sequence in each place.
    pub fn lengths(&self) -> &[usize] {
        self.cache.lengths()
    }

    /// The tokens that a sequence can have.
    pub fn capacity(&self) -> usize {
        self.cache.capacity()
    }

    /// Puts the only sequence of a cache of the same capacity in a place.
    ///
    /// # Errors
    /// [`NnError::Cache`](crate::NnError::Cache) for a place that there is not, and a cache of another kind.
    pub fn fill(&mut self, place: usize, from: &KvCache) -> Result<()> {
        let n_tokens = from.lengths().iter().sum();
        self.cache.copy_sequence(place, (from, 0), n_tokens)
    }

    /// Copies the first tokens of the sequence in a place to a cache of one sequence, which holds nothing else then.
    ///
    /// # Errors
    /// As [`Slots::fill`], and more tokens than there are.
    pub fn copy_to(&self, to: &mut KvCache, place: usize, n_tokens: usize) -> Result<()> {
        to.copy_sequence(0, (&self.cache, place), n_tokens)
    }

    /// Forgets the sequence of a place.
    ///
    /// # Errors
    /// [`NnError::Cache`](crate::NnError::Cache) for a place that there is not.
    pub fn free(&mut self, place: usize) -> Result<()> {
        self.check(place + 1)?;
        self.cache.set_length(place, 0);
        Ok(())
    }

    /// Appends `ids[p]` to the sequence in place p, where there is a token, and returns the logits behind it:
    /// \[n, V\] of the first n places, at least as many as `ids`. Rows of places without a token mean nothing. The next
    /// step overwrites them.
    ///
    /// # Errors
    /// [`NnError::Cache`](crate::NnError::Cache) for more tokens than there are places, and where a sequence has no room;
    /// nothing is appended then.
    pub fn logits(&mut self, model: &dyn CausalModel, ids: &[Option<u32>]) -> Result<Tensor> {
        self.step(model, ids, false)
    }

    /// As [`Slots::logits`], but returns the [likeliest](super::likeliest) tokens alone, ids \[n\].
    ///
    /// # Errors
    /// As [`Slots::logits`].
    pub fn likeliest(&mut self, model: &dyn CausalModel, ids: &[Option<u32>]) -> Result<Tensor> {
        self.step(model, ids, true)
    }

    /// The number of steps that are recorded.
    pub fn n_recorded(&self) -> usize {
        self.steps.len()
    }

    fn check(&self, n: usize) -> Result<()> {
        let n_places = self.lengths().len();
        match n <= n_places {
            true => Ok(()),
            false => Err(refused(format!("{n} places, and there are {n_places}"))),
        }
    }

    fn step(
        &mut self,
        model: &dyn CausalModel,
        ids: &[Option<u32>],
        is_likeliest: bool,
    ) -> Result<Tensor> {
        self.check(ids.len())?;
        if ids.iter().all(Option::is_none) {
            let words = match is_likeliest {
                true => Tensor::full(&self.device, &[0], 0.0, DType::U32)?,
                false => Tensor::full(&self.device, &[0, model.vocabulary()], 0.0, DType::F32)?,
            };
            return Ok(words);
        }
        let limit = self.capacity();
        for (place, (id, &held)) in ids.iter().zip(self.lengths()).enumerate() {
            if id.is_some() && held >= limit {
                let reason =
                    format!("the sequence in place {place} has {held} tokens, room is for {limit}");
                return Err(refused(reason));
            }
        }
        let at = self.recorded(model, ids.len(), is_likeliest)?;
        let step = &self.steps[at];
        let n_rows = step.batch();
        let all = ids.iter().copied().chain(std::iter::repeat(None));
        let all: Vec<Option<u32>> = all.take(n_rows).collect();
        // A place without a token is given one behind what it holds, which isn't counted; a full one loses its last.
        for (place, id) in all.iter().enumerate() {
            if id.is_none() && self.cache.lengths()[place] >= limit {
                self.cache.set_length(place, limit - 1);
            }
        }
        let words: Vec<u32> = all.iter().map(|id| id.unwrap_or(0)).collect();
        let result = step.run(&self.device, &words, &self.cache.lengths()[..n_rows])?;
        for (place, id) in all.iter().enumerate() {
            let held = self.cache.lengths()[place];
            self.cache
                .set_length(place, held + usize::from(id.is_some()));
        }
        Ok(result)
    }

    /// The number of the recorded step over as few places as hold `n`; records it where there is none.
    fn recorded(&mut self, model: &dyn CausalModel, n: usize, is_likeliest: bool) -> Result<usize> {
        let n_places = self.lengths().len();
        let n_rows = n.next_power_of_two().min(n_places);
        let front = self.cache.front(n_rows)?;
        let n_rows = if front.is_some() { n_rows } else { n_places };
        let mut steps = self.steps.iter();
        let known =
            steps.position(|step| step.batch() == n_rows && step.is_likeliest == is_likeliest);
        if let Some(known) = known {
            return Ok(known);
        }
        let cache = front.as_ref().unwrap_or(&self.cache);
        let Some((device, memory)) = cache.memory() else {
            return Err(refused("the cache has no layers".to_owned()));
        };
        let step = Recorded::new(model, cache, &memory, is_likeliest, &device)?;
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }
}

impl std::fmt::Debug for Slots {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lengths = self.lengths();
        write!(out, "Slots({lengths:?}, {} steps)", self.steps.len())
    }
}
