//! Layers and losses that are methods of tensors.

use hlx_autograd::{
    AttentionSpec, BatchNormOptions, CrossEntropyOptions, DType, LossReduction, Tensor,
};

use super::{counts, one};
use crate::call::{Call, Outcome, no_form};

pub fn carried_out(name: &str, call: &Call) -> Option<Outcome<Vec<Tensor>>> {
    let name = name.strip_prefix("nn.functional.")?;
    Some(match name {
        "embedding" => embedding(call),
        "layer_norm" => layer_norm(call),
        "rms_norm" => rms_norm(call),
        "group_norm" => group_norm(call),
        "batch_norm" => batch_norm(call),
        "mse_loss" | "l1_loss" | "smooth_l1_loss" | "huber_loss" => distance(name, call),
        "cross_entropy" => class_loss(call, 7, "label_smoothing", Tensor::cross_entropy_loss),
        "nll_loss" => class_loss(call, 7, "label_smoothing", Tensor::nll_loss),
        "binary_cross_entropy_with_logits" => with_logits(call),
        "kl_div" => kl_div(call),
        "scaled_dot_product_attention" => attention(call),
        _ => return None,
    })
}

fn embedding(call: &Call) -> Outcome<Vec<Tensor>> {
    // The sample's order is `embedding(weight, ids)`.
    let (weight, ids) = (call.x()?, call.tensor(1, "input")?);
    if call.get(3, "max_norm").is_some() {
        return no_form("`max_norm`");
    }
    if call.flag(5, "scale_grad_by_freq", false)? {
        return no_form("`scale_grad_by_freq`");
    }
    // Which layout PyTorch gives the gradient.
    call.flag(6, "sparse", false)?;
    let ids = ids.to_dtype(DType::U32)?;
    match call.int(2, "padding_idx")? {
        None => one(ids.embedding(weight)),
        Some(padding) => {
            let rows = weight.shape().first().map_or(0, |&rows| rows as i64);
            let padding = padding + if padding < 0 { rows } else { 0 };
            one(ids.embedding_padded(weight, padding as usize))
        }
    }
}

/// Without a dimension of heads there is one head; PyTorch's heads come before the positions.
fn attention(call: &Call) -> Outcome<Vec<Tensor>> {
    if call.get(3, "attn_mask").is_some() {
        return no_form("`attn_mask`");
    }
    call.float(4, "dropout_p", 0.0)?;
    // What groups of heads need in PyTorch is always there.
    call.flag(7, "enable_gqa", false)?;
    let heads_behind = |x: &Tensor| -> Outcome<Tensor> {
        let whole = match x.rank() {
            3 => x.unsqueeze(1)?,
            _ => x.clone(),
        };
        Ok(whole.transpose(1, 2)?)
    };
    let q = heads_behind(call.x()?)?;
    let [k, v] = [call.tensor(1, "key")?, call.tensor(2, "value")?];
    let causal = call.flag(5, "is_causal", false)?;
    // PyTorch's first query is the first position, however many keys there are.
    let first = Tensor::from_slice::<u32>(&call.device, &vec![0; q.shape()[0]], &[q.shape()[0]])?;
    let spec = AttentionSpec {
        causal,
        scale: match call.get(6, "scale") {
            Some(_) => Some(call.float(6, "scale", 0.0)? as f32),
            None => None,
        },
        first_positions: causal.then_some(first),
        ..AttentionSpec::default()
    };
    let attended = q.attention(&heads_behind(k)?, &heads_behind(v)?, &spec)?;
    let heads_before = attended.transpose(1, 2)?;
    one(match call.x()?.rank() {
        3 => heads_before.squeeze(1),
        _ => Ok(heads_before),
    })
}

/// Weight and bias, both or neither.
fn affine(call: &Call, place: usize) -> Outcome<Option<[&Tensor; 2]>> {
    let (weight, bias) = (
        call.optional_tensor(place, "weight")?,
        call.optional_tensor(place + 1, "bias")?,
    );
    match (weight, bias) {
        (Some(weight), Some(bias)) => Ok(Some([weight, bias])),
        (None, None) => Ok(None),
        _ => no_form("one of weight and bias"),
    }
}

fn layer_norm(call: &Call) -> Outcome<Vec<Tensor>> {
    call.ints(1, "normalized_shape")?;
    let eps = call.float(4, "eps", 1e-5)? as f32;
    match affine(call, 2)? {
        Some([weight, bias]) => one(call.x()?.layer_norm(weight, bias, eps)),
        None => no_form("no weight and bias"),
    }
}

fn rms_norm(call: &Call) -> Outcome<Vec<Tensor>> {
    let shape = counts(&call.ints(1, "normalized_shape")?.unwrap_or_default())?;
    let weight = call.optional_tensor(2, "weight")?;
    let eps = call.float(3, "eps", f32::EPSILON.into())? as f32;
    one(call.x()?.rms_norm(&shape, weight, eps))
}

fn group_norm(call: &Call) -> Outcome<Vec<Tensor>> {
    let groups = call.int(1, "num_groups")?.unwrap_or(1) as usize;
    let eps = call.float(4, "eps", 1e-5)? as f32;
    one(call.x()?.group_norm(groups, affine(call, 2)?, eps))
}

fn batch_norm(call: &Call) -> Outcome<Vec<Tensor>> {
    let x = call.x()?;
    let mean = call.optional_tensor(1, "running_mean")?;
    let variance = call.optional_tensor(2, "running_var")?;
    let affine = affine(call, 3)?;
    let eps = call.float(7, "eps", 1e-5)? as f32;
    call.float(6, "momentum", 0.1)?;
    if call.flag(5, "training", false)? {
        let options = BatchNormOptions {
            eps,
            ..BatchNormOptions::default()
        };
        return one(x.batch_norm(affine, None, &options));
    }
    match (mean, variance) {
        (Some(mean), Some(variance)) => one(x.batch_norm_by(mean, variance, affine, eps)),
        _ => no_form("an evaluation without statistics"),
    }
}

fn reduction(call: &Call, place: usize) -> Outcome<LossReduction> {
    Ok(match call.text(place, "reduction")? {
        None | Some("mean") => LossReduction::Mean,
        Some("sum") => LossReduction::Sum,
        Some("none") => LossReduction::None,
        Some("batchmean") => LossReduction::BatchMean,
        Some(other) => return no_form(format!("`reduction` `{other}`")),
    })
}

fn distance(name: &str, call: &Call) -> Outcome<Vec<Tensor>> {
    let (x, target) = (call.x()?, call.tensor(1, "target")?);
    let place = if name == "huber_loss" { 2 } else { 4 };
    let reduction = reduction(call, place)?;
    one(match name {
        "mse_loss" => x.mse_loss(target, reduction),
        "l1_loss" => x.l1_loss(target, reduction),
        "huber_loss" => x.huber_loss(target, call.float(3, "delta", 1.0)? as f32, reduction),
        _ => x.smooth_l1_loss(target, call.float(5, "beta", 1.0)? as f32, reduction),
    })
}

type ClassLoss = fn(&Tensor, &Tensor, &CrossEntropyOptions<'_>) -> hlx_autograd::Result<Tensor>;

fn class_loss(
    call: &Call,
    place: usize,
    smoothing: &str,
    operation: ClassLoss,
) -> Outcome<Vec<Tensor>> {
    let (x, target) = (call.x()?, call.tensor(1, "target")?);
    let target = match target.dtype().is_float() {
        true => target.clone(),
        false => target.to_dtype(DType::U32)?,
    };
    let ignored = call.int(4, "ignore_index")?.unwrap_or(-100) as i32;
    let options = CrossEntropyOptions {
        weight: call.optional_tensor(2, "weight")?,
        ignore_index: ignored.cast_unsigned(),
        label_smoothing: call.float(place, smoothing, 0.0)? as f32,
        reduction: reduction(call, 6)?,
    };
    one(operation(x, &target, &options))
}

fn with_logits(call: &Call) -> Outcome<Vec<Tensor>> {
    let (x, target) = (call.x()?, call.tensor(1, "target")?);
    let weight = call.optional_tensor(2, "weight")?;
    let positive = call.optional_tensor(6, "pos_weight")?;
    let reduction = reduction(call, 5)?;
    one(x.binary_cross_entropy_with_logits(target, weight, positive, reduction))
}

fn kl_div(call: &Call) -> Outcome<Vec<Tensor>> {
    let log_target = call.flag(5, "log_target", false)?;
    one(call
        .x()?
        .kl_div(call.tensor(1, "target")?, log_target, reduction(call, 4)?))
}
