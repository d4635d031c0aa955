//! What an operation keeps of an input for its backward pass: the values, or how to compute them
//! again.

use std::sync::Arc;

use hlx_core::{Buffer, Context, last_moment};

use crate::backward::watch;
use crate::{AutogradError, Result, Tensor};

/// Computes values again, with the launches that computed them first, and so to the same bits.
pub(crate) type Recipe = Arc<dyn Fn() -> Result<Buffer> + Send + Sync>;

/// Values for a backward pass.
#[derive(Clone)]
pub(crate) enum Saved {
    Kept(Kept),
    Again(Recipe),
}

/// Values that stay in memory, and since when nobody may have changed them.
#[derive(Clone)]
pub(crate) struct Kept {
    buffer: Buffer,
    moment: u64,
    /// What errors call the tensor.
    tensor: String,
}

impl Saved {
    /// The values of a tensor: as they lie, or by a recipe where that saves much memory.
    pub fn of(tensor: &Tensor, recipe: Option<&Recipe>) -> Result<Self> {
        let buffer = tensor.buffer()?;
        let again = Self::again(tensor.context(), &buffer, recipe);
        Ok(again.unwrap_or_else(|| Self::kept(buffer, tensor.described())))
    }

    /// Values in a buffer that no tensor has.
    pub fn own(ctx: &Context, buffer: &Buffer, recipe: &Recipe) -> Self {
        let again = Self::again(ctx, buffer, Some(recipe));
        again.unwrap_or_else(|| Self::kept(buffer.clone(), "(none)".to_owned()))
    }

    /// Values that stay in memory, of the tensor that errors call so.
    pub fn kept(buffer: Buffer, tensor: String) -> Self {
        let moment = last_moment();
        Self::Kept(Kept {
            buffer,
            moment,
            tensor,
        })
    }

    fn again(ctx: &Context, buffer: &Buffer, recipe: Option<&Recipe>) -> Option<Self> {
        // Only there is a buffer's memory free after its last launch, whoever holds it.
        let frees = ctx.plans_memory() && buffer.len() >= ctx.tuning().recompute_from;
        let recipe = recipe.filter(|_| frees)?;
        Some(Self::Again(Arc::clone(recipe)))
    }

    /// Returns the values.
    ///
    /// # Errors
    /// [`AutogradError::Changed`] if they were changed in place after they were saved, and what the
    /// device reports.
    pub fn values(&self) -> Result<Buffer> {
        match self {
            Self::Kept(kept) => {
                let all = 0..kept.buffer.len();
                if kept.buffer.changed_after(kept.moment, all) {
                    let (op, tensor) = (watch::operation(), kept.tensor.clone());
                    return Err(AutogradError::Changed { op, tensor });
                }
                Ok(kept.buffer.clone())
            }
            Self::Again(recipe) => recipe(),
        }
    }
}
