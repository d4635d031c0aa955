//! What every optimizer shares: the numbers of a step on the device, and the clip.

use hlx_core::{Buffer, Context};
use hlx_kernels::optimizer::{HYPER_LEN, Hyper, clip_factor};
use hlx_kernels::reduce::global_norm;

use crate::error::NnError;
use crate::{ParameterStore, Result};

/// The bits of 1.0: the clip's factor when nothing is clipped.
const ONE: u32 = 0x3f80_0000;

/// The step's numbers, its gradient norm and its clip factor.
#[derive(Debug)]
pub(super) struct Drive {
    ctx: Context,
    pub hyper: Buffer,
    pub norm: Buffer,
    pub clip: Buffer,
    clip_norm: Option<f32>,
    pub steps: u64,
}

impl Drive {
    pub fn new(store: &ParameterStore, clip_norm: Option<f32>) -> Result<Self> {
        if let Some(limit) = clip_norm.filter(|limit| limit.is_nan() || *limit <= 0.0) {
            let reason = format!("clip_norm is {limit}, expected more than 0");
            return Err(NnError::Config {
                what: "optimizer",
                reason,
            });
        }
        let ctx = store.context().clone();
        let (hyper, norm, clip) = (ctx.alloc(HYPER_LEN)?, ctx.alloc(1)?, ctx.alloc(1)?);
        ctx.fill(&clip, ONE)?;
        ctx.fill(&norm, 0)?;
        Ok(Self {
            ctx,
            hyper,
            norm,
            clip,
            clip_norm,
            steps: 0,
        })
    }

    /// Counts the step and uploads its numbers.
    pub fn upload(&mut self, mut hyper: Hyper) -> Result<()> {
        hyper.step = self.steps + 1;
        self.ctx.upload_u32(&self.hyper, &hyper.to_words())?;
        self.steps += 1;
        Ok(())
    }

    /// Launches the norm of all gradients and the factor that clips it.
    pub fn measure(&self, store: &ParameterStore) -> Result<()> {
        store.check_gradients()?;
        global_norm(&self.ctx, store.gradients(), &self.norm)?;
        if let Some(limit) = self.clip_norm {
            clip_factor(&self.ctx, &self.norm, &self.clip, limit)?;
        }
        Ok(())
    }
}
