//! What all layers of one pass read beside the residual stream.

use hlx_autograd::{DType, Tensor};
use hlx_core::Device;

use super::cache_step::CacheStep;
use super::input::{CausalInput, shape_of, unfitting};
use crate::{Mode, Result};

/// The positions and documents of a pass, and the cache that it appends to.
pub(crate) struct Pass<'a> {
    pub mode: &'a Mode,
    positions: Places,
    documents: Option<Tensor>,
    cache: Option<CacheStep<'a>>,
    /// The softmax of each layer's router, \[B, T, E\], where the balance loss is wanted.
    scores: Option<Vec<Tensor>>,
}

/// The position of each token.
#[derive(Clone)]
enum Places {
    /// Ids \[B, T\].
    Given(Tensor),
    /// 0, 1, .. in each of B sequences of T tokens: made where a layer reads them.
    Counted(Device, [usize; 2]),
}

impl<'a> Pass<'a> {
    /// Over what is no model's, \[B, T, C\]: whole sequences of one document each.
    pub fn of_sequences(x: &Tensor, mode: &'a Mode) -> Result<Self> {
        let &[batch, time, _] = x.shape() else {
            return Err(unfitting("x", x, "[batch, time, width]".to_owned()));
        };
        Ok(Self {
            mode,
            positions: Places::Counted(x.device().clone(), [batch, time]),
            documents: None,
            cache: None,
            scores: None,
        })
    }

    /// Over whole sequences; `counted` holds the ids 0, 1, .. of all positions of the model.
    pub fn of_input(input: &CausalInput<'_>, mode: &'a Mode, counted: &Tensor) -> Result<Self> {
        let limit = counted.n_elements();
        let (batch, time) = shape_of(input.ids, limit)?;
        for (argument, ids) in [
            ("documents", input.documents),
            ("positions", input.positions),
        ] {
            if let Some(ids) = ids.filter(|ids| ids.shape() != [batch, time]) {
                return Err(unfitting(argument, ids, format!("[{batch}, {time}]")));
            }
        }
        let counted = counted.narrow(0, 0, time)?.expand(&[batch, time])?;
        let positions = match (input.positions, input.documents) {
            (Some(positions), _) => positions.clone(),
            (None, Some(documents)) => counted.sub(documents)?,
            // Each layer's rotary positions read them, which takes them one behind the other.
            (None, None) => counted.contiguous()?,
        };
        Ok(Self {
            mode,
            positions: Places::Given(positions.with_samples(0)?),
            documents: input.documents.cloned(),
            cache: None,
            scores: None,
        })
    }

    /// Over the tokens that a cache is given.
    pub fn of_cache(step: CacheStep<'a>, mode: &'a Mode) -> Self {
        Self {
            mode,
            positions: Places::Given(step.positions.clone()),
            documents: None,
            cache: Some(step),
            scores: None,
        }
    }

    /// The position of each token, ids \[B, T\].
    pub fn positions(&self) -> Result<Tensor> {
        match &self.positions {
            Places::Given(positions) => Ok(positions.clone()),
            Places::Counted(device, [batch, time]) => {
                let counted = Tensor::arange(device, 0, *time as u32, 1)?.to_dtype(DType::U32)?;
                let counted = counted.expand(&[*batch, *time])?.contiguous()?;
                Ok(counted.with_samples(0)?)
            }
        }
    }

    /// Keeps the routers' scores.
    pub fn keeping_scores(self) -> Self {
        Self {
            scores: Some(Vec::new()),
            ..self
        }
    }

    /// Takes a router's scores, if they are wanted.
    pub fn note_scores(&mut self, scores: Tensor) {
        if let Some(all) = &mut self.scores {
            all.push(scores);
        }
    }

    /// The scores that were taken.
    pub fn scores(&self) -> &[Tensor] {
        self.scores.as_deref().unwrap_or_default()
    }

    /// Applies a block to the residual stream; where the mode says so
    /// ([`Mode::with_recomputation`]), the backward pass computes it again.
    pub fn block<B: Clone + Send + 'static>(
        &mut self,
        block: &B,
        x: &Tensor,
        forward: impl Fn(&B, &Tensor, &mut Pass<'_>) -> Result<Tensor> + Send + 'static,
    ) -> Result<Tensor> {
        let Some(recompute) = self.mode.recompute() else {
            return forward(block, x, self);
        };
        let (block, mode) = (block.clone(), self.mode.clone());
        let (positions, documents) = (self.positions.clone(), self.documents.clone());
        let keeps_scores = self.scores.is_some();
        // What is recomputed is one tensor: the router's scores come behind the stream.
        let joined = x.checkpoint_with(recompute, move |x| -> Result<Tensor> {
            let mut pass = Pass {
                mode: &mode,
                positions: positions.clone(),
                documents: documents.clone(),
                cache: None,
                scores: keeps_scores.then(Vec::new),
            };
            let y = forward(&block, x, &mut pass)?;
            match pass.scores() {
                [scores, ..] => Ok(Tensor::cat(&[&y, scores], -1)?),
                [] => Ok(y),
            }
        })?;
        let last = x.rank() - 1;
        let (width, all) = (x.shape()[last], joined.shape()[last]);
        if all == width {
            return Ok(joined);
        }
        self.note_scores(joined.narrow(-1, width, all - width)?);
        Ok(joined.narrow(-1, 0, width)?.contiguous()?)
    }

    /// The cache that the pass appends to.
    pub fn cache(&self) -> Option<&CacheStep<'a>> {
        self.cache.as_ref()
    }

    /// The documents of whole sequences.
    pub fn documents(&self) -> Option<&Tensor> {
        self.documents.as_ref()
    }
}
