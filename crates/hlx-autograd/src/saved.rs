//! What an operation keeps of an input for its backward pass: the values, or how to compute them
//! again.

use std::sync::Arc;

use hlx_core::{Buffer, Context};

use crate::Result;

/// Computes values again, with the launches that computed them first, and so to the same bits.
pub(crate) type Recipe = Arc<dyn Fn() -> Result<Buffer> + Send + Sync>;

/// Values for a backward pass.
pub(crate) enum Saved {
    Kept(Buffer),
    Again(Recipe),
}

impl Saved {
    pub fn of(ctx: &Context, buffer: &Buffer, recipe: Option<&Recipe>) -> Self {
        match recipe {
            // Only there is a buffer's memory free after its last launch, whoever holds it.
            Some(recipe) if ctx.plans_memory() && buffer.len() >= ctx.tuning().recompute_from => {
                Self::Again(Arc::clone(recipe))
            }
            _ => Self::Kept(buffer.clone()),
        }
    }

    /// Returns the values.
    pub fn values(&self) -> Result<Buffer> {
        match self {
            Self::Kept(buffer) => Ok(buffer.clone()),
            Self::Again(recipe) => recipe(),
        }
    }
}
