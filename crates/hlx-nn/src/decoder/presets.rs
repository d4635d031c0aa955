//! Models by name, with the sizes of their smallest published one.

use super::{
    Architecture, CausalConfig, ExpertsConfig, FeedForwardKind, NormKind, ParameterLayout,
    Positions, RopeScaling, Rotary,
};

impl CausalConfig {
    /// The names that [`CausalConfig::preset`] knows.
    pub const PRESETS: [&str; 10] = [
        "gpt2",
        "llama2",
        "llama3",
        "mistral",
        "mixtral",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "gemma2",
        "gemma3",
    ];

    /// The shape of GPT-2 124M, Llama 2 7B, Llama 3.2 1B, Mistral 7B (v0.1), Mixtral 8x7B,
    /// Qwen2 0.5B, Qwen3 0.6B, Qwen3 30B-A3B, Gemma 2 2B or Gemma 3 1B. `None` for another name.
    pub fn preset(name: &str) -> Option<Self> {
        Some(match name {
            "gpt2" => gpt2(),
            "llama2" => llama2(),
            "llama3" => llama3(),
            "mistral" => mistral(),
            "mixtral" => mixtral(),
            "qwen2" => qwen2(),
            "qwen3" => qwen3(),
            "qwen3_moe" => qwen3_moe(),
            "gemma2" => gemma2(),
            "gemma3" => gemma3(),
            _ => return None,
        })
    }

    /// RMSNorm, SwiGLU, rotary positions and no biases, in the shape of Llama 2 7B.
    fn base(architecture: Architecture) -> Self {
        Self {
            architecture,
            layout: ParameterLayout::Apart,
            vocabulary: 32_000,
            width: 4096,
            n_layers: 32,
            n_heads: 32,
            n_kv_heads: 32,
            head_width: 128,
            feed_forward_width: 11_008,
            max_positions: 4096,
            positions: Positions::Rotary(Rotary::plain(10_000.0)),
            window_rotary: None,
            norm: NormKind::RmsNorm,
            norm_eps: 1e-5,
            feed_forward: FeedForwardKind::SwiGlu,
            qkv_bias: false,
            attention_out_bias: false,
            feed_forward_bias: false,
            qk_norm: false,
            attention_scale: None,
            attention_soft_cap: None,
            logit_soft_cap: None,
            window: None,
            full_layers: Vec::new(),
            tied_output: false,
            parallel: false,
            post_norms: false,
            scaled_embedding: false,
            experts: None,
            dropout: 0.0,
            attention_dropout: 0.0,
        }
    }

    /// What all models of a family have in common, whatever their sizes.
    pub(crate) fn of_family(architecture: Architecture) -> Self {
        let base = Self::base(architecture);
        match architecture {
            Architecture::Gpt2 => Self {
                positions: Positions::Learned,
                norm: NormKind::LayerNorm,
                feed_forward: FeedForwardKind::GELUTanh,
                qkv_bias: true,
                attention_out_bias: true,
                feed_forward_bias: true,
                tied_output: true,
                ..base
            },
            Architecture::Qwen2 => Self {
                qkv_bias: true,
                norm_eps: 1e-6,
                ..base
            },
            Architecture::Qwen3 | Architecture::Qwen3Moe => Self {
                qk_norm: true,
                norm_eps: 1e-6,
                ..base
            },
            Architecture::Gemma2 | Architecture::Gemma3 => Self {
                norm: NormKind::RmsNormOnePlus,
                norm_eps: 1e-6,
                feed_forward: FeedForwardKind::GeGlu,
                tied_output: true,
                post_norms: true,
                scaled_embedding: true,
                qk_norm: architecture == Architecture::Gemma3,
                ..base
            },
            Architecture::Llama | Architecture::Mistral | Architecture::Mixtral => base,
        }
    }

    /// With the sizes that every model has: \[vocabulary, width, layers, query heads, key heads, head
    /// width, feed-forward width, positions\].
    fn sized(self, sizes: [usize; 8]) -> Self {
        let [
            vocabulary,
            width,
            n_layers,
            n_heads,
            n_kv_heads,
            head_width,
            feed_forward_width,
            max_positions,
        ] = sizes;
        Self {
            vocabulary,
            width,
            n_layers,
            n_heads,
            n_kv_heads,
            head_width,
            feed_forward_width,
            max_positions,
            ..self
        }
    }

    /// With experts: \[experts, how many a token goes to, their width\], and what the balance loss is multiplied by.
    fn with_experts(
        self,
        [n_experts, per_token, width]: [usize; 3],
        balance_coefficient: f32,
    ) -> Self {
        let experts = ExpertsConfig {
            n_experts,
            per_token,
            width,
            renormalised: true,
            balance_coefficient,
            dense_layers: Vec::new(),
        };
        Self {
            experts: Some(experts),
            ..self
        }
    }

    fn with_theta(self, theta: f64) -> Self {
        Self {
            positions: Positions::Rotary(Rotary::plain(theta)),
            ..self
        }
    }
}

fn gpt2() -> CausalConfig {
    CausalConfig::of_family(Architecture::Gpt2).sized([50_257, 768, 12, 12, 12, 64, 3072, 1024])
}

fn llama2() -> CausalConfig {
    CausalConfig::of_family(Architecture::Llama)
}

fn llama3() -> CausalConfig {
    let scaling = RopeScaling::Llama3 {
        factor: 32.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original: 8192,
    };
    let rotary = Rotary {
        scaling: Some(scaling),
        ..Rotary::plain(500_000.0)
    };
    CausalConfig {
        positions: Positions::Rotary(rotary),
        tied_output: true,
        ..CausalConfig::of_family(Architecture::Llama)
    }
    .sized([128_256, 2048, 16, 32, 8, 64, 8192, 131_072])
}

fn mistral() -> CausalConfig {
    CausalConfig {
        window: Some(4096),
        ..CausalConfig::of_family(Architecture::Mistral)
    }
    .sized([32_000, 4096, 32, 32, 8, 128, 14_336, 32_768])
}

fn mixtral() -> CausalConfig {
    CausalConfig::of_family(Architecture::Mixtral)
        .with_experts([8, 2, 14_336], 0.02)
        .sized([32_000, 4096, 32, 32, 8, 128, 14_336, 32_768])
        .with_theta(1e6)
}

fn qwen2() -> CausalConfig {
    CausalConfig {
        tied_output: true,
        ..CausalConfig::of_family(Architecture::Qwen2)
    }
    .sized([151_936, 896, 24, 14, 2, 64, 4864, 32_768])
    .with_theta(1e6)
}

fn qwen3() -> CausalConfig {
    CausalConfig {
        tied_output: true,
        ..CausalConfig::of_family(Architecture::Qwen3)
    }
    .sized([151_936, 1024, 28, 16, 8, 128, 3072, 40_960])
    .with_theta(1e6)
}

fn qwen3_moe() -> CausalConfig {
    CausalConfig::of_family(Architecture::Qwen3Moe)
        .with_experts([128, 8, 768], 0.001)
        .sized([151_936, 2048, 48, 32, 4, 128, 6144, 40_960])
        .with_theta(1e6)
}

fn gemma2() -> CausalConfig {
    CausalConfig {
        attention_scale: Some(1.0 / 16.0),
        attention_soft_cap: Some(50.0),
        logit_soft_cap: Some(30.0),
        window: Some(4096),
        full_layers: (1..26).step_by(2).collect(),
        ..CausalConfig::of_family(Architecture::Gemma2)
    }
    .sized([256_000, 2304, 26, 8, 4, 256, 9216, 8192])
}

fn gemma3() -> CausalConfig {
    CausalConfig {
        attention_scale: Some(1.0 / 16.0),
        window: Some(512),
        full_layers: (5..26).step_by(6).collect(),
        window_rotary: Some(Rotary::plain(10_000.0)),
        ..CausalConfig::of_family(Architecture::Gemma3)
    }
    .sized([262_144, 1152, 26, 4, 1, 256, 6912, 32_768])
    .with_theta(1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Result;

    #[test]
    fn every_preset_can_be_made_and_written() -> Result<()> {
        for name in CausalConfig::PRESETS {
            let config = CausalConfig::preset(name).expect(name);
            config.validate()?;
            let text = serde_json::to_string(&config).expect("written");
            let read: CausalConfig = serde_json::from_str(&text).expect("read");
            assert_eq!(read, config);
        }
        assert!(CausalConfig::preset("gpt5").is_none());
        Ok(())
    }
}
