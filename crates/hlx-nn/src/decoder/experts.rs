//! A mixture of experts: each token goes to the few feed-forward networks that a router chooses.

use hlx_autograd::{DType, ExpertChoices, Tensor};

use super::feed_forward::FeedForward;
use super::pass::Pass;
use super::{CausalConfig, ExpertsConfig};
use crate::layers::Linear;
use crate::{Init, Mode, Module, ParameterBuilder, Result};

/// y = the sum over the chosen experts, in the order of their index, of weight times expert(x).
///
/// The weights are the softmax over the router's scores of all experts, of which the largest `per_token`
/// are chosen (ties to the lower index), and with `renormalised` divided by their sum. No token is
/// dropped. An expert computes the rows of its own tokens alone ([`ExpertChoices`]); experts with
/// biases or adapters, or of 16 bits, compute every token, and what was not chosen is left out, which
/// gives the same values.
#[derive(Clone, Debug)]
pub(super) struct Experts {
    gate: Linear,
    experts: Vec<FeedForward>,
    per_token: usize,
    renormalised: bool,
}

impl Experts {
    /// Declares `gate` and `experts.0` and so on.
    pub fn new(builder: &ParameterBuilder, config: &CausalConfig, experts: &ExpertsConfig) -> Self {
        let [std, _] = config.deviations();
        let init = Init::Normal { std };
        let mut gate = builder.child("gate");
        let gate = Linear::with_init(&mut gate, config.width, experts.n_experts, init, None);
        let list = builder.child("experts");
        let expert = |expert_idx: usize| {
            FeedForward::of_expert(&list.child(expert_idx), config, experts.width)
        };
        Self {
            gate,
            experts: (0..experts.n_experts).map(expert).collect(),
            per_token: experts.per_token,
            renormalised: experts.renormalised,
        }
    }

    /// The experts of each token and their weights, \[.., chosen\], the largest weight first.
    fn chosen(&self, x: &Tensor, mode: &Mode) -> Result<Routed> {
        let scores = self.gate.forward(x, mode)?.softmax()?;
        let (mut weights, places) = scores.topk(self.per_token, -1, true)?;
        if self.renormalised {
            weights = weights.div(weights.sum_dim(&[-1], true)?)?;
        }
        Ok(Routed {
            scores,
            weights,
            places,
        })
    }

    /// As [`Module::forward`], and gives the pass the router's scores.
    pub fn forward_in(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let routed = self.chosen(x, pass.mode)?;
        pass.note_scores(routed.scores.clone());
        self.routed(x, &routed, pass.mode)
    }

    fn routed(&self, x: &Tensor, routed: &Routed, mode: &Mode) -> Result<Tensor> {
        if mode.is_observed() {
            self.observe(x, routed, mode)?;
            return self.routed(x, routed, &mode.unobserved());
        }
        let is_plain = self.experts.iter().map(FeedForward::is_plain);
        match is_plain.collect::<Result<Vec<bool>>>()?.contains(&false) {
            true => self.dense(x, routed, mode),
            false => self.sparse(x, routed),
        }
    }

    /// Shows what each expert reads: it computes its own tokens once more, apart from the pass.
    fn observe(&self, x: &Tensor, routed: &Routed, mode: &Mode) -> Result<()> {
        let x = x.flatten(0, -2)?;
        let places = routed.places.to_dtype(DType::U32)?.to_vec::<u32>()?;
        for (expert_idx, expert) in self.experts.iter().enumerate() {
            let chosen = places.chunks(self.per_token).enumerate();
            let chosen = chosen.filter(|(_, of_token)| of_token.contains(&(expert_idx as u32)));
            let tokens: Vec<u32> = chosen.map(|(token, _)| token as u32).collect();
            if tokens.is_empty() {
                continue;
            }
            let ids = Tensor::from_slice::<u32>(x.device(), &tokens, &[tokens.len()])?;
            expert.forward(&ids.embedding(&x)?, mode)?;
        }
        Ok(())
    }

    /// Every expert over its own tokens.
    fn sparse(&self, x: &Tensor, routed: &Routed) -> Result<Tensor> {
        let (places, order) = routed.places.sort(-1, false)?;
        let weights = routed.weights.gather(-1, &order)?;
        let places = places.with_samples_of(x.samples());
        let choices = ExpertChoices::new(&places, self.experts.len())?;
        let rows = x.to_experts(&choices)?;
        let rows = FeedForward::forward_experts(&self.experts, &rows, &choices)?;
        let y = rows.from_experts(&weights, &choices)?;
        Ok(y.with_samples_of(x.samples()))
    }

    /// Every expert over every token.
    fn dense(&self, x: &Tensor, routed: &Routed, mode: &Mode) -> Result<Tensor> {
        let none = Tensor::zeros(x.device(), routed.scores.shape(), DType::F32)?;
        let none = none.with_samples_of(routed.scores.samples());
        let weights = none.scatter(-1, &routed.places, &routed.weights)?;
        let mut total = x.zeros_like()?;
        for (expert_idx, expert) in self.experts.iter().enumerate() {
            let weight = weights.narrow(-1, expert_idx, 1)?;
            let left_out = weight.detach().eq(0.0)?;
            let y = expert.forward(x, mode)?.mul(&weight)?;
            total = total.add(y.masked_fill(&left_out, 0.0)?)?;
        }
        Ok(total)
    }
}

/// What the router says of each token.
struct Routed {
    /// The softmax over all experts, \[.., experts\].
    scores: Tensor,
    /// Of the chosen ones, \[.., chosen\].
    weights: Tensor,
    /// Their indices.
    places: Tensor,
}

impl Module for Experts {
    /// \[B, T, C\]; the shape stays.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.routed(x, &self.chosen(x, mode)?, mode)
    }
}
