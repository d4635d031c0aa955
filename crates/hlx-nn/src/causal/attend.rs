//! Attention as a composition of tensor operations, behind the signature of the kernel's call.

use hlx_autograd::{DType, DropoutMask, Tensor};

use crate::Result;

/// Which keys a query sees, and how scores become weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttentionSpec {
    pub causal: bool,
    pub window: Option<usize>,
    pub scale: Option<f32>,
    pub soft_cap: Option<f32>,
    pub dropout: Option<DropoutMask>,
    pub documents: Option<Tensor>,
    pub lengths: Option<Tensor>,
    pub first_positions: Option<Tensor>,
}

pub(crate) fn attend(q: &Tensor, k: &Tensor, v: &Tensor, spec: &AttentionSpec) -> Result<Tensor> {
    let group = q.shape()[2] / k.shape()[2];
    let heads = |x: &Tensor| -> Result<Tensor> {
        Ok(x.permute(&[0, 2, 1, 3])?.repeat_interleave(group, 1)?)
    };
    let (queries, keys, values) = (q.permute(&[0, 2, 1, 3])?, heads(k)?, heads(v)?);
    let scale = spec.scale.unwrap_or(1.0 / (q.shape()[3] as f32).sqrt());
    let mut scores = queries.matmul(&keys.transpose(-1, -2)?)?.scale(scale)?;
    if let Some(cap) = spec.soft_cap {
        scores = scores.div(cap)?.tanh()?.scale(cap)?;
    }
    let hidden = visible(q, k, spec)?.logical_not()?;
    let mut weights = scores
        .masked_fill(&hidden, f32::NEG_INFINITY)?
        .softmax_dim(-1)?;
    if let Some(mask) = &spec.dropout {
        weights = weights.dropout(mask)?;
    }
    Ok(weights
        .matmul(&values)?
        .permute(&[0, 2, 1, 3])?
        .contiguous()?)
}

/// Which keys each query sees, \[B, 1, queries, keys\].
fn visible(q: &Tensor, k: &Tensor, spec: &AttentionSpec) -> Result<Tensor> {
    let ctx = q.context();
    let ([batch, queries], keys) = ([q.shape()[0], q.shape()[1]], k.shape()[1]);
    let counted = |n: usize, shape: &[usize]| -> Result<Tensor> {
        let numbers = Tensor::arange(ctx, 0, n as u32, 1)?;
        Ok(numbers.to_dtype(DType::I32)?.reshape(shape)?)
    };
    let key = counted(keys, &[1, 1, 1, keys])?;
    let first = match &spec.first_positions {
        Some(first) => first.to_dtype(DType::I32)?.reshape(&[batch, 1, 1, 1])?,
        None => counted(keys - queries + 1, &[keys - queries + 1, 1, 1, 1])?.narrow(
            0,
            keys - queries,
            1,
        )?,
    };
    let at = counted(queries, &[1, 1, queries, 1])?.add(first)?;
    let at = at.expand(&[batch, 1, queries, 1])?;
    let mut seen = match spec.causal {
        true => key.le(&at)?,
        false => key.ge(0)?.expand(&[batch, 1, queries, keys])?,
    };
    if let Some(window) = spec.window {
        seen = seen.logical_and(key.gt(at.sub(window as i32)?)?)?;
    }
    if let Some(lengths) = &spec.lengths {
        let lengths = lengths.to_dtype(DType::I32)?.reshape(&[batch, 1, 1, 1])?;
        // A row of padding sees its own place, so that its softmax is of something.
        seen = seen.logical_and(key.lt(&lengths)?.logical_or(key.eq(&at)?)?)?;
    }
    if let Some(documents) = &spec.documents {
        let documents = documents.to_dtype(DType::I32)?;
        let own = documents.gather(1, &at.reshape(&[batch, queries])?)?;
        let of_keys = documents.reshape(&[batch, 1, 1, keys])?;
        seen = seen.logical_and(of_keys.eq(own.reshape(&[batch, 1, queries, 1])?)?)?;
    }
    Ok(seen)
}
