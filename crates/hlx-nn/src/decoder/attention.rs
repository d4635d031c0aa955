//! Self-attention with grouped heads, rotary positions and norms of queries and keys.

use hlx_autograd::{AttentionSpec, Tensor};

use super::cache_step::{CacheStep, HeadSteps};
use super::norm::{Norm, Normed};
use super::pass::Pass;
use super::projection::{project, project_back};
use super::{CausalConfig, ParameterLayout};
use crate::error::NnError;
use crate::layers::{Dropout, Linear};
use crate::{Init, Mode, ModelBuffer, Module, ParameterBuilder, Result};

/// Projects to queries, keys and values, attends causally, and projects back.
///
/// As `torch.nn.MultiheadAttention` with a causal mask. The rows of a packed projection are all heads' queries, then
/// keys, then values.
#[derive(Clone, Debug)]
pub struct Attention {
    projections: Projections,
    out: Linear,
    norms: Option<[Norm; 2]>,
    /// The angle of a step of each pair, and what sines and cosines are multiplied by.
    rotary: Option<(ModelBuffer, f32)>,
    layer_idx: usize,
    n_heads: usize,
    head_width: usize,
    spec: AttentionSpec,
    /// Of the attention weights.
    dropout: Option<Dropout>,
}

/// The projections to queries, keys and values.
#[derive(Clone, Debug)]
enum Projections {
    Apart([Linear; 3]),
    Packed(Linear),
}

/// Queries, keys and values.
enum Heads {
    /// \[B, T, heads, D\] each.
    Apart([Tensor; 3]),
    /// \[B, T, 3C\].
    Packed(Tensor),
}

impl Attention {
    /// Declares the attention of block `layer_idx` of a model: the projections and, where the model has them, `q_norm`
    /// and `k_norm`.
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

    /// As [`Attention::new`], of a configuration that has been checked.
    pub(super) fn declare(
        builder: &mut ParameterBuilder,
        config: &CausalConfig,
        layer_idx: usize,
    ) -> Self {
        let (width, d) = (config.width, config.head_width);
        let [queries, keys] =
            [config.n_heads, config.n_kv_heads].map(|heads| heads.saturating_mul(d));
        let [std, out_std] = config.deviations();
        let names = &config.layout.names().block;
        let linear = |name, [input, output]: [usize; 2], std, bias: bool| {
            let (init, bias) = (Init::Normal { std }, bias.then_some(Init::Zeros));
            Linear::with_init(&mut builder.child(name), input, output, init, bias)
        };
        let project = |name, output| linear(name, [width, output], std, config.qkv_bias);
        let projections = match names.heads {
            &[q, k, v] => {
                Projections::Apart([project(q, queries), project(k, keys), project(v, keys)])
            }
            packed => Projections::Packed(project(packed[0], queries.saturating_mul(3))),
        };
        let bias = config.attention_out_bias;
        let out = linear(names.out, [queries, width], out_std, bias);
        let norm = |name| Norm::new(&mut builder.child(name), config, d);
        let norms = config.qk_norm.then(|| [norm("q_norm"), norm("k_norm")]);
        let rotary = declare_rotary(builder, config, layer_idx);
        let p = config.attention_dropout;
        // Packed, a place is taken only where something is dropped: other dropouts retain their masks.
        let takes_place = config.layout == ParameterLayout::Apart || p > 0.0;
        Self {
            projections,
            out,
            norms,
            rotary,
            layer_idx,
            n_heads: config.n_heads,
            head_width: d,
            spec: AttentionSpec {
                window: config.window_of(layer_idx),
                scale: config.attention_scale,
                soft_cap: config.attention_soft_cap,
                ..AttentionSpec::causal()
            },
            dropout: takes_place.then(|| Dropout::new(builder, p)),
        }
    }

    /// \[B, T, C\]; the shape stays. Added to a residual, if there is one.
    pub(super) fn forward_in(
        &self,
        x: &Normed<'_>,
        residual: Option<&Tensor>,
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        let mode = pass.mode;
        let heads = match &self.projections {
            Projections::Packed(qkv) => {
                let x = x.value(mode)?;
                mode.observe(&[&qkv.weight], &x)?;
                Heads::Packed(qkv.forward(&x, mode)?)
            }
            Projections::Apart(linears) => {
                let y = project(&linears.each_ref(), x, mode)?;
                let [q, k, v] = [0, 1, 2].map(|place| self.in_heads(&y[place]));
                Heads::Apart([q?, k?, v?])
            }
        };
        let y = self.attend(heads, pass)?;
        project_back(&self.out, &y, residual, self.layout(), mode)
    }

    fn layout(&self) -> ParameterLayout {
        match &self.projections {
            Projections::Apart(_) => ParameterLayout::Apart,
            Projections::Packed(_) => ParameterLayout::Packed,
        }
    }

    /// \[B, T, heads D\] as \[B, T, heads, D\].
    fn in_heads(&self, y: &Tensor) -> Result<Tensor> {
        let heads = y.shape()[y.rank() - 1] / self.head_width;
        Ok(y.unflatten(-1, &[heads, self.head_width])?)
    }

    /// What the projection back reads, \[B, T, H D\].
    fn attend(&self, heads: Heads, pass: &mut Pass<'_>) -> Result<Tensor> {
        let mask = self.dropout.as_ref().map(|dropout| dropout.mask(pass.mode));
        let spec = AttentionSpec {
            dropout: mask.transpose()?.flatten(),
            documents: pass.documents().cloned(),
            ..self.spec.clone()
        };
        let heads = match (heads, pass.cache()) {
            (Heads::Packed(qkv), None) => return Ok(qkv.packed_attention(self.n_heads, &spec)?),
            (Heads::Packed(qkv), Some(_)) => {
                let qkv = qkv.unflatten(-1, &[3, self.n_heads, self.head_width])?;
                [qkv.select(2, 0)?, qkv.select(2, 1)?, qkv.select(2, 2)?]
            }
            (Heads::Apart(heads), _) => heads,
        };
        let y = match pass.cache() {
            Some(step) => self.attend_cached(heads, step, spec, pass)?,
            None => {
                let [q, k, v] = self.rotated(self.normed(heads, pass)?, pass)?;
                q.attention(&k, &v, &spec)?
            }
        };
        Ok(y.flatten(2, 3)?)
    }

    fn normed(&self, [q, k, v]: [Tensor; 3], pass: &Pass<'_>) -> Result<[Tensor; 3]> {
        let Some([of_queries, of_keys]) = &self.norms else {
            return Ok([q, k, v]);
        };
        let q = of_queries.forward(&q, pass.mode)?;
        Ok([q, of_keys.forward(&k, pass.mode)?, v])
    }

    fn rotated(&self, [q, k, v]: [Tensor; 3], pass: &Pass<'_>) -> Result<[Tensor; 3]> {
        let Some((frequencies, scale)) = &self.rotary else {
            return Ok([q, k, v]);
        };
        let (frequencies, positions) = (frequencies.tensor()?, &pass.positions()?);
        let q = q.rope(positions, &frequencies, *scale)?;
        Ok([q, k.rope(positions, &frequencies, *scale)?, v])
    }

    /// Attention over the layer's cache with the new keys and values. Norms with a plain gain, the rotation and
    /// the cache are one launch.
    fn attend_cached(
        &self,
        mut heads: [Tensor; 3],
        step: &CacheStep<'_>,
        spec: AttentionSpec,
        pass: &Pass<'_>,
    ) -> Result<Tensor> {
        let norms = match &self.norms {
            Some([of_queries, of_keys]) => of_queries.plain_gain()?.zip(of_keys.plain_gain()?),
            None => None,
        };
        let norms = norms.map(|((q, eps), (k, _))| ([q, k], eps));
        if norms.is_none() {
            heads = self.normed(heads, pass)?;
        }
        let rotation = self.rotary.as_ref();
        let rotation =
            rotation.map(|(frequencies, scale)| Ok::<_, NnError>((frequencies.tensor()?, *scale)));
        let steps = HeadSteps {
            norms,
            rotation: rotation.transpose()?,
        };
        step.attend(self.layer_idx, heads.each_ref(), &steps, spec)
    }
}

/// Declares what a layer with rotary positions multiplies: the angle of a step of each pair. With it comes what sines
/// and cosines are multiplied by.
fn declare_rotary(
    builder: &mut ParameterBuilder,
    config: &CausalConfig,
    layer_idx: usize,
) -> Option<(ModelBuffer, f32)> {
    let rotary = config.rotary_of(layer_idx)?;
    let frequencies = rotary.frequencies(config.head_width, config.max_positions);
    let frequencies = builder.constant("frequencies", frequencies);
    Some((frequencies, rotary.attention_factor()))
}

impl Module for Attention {
    /// Over whole sequences, each one document: \[B, T, C\]; the shape stays.
    fn forward(&self, x: &Tensor, mode: &Mode) -> Result<Tensor> {
        let mut pass = Pass::of_sequences(x, mode)?;
        self.forward_in(&Normed::plain(x), None, &mut pass)
    }
}
