//! A block: attention and feed-forward network around the residual stream.

use hlx_autograd::Tensor;

use super::CausalConfig;
use super::attention::Attention;
use super::experts::Experts;
use super::feed_forward::FeedForward;
use super::norm::{Norm, Normed};
use super::pass::Pass;
use crate::layers::Dropout;
use crate::{Mode, Module, ParameterBuilder, Result};

/// A block of a [`CausalLm`](crate::CausalLm): x + attention(norm(x)), then x + network(norm(x)); or, parallel, the sum
/// of all three of one norm.
#[derive(Clone, Debug)]
pub struct Block {
    attention_norm: Norm,
    attention: Attention,
    after_attention: Joint,
    /// Of the network's input; none in parallel blocks.
    network_norm: Option<Norm>,
    network: Network,
    after_network: Joint,
}

#[derive(Clone, Debug)]
enum Network {
    Dense(FeedForward),
    Experts(Experts),
}

impl Network {
    fn forward(
        &self,
        x: &Normed<'_>,
        residual: Option<&Tensor>,
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        match self {
            Self::Dense(network) => network.forward_in(x, residual, pass.mode),
            Self::Experts(experts) => {
                let y = experts.forward_in(&x.value(pass.mode)?, pass)?;
                residual.map_or(Ok(y.clone()), |residual| Ok(residual.add(&y)?))
            }
        }
    }
}

/// Where a branch comes back to the residual stream.
#[derive(Clone, Debug)]
struct Joint {
    /// Of the branch (Gemma).
    norm: Option<Norm>,
    dropout: Dropout,
}

impl Joint {
    /// x + dropout(norm(branch)). Where nothing stands between them, the branch adds x by itself, in its last product.
    fn add(
        &self,
        x: &Tensor,
        mode: &Mode,
        branch: impl FnOnce(Option<&Tensor>) -> Result<Tensor>,
    ) -> Result<Tensor> {
        if self.norm.is_none() && !self.dropout.is_active(mode) {
            return branch(Some(x));
        }
        let mut y = branch(None)?;
        if let Some(norm) = &self.norm {
            y = norm.forward(&y, mode)?;
        }
        Ok(x.add(&self.dropout.forward(&y, mode)?)?)
    }
}

impl Block {
    /// Declares block `layer_idx` of a model under the names of its layout.
    ///
    /// # Errors
    /// As [`CausalConfig::validate`].
    pub fn new(
        builder: &mut ParameterBuilder,
        config: &CausalConfig,
        layer_idx: usize,
    ) -> Result<Self> {
        config.validate()?;
        Ok(Self::declare(builder, config, layer_idx))
    }

    /// As [`Block::new`], of a configuration that has been checked; with post-norms, norms have the names of Gemma 2.
    pub(crate) fn declare(
        builder: &mut ParameterBuilder,
        config: &CausalConfig,
        layer_idx: usize,
    ) -> Self {
        let b = builder;
        let names = &config.layout.names().block;
        let norm = |b: &ParameterBuilder, name| Norm::new(&mut b.child(name), config, config.width);
        let attention_norm = norm(b, names.attention_norm);
        let attention = Attention::declare(&mut b.child(names.attention), config, layer_idx);
        let attention_dropout = Dropout::new(b, config.dropout);
        let network_norm = (!config.parallel).then(|| match config.post_norms {
            true => norm(b, "pre_feedforward_layernorm"),
            false => norm(b, names.network_norm),
        });
        let inner = b.child(names.network);
        let network = match config.experts_of(layer_idx) {
            Some(experts) => Network::Experts(Experts::new(&inner, config, experts)),
            None => {
                let hidden = config.feed_forward_width;
                Network::Dense(FeedForward::declare(&inner, config, hidden))
            }
        };
        let post_norm = |name| config.post_norms.then(|| norm(b, name));
        let [of_attention, of_network] =
            ["post_attention_layernorm", "post_feedforward_layernorm"].map(post_norm);
        Self {
            attention_norm,
            attention,
            after_attention: Joint {
                norm: of_attention,
                dropout: attention_dropout,
            },
            network_norm,
            network,
            after_network: Joint {
                norm: of_network,
                dropout: Dropout::new(b, config.dropout),
            },
        }
    }

    /// \[B, T, C\]; the shape stays.
    pub(crate) fn forward_in(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let mode = pass.mode;
        let of_attention = Normed::by(&self.attention_norm, x);
        if self.network_norm.is_none() {
            // Both branches read it.
            of_attention.value(mode)?;
        }
        let sum = self.after_attention.add(x, mode, |residual| {
            self.attention.forward_in(&of_attention, residual, pass)
        })?;
        let of_network = self.network_norm.as_ref();
        let of_network = of_network.map(|norm| Normed::by(norm, &sum));
        let input = of_network.as_ref().unwrap_or(&of_attention);
        self.after_network.add(&sum, mode, |residual| {
            self.network.forward(input, residual, pass)
        })
    }
}

impl Module for Block {
    /// Over whole sequences, each one document: \[B, T, C\]; the shape stays.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        self.forward_in(x, &mut Pass::of_sequences(x, mode)?)
    }
}
