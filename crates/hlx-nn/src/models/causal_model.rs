//! What causal language models have in common.

use hlx_autograd::Tensor;

use crate::{CacheStep, CausalInput, KvCache, Mode, Module, PagePool, Result};

/// A model of the next token: the logits of a position depend on the tokens up to it alone.
///
/// ```
/// use hlx_autograd::{Tensor, no_grad};
/// use hlx_core::Device;
/// use hlx_nn::{CausalConfig, CausalInput, CausalLm, CausalModel, Mode, Model};
///
/// let device = Device::open("cpu")?;
/// let mut config = CausalConfig::preset("llama3").expect("a preset");
/// (config.vocabulary, config.width, config.n_layers) = (256, 32, 1);
/// (config.n_heads, config.n_kv_heads, config.head_width) = (4, 2, 8);
/// (config.feed_forward_width, config.max_positions) = (64, 16);
/// let model = Model::new(&device, 42, |b| CausalLm::new(b, &config))?;
///
/// // All at once, and token by token with a cache: the same bits.
/// let ids = Tensor::from_slice::<u32>(&device, &[7, 8, 9], &[1, 3])?;
/// let all = model.logits(&CausalInput::new(&ids), &Mode::eval())?;
/// no_grad(|| {
///     let mut cache = model.cache(&device, 1, 16)?;
///     for (at, id) in [7, 8, 9].into_iter().enumerate() {
///         let one = Tensor::from_slice::<u32>(&device, &[id], &[1, 1])?;
///         let logits = model.logits_cached(&one, &[1], None, &mut cache)?;
///         assert_eq!(logits.to_vec::<f32>()?, all.select(1, at)?.to_vec::<f32>()?);
///     }
///     Ok::<(), hlx_nn::NnError>(())
/// })?;
/// # Ok::<(), hlx_nn::NnError>(())
/// ```
pub trait CausalModel: Module {
    /// The number of token ids, V.
    fn vocabulary(&self) -> usize;

    /// The longest sequence.
    fn max_positions(&self) -> usize;

    /// Computes the logits, \[B, T, V\], or \[n, V\] of `rows`. [`Module::forward`] is this with
    /// [`CausalInput::new`].
    ///
    /// # Errors
    /// [`NnError::Shape`](crate::NnError::Shape) for ids of another shape or more positions than the
    /// model has.
    fn logits(&self, input: &CausalInput<'_>, mode: &Mode) -> Result<Tensor>;

    /// As [`CausalModel::logits`], and of a mixture of experts the balance loss of each shard that the
    /// mode says the pass holds, \[shards\]: for the S tokens of a shard over all layers with E experts,
    /// E times the sum over the experts of the share of their choices and their mean score, as
    /// `load_balancing_loss_func` of Hugging Face's `transformers`. Training adds their mean over the shards
    /// of the whole batch, times a coefficient
    /// ([`ExpertsConfig::balance_coefficient`](crate::ExpertsConfig::balance_coefficient)), to the loss. What is behind a row's
    /// [`lengths`](CausalInput::lengths) does not count, and how much there is of it changes no bit.
    ///
    /// # Errors
    /// As [`CausalModel::logits`], and [`NnError::MicroBatches`](crate::NnError::MicroBatches) for a pass
    /// that holds but a part of a shard.
    fn logits_and_balance(
        &self,
        input: &CausalInput<'_>,
        mode: &Mode,
    ) -> Result<(Tensor, Option<Tensor>)> {
        Ok((self.logits(input, mode)?, None))
    }

    /// Makes an empty cache of the keys and values of `batch` sequences of at most `capacity` tokens.
    ///
    /// # Errors
    /// What the device reports.
    fn cache(&self, device: &hlx_core::Device, batch: usize, capacity: usize) -> Result<KvCache> {
        KvCache::new([batch, capacity], |n_pages| self.page_pool(device, n_pages))
    }

    /// Makes a pool of pages for the keys and values of any sequences.
    ///
    /// # Errors
    /// What the device reports.
    fn page_pool(&self, device: &hlx_core::Device, n_pages: usize) -> Result<PagePool>;

    /// Appends tokens to the sequences of a cache and computes their logits, as evaluation: the
    /// bits that [`CausalModel::logits`] has for these places of the whole sequences. Of row b of the ids
    /// \[B, T\] the first `new[b]` tokens count, and the rest is padding. Call it within
    /// [`no_grad`](hlx_autograd::no_grad). `rows` as in [`CausalInput`].
    ///
    /// # Errors
    /// As [`CausalModel::logits`], and [`NnError::Cache`](crate::NnError::Cache) for more tokens than
    /// the cache or the model has places for.
    fn logits_cached(
        &self,
        ids: &Tensor,
        new: &[usize],
        rows: Option<&Tensor>,
        cache: &mut KvCache,
    ) -> Result<Tensor> {
        let step = cache.step(ids, new, self.max_positions())?;
        self.logits_of_step(ids, rows, step)
    }

    /// Computes the logits of a pass that appends to a cache: what [`CausalModel::logits_cached`] and
    /// [`TokenStep`](crate::TokenStep) launch.
    ///
    /// # Errors
    /// What the device reports.
    fn logits_of_step(
        &self,
        ids: &Tensor,
        rows: Option<&Tensor>,
        step: CacheStep<'_>,
    ) -> Result<Tensor>;
}

impl<M: CausalModel + ?Sized> CausalModel for Box<M> {
    fn vocabulary(&self) -> usize {
        (**self).vocabulary()
    }

    fn max_positions(&self) -> usize {
        (**self).max_positions()
    }

    fn logits(&self, input: &CausalInput<'_>, mode: &Mode) -> Result<Tensor> {
        (**self).logits(input, mode)
    }

    fn logits_and_balance(
        &self,
        input: &CausalInput<'_>,
        mode: &Mode,
    ) -> Result<(Tensor, Option<Tensor>)> {
        (**self).logits_and_balance(input, mode)
    }

    fn page_pool(&self, device: &hlx_core::Device, n_pages: usize) -> Result<PagePool> {
        (**self).page_pool(device, n_pages)
    }

    fn logits_of_step(
        &self,
        ids: &Tensor,
        rows: Option<&Tensor>,
        step: CacheStep<'_>,
    ) -> Result<Tensor> {
        (**self).logits_of_step(ids, rows, step)
    }
}
