//! The models of `step`: hlx-bench's perceptron and transformer, from Burn's layers.

use burn::nn::{Embedding, EmbeddingConfig, Gelu, LayerNorm, LayerNormConfig, Linear, LinearConfig, Relu};
use burn::prelude::*;
use burn::tensor::activation::softmax;

/// The perceptron: inputs, two hidden layers, classes; and its batch.
pub const MLP: [usize; 4] = [784, 512, 512, 10];
pub const MLP_BATCH: usize = 256;

/// The sizes of a transformer, as benches/peers/peers.py has them.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub vocabulary: usize,
    pub width: usize,
    pub layers: usize,
    pub heads: usize,
    pub positions: usize,
    pub batch: usize,
}

/// Finds a transformer by its name.
pub fn transformer(name: &str) -> Option<Sizes> {
    let of = |[vocabulary, width, layers, heads, positions, batch]: [usize; 6]| Sizes {
        vocabulary,
        width,
        layers,
        heads,
        positions,
        batch,
    };
    Some(of(match name {
        "mini" => [64, 32, 1, 2, 16, 8],
        "tiny" => [256, 256, 4, 4, 128, 8],
        "small" => [256, 512, 6, 8, 256, 32],
        "medium" => [256, 768, 12, 12, 512, 32],
        "gpt2" => [50_304, 768, 12, 12, 1024, 8],
        _ => return None,
    }))
}

/// Rows \[B, 784\] to logits \[B, 10\].
#[derive(Module, Debug)]
pub struct Mlp<B: Backend> {
    layers: Vec<Linear<B>>,
    relu: Relu,
}

impl<B: Backend> Mlp<B> {
    pub fn new(device: &B::Device) -> Self {
        let layers = MLP.windows(2).map(|pair| LinearConfig::new(pair[0], pair[1]).init(device));
        Self { layers: layers.collect(), relu: Relu::new() }
    }

    pub fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let mut x = x;
        for (place, layer) in self.layers.iter().enumerate() {
            x = layer.forward(x);
            if place + 1 < self.layers.len() {
                x = self.relu.forward(x);
            }
        }
        x
    }
}

/// A pre-norm block with causal attention and an exact GELU.
#[derive(Module, Debug)]
pub struct Block<B: Backend> {
    attention_norm: LayerNorm<B>,
    qkv: Linear<B>,
    out: Linear<B>,
    feed_forward_norm: LayerNorm<B>,
    up: Linear<B>,
    down: Linear<B>,
    gelu: Gelu,
    heads: usize,
}

impl<B: Backend> Block<B> {
    fn new(sizes: &Sizes, device: &B::Device) -> Self {
        let c = sizes.width;
        let linear = |input, output| LinearConfig::new(input, output).init(device);
        Self {
            attention_norm: LayerNormConfig::new(c).init(device),
            qkv: linear(c, 3 * c),
            out: linear(c, c),
            feed_forward_norm: LayerNormConfig::new(c).init(device),
            up: linear(c, 4 * c),
            down: linear(4 * c, c),
            gelu: Gelu::new(),
            heads: sizes.heads,
        }
    }

    fn attention(&self, x: Tensor<B, 3>, mask: Tensor<B, 4, Bool>) -> Tensor<B, 3> {
        let [b, t, c] = x.dims();
        let d = c / self.heads;
        let qkv = self.qkv.forward(x);
        let part = |place: usize| {
            let part = qkv.clone().slice([0..b, 0..t, place * c..(place + 1) * c]);
            part.reshape([b, t, self.heads, d]).swap_dims(1, 2)
        };
        let scores = part(0).matmul(part(1).transpose()).div_scalar((d as f32).sqrt());
        let weights = softmax(scores.mask_fill(mask, f32::NEG_INFINITY), 3);
        let sums = weights.matmul(part(2)).swap_dims(1, 2).reshape([b, t, c]);
        self.out.forward(sums)
    }

    fn forward(&self, x: Tensor<B, 3>, mask: Tensor<B, 4, Bool>) -> Tensor<B, 3> {
        let x = x.clone() + self.attention(self.attention_norm.forward(x), mask);
        let inner = self.up.forward(self.feed_forward_norm.forward(x.clone()));
        x + self.down.forward(self.gelu.forward(inner))
    }
}

/// Ids \[B, T\] to logits \[B T, V\].
#[derive(Module, Debug)]
pub struct Transformer<B: Backend> {
    token_embedding: Embedding<B>,
    position_embedding: Embedding<B>,
    blocks: Vec<Block<B>>,
    final_norm: LayerNorm<B>,
    output: Linear<B>,
}

impl<B: Backend> Transformer<B> {
    pub fn new(sizes: &Sizes, device: &B::Device) -> Self {
        Self {
            token_embedding: EmbeddingConfig::new(sizes.vocabulary, sizes.width).init(device),
            position_embedding: EmbeddingConfig::new(sizes.positions, sizes.width).init(device),
            blocks: (0..sizes.layers).map(|_| Block::new(sizes, device)).collect(),
            final_norm: LayerNormConfig::new(sizes.width).init(device),
            output: LinearConfig::new(sizes.width, sizes.vocabulary).with_bias(false).init(device),
        }
    }

    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let [b, t] = ids.dims();
        let device = ids.device();
        let positions = Tensor::<B, 1, Int>::arange(0..t as i64, &device).reshape([1, t]);
        let mask = Tensor::<B, 2, Bool>::tril_mask([t, t], 0, &device).unsqueeze::<4>();
        let mut x = self.token_embedding.forward(ids) + self.position_embedding.forward(positions);
        for block in &self.blocks {
            x = block.forward(x, mask.clone());
        }
        let logits = self.output.forward(self.final_norm.forward(x));
        let v = logits.dims()[2];
        logits.reshape([b * t, v])
    }
}
