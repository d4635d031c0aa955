//! A block: attention and feed-forward network around the residual stream.

use hlx_autograd::Tensor;

use super::CausalConfig;
use super::attention::Attention;
use super::experts::Experts;
use super::feed_forward::FeedForward;
use super::fused::is_of_few_rows;
use super::norm::Norm;
use super::pass::Pass;
use crate::layers::Dropout;
use crate::{Module, ParameterBuilder, Result};

/// x + attention(norm(x)), then x + network(norm(x)); or, parallel, the sum of all three of one norm.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    input_norm: Norm,
    attention: Attention,
    attention_dropout: Dropout,
    /// Of the network's input; none in parallel blocks.
    network_norm: Option<Norm>,
    network: Network,
    network_dropout: Dropout,
    /// Of the outputs of attention and network.
    post_norms: Option<[Norm; 2]>,
}

#[derive(Clone, Debug)]
enum Network {
    Dense(FeedForward),
    Experts(Experts),
}

impl Network {
    fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        match self {
            Self::Dense(network) => network.forward(x, pass.mode),
            Self::Experts(experts) => experts.forward_in(x, pass),
        }
    }
}

impl Block {
    /// Declares a block under the names of Hugging Face's Llama, with post-norms those of its Gemma 2.
    /// `std` holds the deviations of the weights and of the projections back into the stream.
    pub fn new(
        builder: &mut ParameterBuilder,
        config: &CausalConfig,
        layer_idx: usize,
        std: [f32; 2],
    ) -> Self {
        let b = builder;
        let norm = |b: &ParameterBuilder, name| Norm::new(&mut b.child(name), config, config.width);
        let input_norm = norm(b, "input_layernorm");
        let attention = Attention::new(&mut b.child("self_attn"), config, layer_idx, std);
        let attention_dropout = Dropout::new(b, config.dropout);
        let network_norm = (!config.parallel).then(|| match config.post_norms {
            true => norm(b, "pre_feedforward_layernorm"),
            false => norm(b, "post_attention_layernorm"),
        });
        let inner = b.child("mlp");
        let network = match config.experts_of(layer_idx) {
            Some(experts) => Network::Experts(Experts::new(&inner, config, experts, std)),
            None => {
                let hidden = config.feed_forward_width;
                Network::Dense(FeedForward::new(&inner, config, hidden, std))
            }
        };
        let post_norms = config.post_norms.then(|| {
            [
                norm(b, "post_attention_layernorm"),
                norm(b, "post_feedforward_layernorm"),
            ]
        });
        Self {
            input_norm,
            attention,
            attention_dropout,
            network_norm,
            network,
            network_dropout: Dropout::new(b, config.dropout),
            post_norms,
        }
    }

    /// \[B, T, C\]; the shape is kept.
    pub fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        if let (Some(_), Some(parts)) = (pass.cache(), self.plain_parts()) {
            return self.forward_cached(x, parts, pass);
        }
        let mode = pass.mode;
        let normed = self.input_norm.forward(x, mode)?;
        let mut branch = self.attention.forward(&normed, pass)?;
        if let Some([post, _]) = &self.post_norms {
            branch = post.forward(&branch, mode)?;
        }
        let sum = x.add(&self.attention_dropout.forward(&branch, mode)?)?;
        let normed = match &self.network_norm {
            Some(norm) => norm.forward(&sum, mode)?,
            None => normed,
        };
        let mut branch = self.network.forward(&normed, pass)?;
        if let Some([_, post]) = &self.post_norms {
            branch = post.forward(&branch, mode)?;
        }
        Ok(sum.add(&self.network_dropout.forward(&branch, mode)?)?)
    }

    /// The norm of the network and the network of a block without parallel branches, post-norms, experts and
    /// adapters.
    fn plain_parts(&self) -> Option<(&Norm, &FeedForward)> {
        match (&self.network_norm, &self.network, &self.post_norms) {
            (Some(norm), Network::Dense(network), None) => {
                let is_plain = self.attention.has_no_adapter() && network.has_no_adapter();
                is_plain.then_some((norm, network))
            }
            _ => None,
        }
    }

    /// As [`Block::forward`], which drops nothing where there is a cache, with fewer launches: products add the
    /// residual stream, and of a few tokens they take norms and gates in as well.
    fn forward_cached(
        &self,
        x: &Tensor,
        (network_norm, network): (&Norm, &FeedForward),
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        let norms = self
            .input_norm
            .plain_gain()?
            .zip(network_norm.plain_gain()?);
        if let Some((of_attention, of_network)) = norms.filter(|_| is_of_few_rows(x)) {
            let sum = self.attention.forward_fused(x, &of_attention, pass)?;
            return network.forward_fused(&sum, &of_network);
        }
        let mode = pass.mode;
        let normed = self.input_norm.forward(x, mode)?;
        let sum = self.attention.forward_add(&normed, x, pass)?;
        let normed = network_norm.forward(&sum, mode)?;
        network.forward_add(&normed, &sum, mode)
    }
}
