//! Feed-forward networks, plain and gated.

use hlx_autograd::{Activation, DType, ExpertChoices, Tensor};

use super::norm::Normed;
use super::projection::{observe, project_back};
use super::{CausalConfig, FeedForwardKind, ParameterLayout};
use crate::layers::Linear;
use crate::{Init, Mode, Module, ParameterBuilder, Result};

/// The feed-forward network of a block: down(act(gate(x)) up(x)), or without gate down(act(up(x))).
#[derive(Clone, Debug)]
pub struct FeedForward {
    gate: Option<Linear>,
    up: Linear,
    down: Linear,
    activation: Activation,
    layout: ParameterLayout,
}

impl FeedForward {
    /// Declares the network of a model's blocks.
    ///
    /// # Errors
    /// As [`CausalConfig::validate`].
    pub fn new(builder: &mut ParameterBuilder, config: &CausalConfig) -> Result<Self> {
        config.validate()?;
        Ok(Self::declare(builder, config, config.feed_forward_width))
    }

    /// As [`FeedForward::new`], of a hidden width and of a configuration that has been checked.
    pub(super) fn declare(
        builder: &ParameterBuilder,
        config: &CausalConfig,
        hidden: usize,
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
        let (width, [std, out_std]) = (config.width, config.deviations());
        let names = &config.layout.names().block;
        Self {
            gate: gated.then(|| linear("gate_proj", [width, hidden], std)),
            up: linear(names.up, [width, hidden], std),
            down: linear(names.down, [hidden, width], out_std),
            activation,
            layout: config.layout,
        }
    }

    /// As [`FeedForward::declare`], of a mixture's expert: the weights of all experts are operands of one product.
    pub(super) fn of_expert(
        builder: &ParameterBuilder,
        config: &CausalConfig,
        hidden: usize,
    ) -> Self {
        let expert = Self::declare(builder, config, hidden);
        for linear in expert.linears() {
            linear.weight.set_multiplied(false);
            linear.weight.set_of_list();
        }
        expert
    }

    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.gate.iter().chain([&self.up, &self.down])
    }

    /// What the network's weights are in, if [`FeedForward::forward_experts`] computes it.
    pub(super) fn plain_storage(&self) -> Result<Option<PlainStorage>> {
        let mut found = None;
        for linear in self.linears() {
            let weight = linear.weight.tensor()?;
            let of_one = match weight.is_of_blocks() {
                true => PlainStorage::Blocks,
                false => PlainStorage::Floats,
            };
            let is_plain = linear.bias.is_none() && linear.lora.is_none();
            if !is_plain || weight.dtype() != DType::F32 || found.is_some_and(|one| one != of_one) {
                return Ok(None);
            }
            found = Some(of_one);
        }
        Ok(found)
    }

    /// The network, added to a residual, if there is one: without adapters by one operation.
    pub(super) fn forward_in(
        &self,
        x: &Normed<'_>,
        residual: Option<&Tensor>,
        mode: &Mode,
    ) -> Result<Tensor> {
        if mode.is_observed() || self.linears().any(|linear| linear.lora.is_some()) {
            return self.forward_by_layers(&x.value(mode)?, residual, mode);
        }
        let (up, down) = (self.up.tensors()?, self.down.tensors()?);
        let [up, down] = [&up, &down].map(|(weight, bias)| (weight, bias.as_ref()));
        let Some(gate) = &self.gate else {
            let x = x.value(mode)?;
            return Ok(x.feed_forward(up, self.activation, down, residual)?);
        };
        let (gate, of_gate) = gate.tensors()?;
        let maps = [(&gate, of_gate.as_ref()), up, down];
        let (x, norm) = x.operand(mode)?;
        let norm = norm.as_ref().map(|(gain, eps)| (gain, *eps));
        Ok(x.gated_feed_forward(norm, maps, self.activation, residual)?)
    }

    /// As [`FeedForward::forward_in`], layer by layer, which may have adapters.
    fn forward_by_layers(
        &self,
        x: &Tensor,
        residual: Option<&Tensor>,
        mode: &Mode,
    ) -> Result<Tensor> {
        let readers: Vec<&Linear> = self.gate.iter().chain([&self.up]).collect();
        observe(&readers, x, mode)?;
        let up = self.up.forward(x, mode)?;
        let hidden = match &self.gate {
            Some(gate) => gate
                .forward(x, mode)?
                .activation(self.activation)?
                .mul(&up)?,
            None => up.activation(self.activation)?,
        };
        project_back(&self.down, &hidden, residual, self.layout, mode)
    }

    /// Applies to the rows of each expert its network: \[rows, C\]; the shape stays.
    pub(super) fn forward_experts(
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
        let up = apply(rows, |expert| Some(&expert.up))?;
        let hidden = match &first.gate {
            Some(_) => apply(rows, |expert| expert.gate.as_ref())?
                .activation(first.activation)?
                .mul(&up)?,
            None => up.activation(first.activation)?,
        };
        apply(&hidden, |expert| Some(&expert.down))
    }
}

/// What all weights of a network are in that has neither biases nor adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlainStorage {
    /// f32.
    Floats,
    Blocks,
}

impl Module for FeedForward {
    /// \[.., C\]; the shape stays.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.forward_in(&Normed::plain(x), None, mode)
    }
}
