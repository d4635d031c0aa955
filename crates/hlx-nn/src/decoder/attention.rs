//! Self-attention with grouped heads, rotary positions and norms of queries and keys.

use hlx_autograd::{AttentionSpec, Tensor};

use super::CausalConfig;
use super::cache::{CacheStep, HeadSteps};
use super::fused::{PlainNorm, normed_linear, normed_side_by_side};
use super::norm::Norm;
use super::pass::Pass;
use crate::error::NnError;
use crate::init::DROPOUT_PURPOSE;
use crate::layers::Linear;
use crate::{Init, ModelBuffer, Module, ParameterBuilder, Result};

/// Projects to queries, keys and values, attends causally, and projects back.
#[derive(Clone, Debug)]
pub(super) struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    norms: Option<[Norm; 2]>,
    /// The angle of a step of each pair, and what sines and cosines are multiplied by.
    rotary: Option<(ModelBuffer, f32)>,
    layer_idx: usize,
    head_width: usize,
    spec: AttentionSpec,
    dropout: (f32, u32),
}

impl Attention {
    /// Declares `q_proj`, `k_proj`, `v_proj`, `o_proj` and, where the model has them, `q_norm` and
    /// `k_norm`; `std` holds the deviations of the weights and of the projection back.
    pub fn new(
        builder: &mut ParameterBuilder,
        config: &CausalConfig,
        layer_idx: usize,
        [std, out_std]: [f32; 2],
    ) -> Self {
        let (width, d) = (config.width, config.head_width);
        let [queries, keys] =
            [config.n_heads, config.n_kv_heads].map(|heads| heads.saturating_mul(d));
        let linear = |name, [input, output]: [usize; 2], std, bias: bool| {
            let (init, bias) = (Init::Normal { std }, bias.then_some(Init::Zeros));
            Linear::with_init(&mut builder.child(name), input, output, init, bias)
        };
        let bias = config.qkv_bias;
        let norm = |name| Norm::new(&mut builder.child(name), config, d);
        let mut attention = Self {
            q_proj: linear("q_proj", [width, queries], std, bias),
            k_proj: linear("k_proj", [width, keys], std, bias),
            v_proj: linear("v_proj", [width, keys], std, bias),
            o_proj: linear(
                "o_proj",
                [queries, width],
                out_std,
                config.attention_out_bias,
            ),
            norms: config.qk_norm.then(|| [norm("q_norm"), norm("k_norm")]),
            rotary: None,
            layer_idx,
            head_width: d,
            spec: AttentionSpec {
                window: config.window_of(layer_idx),
                scale: config.attention_scale,
                soft_cap: config.attention_soft_cap,
                ..AttentionSpec::causal()
            },
            dropout: (0.0, 0),
        };
        attention.rotary = config.rotary_of(layer_idx).map(|rotary| {
            let frequencies = rotary.frequencies(d, config.max_positions);
            let frequencies = builder.constant("frequencies", frequencies);
            (frequencies, rotary.attention_factor())
        });
        let p = config.attention_dropout;
        attention.dropout = (p, DROPOUT_PURPOSE + builder.dropout_place(p));
        attention
    }

    /// \[B, T, C\]; the shape is kept.
    pub fn forward(&self, x: &Tensor, pass: &mut Pass<'_>) -> Result<Tensor> {
        let mode = pass.mode;
        let heads = self.heads(|linear| linear.forward(x, mode))?;
        self.o_proj.forward(&self.attend(heads, pass)?, mode)
    }

    /// As [`Attention::forward`], added to a residual; without adapters the bits of the sum.
    pub fn forward_add(
        &self,
        x: &Tensor,
        residual: &Tensor,
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        let mode = pass.mode;
        let heads = self.heads(|linear| linear.forward(x, mode))?;
        self.o_proj
            .forward_add(&self.attend(heads, pass)?, residual)
    }

    /// x + attention(norm(x)) of a few tokens, without adapters.
    pub fn forward_fused(
        &self,
        x: &Tensor,
        norm: &PlainNorm,
        pass: &mut Pass<'_>,
    ) -> Result<Tensor> {
        let projections = [&self.q_proj, &self.k_proj, &self.v_proj];
        let heads = match normed_side_by_side(x, norm, &projections)? {
            Some(y) => {
                let y = self.in_heads(&y)?;
                let mut first = 0;
                let mut part = |linear: &Linear| -> Result<Tensor> {
                    let n = linear.weight.shape()[0] / self.head_width;
                    first += n;
                    Ok(y.narrow(2, first - n, n)?)
                };
                let [q, k, v] = projections;
                [part(q)?, part(k)?, part(v)?]
            }
            None => self.heads(|linear| normed_linear(x, norm, linear))?,
        };
        self.o_proj.forward_add(&self.attend(heads, pass)?, x)
    }

    /// Whether no projection has an adapter.
    pub fn has_no_adapter(&self) -> bool {
        let all = [&self.q_proj, &self.k_proj, &self.v_proj, &self.o_proj];
        all.iter().all(|linear| linear.lora.is_none())
    }

    /// The heads of queries, keys and values, from what `project` makes with each projection.
    fn heads(&self, project: impl Fn(&Linear) -> Result<Tensor>) -> Result<[Tensor; 3]> {
        let heads = |linear: &Linear| self.in_heads(&project(linear)?);
        Ok([
            heads(&self.q_proj)?,
            heads(&self.k_proj)?,
            heads(&self.v_proj)?,
        ])
    }

    /// \[B, T, heads D\] as \[B, T, heads, D\].
    fn in_heads(&self, y: &Tensor) -> Result<Tensor> {
        let &[batch, time, width] = y.shape() else {
            return Ok(y.clone());
        };
        Ok(y.reshape(&[batch, time, width / self.head_width, self.head_width])?)
    }

    /// What the projection back reads, \[B, T, H D\].
    fn attend(&self, heads: [Tensor; 3], pass: &mut Pass<'_>) -> Result<Tensor> {
        let (p, purpose) = self.dropout;
        let mask = pass.mode.mask(p, purpose)?;
        let spec = AttentionSpec {
            dropout: mask,
            documents: pass.documents().cloned(),
            ..self.spec.clone()
        };
        let y = match pass.cache() {
            Some(step) => self.attend_cached(heads, step, (spec, pass))?,
            None => {
                let [q, k, v] = self.turned(self.normed(heads, pass)?, pass)?;
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

    fn turned(&self, [q, k, v]: [Tensor; 3], pass: &Pass<'_>) -> Result<[Tensor; 3]> {
        let Some((frequencies, scale)) = &self.rotary else {
            return Ok([q, k, v]);
        };
        let (frequencies, positions) = (frequencies.tensor()?, &pass.positions);
        let q = q.rope(positions, &frequencies, *scale)?;
        Ok([q, k.rope(positions, &frequencies, *scale)?, v])
    }

    /// Attention over the layer's cache with the new keys and values. Norms with a plain gain, the turn and
    /// the cache are one launch.
    fn attend_cached(
        &self,
        mut heads: [Tensor; 3],
        step: &CacheStep<'_>,
        (spec, pass): (AttentionSpec, &Pass<'_>),
    ) -> Result<Tensor> {
        let norms = match &self.norms {
            Some([of_queries, of_keys]) => of_queries.plain_gain()?.zip(of_keys.plain_gain()?),
            None => None,
        };
        let norms = norms.map(|((q, eps), (k, _))| ([q, k], eps));
        if norms.is_none() {
            heads = self.normed(heads, pass)?;
        }
        let turn = self.rotary.as_ref();
        let turn =
            turn.map(|(frequencies, scale)| Ok::<_, NnError>((frequencies.tensor()?, *scale)));
        let steps = HeadSteps {
            norms,
            turn: turn.transpose()?,
        };
        step.attend(self.layer_idx, heads.each_ref(), &steps, spec)
    }
}
