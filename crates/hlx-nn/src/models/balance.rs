//! The balance loss of mixtures of experts: what prevents a router from choosing the same few for all tokens.

use hlx_autograd::{DType, Tensor};

use crate::Result;

/// Computes the balance loss of each shard of a pass, \[shards\]; none without scores.
///
/// `scores` holds the softmax of each layer's router, \[B, T, E\]. Over the R rows of all layers that a
/// shard's tokens have, with c_e the choices of expert e and p_e the sum of its scores, the loss is
/// `E / R^2 sum_e c_e p_e`: `load_balancing_loss_func` of Hugging Face's Mixtral, of the shard's tokens
/// (Fedus and others 2021, arXiv:2101.03961, equations 4 to 6). The choices have no gradient.
///
/// Of samples that are padded on the right `counted` is \[B, T, 1\], 1 for a token and 0 for padding, which is
/// in no sum. The sums over a sample's tokens come first, those over a shard's samples second: padding adds
/// zeros behind a sample's last term, which change no bit. A shard without a token has a loss of 0.
pub(super) fn balance_loss(
    scores: &[Tensor],
    counted: Option<&Tensor>,
    per_token: usize,
    shards: usize,
) -> Result<Option<Tensor>> {
    let mut sums: Option<[Tensor; 2]> = None;
    for scores in scores {
        let of_layer = [
            by_shard(&chosen(scores, per_token)?, counted, shards)?,
            by_shard(scores, counted, shards)?,
        ];
        sums = Some(match sums {
            None => of_layer,
            Some([choices, sums]) => [choices.add(&of_layer[0])?, sums.add(&of_layer[1])?],
        });
    }
    let (Some([choices, sums]), Some(first)) = (sums, scores.first()) else {
        return Ok(None);
    };
    let experts = choices.shape()[1];
    let losses = choices.mul(&sums)?.sum_dim(&[-1], false)?;
    let Some(counted) = counted else {
        let rows = scores.len() * first.n_elements() / experts / shards;
        let factor = experts as f64 / (rows as f64 * rows as f64);
        return Ok(Some(losses.mul(factor as f32)?));
    };
    let tokens = by_shard(counted, None, shards)?.reshape(&[shards])?;
    let rows = tokens.mul(scores.len() as f32)?.maximum(1.0)?;
    Ok(Some(losses.mul(experts as f32)?.div(rows.square()?)?))
}

/// 1 where an expert is chosen, else 0; without gradient.
fn chosen(scores: &Tensor, per_token: usize) -> Result<Tensor> {
    let (values, places) = scores.detach().topk(per_token, -1, true)?;
    let ones = Tensor::ones(scores.device(), values.shape(), DType::F32)?;
    let none = Tensor::zeros(scores.device(), scores.shape(), DType::F32)?;
    Ok(none.scatter(-1, &places, &ones)?)
}

/// The sum of each shard's rows: \[B, T, E\] to \[shards, E\].
fn by_shard(rows: &Tensor, counted: Option<&Tensor>, shards: usize) -> Result<Tensor> {
    let experts = rows.shape()[rows.rank() - 1];
    let rows = match counted {
        Some(counted) => rows.mul(counted)?.sum_dim(&[1], false)?,
        None => rows.clone(),
    };
    let each = rows.n_elements() / experts / shards;
    Ok(rows
        .reshape(&[shards, each, experts])?
        .sum_dim(&[1], false)?)
}

#[cfg(test)]
mod tests {
    use hlx_autograd::{GradCheck, gradcheck};

    use super::*;

    const LAYERS: usize = 2;
    const SHAPE: [usize; 3] = [4, 3, 5];

    /// Scores of which none is near another of its token, so that no small change chooses others.
    fn logits(layer: usize) -> Vec<f32> {
        let score = |token: usize, expert: usize| {
            let place = (2 * expert + token + layer) % SHAPE[2];
            place as f32 * 0.4 + 0.03 * ((7 * token + expert) as f32).sin()
        };
        let tokens = 0..SHAPE[0] * SHAPE[1];
        tokens
            .flat_map(|token| (0..SHAPE[2]).map(move |expert| score(token, expert)))
            .collect()
    }

    /// The tokens of each sample that are no padding.
    const LENGTHS: [usize; 4] = [2, 0, 3, 1];

    fn counted(device: &hlx_core::Device) -> Result<Tensor> {
        let row = |length: usize| (0..SHAPE[1]).map(move |at| f32::from(u8::from(at < length)));
        let counted: Vec<f32> = LENGTHS.into_iter().flat_map(row).collect();
        Ok(Tensor::from_slice(
            device,
            &counted,
            &[SHAPE[0], SHAPE[1], 1],
        )?)
    }

    /// `load_balancing_loss_func` in f64, of the first `lengths` tokens of some samples.
    fn expected(samples: std::ops::Range<usize>, lengths: [usize; 4]) -> f64 {
        let [_, time, experts] = SHAPE;
        let (mut choices, mut sums, mut rows) = (vec![0.0; experts], vec![0.0; experts], 0.0);
        for layer in 0..LAYERS {
            let logits = logits(layer);
            let own = samples.clone().flat_map(|sample| {
                let first = sample * time * experts;
                logits[first..first + lengths[sample] * experts].chunks(experts)
            });
            for row in own {
                let exps: Vec<f64> = row.iter().map(|&x| f64::from(x).exp()).collect();
                let total: f64 = exps.iter().sum();
                let mut order: Vec<usize> = (0..experts).collect();
                order.sort_by(|&a, &b| exps[b].total_cmp(&exps[a]));
                order[..2].iter().for_each(|&e| choices[e] += 1.0);
                sums.iter_mut()
                    .zip(exps)
                    .for_each(|(sum, x)| *sum += x / total);
                rows += 1.0;
            }
        }
        let product: f64 = choices
            .iter()
            .zip(sums)
            .map(|(c, s)| c / rows * s / rows)
            .sum();
        if rows == 0.0 {
            0.0
        } else {
            product * experts as f64
        }
    }

    #[test]
    fn losses_are_those_of_each_shards_tokens() -> Result<()> {
        for device in hlx_core::testing::devices() {
            let scores = (0..LAYERS).map(|layer| {
                let logits = Tensor::from_slice(device, &logits(layer), &SHAPE)?;
                Ok(logits.with_samples(0)?.softmax()?)
            });
            let scores = scores.collect::<Result<Vec<Tensor>>>()?;
            for shards in [1, 2, 4] {
                for (counted, lengths) in [(None, [SHAPE[1]; 4]), (Some(counted(device)?), LENGTHS)]
                {
                    let losses = balance_loss(&scores, counted.as_ref(), 2, shards)?;
                    let losses = losses.expect("experts");
                    assert_eq!(losses.shape(), [shards]);
                    let each = SHAPE[0] / shards;
                    for (shard, loss) in losses.to_vec::<f32>()?.into_iter().enumerate() {
                        let expected = expected(shard * each..(shard + 1) * each, lengths);
                        let error = (f64::from(loss) - expected).abs();
                        assert!(error < 1e-6, "{loss} {expected}");
                    }
                }
            }
            assert!(balance_loss(&[], None, 2, 1)?.is_none());
        }
        Ok(())
    }

    #[test]
    fn derivatives_agree_with_finite_differences() -> Result<()> {
        let device = hlx_core::testing::cpu()?;
        let inputs =
            (0..LAYERS).map(|layer| Ok(Tensor::from_slice(&device, &logits(layer), &SHAPE)?));
        let inputs = inputs.collect::<Result<Vec<Tensor>>>()?;
        for counted in [None, Some(counted(&device)?)] {
            let loss = |x: &[Tensor]| {
                let scores = x
                    .iter()
                    .map(Tensor::softmax)
                    .collect::<Result<Vec<_>, _>>()?;
                let losses = balance_loss(&scores, counted.as_ref(), 2, 2).expect("a loss");
                Ok(losses.expect("experts"))
            };
            gradcheck("balance_loss", &inputs, loss, &GradCheck::default())?;
        }
        Ok(())
    }
}
