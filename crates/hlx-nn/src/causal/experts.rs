//! A mixture of experts: each token goes to the few feed-forward networks that a router chooses.

use hlx_autograd::{DType, Tensor};

use super::feed_forward::FeedForward;
use super::{CausalConfig, ExpertsConfig};
use crate::layers::Linear;
use crate::{ForwardContext, Init, Members, Module, ParameterBuilder, Result};

/// y = the sum over the chosen experts, in the order of their index, of weight times expert(x).
///
/// The weights are the softmax over the router's scores of all experts, of which the largest `per_token`
/// are chosen (ties to the lower index), and with `renormalised` divided by their sum. No token is
/// dropped. Every expert is computed for every token, and the results of those that were not chosen are
/// left out: a zero in their place changes no chain of sums, so that the bits are those of experts which
/// see their own tokens alone, in order.
#[derive(Clone, Debug)]
pub(super) struct Experts {
    gate: Linear,
    experts: Vec<FeedForward>,
    per_token: usize,
    renormalised: bool,
}

impl Experts {
    /// Declares `gate` and `experts.0` and so on; `std` as of the feed-forward network.
    pub fn new(
        builder: &ParameterBuilder,
        config: &CausalConfig,
        experts: &ExpertsConfig,
        std: [f32; 2],
    ) -> Self {
        let init = Init::Normal { std: std[0] };
        let mut gate = builder.child("gate");
        let gate = Linear::with_init(&mut gate, config.width, experts.n_experts, init, None);
        let list = builder.child("experts");
        let expert = |expert_idx: usize| {
            FeedForward::new(&list.child(expert_idx), config, experts.width, std)
        };
        Self {
            gate,
            experts: (0..experts.n_experts).map(expert).collect(),
            per_token: experts.per_token,
            renormalised: experts.renormalised,
        }
    }

    /// The weight of each expert for each token, \[.., experts\]: 0 of those that were not chosen.
    fn weights(&self, x: &Tensor, context: &ForwardContext) -> Result<Tensor> {
        let scores = self.gate.forward(x, context)?.softmax()?;
        let (mut chosen, places) = scores.topk(self.per_token, -1, true)?;
        if self.renormalised {
            chosen = chosen.div(chosen.sum_dim(&[-1], true)?)?;
        }
        let none = Tensor::zeros(x.context(), scores.shape(), DType::F32)?;
        let none = none.with_samples_of(scores.samples());
        Ok(none.scatter(-1, &places, &chosen)?)
    }
}

impl Module for Experts {
    fn members(&self) -> Members {
        let mut members = self.gate.members();
        for expert in &self.experts {
            members.extend(expert.members());
        }
        members
    }

    /// \[B, T, C\]; the shape is kept.
    fn forward(&self, x: &Tensor, context: &ForwardContext) -> Result<Tensor> {
        let weights = self.weights(x, context)?;
        let mut total = x.zeros_like()?;
        for (expert_idx, expert) in self.experts.iter().enumerate() {
            let weight = weights.narrow(-1, expert_idx, 1)?;
            let left_out = weight.detach().eq(0.0)?;
            let y = expert.forward(x, context)?.mul(&weight)?;
            total = total.add(y.masked_fill(&left_out, 0.0)?)?;
        }
        Ok(total)
    }
}
