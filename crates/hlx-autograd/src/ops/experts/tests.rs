//! Rows through experts: derivatives, the bits of experts over all tokens, and what is refused.

use hlx_core::Arithmetic;

use super::*;
use crate::BackwardPlan;
use crate::ops::test_support::{check, input, message};

/// 6 tokens of 2 samples; expert 2 of 4 has none.
fn chosen(device: &Device) -> Result<Tensor> {
    let ids = [0, 1, 0, 3, 1, 3, 0, 1, 0, 3, 0, 1];
    Tensor::from_slice::<u32>(device, &ids, &[2, 3, 2])?.with_samples(0)
}

/// Experts of two layers.
fn mixture(x: &Tensor, weights: &[Tensor], factors: &Tensor) -> Result<Tensor> {
    let choices = ExpertChoices::new(&chosen(x.device())?, 4)?;
    let (up, down) = weights.split_at(4);
    let hidden = x
        .to_experts(&choices)?
        .experts_linear(up, &choices)?
        .silu()?;
    hidden
        .experts_linear(down, &choices)?
        .from_experts(factors, &choices)
}

fn weights() -> Vec<Tensor> {
    let ups = (0..4).map(|e| input(10 + e, &[5, 3]));
    ups.chain((0..4).map(|e| input(20 + e, &[3, 5]))).collect()
}

#[test]
fn derivatives_agree_with_finite_differences() {
    let mut inputs = vec![input(1, &[2, 3, 3]), input(2, &[2, 3, 2])];
    inputs.extend(weights());
    check("experts", &inputs, |x| mixture(&x[0], &x[2..], &x[1]));
}

/// The same values by operations over every token, those that were not chosen left out.
#[test]
fn values_and_weight_gradients_have_the_bits_of_experts_over_all_tokens() -> Result<()> {
    let devices = Arithmetic::EVERYWHERE.map(|arithmetic| {
        let devices = hlx_core::testing::devices().iter();
        devices.map(move |device| device.with_arithmetic(arithmetic))
    });
    for device in &devices.into_iter().flatten().collect::<Vec<_>>() {
        let here = |x: &Tensor| Tensor::from_slice(device, &x.to_vec::<f32>()?, x.shape());
        for shards in [1, 2] {
            let leaf = |x: &Tensor| Ok(here(x)?.with_gradient());
            let x = leaf(&input(1, &[2, 3, 3]))?.with_samples(0)?;
            let factors = leaf(&input(2, &[2, 3, 2]))?;
            let both: Vec<Vec<Tensor>> = (0..2)
                .map(|_| weights().iter().map(leaf).collect())
                .collect::<Result<_>>()?;
            let upstream = here(&input(3, &[2, 3, 3]))?;
            let plan = BackwardPlan {
                shards,
                ..BackwardPlan::default()
            };
            let sparse = mixture(&x, &both[0], &factors)?;
            sparse.mul(&upstream)?.sum()?.backward_with(&plan)?;
            let of_choices = factors.grad().expect("a gradient").to_vec::<f32>()?;
            factors.zero_grad();
            let spread = Tensor::zeros(device, &[2, 3, 4], DType::F32)?
                .with_samples(0)?
                .scatter(-1, &chosen(device)?, &factors)?;
            let mut dense = x.zeros_like()?;
            for expert in 0..4 {
                let hidden = x.linear(&both[1][expert], None)?.silu()?;
                let y = hidden.linear(&both[1][4 + expert], None)?;
                let factor = spread.narrow(-1, expert, 1)?;
                let left_out = factor.detach().eq(0.0)?;
                dense = dense.add(y.mul(&factor)?.masked_fill(&left_out, 0.0)?)?;
            }
            assert_eq!(sparse.to_vec::<f32>()?, dense.to_vec::<f32>()?);
            dense.mul(&upstream)?.sum()?.backward_with(&plan)?;
            for (one, two) in both[0].iter().zip(&both[1]) {
                let gradient = |x: &Tensor| x.grad().expect("a gradient").to_vec::<f32>();
                assert_eq!(gradient(one)?, gradient(two)?, "{shards} {}", device.info());
            }
            let of_all = factors.grad().expect("a gradient").to_vec::<f32>()?;
            assert_eq!(of_choices, of_all);
        }
    }
    Ok(())
}

#[test]
fn unfitting_arguments_are_named() -> Result<()> {
    let x = input(1, &[2, 3, 3]);
    let choices = ExpertChoices::new(&chosen(x.device())?, 4)?;
    let error = message(input(1, &[3, 3]).to_experts(&choices));
    let expected = "to_experts: x has shape [3, 3], expected [2, 3, 3]";
    assert_eq!(error, expected);
    let rows = x.to_experts(&choices)?;
    let error = message(rows.experts_linear(&weights()[..3], &choices));
    let expected = "experts_linear: x has shape [12, 3], expected [12, K] and 4 weights, found 3";
    assert_eq!(error, expected);
    let mixed = [&weights()[..3], &[input(1, &[5, 4])]].concat();
    let error = message(rows.experts_linear(&mixed, &choices));
    let expected = "experts_linear: a weight has shape [5, 4], expected [5, 3]";
    assert_eq!(error, expected);
    let error = message(rows.from_experts(&input(1, &[6, 2]), &choices));
    let expected = "from_experts: weights has shape [6, 2], expected [2, 3, 2]";
    assert_eq!(error, expected);
    Ok(())
}
