//! Feed-forward networks, plain and gated.

use hlx_autograd::{Activation, DType, ExpertChoices, Tensor};

use super::fused::{PlainNorm, gated_linear_add, normed_linear, normed_side_by_side};
use super::{CausalConfig, FeedForwardKind};
use crate::layers::Linear;
use crate::{Init, Mode, Module, ParameterBuilder, Result};

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
            FeedForwardKind::GELU => (Activation::GELU, false),
            FeedForwardKind::GELUTanh => (Activation::GELUTanh, false),
            FeedForwardKind::SwiGlu => (Activation::SiLU, true),
            FeedForwardKind::GeGlu => (Activation::GELUTanh, true),
        };
        let width = config.width;
        Self {
            gate_proj: gated.then(|| linear("gate_proj", [width, hidden], std)),
            up_proj: linear("up_proj", [width, hidden], std),
            down_proj: linear("down_proj", [hidden, width], out_std),
            activation,
        }
    }

    /// As [`FeedForward::new`], of a mixture's expert: the weights of all experts are operands of one product.
    pub fn of_expert(
        builder: &ParameterBuilder,
        config: &CausalConfig,
        hidden: usize,
        std: [f32; 2],
    ) -> Self {
        let expert = Self::new(builder, config, hidden, std);
        for linear in expert.linears() {
            linear.weight.set_multiplied(false);
        }
        expert
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

    /// Whether no projection has an adapter.
    pub fn has_no_adapter(&self) -> bool {
        self.linears().all(|linear| linear.lora.is_none())
    }

    /// residual + network(x); without adapters the bits of the sum.
    pub fn forward_add(&self, x: &Tensor, residual: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.down_proj.forward_add(&self.hidden(x, mode)?, residual)
    }

    /// x + network(norm(x)) of a few tokens, without adapters.
    pub fn forward_fused(&self, x: &Tensor, norm: &PlainNorm) -> Result<Tensor> {
        let (gate, up) = self.gate_and_up(x, norm)?;
        let hidden = match gate {
            Some(gate) if self.activation == Activation::SiLU => {
                return gated_linear_add([&gate, &up], &self.down_proj, x);
            }
            Some(gate) => gate.activation(self.activation)?.mul(&up)?,
            None => up.activation(self.activation)?,
        };
        self.down_proj.forward_add(&hidden, x)
    }

    /// gate(norm(x)), if there is a gate, and up(norm(x)).
    fn gate_and_up(&self, x: &Tensor, norm: &PlainNorm) -> Result<(Option<Tensor>, Tensor)> {
        let Some(gate) = &self.gate_proj else {
            return Ok((None, normed_linear(x, norm, &self.up_proj)?));
        };
        // The halves of one row are contiguous; of several they would have to be copied.
        if x.shape().last() == Some(&x.n_elements())
            && let Some(both) = normed_side_by_side(x, norm, &[gate, &self.up_proj])?
        {
            let width = gate.weight.shape()[0];
            let half = |first| both.narrow(-1, first, width);
            return Ok((Some(half(0)?), half(width)?));
        }
        let gate = normed_linear(x, norm, gate)?;
        Ok((Some(gate), normed_linear(x, norm, &self.up_proj)?))
    }

    /// What the projection back reads.
    fn hidden(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let up = self.up_proj.forward(x, mode)?;
        Ok(match &self.gate_proj {
            Some(gate) => gate
                .forward(x, mode)?
                .activation(self.activation)?
                .mul(&up)?,
            None => up.activation(self.activation)?,
        })
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
    /// \[.., C\]; the shape is kept.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.down_proj.forward(&self.hidden(x, mode)?, mode)
    }
}
