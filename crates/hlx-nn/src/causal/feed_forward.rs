//! Feed-forward networks, plain and gated.

use hlx_autograd::{Activation, DType, ExpertChoices, Tensor};

use super::{CausalConfig, FeedForwardKind};
use crate::layers::Linear;
use crate::{ForwardContext, Init, Members, Module, ParameterBuilder, Result};

/// down(act(gate(x)) up(x)), or without gate down(act(up(x))).
#[derive(Clone, Debug)]
pub(super) struct FeedForward {
    gate_proj: Option<Linear>,
    up_proj: Linear,
    down_proj: Linear,
    activation: Activation,
}

impl FeedForward {
    /// Declares `gate_proj`, `up_proj` and `down_proj` of a hidden width; `std` holds the deviations of
    /// the weights and of the projection back into the residual stream.
    pub fn new(
        builder: &ParameterBuilder,
        config: &CausalConfig,
        hidden: usize,
        [std, out_std]: [f32; 2],
    ) -> Self {
        let bias = config.feed_forward_bias.then_some(Init::Zeros);
        let linear = |name, [input, output]: [usize; 2], std| {
            let init = Init::Normal { std };
            Linear::with_init(&mut builder.child(name), input, output, init, bias)
        };
        let (activation, gated) = match config.feed_forward {
            FeedForwardKind::Gelu => (Activation::Gelu, false),
            FeedForwardKind::GeluTanh => (Activation::GeluTanh, false),
            FeedForwardKind::SwiGlu => (Activation::Silu, true),
            FeedForwardKind::GeGlu => (Activation::GeluTanh, true),
        };
        let width = config.width;
        Self {
            gate_proj: gated.then(|| linear("gate_proj", [width, hidden], std)),
            up_proj: linear("up_proj", [width, hidden], std),
            down_proj: linear("down_proj", [hidden, width], out_std),
            activation,
        }
    }

    fn linears(&self) -> impl Iterator<Item = &Linear> {
        let projections = [&self.up_proj, &self.down_proj];
        self.gate_proj.iter().chain(projections)
    }

    /// Whether [`FeedForward::forward_experts`] computes the network: f32 weights, and neither biases
    /// nor adapters.
    pub fn is_plain(&self) -> Result<bool> {
        for linear in self.linears() {
            let is_plain = linear.bias.is_none() && linear.lora.is_none();
            if !is_plain || linear.weight.tensor()?.dtype() != DType::F32 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies to the rows of each expert its network: \[rows, C\]; the shape is kept.
    pub fn forward_experts(
        experts: &[Self],
        rows: &Tensor,
        choices: &ExpertChoices,
    ) -> Result<Tensor> {
        let apply = |x: &Tensor, linear: fn(&Self) -> Option<&Linear>| -> Result<Tensor> {
            let weights = experts.iter().filter_map(linear);
            let weights = weights.map(|linear| linear.weight.tensor());
            Ok(x.experts_linear(&weights.collect::<Result<Vec<_>>>()?, choices)?)
        };
        let Some(first) = experts.first() else {
            return Ok(rows.clone());
        };
        let up = apply(rows, |expert| Some(&expert.up_proj))?;
        let hidden = match &first.gate_proj {
            Some(_) => apply(rows, |expert| expert.gate_proj.as_ref())?
                .activation(first.activation)?
                .mul(&up)?,
            None => up.activation(first.activation)?,
        };
        apply(&hidden, |expert| Some(&expert.down_proj))
    }
}

impl Module for FeedForward {
    fn members(&self) -> Members {
        let mut members = Members::default();
        for linear in self.linears() {
            members.extend(linear.members());
        }
        members
    }

    /// \[.., C\]; the shape is kept.
    fn forward(&self, x: &Tensor, context: &ForwardContext) -> Result<Tensor> {
        let up = self.up_proj.forward(x, context)?;
        let hidden = match &self.gate_proj {
            Some(gate) => gate
                .forward(x, context)?
                .activation(self.activation)?
                .mul(&up)?,
            None => up.activation(self.activation)?,
        };
        self.down_proj.forward(&hidden, context)
    }
}
