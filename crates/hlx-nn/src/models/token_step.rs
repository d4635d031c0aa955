//! A step of generation that is recorded once.

use hlx_autograd::{DType, Tensor, no_grad};
use hlx_core::{ALIGNMENT_WORDS, Buffer, Device, Graph};

use super::causal_model::CausalModel;
use crate::Result;
use crate::decoder::pool::refused;
use crate::decoder::{CacheStep, KvCache};

/// The likeliest token of each row of logits \[n, V\], ids \[n\]: the place of the largest, of equal ones the
/// first, as a search from the first on finds it. A row with a NaN has no likeliest token, and an id of V or
/// above.
///
/// ```
/// use hlx_autograd::Tensor;
/// use hlx_core::Device;
///
/// let device = Device::open("cpu")?;
/// let logits = Tensor::from_slice(&device, &[1.0, 3.0, 3.0, f32::NAN, 2.0, 1.0], &[2, 3])?;
/// let ids = hlx_nn::likeliest(&logits)?.to_vec::<u32>()?;
/// assert_eq!((ids[0], ids[1] >= 3), (1, true));
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
///
/// # Errors
/// No logits, and what the device reports.
pub fn likeliest(logits: &Tensor) -> Result<Tensor> {
    let (largest, places) = logits.detach().max_dim(-1, false)?;
    let vocabulary = logits.shape().last().copied().unwrap_or(0);
    // A vocabulary is far below 2^24: the number is exact.
    let vocabulary = Tensor::full(logits.device(), &[], vocabulary as f32, DType::U32)?;
    let behind = largest.isnan()?.to_dtype(DType::U32)?.mul(&vocabulary)?;
    Ok(places.add(&behind)?)
}

/// Appends one token to each sequence of a cache and computes the logits of the next one, with the bits of
/// [`CausalModel::logits_cached`]. The launches are recorded for the first token and replayed for those after
/// it: where tokens go is read on the device, so that one recording serves every length up to the cache's
/// capacity. A cache of other sequences ([`KvCache::retain`]), and another result, is recorded anew.
///
/// ```
/// use hlx_autograd::{Tensor, no_grad};
/// use hlx_core::Device;
/// use hlx_nn::{CausalConfig, CausalLm, CausalModel, Model, TokenStep};
///
/// let device = Device::open("cpu")?;
/// let mut config = CausalConfig::preset("llama3").expect("a preset");
/// (config.vocabulary, config.width, config.n_layers) = (256, 32, 1);
/// (config.n_heads, config.n_kv_heads, config.head_width) = (4, 2, 8);
/// (config.feed_forward_width, config.max_positions) = (64, 16);
/// let model = Model::new(&device, 42, |b| CausalLm::new(b, &config))?;
///
/// let mut cache = model.cache(&device, 1, 16)?;
/// let mut step = TokenStep::new(&*model);
/// for id in [7, 8, 9] {
///     let logits = step.logits(&[id], &mut cache)?;
///     assert_eq!(logits.shape(), [1, 256]);
/// }
/// assert_eq!(cache.lengths(), [3]);
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub struct TokenStep<'m> {
    model: &'m dyn CausalModel,
    recorded: Option<Recorded>,
}

/// The launches of a step, and what is given to them.
pub(super) struct Recorded {
    graph: Graph,
    places: Places,
    /// Whether the result is the likeliest token.
    pub(super) is_likeliest: bool,
    /// Logits \[B, V\], or ids \[B\].
    result: Tensor,
    /// The memory of the cache that it appends to.
    cache: Buffer,
}

/// The words that a step reads, one upload: the tokens, and how many each sequence has before and after.
struct Places {
    words: Buffer,
    batch: usize,
}

impl Places {
    fn new(device: &Device, batch: usize) -> Result<Self> {
        let part = batch.next_multiple_of(ALIGNMENT_WORDS);
        let words = device.alloc_shape_typed(DType::U32, &[3, part])?;
        Ok(Self { words, batch })
    }

    /// The distance of two parts.
    fn part(&self) -> usize {
        self.words.len() / 3
    }

    fn ids(&self, device: &Device, part: usize, shape: &[usize]) -> Result<Tensor> {
        let words = self.words.slice(part * self.part(), self.batch)?;
        Ok(Tensor::from_buffer(device, words, shape)?)
    }

    /// Rows without words are empty sequences.
    fn upload(&self, device: &Device, rows: impl Iterator<Item = (u32, u32, u32)>) -> Result<()> {
        let mut words = vec![0; self.words.len()];
        for (row, (id, first, length)) in rows.enumerate() {
            words[row] = id;
            words[self.part() + row] = first;
            words[2 * self.part() + row] = length;
        }
        Ok(device.upload_words(&self.words, &words)?)
    }
}

impl Recorded {
    /// Records a step of `batch` sequences; `step` gets the ids \[batch\] of the tokens held before it and after it.
    pub(super) fn new<'c>(
        model: &dyn CausalModel,
        batch: usize,
        step: impl FnOnce(Tensor, Tensor) -> Result<CacheStep<'c>>,
        memory: &Buffer,
        is_likeliest: bool,
        device: &Device,
    ) -> Result<Self> {
        let places = Places::new(device, batch)?;
        let ids = places.ids(device, 0, &[batch, 1])?;
        let [first, lengths] = [
            places.ids(device, 1, &[batch])?,
            places.ids(device, 2, &[batch])?,
        ];
        let (graph, result) = no_grad(|| {
            device.record(|| {
                let step = step(first, lengths)?;
                let logits = model.logits_of_step(&ids, None, step)?.flatten(0, 1)?;
                match is_likeliest {
                    true => likeliest(&logits),
                    false => Ok(logits),
                }
            })
        })?;
        Ok(Self {
            graph,
            places,
            is_likeliest,
            result,
            cache: memory.clone(),
        })
    }

    /// The sequences of a step.
    pub(super) fn batch(&self) -> usize {
        self.places.batch
    }

    /// Appends a token to each sequence: `rows` are its id, and the tokens held before it and after it, which nobody
    /// checks or counts here.
    pub(super) fn run(
        &self,
        device: &Device,
        rows: impl Iterator<Item = (u32, u32, u32)>,
    ) -> Result<Tensor> {
        self.places.upload(device, rows)?;
        self.graph.replay()?;
        Ok(self.result.clone())
    }
}

impl<'m> TokenStep<'m> {
    /// A step of a model; nothing is recorded yet.
    pub fn new(model: &'m dyn CausalModel) -> Self {
        Self {
            model,
            recorded: None,
        }
    }

    /// The launches of a token; 0 before the first one.
    pub fn n_launches(&self) -> usize {
        self.recorded
            .as_ref()
            .map_or(0, |recorded| recorded.graph.len())
    }

    /// Appends `ids[b]` to sequence b of the cache and returns the logits behind it, \[B, V\]. They are
    /// overwritten by the next step.
    ///
    /// # Errors
    /// As [`CausalModel::logits_cached`].
    pub fn logits(&mut self, ids: &[u32], cache: &mut KvCache) -> Result<Tensor> {
        self.replay(ids, cache, false)
    }

    /// As [`TokenStep::logits`], but returns the [likeliest](likeliest) tokens alone, ids \[B\]: a word for
    /// each sequence is downloaded then, and not its logits.
    ///
    /// # Errors
    /// As [`CausalModel::logits_cached`].
    pub fn likeliest(&mut self, ids: &[u32], cache: &mut KvCache) -> Result<Tensor> {
        self.replay(ids, cache, true)
    }

    fn replay(&mut self, ids: &[u32], cache: &mut KvCache, is_likeliest: bool) -> Result<Tensor> {
        let Some((device, memory)) = cache.memory() else {
            return Err(refused("the cache has no layers".to_owned()));
        };
        let fits = |recorded: &Recorded| {
            recorded.cache.overlaps(&memory) && recorded.is_likeliest == is_likeliest
        };
        let recorded = match self.recorded.take().filter(fits) {
            Some(recorded) => recorded,
            None => {
                let (batch, cache) = (cache.lengths().len(), &*cache);
                let step = |first, lengths| cache.step_of(first, lengths);
                Recorded::new(self.model, batch, step, &memory, is_likeliest, &device)?
            }
        };
        let recorded = self.recorded.insert(recorded);
        let new = vec![1; ids.len()];
        let first = cache.advance(ids.len(), 1, &new, self.model.max_positions())?;
        let rows = ids.iter().zip(first);
        let rows = rows.map(|(&id, first)| (id, first as u32, first as u32 + 1));
        recorded.run(&device, rows)
    }
}
