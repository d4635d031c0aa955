//! What a query sees, and how scores become weights.

use hlx_kernels::attention::{Attention, Limits, WIDEST_HEAD, WeightDropout, default_scale};

use super::OP;
use crate::graph::saved::Saved;
use crate::ops::DropoutMask;
use crate::{AutogradError, DType, Result, Tensor};

/// Which keys a query sees, and how scores become weights; by default every key, with a scale of
/// 1 / sqrt(D).
///
/// Query i of T is at position `first_positions[b] + i`, key j of S at position j. What is given as ids
/// lies on the device, so that a recorded pass can be replayed with other ids.
#[derive(Clone, Debug, Default)]
pub struct AttentionSpec {
    /// A query sees no key after its own position.
    pub causal: bool,
    /// A query at position p sees the keys after p - window and, if not causal, before p + window.
    pub window: Option<usize>,
    /// What scores are multiplied by; 1 / sqrt(D) if `None`.
    pub scale: Option<f32>,
    /// Scores become cap tanh(s / cap), as in Gemma 2.
    pub soft_cap: Option<f32>,
    /// Weights are dropped, as with `dropout_p`. A weight's draw depends on its sample, head and
    /// positions; the backward pass draws again, and must come before the counter moves on.
    pub dropout: Option<DropoutMask>,
    /// Ids \[B, S\]: of each position the first position of its document, which never decreases along a
    /// row. No query sees another document than the one at its own position.
    pub documents: Option<Tensor>,
    /// Ids \[B\]: how many keys of each sample are real. A causal query at or past that position is
    /// padding, and gives zeros.
    pub lengths: Option<Tensor>,
    /// Ids \[B\]: the position of each sample's first query; S - T if `None`, so that the queries are the
    /// last positions.
    pub first_positions: Option<Tensor>,
}

impl AttentionSpec {
    /// Causal attention.
    #[must_use]
    pub fn causal() -> Self {
        Self {
            causal: true,
            ..Self::default()
        }
    }

    /// The dropout, if it drops anything.
    pub fn dropped(&self) -> Option<&DropoutMask> {
        self.dropout.as_ref().filter(|mask| mask.p != 0.0)
    }

    /// The kernels' sizes, from the numbers of queries and keys of each sample and of columns of a head.
    pub fn sizes(
        &self,
        batch: usize,
        [queries, keys]: [usize; 2],
        [heads, key_heads]: [usize; 2],
        head_width: usize,
    ) -> Attention {
        Attention {
            batch,
            queries,
            keys,
            heads,
            key_heads,
            head_width,
            scale: self.scale.unwrap_or_else(|| default_scale(head_width)),
            soft_cap: self.soft_cap,
            dropout: self.dropped().map(|mask| WeightDropout {
                p: mask.p,
                seed: mask.seed,
                purpose: mask.purpose,
            }),
            causal: self.causal,
            window: self.window,
        }
    }

    /// Checks the operands, and gives the kernels' sizes.
    pub(super) fn fitting(&self, [q, k, v]: [&Tensor; 3]) -> Result<Attention> {
        for (name, operand) in [("q", q), ("k", k), ("v", v)] {
            operand.expect_type(OP, name, DType::F32)?;
        }
        let &[batch, queries, heads, head_width] = q.shape() else {
            return Err(q.shape_error(OP, "q", "[batch, queries, heads, head width]"));
        };
        let &[k_batch, keys, key_heads, k_width] = k.shape() else {
            return Err(k.shape_error(OP, "k", "[batch, keys, key heads, head width]"));
        };
        if (k_batch, k_width) != (batch, head_width) {
            let expected = format!("[{batch}, keys, key heads, {head_width}]");
            return Err(k.shape_error(OP, "k", expected));
        }
        v.expect_shape(OP, "v", k.shape())?;
        if key_heads == 0 || !heads.is_multiple_of(key_heads) || heads == 0 {
            let expected = format!("key heads that divide {heads} query heads");
            return Err(k.shape_error(OP, "k", expected));
        }
        q.expect_head_width("q", head_width)?;
        let placed = self.causal || self.window.is_some() || self.documents.is_some();
        if placed && self.first_positions.is_none() && queries > keys {
            let reason = format!(
                "{queries} queries are more than {keys} keys, expected first_positions to say where \
                 they are"
            );
            return Err(AutogradError::Argument { op: OP, reason });
        }
        Ok(self.sizes(batch, [queries, keys], [heads, key_heads], head_width))
    }

    /// The ids, checked.
    pub(super) fn limits(&self, q: &Tensor, attention: &Attention) -> Result<SavedLimits> {
        let ids = |name: &'static str, ids: Option<&Tensor>, expected: &[usize]| {
            let Some(ids) = ids else { return Ok(None) };
            q.same_device(OP, [(name, Some(ids))])?;
            ids.expect_type(OP, name, DType::U32)?;
            if ids.shape() != expected {
                return Err(ids.shape_error(OP, name, format!("{expected:?}")));
            }
            Ok(Some(ids.save_values(&ids.buffer()?)))
        };
        let (batch, keys) = (attention.batch, attention.keys);
        Ok(SavedLimits([
            ids("documents", self.documents.as_ref(), &[batch, keys])?,
            ids("lengths", self.lengths.as_ref(), &[batch])?,
            ids("first_positions", self.first_positions.as_ref(), &[batch])?,
        ]))
    }
}

impl Tensor {
    /// Checks the columns of the heads that this tensor holds.
    pub(super) fn expect_head_width(&self, name: &'static str, width: usize) -> Result<()> {
        match (1..=WIDEST_HEAD).contains(&width) {
            true => Ok(()),
            false => {
                Err(self.shape_error(OP, name, format!("heads of 1 to {WIDEST_HEAD} columns")))
            }
        }
    }
}

/// The documents, lengths and first positions of a spec, for both passes.
pub(super) struct SavedLimits([Option<Saved>; 3]);

impl SavedLimits {
    /// Calls `run` with them.
    pub fn with<R>(&self, run: impl FnOnce(Limits<'_>) -> Result<R>) -> Result<R> {
        let values = self.0.iter();
        let values = values.map(|ids| ids.as_ref().map(Saved::values).transpose());
        let values: Vec<_> = values.collect::<Result<_>>()?;
        let [documents, lengths, first_positions] = [0, 1, 2].map(|i| values[i].as_ref());
        run(Limits {
            documents,
            lengths,
            first_positions,
        })
    }
}
